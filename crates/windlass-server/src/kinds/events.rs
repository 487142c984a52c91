//! Events: one kind in two groups with different field names, stored as events of the core group.

use serde_json::{Map, Value};

use crate::{
    object::{Errors, Path, Tree, qualified_name},
    resource::FieldRule,
};

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

/// The names of a field in the core group and in `events.k8s.io`. Both groups also have a field `source`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts an event of the core group to one of `events.k8s.io`.
pub(super) fn events_event(event: Value) -> Value {
    renamed(event, "events.k8s.io/v1", |name| NAMES.iter().find(|(core, _)| *core == name).map(|(_, events)| *events))
}

/// Converts an event of `events.k8s.io` to one of the core group.
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

/// Returns the value of a selectable field that is not simply the text at a path.
pub(super) fn core_field(event: &Value, label: &str) -> Option<String> {
    (label == "source").then(|| match event.text(&["source", "component"]) {
        "" => event.text(&["reportingComponent"]).to_owned(),
        component => component.to_owned(),
    })
}

/// Validates events of the core group.
pub(super) fn validate_core(event: &Value, errors: &mut Errors) {
    validate(event, "reportingComponent", errors);
}

/// Validates events of `events.k8s.io`, also in the stored form.
pub(super) fn validate_events(event: &Value, errors: &mut Errors) {
    validate(event, "reportingController", errors);
}

/// Validates new events of `events.k8s.io`, in addition to [`validate_events`].
pub(super) fn validate_events_create(event: &Value, errors: &mut Errors) {
    validate_series(event, errors);
    if event.at(&["eventTime"]).is_none() {
        errors.required(&Path::new("eventTime"), "");
    }
    let kind = event.text(&["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&Path::new("type"), "", &format!("has invalid value: {kind}"));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count"] {
        if event.at(&[field]).is_some_and(|value| value != 0) {
            errors.invalid(&Path::new(field), "", "needs to be unset");
        }
    }
    if event.entries(&["source"]).next().is_some() {
        errors.invalid(&Path::new("source"), "", "needs to be unset");
    }
}

/// Validates that an update through `events.k8s.io` changes only the series.
pub(super) fn validate_events_update(new: &Value, old: &Value, errors: &mut Errors) {
    const FIXED: [&str; 14] = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ];
    if new.at(&["series"]) != old.at(&["series"]) {
        validate_series(new, errors);
    }
    for field in FIXED {
        let path = if field == "reportingComponent" { "reportingController" } else { field };
        let (now, before) = (new.at(&[field]), old.at(&[field]));
        match (now, before) {
            // A removed text is shown as empty.
            (None, Some(Value::String(_))) if field != "eventTime" => {
                errors.invalid(&Path::new(path), "", "field is immutable");
            }
            _ => errors.immutable(&Path::new(path), now, before),
        }
    }
}

fn validate_series(event: &Value, errors: &mut Errors) {
    if event.at(&["series"]).is_none() {
        return;
    }
    if event.int(&["series", "count"]).unwrap_or_default() < 2 {
        errors.invalid(&Path::new("series.count"), "", "should be at least 2");
    }
    if event.at(&["series", "lastObservedTime"]).is_none() {
        errors.required(&Path::new("series.lastObservedTime"), "");
    }
}

fn validate(event: &Value, reporter: &str, errors: &mut Errors) {
    let (own, involved) = (event.text(&["metadata", "namespace"]), event.text(&["involvedObject", "namespace"]));
    // Events about cluster-scoped objects are in the default namespace.
    let old_way = event.at(&["eventTime"]).is_none();
    let fits = match (involved.is_empty(), old_way) {
        (true, true) => own == "default",
        (true, false) => matches!(own, "default" | "kube-system"),
        (false, true) => own == involved,
        (false, false) => true,
    };
    if !fits {
        errors.invalid(&Path::new("involvedObject.namespace"), involved, "does not match event.namespace");
    }
    if old_way {
        return;
    }
    // Events with an `eventTime` must name the reporter.
    let component = event.text(&["reportingComponent"]);
    let path = Path::new(reporter);
    if component.is_empty() {
        errors.required(&path, "");
    }
    errors.invalid_each(&path, component, qualified_name(component));
    for (field, required, most) in
        [("reportingInstance", true, 128), ("action", true, 128), ("reason", true, 128), ("message", false, 1024)]
    {
        let path = Path::new(field);
        let text = event.text(&[field]);
        if required && text.is_empty() {
            errors.required(&path, "");
        }
        if text.len() > most {
            errors.invalid(&path, "", &format!("can have at most {most} characters"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::events::*;

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
