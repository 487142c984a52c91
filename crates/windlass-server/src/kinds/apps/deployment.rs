//! Deployments.

use crate::kinds::{
    pod_spec::warnings,
    prelude::*,
    workload::{
        WORKLOAD, default_pod_template, format_strategy, is_zero_share, validate_collisions, validate_counts,
        validate_replicated_template, validate_share, validate_share_limit,
    },
};

pub(super) const KIND: Kind = Kind {
    name: "Deployment",
    rules: Rules {
        resets: Resets { status: &["spec", "metadata.labels"], ..Resets::STATUS },
        generation: Generation::SpecOrAnnotations,
        ..WORKLOAD
    },
    default,
    validate,
    immutable: &["spec.selector"],
    validate_status,
    warnings: warnings::of_named_workload,
    ..BASE
};

fn default(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default_pointer(spec, "replicas", 1);
    default_pointer(spec, "revisionHistoryLimit", 10);
    default_pointer(spec, "progressDeadlineSeconds", 600);
    let strategy = as_object(spec.entry("strategy").or_insert(Value::Null));
    default_to(strategy, "type", "RollingUpdate");
    if strategy.text(&["type"]) == "RollingUpdate" {
        let rolling = as_object(strategy.entry("rollingUpdate").or_insert(Value::Null));
        default_pointer(rolling, "maxUnavailable", "25%");
        default_pointer(rolling, "maxSurge", "25%");
    }
    default_pod_template(object);
}

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let spec = object.child("spec");
    spec.child("replicas").not_negative(errors);
    validate_replicated_template(&spec, errors);
    validate_strategy(&spec.child("strategy"), errors);
    spec.check_not_negative(&["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"], errors);
    let deadline = spec.child("progressDeadlineSeconds");
    let ready = spec.child("minReadySeconds").int().unwrap_or_default();
    deadline.check_int(ready + 1.., "must be greater than minReadySeconds", errors);
}

fn validate_status(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    validate_counts(new, &parts, &["unavailableReplicas", "terminatingReplicas", "collisionCount"], errors);
    validate_collisions(new, old, errors);
}

fn validate_strategy(strategy: &Field<'_>, errors: &mut Errors) {
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "Recreate" if rolling.is_set() => {
            rolling.forbidden("may not be specified when strategy `type` is 'Recreate'", errors);
        }
        "Recreate" => {}
        "RollingUpdate" => validate_rolling_update(&rolling, errors),
        _ => errors.unsupported(strategy.path(), &format_strategy(strategy), &["Recreate", "RollingUpdate"]),
    }
}

fn validate_rolling_update(rolling: &Field<'_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.child("maxUnavailable"), rolling.child("maxSurge"));
    validate_share(&unavailable, errors);
    validate_share(&surge, errors);
    if is_zero_share(&unavailable) && is_zero_share(&surge) {
        unavailable.invalid("may not be 0 when `maxSurge` is 0", errors);
    }
    validate_share_limit(&unavailable, errors);
}
