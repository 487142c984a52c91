//! The group `apiextensions.k8s.io`.

use crate::{apiextensions, kinds::prelude::*};

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "apiextensions.k8s.io",
    name: "CustomResourceDefinition",
    prefix: "/registry/apiextensions.k8s.io/customresourcedefinitions/",
    subresources: &["status"],
    strategy: |_| Arc::new(CustomResourceDefinition),
    ..BASE
}];

#[derive(Debug)]
struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn rules(&self) -> &Rules {
        &Rules {
            metadata: MetadataRule::GENERIC,
            generation: Generation::Spec,
            unconditional_update: false,
            returns_deleted: true,
            deletion: Deletion::Finalized,
            ..Rules::WITH_STATUS
        }
    }

    fn begin_deletion(&self, object: &mut Value, now: &str) {
        apiextensions::begin_deletion(object, now);
    }

    fn default(&self, object: &mut Value) {
        apiextensions::default_definition(object);
    }

    fn prepare_create(&self, object: &mut Value, _write: &WriteContext<'_>) {
        apiextensions::prepare_definition(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        apiextensions::prepare_definition_update(new, old);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        apiextensions::validate_definition(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        apiextensions::validate_definition_update(new, old, errors);
    }
}
