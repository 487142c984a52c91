//! ResourceClaimTemplates.

use crate::kinds::{
    dynamic_resources::{
        GROUP_BASE,
        resource_claim::{default_claim_spec, validate_claim_spec},
    },
    prelude::*,
};

pub(super) const KIND: Kind = Kind {
    name: "ResourceClaimTemplate",
    prefix: "/registry/resourceclaimtemplates/",
    strategy: |_| Arc::new(ResourceClaimTemplate),
    ..GROUP_BASE
};

#[derive(Debug)]
struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn rules(&self) -> &Rules {
        &Rules { returns_deleted: true, ..Rules::COMMON }
    }

    fn default(&self, template: &mut Value) {
        if let Some(spec) = entry_mut(template, "spec").and_then(|spec| entry_mut(spec, "spec")) {
            default_claim_spec(spec);
        }
    }

    fn validate(&self, template: &Value, errors: &mut Errors) {
        let template = Field::object(template);
        let spec = template.child("spec");
        let metadata = spec.child("metadata");
        let labels = metadata.child("labels");
        validate_labels(labels.value(), labels.path(), errors);
        validate_annotations(metadata.json(), metadata.child("annotations").path(), errors);
        validate_claim_spec(&spec.child("spec"), errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        Field::object(new).check_immutable(&Field::object(old), &["spec"], errors);
    }
}
