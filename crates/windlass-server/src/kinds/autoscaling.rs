//! The group `autoscaling`: HorizontalPodAutoscalers in two versions. `v2` is stored; `v1` supports only one metric and
//! keeps other fields in annotations.

use crate::kinds::{
    View,
    core::resource_names::validate_container_resource,
    prelude::*,
    quantity::{check_amount, check_not_negative},
};

mod convert;

const AUTOSCALER: Kind = Kind {
    version: "v2",
    name: "HorizontalPodAutoscaler",
    rules: Rules { metadata: MetadataRule::CHANGES, ..Rules::WITH_STATUS },
    default,
    validate_create: |autoscaler, errors| validate_spec(&autoscaler.child("spec"), &Value::Null, errors),
    validate_update: |new, old, errors| validate_spec(&new.child("spec"), old.json(), errors),
    validate_status: |new, _, errors| {
        new.child("status").check_not_negative(&["currentReplicas", "desiredReplicas"], errors);
    },
    ..BASE
};

pub(super) const KINDS: &[Kind] = &[
    AUTOSCALER,
    Kind {
        version: "v1",
        view: Some(View { stored: ("autoscaling", "v2"), from_stored: convert::to_v1, to_stored: convert::to_v2 }),
        ..AUTOSCALER
    },
];

/// The types of metrics and their fields, in the order of validation.
const METRIC_SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const METRIC_TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
/// The longest stabilization window, in seconds.
const MAX_WINDOW: i64 = 3600;
/// The longest period of a scaling policy, in seconds.
const MAX_PERIOD: i64 = 1800;

/// The rule for the API group in the `apiVersion` of an object reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupRule {
    Required,
    Optional,
    Unchecked,
}

fn default(autoscaler: &mut Value) {
    // Annotations with a meaning in v1 have none in v2.
    convert::drop_annotations(autoscaler);
    let spec = object_mut(autoscaler, "spec");
    default_pointer(spec, "minReplicas", 1);
    if spec.items(&["metrics"]).is_empty() {
        spec.insert("metrics".to_owned(), default_metrics());
    }
    let Some(behavior) = autoscaler.get_mut("spec").and_then(|spec| entry_mut(spec, "behavior")) else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = object_mut(behavior, "scaleUp");
    default_pointer(up, "stabilizationWindowSeconds", 0);
    default_scaling(up, json!([pods, percent]));
    default_scaling(object_mut(behavior, "scaleDown"), json!([percent]));
}

// === defaults ===

/// Returns the metrics of an autoscaler that specifies none.
fn default_metrics() -> Value {
    json!([cpu_metric(80)])
}

