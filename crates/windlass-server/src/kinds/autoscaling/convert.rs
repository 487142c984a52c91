//! Conversion between the two versions of autoscalers.
//!
//! Fields without a counterpart in v1 are stored in annotations, as JSON of v1's internal type, and restored from
//! there. Invalid annotations are dropped.

use crate::kinds::{
    autoscaling::{cpu_metric, default_metrics},
    prelude::*,
};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The metric sources.
const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

/// The fields of each metric source in a spec: the source, the name in v1, and the path in v2. The fields in a status
/// have `current` in place of `target`.
const FIELDS: [(&str, &str, &str); 19] = [
    ("object", "target", "describedObject"),
    ("object", "metricName", "metric.name"),
    ("object", "targetValue", "target.value"),
    ("object", "selector", "metric.selector"),
    ("object", "averageValue", "target.averageValue"),
    ("pods", "metricName", "metric.name"),
    ("pods", "targetAverageValue", "target.averageValue"),
    ("pods", "selector", "metric.selector"),
    ("resource", "name", "name"),
    ("resource", "targetAverageUtilization", "target.averageUtilization"),
    ("resource", "targetAverageValue", "target.averageValue"),
    ("containerResource", "name", "name"),
    ("containerResource", "targetAverageUtilization", "target.averageUtilization"),
    ("containerResource", "targetAverageValue", "target.averageValue"),
    ("containerResource", "container", "container"),
    ("external", "metricName", "metric.name"),
    ("external", "metricSelector", "metric.selector"),
    ("external", "targetValue", "target.value"),
    ("external", "targetAverageValue", "target.averageValue"),
];

/// The v1 fields that are written even without a value.
const REQUIRED_FIELDS: [(&str, &str); 6] = [
    ("object", "targetValue"),
    ("object", "currentValue"),
    ("pods", "targetAverageValue"),
    ("pods", "currentAverageValue"),
    ("resource", "currentAverageValue"),
    ("containerResource", "currentAverageValue"),
];

/// The names of a behavior's fields, in the object and in the annotation: of the behavior, its rules, and their policies.
const BEHAVIOR_NAMES: [&[(&str, &str)]; 3] = [
    &[("scaleUp", "ScaleUp"), ("scaleDown", "ScaleDown")],
    &[
        ("stabilizationWindowSeconds", "StabilizationWindowSeconds"),
        ("selectPolicy", "SelectPolicy"),
        ("policies", "Policies"),
        ("tolerance", "Tolerance"),
    ],
    &[("type", "Type"), ("value", "Value"), ("periodSeconds", "PeriodSeconds")],
];

/// The part of an autoscaler that contains a metric.
#[derive(Clone, Copy)]
enum Part {
    Spec,
    Status,
}

impl Part {
    /// Returns the name of a field in this part, from its name in a spec.
    fn field(self, name: &str) -> String {
        match (self, name.strip_prefix("target")) {
            (Self::Status, Some(rest)) if !rest.is_empty() => format!("current{rest}"),
            _ => name.to_owned(),
        }
    }
}

