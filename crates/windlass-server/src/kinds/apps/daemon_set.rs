//! Daemon sets.

use crate::kinds::{
    pod_spec::warnings,
    prelude::*,
    workload::{
        Selection, WORKLOAD, default_pod_template, format_strategy, is_zero_share, validate_collisions,
        validate_nonempty_selector, validate_share, validate_share_limit, validate_template,
    },
};

/// A deprecated annotation that the server still maintains; apps/v1 has no field for the stored value.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) const KIND: Kind = Kind {
    name: "DaemonSet",
    rules: Rules { changes_first: true, ..WORKLOAD },
    default,
    prepare_create: |object, _| set_template_generation(object, 1),
    prepare_update,
    validate,
    immutable: &["spec.selector"],
    validate_status,
    warnings: warnings::of_workload,
    ..BASE
};

fn default(object: &mut Value) {
    // Set on decoding, so that the client that writes the object owns the annotation.
    let annotations = as_object(metadata_mut(object).entry("annotations").or_insert(Value::Null));
    default_to(annotations, TEMPLATE_GENERATION, "0");
    let spec = object_mut(object, "spec");
    default_pointer(spec, "revisionHistoryLimit", 10);
    let strategy = as_object(spec.entry("updateStrategy").or_insert(Value::Null));
    default_to(strategy, "type", "RollingUpdate");
    if strategy.text(&["type"]) == "RollingUpdate" {
        let rolling = as_object(strategy.entry("rollingUpdate").or_insert(Value::Null));
        default_pointer(rolling, "maxUnavailable", 1);
        default_pointer(rolling, "maxSurge", 0);
    } else if let Some(Value::Object(rolling)) = strategy.get_mut("rollingUpdate") {
        // In Go's internal type, missing shares are 0.
        default_pointer(rolling, "maxUnavailable", 0);
        default_pointer(rolling, "maxSurge", 0);
    }
    default_pod_template(object);
}

fn prepare_update(new: &mut Value, old: &Value) {
    let generation = old.text(&["metadata", "annotations", TEMPLATE_GENERATION]).parse().unwrap_or(1);
    let same = new.at(&["spec", "template"]) == old.at(&["spec", "template"]);
    set_template_generation(new, if same { generation } else { generation + 1 });
}

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let spec = object.child("spec");
    if !spec.is_set() {
        return;
    }
    // A missing selector is not reported here, but as one that does not match the template.
    let selector = spec.child("selector");
    let selection =
        if selector.is_set() { validate_nonempty_selector(&selector, "daemonset", errors) } else { Selection::Missing };
    validate_template(&spec.child("template"), &selection, "DaemonSet", errors);
    spec.child("minReadySeconds").not_negative(errors);
    let strategy = spec.child("updateStrategy");
    match strategy.child("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => validate_rolling_update(&strategy.child("rollingUpdate"), errors),
        _ => errors.unsupported(strategy.path(), &format_strategy(&strategy), &["RollingUpdate", "OnDelete"]),
    }
    spec.child("revisionHistoryLimit").not_negative(errors);
}

fn validate_status(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    new.child("status").check_not_negative(&counts, errors);
    validate_collisions(new, old, errors);
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let annotations = as_object(metadata_mut(object).entry("annotations").or_insert(Value::Null));
    annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}

/// Validates a rolling update: exactly one of `maxUnavailable` and `maxSurge` must be non-zero.
fn validate_rolling_update(rolling: &Field<'_>, errors: &mut Errors) {
    if !rolling.is_set() {
        return rolling.required("", errors);
    }
    let (unavailable, surge) = (rolling.child("maxUnavailable"), rolling.child("maxSurge"));
    validate_share(&unavailable, errors);
    validate_share(&surge, errors);
    match (is_zero_share(&unavailable), is_zero_share(&surge)) {
        (false, false) => surge.invalid("may not be set when maxUnavailable is non-zero", errors),
        (true, true) => unavailable.required("cannot be 0 when maxSurge is 0", errors),
        _ => {}
    }
    validate_share_limit(&unavailable, errors);
    validate_share_limit(&surge, errors);
}