/// Returns a metric with a target CPU utilization, the only metric of v1.
fn cpu_metric(percent: impl Into<Value>) -> Value {
    let percent: Value = percent.into();
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

fn default_scaling(rules: &mut Map<String, Value>, policies: Value) {
    default_pointer(rules, "selectPolicy", "Max");
    default_pointer(rules, "policies", policies);
}

// === validation ===

/// Validates a spec. `old` is the object before an update, and `null` for a creation.
fn validate_spec(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    validate_replicas(spec, old, errors);
    let target = spec.child("scaleTargetRef");
    let same_kind =
        |old: &Value| ["apiVersion", "kind"].iter().all(|name| old.text(&[name]) == target.child(name).text());
    let group = if old.at(&["spec", "scaleTargetRef"]).is_some_and(same_kind) {
        GroupRule::Unchecked
    } else if target.child("kind").text() == "ReplicationController" {
        GroupRule::Optional
    } else {
        GroupRule::Required
    };
    validate_object_reference(&target, group, errors);
    let metrics = spec.child("metrics");
    metrics.each(validate_metric, errors);
    let scales_from_zero = |metric: Field<'_>| matches!(metric.child("type").text(), "Object" | "External");
    if spec.child("minReplicas").int() == Some(0) && !metrics.items().any(scales_from_zero) {
        let text = "must specify at least one Object or External metric to support scaling to zero replicas";
        metrics.forbidden(text, errors);
    }
    let behavior = spec.child("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        behavior.child(direction).if_set(validate_scaling, errors);
    }
}

fn validate_replicas(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let (min, max) = (spec.child("minReplicas"), spec.child("maxReplicas"));
    let min_count = min.int();
    let max_count = max.int().unwrap_or_default();
    // The feature HPAScaleToZero.
    let is_positive = errors.kubernetes() < KubernetesVersion::V1_37 && old.int(&["spec", "minReplicas"]) != Some(0);
    let lower_bound = i64::from(is_positive);
    min.check_int(lower_bound.., format_args!("must be greater than or equal to {lower_bound}"), errors);
    if errors.before(V1_36) {
        max.check_count(1.., "must be greater than 0", errors);
    } else if max_count == 0 {
        max.required("must be set and greater than 0", errors);
    } else if max_count < 0 {
        max.invalid("must be greater than or equal to 1", errors);
    }
    if min_count.is_some_and(|count| max_count < count) {
        max.invalid_as(&max_count, "must be greater than or equal to `minReplicas`", errors);
    }
}

fn validate_object_reference(reference: &Field<'_>, group: GroupRule, errors: &mut Errors) {
    for name in ["kind", "name"] {
        reference.child(name).required_text(path_segment, errors);
    }
    if group == GroupRule::Unchecked || errors.before(V1_34) {
        return;
    }
    let api_version = reference.child("apiVersion");
    let text = api_version.text();
    match text.split('/').collect::<Vec<_>>()[..] {
        [_, _] if !text.starts_with('/') && text != "/" => {}
        [_, _] | [_] if group == GroupRule::Optional => {}
        [_, _] | [_] => api_version.invalid_as(text, "apiVersion must specify API group", errors),
        _ => api_version.invalid(&format!("unexpected GroupVersion string: {text}"), errors),
    }
}

fn validate_metric(metric: &Field<'_>, errors: &mut Errors) {
    let kind = metric.child("type");
    let expected = METRIC_SOURCES.iter().find(|(name, _)| *name == kind.text()).map(|(_, source)| *source);
    kind.check_not_empty("must specify a metric source type", errors);
    if expected.is_none() {
        kind.unsupported(METRIC_TYPES, errors);
    }
    let sources = METRIC_SOURCES.iter().map(|(_, source)| *source);
    let present: Vec<&str> = sources.filter(|source| metric.child(source).is_set()).collect();
    if let Some(first) = present.first() {
        validate_metric_source(&metric.child(first), first, errors);
    }
    match expected.map(|source| metric.child(source)) {
        Some(source) if !source.is_set() => {
            source.required("must populate information for the given metric source", errors);
        }
        Some(_) => {}
        None => kind.unsupported(METRIC_TYPES, errors),
    }
    if present.len() != 1 {
        for source in present.iter().filter(|source| Some(**source) != expected) {
            metric.child(source).forbidden("must populate the given metric source only", errors);
        }
    }
}

/// Validates the source of a metric. `kind` is the name of its field.
fn validate_metric_source(source: &Field<'_>, kind: &str, errors: &mut Errors) {
    if kind == "object" {
        validate_object_reference(&source.child("describedObject"), GroupRule::Optional, errors);
    }
    if matches!(kind, "resource" | "containerResource") {
        let name = source.child("name");
        if name.text().is_empty() {
            name.required("must specify a resource name", errors);
        } else if kind == "containerResource" {
            validate_container_resource(name.text(), name.path(), errors);
        }
        if kind == "containerResource" {
            let container = source.child("container");
            container.check_not_empty("must specify a container", errors);
            container.optional_text(dns_label, errors);
        }
    } else {
        let name = source.child("metric.name");
        name.check_not_empty("must specify a metric name", errors);
        name.optional_text(path_segment, errors);
    }
    let target = source.child("target");
    validate_target(&target, errors);
    let (value, average) = (target.child("value"), target.child("averageValue"));
    let utilization = target.child("averageUtilization");
    match kind {
        "object" if !value.is_set() && !average.is_set() => {
            average.required("must set either a target value or averageValue", errors);
        }
        "external" if !value.is_set() && !average.is_set() => {
            average.required("must set either a target value for metric or a per-pod target", errors);
        }
        "external" if value.is_set() && average.is_set() => {
            value.forbidden("may not set both a target value for metric and a per-pod target", errors);
        }
        "pods" if !average.is_set() => {
            average.required("must specify a positive target averageValue", errors);
        }
        "resource" | "containerResource" if !utilization.is_set() && !average.is_set() => {
            utilization.required("must set either a target raw value or a target utilization", errors);
        }
        "resource" | "containerResource" if utilization.is_set() && average.is_set() => {
            average.forbidden("may not set both a target raw value and a target utilization", errors);
        }
        _ => {}
    }
}

fn validate_target(target: &Field<'_>, errors: &mut Errors) {
    let kind = target.child("type");
    kind.check_not_empty("must specify a metric target type", errors);
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        kind.invalid_as(kind.text(), "must be either Utilization, Value, or AverageValue", errors);
    }
    for name in ["value", "averageValue"] {
        check_amount(&target.child(name), |amount| amount > 0.0, "must be positive", errors);
    }
    target.child("averageUtilization").check_int(1.., "must be greater than 0", errors);
}

/// Validates the rules for scaling in one direction.
fn validate_scaling(rules: &Field<'_>, errors: &mut Errors) {
    let window = rules.child("stabilizationWindowSeconds");
    window.check_int(0.., "must be greater than or equal to zero", errors);
    window.check_int(..=MAX_WINDOW, format_args!("must be less than or equal to {MAX_WINDOW}"), errors);
    rules.child("selectPolicy").one_of(&["Disabled", "Max", "Min"], errors);
    let policies = rules.child("policies");
    policies.check_not_empty("must specify at least one Policy", errors);
    policies.each(validate_scaling_policy, errors);
    check_not_negative(&rules.child("tolerance"), errors);
}

fn validate_scaling_policy(policy: &Field<'_>, errors: &mut Errors) {
    policy.child("type").supported(&["Percent", "Pods"], errors);
    let (value, period) = (policy.child("value"), policy.child("periodSeconds"));
    value.check_count(1.., "must be greater than zero", errors);
    period.check_count(1.., "must be greater than zero", errors);
    period.check_int(..=MAX_PERIOD, format_args!("must be less than or equal to {MAX_PERIOD}"), errors);
}
