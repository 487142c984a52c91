//! Events: one kind in two groups with different names for the same fields, stored as those of the core group.

use serde_json::{Map, Value};

use crate::registry::{Errors, FieldRule, Path, Tree};

pub(super) const CORE_FIELDS: &[FieldRule] = &[
    FieldRule { label: "involvedObject.kind", path: "involvedObject.kind" },
    FieldRule { label: "involvedObject.namespace", path: "involvedObject.namespace" },
    FieldRule { label: "involvedObject.name", path: "involvedObject.name" },
    FieldRule { label: "involvedObject.uid", path: "involvedObject.uid" },
    FieldRule { label: "involvedObject.apiVersion", path: "involvedObject.apiVersion" },
    FieldRule { label: "involvedObject.resourceVersion", path: "involvedObject.resourceVersion" },
    FieldRule { label: "involvedObject.fieldPath", path: "involvedObject.fieldPath" },
    FieldRule { label: "reason", path: "reason" },
    FieldRule { label: "reportingComponent", path: "reportingComponent" },
    FieldRule { label: "source", path: "source.component" },
    FieldRule { label: "type", path: "type" },
];

pub(super) const EVENTS_FIELDS: &[FieldRule] = &[
    FieldRule { label: "regarding.kind", path: "regarding.kind" },
    FieldRule { label: "regarding.namespace", path: "regarding.namespace" },
    FieldRule { label: "regarding.name", path: "regarding.name" },
    FieldRule { label: "regarding.uid", path: "regarding.uid" },
    FieldRule { label: "regarding.apiVersion", path: "regarding.apiVersion" },
    FieldRule { label: "regarding.resourceVersion", path: "regarding.resourceVersion" },
    FieldRule { label: "regarding.fieldPath", path: "regarding.fieldPath" },
    FieldRule { label: "reason", path: "reason" },
    FieldRule { label: "reportingController", path: "reportingController" },
    FieldRule { label: "type", path: "type" },
];

/// The names of a field in the core group and in `events.k8s.io`; `source` is a field of its own in both.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// An event of the core group as one of `events.k8s.io`.
pub(super) fn events_event(event: Value) -> Value {
    renamed(event, "events.k8s.io/v1", |name| NAMES.iter().find(|(core, _)| *core == name).map(|(_, events)| *events))
}

/// An event of `events.k8s.io` as one of the core group.
pub(super) fn core_event(event: Value) -> Value {
    renamed(event, "v1", |name| NAMES.iter().find(|(_, events)| *events == name).map(|(core, _)| *core))
}

fn renamed(event: Value, api_version: &str, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else { return event };
    let mut renamed = Map::with_capacity(fields.len());
    for (key, value) in fields {
        let key = name(&key).map_or(key, str::to_owned);
        renamed.insert(key, value);
    }
    renamed.insert("apiVersion".to_owned(), api_version.into());
    Value::Object(renamed)
}

/// The fields that are more than the text at a path.
pub(super) fn core_field(event: &Value, label: &str) -> Option<String> {
    (label == "source").then(|| match event.text(&["source", "component"]) {
        "" => event.text(&["reportingComponent"]).to_owned(),
        component => component.to_owned(),
    })
}

pub(super) fn events_field(event: &Value, label: &str) -> Option<String> {
    (label == "reportingController").then(|| match event.text(&["reportingController"]) {
        "" => event.text(&["deprecatedSource", "component"]).to_owned(),
        controller => controller.to_owned(),
    })
}

/// The rules for what is stored.
pub(super) fn validate(event: &Value, errors: &mut Errors) {
    let (own, involved) = (event.text(&["metadata", "namespace"]), event.text(&["involvedObject", "namespace"]));
    // Events about objects without a namespace live in the default one, or in kube-system.
    let fits = if involved.is_empty() { matches!(own, "default" | "kube-system") } else { own == involved };
    if !fits {
        errors.invalid(&Path::new("involvedObject.namespace"), involved, "does not match event.namespace");
    }
    let kind = event.text(&["type"]);
    if event.at(&["eventTime"]).is_none() {
        return;
    }
    // Events of the new way say who reports what.
    if event.text(&["reportingComponent"]).is_empty() {
        errors.required(&Path::new("reportingController"), "");
    }
    if event.text(&["reportingInstance"]).is_empty() {
        errors.required(&Path::new("reportingInstance"), "");
    }
    for field in ["action", "reason"] {
        if event.text(&[field]).is_empty() {
            errors.required(&Path::new(field), "");
        }
    }
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&Path::new("type"), kind, "has invalid value: ");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_two_views_are_the_same_event() {
        let core = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"},
            "message": "m", "source": {"component": "c"}, "count": 2, "reportingComponent": "r", "reason": "x"});
        let events = events_event(core.clone());
        assert_eq!(events["note"], "m");
        assert_eq!(events["regarding"]["kind"], "Pod");
        assert_eq!(events["deprecatedSource"]["component"], "c");
        assert_eq!(events["reportingController"], "r");
        assert_eq!(core_event(events), core);
    }
}
