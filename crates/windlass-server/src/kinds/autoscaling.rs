//! HorizontalPodAutoscalers in two versions: `autoscaling/v2`, which is stored, and `autoscaling/v1`, which supports
//! only one metric and keeps other fields in annotations.

use serde_json::{Map, Value, json};

use super::{BASE, Kind, View, quantity::amount};
use crate::{
    object::{Errors, Path, Tree, as_object, default_pointer, dns_label, entry_mut, object_mut, path_segment},
    resource::{MetadataRule, Rules},
};

mod convert;

const SPEC: Path<'static> = Path::new("spec");

const AUTOSCALER: Kind = Kind {
    group: "autoscaling",
    version: "v2",
    name: "HorizontalPodAutoscaler",
    prefix: "/registry/horizontalpodautoscalers/",
    subresources: &["status"],
    rules: Rules { metadata: MetadataRule::CHANGES, ..Rules::WITH_STATUS },
    default: default_autoscaler,
    validate_create: |autoscaler, errors| validate_autoscaler(autoscaler, None, errors),
    validate_update: |new, old, errors| validate_autoscaler(new, Some(old), errors),
    validate_status: |new, _, errors| {
        let path = Path::new("status");
        for field in ["currentReplicas", "desiredReplicas"] {
            errors.not_negative(&path.child(field), new.int(&["status", field]));
        }
    },
    ..BASE
};

pub(super) const KINDS: &[Kind] = &[
    AUTOSCALER,
    Kind {
        version: "v1",
        view: Some(View {
            stored: ("autoscaling", "v2"),
            from_stored: convert::first_version,
            to_stored: convert::second_version,
        }),
        ..AUTOSCALER
    },
];

/// Returns the metric of an autoscaler that specifies none.
fn default_metrics() -> Value {
    json!([{
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }])
}

// === defaults ===

fn default_autoscaler(autoscaler: &mut Value) {
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
    default_rules(up, json!([pods, percent]));
    default_rules(object_mut(behavior, "scaleDown"), json!([percent]));
}

fn default_rules(rules: &mut Map<String, Value>, policies: Value) {
    default_pointer(rules, "selectPolicy", "Max");
    default_pointer(rules, "policies", policies);
}

// === validation ===

fn validate_autoscaler(autoscaler: &Value, old: Option<&Value>, errors: &mut Errors) {
    let nothing = json!({});
    let spec = autoscaler.at(&["spec"]).unwrap_or(&nothing);
    let (least, most) = (spec.int(&["minReplicas"]), spec.int(&["maxReplicas"]).unwrap_or_default());
    let was_zero = old.is_some_and(|old| old.int(&["spec", "minReplicas"]) == Some(0));
    let bound = i64::from(!was_zero);
    if let Some(least) = least.filter(|least| *least < bound) {
        let text = format!("must be greater than or equal to {bound}");
        errors.invalid(&SPEC.child("minReplicas"), &least, &text);
    }
    let path = SPEC.child("maxReplicas");
    if most == 0 {
        errors.required(&path, "must be set and greater than 0");
    } else if most < 0 {
        errors.invalid(&path, &most, "must be greater than or equal to 1");
    }
    if least.is_some_and(|least| most < least) {
        errors.invalid(&path, &most, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.at(&["scaleTargetRef"]).unwrap_or(&nothing);
    let old_target = old.and_then(|old| old.at(&["spec", "scaleTargetRef"]));
    let known = old_target
        .is_some_and(|old| ["apiVersion", "kind"].iter().all(|field| old.text(&[field]) == target.text(&[field])));
    let group = if known {
        GroupRule::Any
    } else if target.text(&["kind"]) == "ReplicationController" {
        GroupRule::MayBeEmpty
    } else {
        GroupRule::Needed
    };
    validate_object_reference(target, group, &SPEC.child("scaleTargetRef"), errors);
    let list = SPEC.child("metrics");
    let metrics = spec.items(&["metrics"]);
    for (index, metric) in metrics.iter().enumerate() {
        validate_metric(metric, &list.index(index), errors);
    }
    if least == Some(0) && !metrics.iter().any(|metric| matches!(metric.text(&["type"]), "Object" | "External")) {
        let text = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(&list, text);
    }
    let path = SPEC.child("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec.at(&["behavior", direction]) {
            validate_scaling(rules, &path.child(direction), errors);
        }
    }
}

/// The rule for the `apiVersion` of a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupRule {
    Needed,
    MayBeEmpty,
    Any,
}

fn validate_object_reference(reference: &Value, group: GroupRule, path: &Path<'_>, errors: &mut Errors) {
    for field in ["kind", "name"] {
        match reference.text(&[field]) {
            "" => errors.required(&path.child(field), ""),
            text => errors.invalid_each(&path.child(field), text, path_segment(text)),
        }
    }
    let version = reference.text(&["apiVersion"]);
    let path = path.child("apiVersion");
    if group == GroupRule::Any {
        return;
    }
    match version.split('/').collect::<Vec<_>>()[..] {
        [_, _] if !version.starts_with('/') && version != "/" => {}
        [_, _] | [_] if group == GroupRule::MayBeEmpty => {}
        [_, _] | [_] => errors.invalid(&path, version, "apiVersion must specify API group"),
        _ => errors.invalid(&path, version, &format!("unexpected GroupVersion string: {version}")),
    }
}

/// The kinds of metrics and their fields, in the order of validation.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const SOURCE_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

