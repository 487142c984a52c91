//! Replica sets.

use crate::kinds::{
    pod_spec::warnings,
    prelude::*,
    workload::{SCALE, WORKLOAD, default_pod_template, validate_replica_set_status, validate_replicated_template},
};

pub(super) const KIND: Kind = Kind {
    group: "apps",
    name: "ReplicaSet",
    prefix: "/registry/replicasets/",
    subresources: &["status", "scale"],
    strategy: |_| Arc::new(ReplicaSet),
    ..BASE
};

#[derive(Debug)]
struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn rules(&self) -> &Rules {
        &WORKLOAD
    }

    fn scale(&self) -> Option<&ScaleRule> {
        Some(&SCALE)
    }

    fn default(&self, object: &mut Value) {
        default_pointer(object_mut(object, "spec"), "replicas", 1);
        default_pod_template(object);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let object = Field::object(object);
        let spec = object.child("spec");
        spec.check(&[("replicas", Rule::NotNegative), ("minReadySeconds", Rule::NotNegative)], errors);
        validate_replicated_template(&spec, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        Field::object(new).check_immutable(&Field::object(old), &["spec.selector"], errors);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut Errors) {
        validate_replica_set_status(new, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::of_named_workload(new, old)
    }
}
