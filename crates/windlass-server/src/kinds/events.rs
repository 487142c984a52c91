//! Events: one kind in the core group and in `events.k8s.io`, with different field names. They are stored as events of
//! the core group.

use std::{borrow::Cow, time::Duration};

use crate::kinds::{View, prelude::*};

/// An event of the core group.
pub(super) const CORE: Kind = Kind {
    name: "Event",
    rules: Rules {
        metadata: MetadataRule::NONE,
        fields: &[
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
        ],
        ..EVENT
    },
    validate: |event, errors| validate_event(event, "reportingComponent", errors),
    field: |event, label| {
        let has_source = label != "source" || !event.text(&["source", "component"]).is_empty();
        (!has_source).then(|| Cow::Borrowed(event.text(&["reportingComponent"])))
    },
    ..BASE
};

/// An event of `events.k8s.io`. It is validated in its stored form, but most errors name its own fields.
const EVENTS: Kind = Kind {
    name: "Event",
    view: Some(View { stored: ("", "v1"), from_stored: to_event, to_stored: to_core_event }),
    rules: Rules {
        metadata: MetadataRule::CHANGES,
        fields: &[
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
        ],
        ..EVENT
    },
    validate: |event, errors| validate_event(event, "reportingController", errors),
    validate_create,
    validate_update,
    ..BASE
};

pub(super) const KINDS: &[Kind] = &[
    EVENTS,
    // The removed version has the rules of the core group.
    Kind { version: "v1beta1", validate_create: |_, _| {}, validate_update: |_, _, _| {}, ..EVENTS },
];

/// The rules of both kinds.
const EVENT: Rules = Rules {
    create_on_update: true,
    dependents: Dependents::Unsupported,
    cached: false,
    lifetime: Some(LIFETIME),
    ..Rules::COMMON
};

/// The default of kube-apiserver's `--event-ttl`.
const LIFETIME: Duration = Duration::from_hours(1);

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

fn validate_create(event: &Field<'_>, errors: &mut Errors) {
    validate_series(&event.child("series"), errors);
    let (time, kind) = (event.child("eventTime"), event.child("type"));
    time.check_set("", errors);
    if !matches!(kind.text(), "Normal" | "Warning") {
        kind.invalid_as("", &format!("has invalid value: {}", kind.text()), errors);
    }
    for name in ["firstTimestamp", "lastTimestamp", "count"] {
        let field = event.child(name);
        if field.value().is_some_and(|value| *value != 0) {
            field.invalid_as("", "needs to be unset", errors);
        }
    }
    let source = event.child("source");
    if !source.is_empty() {
        source.invalid_as("", "needs to be unset", errors);
    }
}

/// Validates that an update changes only the series.
fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    const IMMUTABLE: [&str; 14] = [
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
    let series = new.child("series");
    if series.value() != old.child("series").value() {
        validate_series(&series, errors);
    }
    for name in IMMUTABLE {
        let path = Path::new(if name == "reportingComponent" { "reportingController" } else { name });
        match (new.child(name).value(), old.child(name).value()) {
            // A removed text is shown as empty.
            (None, Some(Value::String(_))) if name != "eventTime" => {
                errors.invalid(&path, "", "field is immutable");
            }
            (new, old) => errors.immutable(&path, new, old),
        }
    }
}

/// Converts an event of the core group to one of `events.k8s.io`.
fn to_event(event: Value) -> Value {
    rename_fields(event, "events.k8s.io/v1", |name| {
        NAMES.iter().find(|(core, _)| *core == name).map(|(_, events)| *events)
    })
}

/// Converts an event of `events.k8s.io` to one of the core group.
fn to_core_event(event: Value) -> Value {
    rename_fields(event, "v1", |name| NAMES.iter().find(|(_, events)| *events == name).map(|(core, _)| *core))
}

fn rename_fields(event: Value, api_version: &str, new_name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else { return event };
    let rename = |(key, value): (String, Value)| (new_name(&key).map_or(key, str::to_owned), value);
    let mut renamed: Map<String, Value> = fields.into_iter().map(rename).collect();
    renamed.insert("apiVersion".to_owned(), api_version.into());
    Value::Object(renamed)
}

/// Validates events of both groups. `reporter` is the name of the field `reportingComponent` in errors.
fn validate_event(event: &Field<'_>, reporter: &str, errors: &mut Errors) {
    let namespace = event.child("metadata.namespace").text();
    let involved = event.child("involvedObject.namespace");
    // An event without `eventTime` was created by an old client.
    let is_old = !event.child("eventTime").is_set();
    // Events about cluster-scoped objects are in the default namespace.
    let is_valid = match (involved.is_empty(), is_old) {
        (true, true) => namespace == "default",
        (true, false) => matches!(namespace, "default" | "kube-system"),
        (false, true) => namespace == involved.text(),
        (false, false) => true,
    };
    if !is_valid {
        involved.invalid_as(involved.text(), "does not match event.namespace", errors);
    }
    if is_old {
        return;
    }
    let component = Field::new(Path::new(reporter), event.child("reportingComponent").value());
    component.check_not_empty("", errors);
    component.check_text(qualified_name, errors);
    for (name, is_required, max_length) in
        [("reportingInstance", true, 128), ("action", true, 128), ("reason", true, 128), ("message", false, 1024)]
    {
        let field = event.child(name);
        if is_required && field.is_empty() {
            field.required("", errors);
        }
        if field.text().len() > max_length {
            field.invalid_as("", &format!("can have at most {max_length} characters"), errors);
        }
    }
}

fn validate_series(series: &Field<'_>, errors: &mut Errors) {
    if !series.is_set() {
        return;
    }
    let (count, time) = (series.child("count"), series.child("lastObservedTime"));
    if count.int().unwrap_or_default() < 2 {
        count.invalid_as("", "should be at least 2", errors);
    }
    time.check_set("", errors);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_two_views_are_the_same_event() {
        let core = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"},
            "message": "m", "source": {"component": "c"}, "count": 2, "reportingComponent": "r", "reason": "x"});
        let event = to_event(core.clone());
        assert_eq!(event["note"], "m");
        assert_eq!(event["regarding"]["kind"], "Pod");
        assert_eq!(event["deprecatedSource"]["component"], "c");
        assert_eq!(event["reportingController"], "r");
        assert_eq!(to_core_event(event), core);
    }
}
