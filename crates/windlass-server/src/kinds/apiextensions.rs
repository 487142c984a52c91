//! The group `apiextensions.k8s.io`.

use crate::{apiextensions, kinds::prelude::*};

pub(super) const KINDS: &[Kind] = &[Kind {
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
}];
