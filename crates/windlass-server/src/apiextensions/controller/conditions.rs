//! The conditions in the status of a CRD.

use serde_json::{Map, Value, json};

use crate::{
    apiextensions::crd::FINALIZER,
    object::{Tree, as_object, metadata_mut, object_mut},
};

pub(super) fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    object.items(&["status", "conditions"]).iter().find(|condition| condition["type"] == kind)
}

/// Reports whether all requested names of the CRD are accepted.
pub(super) fn accepted(object: &Value) -> bool {
    condition(object, "NamesAccepted").is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition. The last transition time changes only if the status does.
pub(super) fn set_condition(object: &mut Value, kind: &str, holds: bool, why: (&str, &str), now: &str) {
    let status = if holds { "True" } else { "False" };
    let before = condition(object, kind).filter(|condition| condition["status"] == status);
    let since = before.map_or(now, |condition| condition.text(&["lastTransitionTime"])).to_owned();
    let mut new = Map::new();
    for (key, value) in
        [("type", kind), ("status", status), ("lastTransitionTime", &since), ("reason", why.0), ("message", why.1)]
    {
        new.insert(key.to_owned(), value.into());
    }
    let conditions = object_mut(object, "status").entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        // Other fields of the condition, such as observedGeneration, stay.
        Some(condition) => as_object(condition).extend(new),
        None => conditions.push(Value::Object(new)),
    }
}

/// Marks a CRD whose deletion begins: its objects are deleted first.
pub(crate) fn begin_deletion(object: &mut Value, now: &str) {
    let mut finalizers = object.items(&["metadata", "finalizers"]).to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    metadata_mut(object).insert("finalizers".to_owned(), finalizers.into());
    let why = (
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    set_condition(object, "Terminating", true, why, now);
}
