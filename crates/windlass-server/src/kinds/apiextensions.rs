//! The group `apiextensions.k8s.io`.

use crate::{
    apiextensions::{self, v1beta1},
    kinds::{View, prelude::*},
};

pub(super) const KINDS: &[Kind] = &[
    DEFINITION,
    Kind {
        version: "v1beta1",
        view: Some(View {
            stored: ("apiextensions.k8s.io", "v1"),
            from_stored: v1beta1::downgrade,
            to_stored: v1beta1::upgrade,
        }),
        validate: apiextensions::validate_unapproved_definition,
        ..DEFINITION
    },
];

const DEFINITION: Kind = Kind {
    name: "CustomResourceDefinition",
    prefix: Some("/registry/apiextensions.k8s.io/customresourcedefinitions/"),
    rules: Rules {
        metadata: MetadataRule::GENERIC,
        generation: Generation::Spec,
        unconditional_update: false,
        returns_deleted: true,
        deletion: Deletion::Finalized,
        ..Rules::WITH_STATUS
    },
    begin_deletion: apiextensions::begin_deletion,
    default: apiextensions::default_definition,
    prepare_create: |object, _| apiextensions::prepare_definition(object),
    prepare_update: apiextensions::prepare_definition_update,
    validate: apiextensions::validate_definition,
    validate_update: apiextensions::validate_definition_update,
    ..BASE
};
