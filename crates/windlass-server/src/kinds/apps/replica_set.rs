//! Replica sets.

use crate::kinds::{
    pod_spec::warnings,
    prelude::*,
    workload::{WORKLOAD, default_pod_template, validate_replica_set_status, validate_replicated_template},
};

pub(super) const KIND: Kind = Kind {
    name: "ReplicaSet",
    rules: WORKLOAD,
    default,
    validate,
    immutable: &["spec.selector"],
    validate_status: validate_replica_set_status,
    warnings: warnings::of_named_workload,
    ..BASE
};

fn default(object: &mut Value) {
    default_pointer(object_mut(object, "spec"), "replicas", 1);
    default_pod_template(object);
}

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let spec = object.child("spec");
    spec.check_not_negative(&["replicas", "minReadySeconds"], errors);
    validate_replicated_template(&spec, errors);
}