fn validate_metric(metric: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = metric.text(&["type"]);
    let field = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric source type");
    }
    if field.is_none() {
        errors.unsupported(&path.child("type"), kind, &SOURCE_TYPES);
    }
    let mut present = SOURCES.iter().map(|(_, field)| *field).filter(|field| metric.at(&[field]).is_some());
    let all: Vec<&str> = present.by_ref().collect();
    if let Some(first) = all.first() {
        validate_metric_source(&metric[*first], first, &path.child(first), errors);
    }
    match field {
        Some(field) if metric.at(&[field]).is_none() => {
            errors.required(&path.child(field), "must populate information for the given metric source");
        }
        Some(_) => {}
        None => errors.unsupported(&path.child("type"), kind, &SOURCE_TYPES),
    }
    if all.len() != 1 {
        for other in all.iter().filter(|other| Some(**other) != field) {
            errors.forbidden(&path.child(other), "must populate the given metric source only");
        }
    }
}

fn validate_metric_source(source: &Value, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let nothing = json!({});
    if kind == "object" {
        let described = source.at(&["describedObject"]).unwrap_or(&nothing);
        validate_object_reference(described, GroupRule::MayBeEmpty, &path.child("describedObject"), errors);
    }
    if matches!(kind, "resource" | "containerResource") {
        let name = source.text(&["name"]);
        if name.is_empty() {
            errors.required(&path.child("name"), "must specify a resource name");
        }
        if kind == "containerResource" {
            if !name.is_empty() {
                crate::kinds::core::limits::validate_container_resource(name, &path.child("name"), errors);
            }
            match source.text(&["container"]) {
                "" => errors.required(&path.child("container"), "must specify a container"),
                name => errors.invalid_each(&path.child("container"), name, dns_label(name)),
            }
        }
    } else {
        match source.text(&["metric", "name"]) {
            "" => errors.required(&path.child("metric.name"), "must specify a metric name"),
            name => errors.invalid_each(&path.child("metric.name"), name, path_segment(name)),
        }
    }
    let target = source.at(&["target"]).unwrap_or(&nothing);
    let place = path.child("target");
    validate_target(target, &place, errors);
    let has = |field: &str| target.at(&[field]).is_some();
    match kind {
        "object" if !has("value") && !has("averageValue") => {
            errors.required(&place.child("averageValue"), "must set either a target value or averageValue");
        }
        "external" if !has("value") && !has("averageValue") => {
            let text = "must set either a target value for metric or a per-pod target";
            errors.required(&place.child("averageValue"), text);
        }
        "external" if has("value") && has("averageValue") => {
            let text = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(&place.child("value"), text);
        }
        "pods" if !has("averageValue") => {
            errors.required(&place.child("averageValue"), "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !has("averageUtilization") && !has("averageValue") => {
            let text = "must set either a target raw value or a target utilization";
            errors.required(&place.child("averageUtilization"), text);
        }
        "resource" | "containerResource" if has("averageUtilization") && has("averageValue") => {
            let text = "may not set both a target raw value and a target utilization";
            errors.forbidden(&place.child("averageValue"), text);
        }
        _ => {}
    }
}

fn validate_target(target: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = target.text(&["type"]);
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.invalid(&path.child("type"), kind, "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        let text = target.text(&[field]);
        if amount(text).is_some_and(|amount| amount <= 0.0) {
            errors.invalid(&path.child(field), text, "must be positive");
        }
    }
    if let Some(percent) = target.int(&["averageUtilization"]).filter(|percent| *percent < 1) {
        errors.invalid(&path.child("averageUtilization"), &percent, "must be greater than 0");
    }
}

fn validate_scaling(rules: &Value, path: &Path<'_>, errors: &mut Errors) {
    let window = rules.int(&["stabilizationWindowSeconds"]).unwrap_or_default();
    let place = path.child("stabilizationWindowSeconds");
    if window < 0 {
        errors.invalid(&place, &window, "must be greater than or equal to zero");
    } else if window > 3600 {
        errors.invalid(&place, &window, "must be less than or equal to 3600");
    }
    crate::kinds::pod_spec::one_of(rules, "selectPolicy", &["Disabled", "Max", "Min"], path, errors);
    let list = path.child("policies");
    let policies = rules.items(&["policies"]);
    if policies.is_empty() {
        errors.required(&list, "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        let place = list.index(index);
        let kind = policy.text(&["type"]);
        if !matches!(kind, "Pods" | "Percent") {
            errors.unsupported(&place.child("type"), kind, &["Percent", "Pods"]);
        }
        for field in ["value", "periodSeconds"] {
            let number = policy.int(&[field]).unwrap_or_default();
            if number <= 0 {
                errors.invalid(&place.child(field), &number, "must be greater than zero");
            } else if field == "periodSeconds" && number > 1800 {
                errors.invalid(&place.child(field), &number, "must be less than or equal to 1800");
            }
        }
    }
    let tolerance = rules.text(&["tolerance"]);
    if amount(tolerance).is_some_and(|amount| amount < 0.0) {
        errors.invalid(&path.child("tolerance"), tolerance, "must be greater than or equal to 0");
    }
}

/// Reports whether a metric is CPU utilization, the only metric of v1.
fn is_processor(metric: &Value) -> bool {
    metric.text(&["type"]) == "Resource" && metric.text(&["resource", "name"]) == "cpu"
}

/// Returns the annotations of an object; missing annotations are created.
fn annotations_mut(object: &mut Value) -> &mut Map<String, Value> {
    as_object(object_mut(object, "metadata").entry("annotations").or_insert_with(|| json!({})))
}
