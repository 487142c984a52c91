//! The cells of autoscalers. Objects of `autoscaling/v1` are printed like those of the stored version.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{age, int, items, name, text};

/// The maximum number of metrics in a cell.
const SHOWN: usize = 2;

pub(super) fn autoscaler(autoscaler: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&autoscaler["spec"], &autoscaler["status"]);
    let target = &spec["scaleTargetRef"];
    let min = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |min| min.to_string());
    vec![
        name(autoscaler),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        metrics(items(&spec["metrics"]), items(&status["currentMetrics"])).into(),
        min.into(),
        int(&spec["maxReplicas"]),
        int(&status["currentReplicas"]),
        age(autoscaler, now),
    ]
}

fn metrics(specs: &[Value], statuses: &[Value]) -> String {
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let mut all: Vec<String> = specs
        .iter()
        .enumerate()
        .map(|(index, spec)| metric(spec, statuses.get(index).unwrap_or(&Value::Null)))
        .collect();
    if all.len() <= SHOWN {
        return all.join(", ");
    }
    let more = all.len() - SHOWN;
    all.truncate(SHOWN);
    format!("{} + {more} more...", all.join(", "))
}

/// Formats the current value and the target of a metric.
fn metric(spec: &Value, status: &Value) -> String {
    let field = match text(&spec["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (source, target, current) = (&spec[field], &spec[field]["target"], &status[field]["current"]);
    let known = |value: &Value| value.as_str().unwrap_or("<unknown>").to_owned();
    let percent = |value: &Value, unknown: &str| {
        value.as_i64().map_or_else(|| unknown.to_owned(), |percent| format!("{percent}%"))
    };
    let average = target["averageValue"].as_str();
    let resource = text(&source["name"]);
    match (field, average) {
        ("resource" | "containerResource", Some(average)) => {
            format!("{resource}: {}/{average}", known(&current["averageValue"]))
        }
        ("resource" | "containerResource", None) => {
            let target = percent(&target["averageUtilization"], "<auto>");
            format!("{resource}: {}/{target}", percent(&current["averageUtilization"], "<unknown>"))
        }
        ("pods", _) => format!("{}/{}", known(&current["averageValue"]), average.unwrap_or("0")),
        (_, Some(average)) => format!("{}/{average} (avg)", known(&current["averageValue"])),
        (_, None) => format!("{}/{}", known(&current["value"]), target["value"].as_str().unwrap_or("0")),
    }
}