/// Converts an autoscaler from `autoscaling/v2` to `autoscaling/v1`.
pub(super) fn to_v1(mut autoscaler: Value) -> Value {
    drop_annotations(&mut autoscaler);
    as_object(&mut autoscaler).insert("apiVersion".to_owned(), "autoscaling/v1".into());
    let metrics = take_list(&mut autoscaler, "spec", "metrics");
    let behavior = take(&mut autoscaler, "spec", "behavior");
    let current = take_list(&mut autoscaler, "status", "currentMetrics");
    let conditions = take_list(&mut autoscaler, "status", "conditions");

    if let Some(percent) = metrics.iter().find_map(|metric| cpu_utilization(metric, "target")) {
        object_mut(&mut autoscaler, "spec").insert("targetCPUUtilizationPercentage".to_owned(), percent.clone());
    }
    if let Some(percent) = current.iter().rev().find_map(|metric| cpu_utilization(metric, "current")) {
        object_mut(&mut autoscaler, "status").insert("currentCPUUtilizationPercentage".to_owned(), percent.clone());
    }

    let others = metrics.iter().filter(|metric| cpu_utilization(metric, "target").is_none());
    let others: Vec<Value> = others.map(|metric| metric_to_v1(metric, Part::Spec)).collect();
    let current: Vec<Value> = current.iter().map(|metric| metric_to_v1(metric, Part::Status)).collect();
    let mut annotate = |key: &str, value: Value| {
        let annotations = metadata_mut(&mut autoscaler).entry("annotations").or_insert_with(|| json!({}));
        as_object(annotations).insert(key.to_owned(), value.to_string().into());
    };
    if !others.is_empty() {
        annotate(METRICS, others.into());
    }
    if !current.is_empty() {
        annotate(CURRENT_METRICS, current.into());
    }
    if let Some(behavior) = behavior {
        annotate(BEHAVIOR, internal_behavior(&behavior, &BEHAVIOR_NAMES));
    }
    if !conditions.is_empty() {
        annotate(CONDITIONS, conditions.into());
    }
    autoscaler
}

/// Converts an autoscaler from `autoscaling/v1` to `autoscaling/v2`.
pub(super) fn to_v2(mut autoscaler: Value) -> Value {
    let annotation =
        |key: &str| -> Option<Value> { serde_json::from_str(autoscaler.text(&["metadata", "annotations", key])).ok() };
    let list = |key: &str| match annotation(key) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    };
    let (others, current, conditions) = (list(METRICS), list(CURRENT_METRICS), list(CONDITIONS));
    let behavior = annotation(BEHAVIOR).filter(Value::is_object);
    drop_annotations(&mut autoscaler);
    as_object(&mut autoscaler).insert("apiVersion".to_owned(), "autoscaling/v2".into());

    let mut metrics: Vec<Value> = others.unwrap_or_default().iter().map(spec_metric_to_v2).collect();
    metrics.extend(take(&mut autoscaler, "spec", "targetCPUUtilizationPercentage").map(cpu_metric));
    let metrics = if metrics.is_empty() { default_metrics() } else { metrics.into() };
    let spec = object_mut(&mut autoscaler, "spec");
    spec.insert("metrics".to_owned(), metrics);
    if let Some(behavior) = behavior {
        let behavior = external_behavior(&behavior);
        if behavior.as_object().is_some_and(|behavior| !behavior.is_empty()) {
            spec.insert("behavior".to_owned(), behavior);
        }
    }

    let percent = take(&mut autoscaler, "status", "currentCPUUtilizationPercentage");
    let status = object_mut(&mut autoscaler, "status");
    if let Some(current) = current {
        let current = current.iter().map(|metric| metric_to_v2(metric, Part::Status));
        status.insert("currentMetrics".to_owned(), current.collect());
    } else if let Some(percent) = percent {
        let resource = json!({"name": "cpu", "current": {"averageUtilization": percent}});
        status.insert("currentMetrics".to_owned(), json!([{"type": "Resource", "resource": resource}]));
    }
    if let Some(conditions) = conditions {
        status.insert("conditions".to_owned(), conditions.into());
    }
    autoscaler
}

/// Removes the annotations that only exist in v1.
pub(super) fn drop_annotations(autoscaler: &mut Value) {
    let metadata = metadata_mut(autoscaler);
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return };
    for key in ANNOTATIONS {
        annotations.shift_remove(key);
    }
    if annotations.is_empty() {
        metadata.shift_remove("annotations");
    }
}

/// Removes a field of the spec or status and returns it.
fn take(autoscaler: &mut Value, part: &str, field: &str) -> Option<Value> {
    let part = autoscaler.get_mut(part).and_then(Value::as_object_mut)?;
    part.shift_remove(field).filter(|value| !value.is_null())
}

fn take_list(autoscaler: &mut Value, part: &str, field: &str) -> Vec<Value> {
    match take(autoscaler, part, field) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

// === metrics ===

/// Returns the `target` or `current` CPU utilization of a v2 metric; `None` for other metrics.
fn cpu_utilization<'m>(metric: &'m Value, side: &str) -> Option<&'m Value> {
    let is_cpu = metric.text(&["type"]) == "Resource" && metric.text(&["resource", "name"]) == "cpu";
    metric.at(&["resource", side, "averageUtilization"]).filter(|_| is_cpu)
}

