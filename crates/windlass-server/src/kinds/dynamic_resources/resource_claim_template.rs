//! ResourceClaimTemplates.

use crate::kinds::{
    dynamic_resources::resource_claim::{default_claim_spec, validate_claim_spec},
    prelude::*,
};

pub(super) const KIND: Kind = Kind {
    name: "ResourceClaimTemplate",
    rules: Rules { returns_deleted: true, ..Rules::COMMON },
    default: |template| default_claim_spec(template, "spec.spec"),
    validate,
    immutable: &["spec"],
    ..BASE
};

fn validate(template: &Field<'_>, errors: &mut Errors) {
    let spec = template.child("spec");
    let metadata = spec.child("metadata");
    let labels = metadata.child("labels");
    validate_labels(labels.value(), labels.path(), errors);
    validate_annotations(metadata.json(), metadata.child("annotations").path(), errors);
    validate_claim_spec(&spec.child("spec"), errors);
}
