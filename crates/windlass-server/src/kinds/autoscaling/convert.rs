//! Conversion between the two versions of autoscalers.
//!
//! Fields without a counterpart in v1 are stored in annotations, as JSON of v1's internal type, and restored from
//! there. Invalid annotations are dropped.

use serde_json::{Map, Value, json};

use super::{annotations_mut, default_metrics, is_processor};
use crate::object::{Tree, as_object, metadata_mut, object_mut};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ALL: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The fields of one kind of metric: the name in v1 and the path in v2. The first list is for a spec, the second for a
/// status.
struct Fields {
    source: &'static str,
    spec: &'static [(&'static str, &'static [&'static str])],
    status: &'static [(&'static str, &'static [&'static str])],
}

const FIELDS: [Fields; 5] = [
    Fields {
        source: "object",
        spec: &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("targetValue", &["target", "value"]),
            ("selector", &["metric", "selector"]),
            ("averageValue", &["target", "averageValue"]),
        ],
        status: &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("currentValue", &["current", "value"]),
            ("selector", &["metric", "selector"]),
            ("averageValue", &["current", "averageValue"]),
        ],
    },
    Fields {
        source: "pods",
        spec: &[
            ("metricName", &["metric", "name"]),
            ("targetAverageValue", &["target", "averageValue"]),
            ("selector", &["metric", "selector"]),
        ],
        status: &[
            ("metricName", &["metric", "name"]),
            ("currentAverageValue", &["current", "averageValue"]),
            ("selector", &["metric", "selector"]),
        ],
    },
    Fields {
        source: "resource",
        spec: &[
            ("name", &["name"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
        status: &[
            ("name", &["name"]),
            ("currentAverageUtilization", &["current", "averageUtilization"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    },
    Fields {
        source: "containerResource",
        spec: &[
            ("name", &["name"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
            ("container", &["container"]),
        ],
        status: &[
            ("name", &["name"]),
            ("currentAverageUtilization", &["current", "averageUtilization"]),
            ("currentAverageValue", &["current", "averageValue"]),
            ("container", &["container"]),
        ],
    },
    Fields {
        source: "external",
        spec: &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("targetValue", &["target", "value"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
        status: &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("currentValue", &["current", "value"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    },
];

/// The v1 fields that are written even without a value.
const VALUES: [(&str, &str); 6] = [
    ("object", "targetValue"),
    ("object", "currentValue"),
    ("pods", "targetAverageValue"),
    ("pods", "currentAverageValue"),
    ("resource", "currentAverageValue"),
    ("containerResource", "currentAverageValue"),
];

/// Converts an autoscaler from `autoscaling/v2` to `autoscaling/v1`.
pub(super) fn first_version(mut autoscaler: Value) -> Value {
    drop_annotations(&mut autoscaler);
    as_object(&mut autoscaler).insert("apiVersion".to_owned(), "autoscaling/v1".into());
    let take = |object: &mut Value, part: &str, field: &str| {
        let map = object.get_mut(part).and_then(Value::as_object_mut)?;
        map.shift_remove(field).filter(|value| !value.is_null())
    };
    let metrics = take(&mut autoscaler, "spec", "metrics");
    let behavior = take(&mut autoscaler, "spec", "behavior");
    let current = take(&mut autoscaler, "status", "currentMetrics");
    let conditions = take(&mut autoscaler, "status", "conditions");

    let metrics = metrics.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let percent = |metric: &Value| {
        let percent = metric.at(&["resource", "target", "averageUtilization"]).filter(|_| is_processor(metric));
        percent.cloned()
    };
    if let Some(percent) = metrics.iter().find_map(percent) {
        object_mut(&mut autoscaler, "spec").insert("targetCPUUtilizationPercentage".to_owned(), percent);
    }
    let others: Vec<Value> = metrics.iter().filter(|metric| percent(metric).is_none()).map(old_metric).collect();
    let current = current.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let usage = |metric: &Value| {
        metric.at(&["resource", "current", "averageUtilization"]).filter(|_| is_processor(metric)).cloned()
    };
    if let Some(usage) = current.iter().filter_map(usage).next_back() {
        object_mut(&mut autoscaler, "status").insert("currentCPUUtilizationPercentage".to_owned(), usage);
    }
    let current: Vec<Value> = current.iter().map(old_status).collect();

    let mut annotate = |key: &str, value: &Value| {
        annotations_mut(&mut autoscaler).insert(key.to_owned(), value.to_string().into());
    };
    if !others.is_empty() {
        annotate(METRICS, &others.into());
    }
    if !current.is_empty() {
        annotate(CURRENT_METRICS, &current.into());
    }
    if let Some(behavior) = behavior {
        annotate(BEHAVIOR, &internal_behavior(&behavior));
    }
    if let Some(conditions) = conditions.filter(|conditions| conditions.as_array().is_some_and(|all| !all.is_empty())) {
        annotate(CONDITIONS, &conditions);
    }
    autoscaler
}

/// Converts an autoscaler from `autoscaling/v1` to `autoscaling/v2`.
pub(super) fn second_version(mut autoscaler: Value) -> Value {
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

    let spec = object_mut(&mut autoscaler, "spec");
    let percent = spec.shift_remove("targetCPUUtilizationPercentage").filter(|percent| !percent.is_null());
    let mut metrics: Vec<Value> = others.unwrap_or_default().iter().map(new_metric).collect();
    if let Some(percent) = percent {
        metrics.push(json!({
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
        }));
    }
    let metrics = if metrics.is_empty() { default_metrics() } else { metrics.into() };
    spec.insert("metrics".to_owned(), metrics);
    if let Some(behavior) = behavior {
        let behavior = external_behavior(&behavior);
        if behavior.as_object().is_some_and(|behavior| !behavior.is_empty()) {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    let status = object_mut(&mut autoscaler, "status");
    let usage = status.shift_remove("currentCPUUtilizationPercentage").filter(|usage| !usage.is_null());
    if let Some(current) = current {
        status.insert("currentMetrics".to_owned(), current.iter().map(new_status).collect());
    } else if let Some(usage) = usage {
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": usage}}});
        status.insert("currentMetrics".to_owned(), json!([metric]));
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
    for key in ALL {
        annotations.shift_remove(key);
    }
    if annotations.is_empty() {
        metadata.shift_remove("annotations");
    }
}

fn old_metric(metric: &Value) -> Value {
    renamed(metric, |fields| fields.spec)
}

fn old_status(metric: &Value) -> Value {
    renamed(metric, |fields| fields.status)
}

/// Converts a v2 metric to v1, with v1's field names and order.
fn renamed(metric: &Value, names: impl Fn(&Fields) -> &'static [(&'static str, &'static [&'static str])]) -> Value {
    let mut old = json!({"type": metric.text(&["type"])});
    for fields in &FIELDS {
        let Some(source) = metric.at(&[fields.source]) else { continue };
        let mut part = Map::new();
        for (name, path) in names(fields) {
            match source.at(path) {
                Some(value) => drop(part.insert((*name).to_owned(), value.clone())),
                None if VALUES.contains(&(fields.source, *name)) => drop(part.insert((*name).to_owned(), "0".into())),
                None => {}
            }
        }
        as_object(&mut old).insert(fields.source.to_owned(), part.into());
    }
    old
}

fn new_metric(metric: &Value) -> Value {
    let mut new = restored(metric, |fields| fields.spec);
    for fields in &FIELDS {
        let Some(Value::Object(source)) = new.get_mut(fields.source) else { continue };
        // The type follows from the present fields. A zero value next to an average value counts as absent.
        let has = |field: &str| source.at(&["target", field]).is_some();
        let zero = source.text(&["target", "value"]) == "0";
        let kind = match fields.source {
            "object" if has("averageValue") => "AverageValue",
            "object" => "Value",
            "external" if has("value") => "Value",
            "resource" | "containerResource" if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        let drops_value = fields.source == "object" && kind == "AverageValue" && zero;
        let target = as_object(source.entry("target").or_insert_with(|| json!({})));
        if drops_value {
            target.shift_remove("value");
        }
        target.insert("type".to_owned(), kind.into());
    }
    new
}

fn new_status(metric: &Value) -> Value {
    restored(metric, |fields| fields.status)
}

/// Converts a v1 metric to v2's field names.
fn restored(metric: &Value, names: impl Fn(&Fields) -> &'static [(&'static str, &'static [&'static str])]) -> Value {
    let mut new = json!({"type": metric.text(&["type"])});
    for fields in &FIELDS {
        let Some(source) = metric.at(&[fields.source]) else { continue };
        let mut part = json!({});
        for (name, path) in names(fields) {
            let Some(value) = source.at(&[name]) else { continue };
            match path {
                [field] => drop(as_object(&mut part).insert((*field).to_owned(), value.clone())),
                [outer, inner] => drop(object_mut(&mut part, outer).insert((*inner).to_owned(), value.clone())),
                _ => {}
            }
        }
        as_object(&mut new).insert(fields.source.to_owned(), part);
    }
    new
}

/// The names of a behavior's fields: in the object and in the annotation.
const BEHAVIOR_NAMES: [(&str, &str); 9] = [
    ("scaleUp", "ScaleUp"),
    ("scaleDown", "ScaleDown"),
    ("stabilizationWindowSeconds", "StabilizationWindowSeconds"),
    ("selectPolicy", "SelectPolicy"),
    ("policies", "Policies"),
    ("tolerance", "Tolerance"),
    ("type", "Type"),
    ("value", "Value"),
    ("periodSeconds", "PeriodSeconds"),
];

/// Converts a behavior to the form of the annotation: with Go's field names, and with all fields.
fn internal_behavior(behavior: &Value) -> Value {
    let at = |value: &Value, field: &str| value.at(&[field]).cloned().unwrap_or_default();
    let direction = |field: &str| match behavior.at(&[field]) {
        None => Value::Null,
        Some(rules) => {
            let policies = rules.at(&["policies"]).and_then(Value::as_array).map(|policies| -> Value {
                let policy = |policy: &Value| {
                    json!({
                        "Type": at(policy, "type"),
                        "Value": at(policy, "value"),
                        "PeriodSeconds": at(policy, "periodSeconds"),
                    })
                };
                policies.iter().map(policy).collect()
            });
            json!({
                "StabilizationWindowSeconds": at(rules, "stabilizationWindowSeconds"),
                "SelectPolicy": at(rules, "selectPolicy"),
                "Policies": policies,
                "Tolerance": at(rules, "tolerance"),
            })
        }
    };
    json!({"ScaleUp": direction("scaleUp"), "ScaleDown": direction("scaleDown")})
}

/// Parses a behavior from the annotation. Field names are not case-sensitive.
fn external_behavior(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(external_behavior).collect(),
        Value::Object(map) => {
            let mut renamed = Map::new();
            for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                let known = BEHAVIOR_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
                if let Some((name, _)) = known {
                    renamed.insert((*name).to_owned(), external_behavior(value));
                }
            }
            renamed.into()
        }
        other => other.clone(),
    }
}