/// Converts a metric to v1, with v1's field names and order.
fn metric_to_v1(metric: &Value, part: Part) -> Value {
    let mut converted = json!({"type": metric.text(&["type"])});
    for kind in SOURCES {
        let Some(source) = metric.at(&[kind]) else { continue };
        let mut new = Map::new();
        for (_, name, path) in FIELDS.iter().filter(|(source, ..)| *source == kind) {
            let (name, path) = (part.field(name), part.field(path));
            let path: Vec<&str> = path.split('.').collect();
            if let Some(value) = source.at(&path) {
                new.insert(name, value.clone());
            } else if REQUIRED_FIELDS.contains(&(kind, name.as_str())) {
                new.insert(name, "0".into());
            }
        }
        as_object(&mut converted).insert(kind.to_owned(), new.into());
    }
    converted
}

/// Converts a metric to v2.
fn metric_to_v2(metric: &Value, part: Part) -> Value {
    let mut converted = json!({"type": metric.text(&["type"])});
    for kind in SOURCES {
        let Some(source) = metric.at(&[kind]) else { continue };
        let mut new = json!({});
        for (_, name, path) in FIELDS.iter().filter(|(source, ..)| *source == kind) {
            let Some(value) = source.at(&[part.field(name).as_str()]) else { continue };
            let path = part.field(path);
            let (owner, field) = match path.split_once('.') {
                Some((outer, inner)) => (object_mut(&mut new, outer), inner),
                None => (as_object(&mut new), path.as_str()),
            };
            owner.insert(field.to_owned(), value.clone());
        }
        as_object(&mut converted).insert(kind.to_owned(), new);
    }
    converted
}

/// Converts a metric of a spec to v2, and adds the types of its targets.
fn spec_metric_to_v2(metric: &Value) -> Value {
    let mut converted = metric_to_v2(metric, Part::Spec);
    for kind in SOURCES {
        let Some(Value::Object(source)) = converted.get_mut(kind) else { continue };
        let target = as_object(source.entry("target").or_insert_with(|| json!({})));
        // The type follows from the present fields. A zero value next to an average value counts as absent.
        let has = |field: &str| target.at(&[field]).is_some();
        let target_type = match kind {
            "object" if !has("averageValue") => "Value",
            "external" if has("value") => "Value",
            "resource" | "containerResource" if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        if kind == "object" && target_type == "AverageValue" && target.text(&["value"]) == "0" {
            target.shift_remove("value");
        }
        target.insert("type".to_owned(), target_type.into());
    }
    converted
}

// === behavior ===

/// Converts a behavior to the form of the annotation: with Go's field names, and with all fields. `names` are those of
/// this value and of the values inside it.
fn internal_behavior(value: &Value, names: &[&[(&str, &str)]]) -> Value {
    match (value, names) {
        (Value::Array(items), _) => items.iter().map(|item| internal_behavior(item, names)).collect(),
        (Value::Object(_), [fields, inner @ ..]) => {
            let convert = |name: &str| value.at(&[name]).map(|value| internal_behavior(value, inner));
            let fields =
                fields.iter().map(|(name, go_name)| ((*go_name).to_owned(), convert(name).unwrap_or_default()));
            Value::Object(fields.collect())
        }
        (other, _) => other.clone(),
    }
}

/// Parses a behavior from the annotation. Field names are not case-sensitive.
fn external_behavior(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(external_behavior).collect(),
        Value::Object(map) => {
            let mut renamed = Map::new();
            for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                let known = BEHAVIOR_NAMES.iter().copied().flatten().find(|(name, _)| name.eq_ignore_ascii_case(key));
                if let Some((name, _)) = known {
                    renamed.insert((*name).to_owned(), external_behavior(value));
                }
            }
            renamed.into()
        }
        other => other.clone(),
    }
}
