//! `metadata.managedFields` for clients: extraction of applied fields, and migration from updates to server-side apply.
//!
//! Field sets have the API's format (`fieldsV1`). `f:name` is a field, `k:{…}` an item of a list with keys, `v:…` an
//! item of a set, and `i:3` an item by index. `.` is the item or object itself.

use std::ops::Range;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json, value::RawValue};

use crate::{DynamicObject, Object, ObjectExt as _, Patch};

/// The treatment of `metadata.managedFields`, which are about half of a typical object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagedFieldsMode {
    /// Removed without decoding.
    #[default]
    Drop,
    /// Retained.
    Keep,
}

/// Identifies entries of `managedFields`: those of a manager, for an object or one of its subresources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it names a manager, and does nothing by itself"]
pub struct Manager<'n> {
    name: &'n str,
    subresource: Option<&'n str>,
}

impl<'n> Manager<'n> {
    /// Creates the identity of a manager's entries for the object itself.
    pub const fn new(name: &'n str) -> Self {
        Self { name, subresource: None }
    }

    /// Returns this identity for a subresource, such as `status`.
    pub const fn subresource(self, subresource: &'n str) -> Self {
        Self { subresource: Some(subresource), ..self }
    }

    /// Returns the fields that the manager has applied to an object, as a partial object that can be changed and
    /// applied again. Returns `None` if the manager has applied nothing.
    ///
    /// List items contain their keys. The object contains its kind, name and namespace. To extract the fields as another
    /// type, use [`ApplyConfiguration::extract`](crate::ApplyConfiguration::extract).
    ///
    /// ```
    /// use windlass_api::{DynamicObject, managed_fields::Manager};
    ///
    /// let deployment: DynamicObject = serde_json::from_str(
    ///     r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "managedFields": [
    ///         {"manager": "me", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]},
    ///         "spec": {"replicas": 3, "paused": true}}"#)?;
    /// let mine = Manager::new("me").extract(&deployment)?.unwrap();
    /// assert_eq!(serde_json::to_string(&mine.data)?, r#"{"spec":{"replicas":3}}"#);
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    pub fn extract<K: Object>(self, object: &K) -> serde_json::Result<Option<DynamicObject>> {
        self.extract_value(object)?.map(serde_json::from_value).transpose()
    }

    /// Returns the same as [`Self::extract`], as JSON.
    pub(crate) fn extract_value<K: Object>(self, object: &K) -> serde_json::Result<Option<Value>> {
        let entries = object.metadata().managed_fields.as_deref().unwrap_or_default();
        let Some(entry) = entries.iter().find(|entry| self.is(entry, "Apply")) else { return Ok(None) };
        let whole = serde_json::to_value(object)?;
        let fields = entry.fields_v1.as_ref().map_or(&Value::Null, |fields| &fields.0);
        let mut part = extracted(&whole, fields).unwrap_or_else(|| json!({}));
        for field in ["apiVersion", "kind"] {
            if let Some(value) = whole.get(field) {
                part[field] = value.clone();
            }
        }
        for field in ["name", "namespace"] {
            if let Some(value) = whole["metadata"].get(field) {
                part["metadata"][field] = value.clone();
            }
        }
        Ok(Some(part))
    }

    /// Returns the entries of `managedFields` after this manager's apply has taken over the fields that `updaters` own
    /// by updates.
    ///
    /// Use it to migrate a program from updates to server-side apply. Otherwise, fields that the program no longer
    /// applies remain, owned by its former updates.
    #[must_use]
    pub fn take_over(self, updaters: &[&str], entries: &[ManagedFieldsEntry]) -> Vec<ManagedFieldsEntry> {
        let mut entries = entries.to_vec();
        for updater in updaters {
            let updater = Manager { name: updater, ..self };
            let is_update = |entry: &ManagedFieldsEntry| updater.is(entry, "Update");
            let applied = entries.iter().position(|entry| self.is(entry, "Apply"));
            // The most recent entries come first.
            let Some(target) = applied.or_else(|| entries.iter().position(is_update)) else { continue };
            let version = entries[target].api_version.clone();
            let same_version = |entry: &&ManagedFieldsEntry| is_update(entry) && entry.api_version == version;
            let theirs = entries.iter().find(same_version).and_then(|entry| entry.fields_v1.clone());
            let entry = &mut entries[target];
            entry.operation = Some("Apply".to_owned());
            entry.manager = Some(self.name.to_owned());
            if let Some(FieldsV1(theirs)) = theirs {
                let ours = entry.fields_v1.get_or_insert_with(|| FieldsV1(json!({})));
                unite(&mut ours.0, theirs);
            }
            entries.retain(|entry| !is_update(entry));
        }
        entries
    }

    /// Returns a patch that does [`Self::take_over`] on a stored object; `None` if no change is needed. The server
    /// answers with a conflict if the object's resource version has changed.
    #[must_use]
    pub fn take_over_patch<K: Object>(self, updaters: &[&str], object: &K) -> Option<Patch> {
        let before = object.metadata().managed_fields.as_deref()?;
        let after = self.take_over(updaters, before);
        (after != before).then(|| {
            let version = object.resource_version().unwrap_or_default();
            Patch::Json(json!([
                { "op": "replace", "path": "/metadata/managedFields", "value": after },
                { "op": "replace", "path": "/metadata/resourceVersion", "value": version },
            ]))
        })
    }

    fn is(self, entry: &ManagedFieldsEntry, operation: &str) -> bool {
        entry.manager.as_deref() == Some(self.name)
            && entry.operation.as_deref() == Some(operation)
            && entry.subresource.as_deref().unwrap_or_default() == self.subresource.unwrap_or_default()
    }
}

impl ManagedFieldsMode {
    /// Decodes an object from JSON. Removed fields are skipped without decoding.
    pub fn decode<K: DeserializeOwned>(self, object: &[u8]) -> serde_json::Result<K> {
        let cut = if self == Self::Drop { position(object) } else { None };
        match cut {
            Some(at) => serde_json::from_slice(&[&object[..at.start], b"null", &object[at.end..]].concat()),
            None => serde_json::from_slice(object),
        }
    }
}

/// Returns the position of the value. `None` if it is missing, or if only the decoded type determines its meaning.
fn position(object: &[u8]) -> Option<Range<usize>> {
    #[derive(Deserialize)]
    struct Whole<'j> {
        #[serde(borrow)]
        metadata: Option<Metadata<'j>>,
    }
    #[derive(Deserialize)]
    struct Metadata<'j> {
        #[serde(rename = "managedFields", borrow)]
        managed_fields: Option<&'j RawValue>,
    }
    let whole: Whole<'_> = serde_json::from_slice(object).ok()?;
    let value = whole.metadata?.managed_fields?.get();
    let start = value.as_ptr().addr() - object.as_ptr().addr();
    Some(start..start + value.len())
}

/// Adds the fields of one set to another.
fn unite(ours: &mut Value, theirs: Value) {
    let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs) else { return };
    for (element, below) in theirs {
        match ours.get_mut(&element) {
            Some(known) => unite(known, below),
            None => {
                ours.insert(element, below);
            }
        }
    }
}

/// Returns the part of a value that a set contains.
fn extracted(value: &Value, fields: &Value) -> Option<Value> {
    let elements = fields.as_object()?;
    // A set without children contains the whole value. A set with only a dot contains the empty object.
    if elements.is_empty() {
        return Some(value.clone());
    }
    match value {
        Value::Object(object) => {
            let mut part = Map::new();
            for (name, below) in elements {
                if let Some(name) = name.strip_prefix("f:")
                    && let Some(inner) = object.get(name).and_then(|inner| extracted(inner, below))
                {
                    part.insert(name.to_owned(), inner);
                }
            }
            Some(Value::Object(part))
        }
        Value::Array(items) => {
            let named = |(index, item): (usize, &Value)| {
                let (element, below) = elements.iter().find(|(element, _)| names_item(element, index, item))?;
                let mut part = extracted(item, below)?;
                for (key, value) in keys_of(element).into_iter().flatten() {
                    part[key] = value;
                }
                Some(part)
            };
            Some(Value::Array(items.iter().enumerate().filter_map(named).collect()))
        }
        _ => None,
    }
}

/// Reports whether an element of a set identifies an item of a list.
fn names_item(element: &str, index: usize, item: &Value) -> bool {
    match element.split_once(':') {
        Some(("k", _)) => keys_of(element)
            .is_some_and(|keys| keys.iter().all(|(key, value)| item.get(key).unwrap_or(&Value::Null) == value)),
        Some(("v", value)) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item),
        Some(("i", place)) => place.parse() == Ok(index),
        _ => false,
    }
}

/// Parses the keys in `k:{"name":"a"}`.
fn keys_of(element: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(element.strip_prefix("k:")?).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            api_version: Some("v1".to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    #[test]
    fn managed_fields_are_dropped_and_all_else_decoded() {
        let object = r#"{"metadata": {"annotations": {"a": "{\"managedFields\":[7]}"}, "managedFields": [{"manager": "m"}],
            "name": "p"}, "spec": {"containers": [{"name": "c", "env": [{"name": "managedFields", "value": "metadata"}]}]}}"#;
        let kept: Pod = ManagedFieldsMode::Keep.decode(object.as_bytes()).unwrap();
        let dropped: Pod = ManagedFieldsMode::Drop.decode(object.as_bytes()).unwrap();
        assert_eq!(kept.metadata.managed_fields.as_ref().map(Vec::len), Some(1));
        let without = ObjectMeta { managed_fields: None, ..kept.metadata.clone() };
        assert_eq!(dropped, Pod { metadata: without, ..kept });
        // Only an object's own `managedFields` are removed; those of embedded objects are data.
        let embedded = r#"{"metadata": {"name": "x"}, "spec": {"metadata": {"managedFields": [1]}}}"#;
        let decoded: DynamicObject = ManagedFieldsMode::Drop.decode(embedded.as_bytes()).unwrap();
        assert_eq!(decoded.data["spec"], json!({"metadata": {"managedFields": [1]}}));
    }

    #[test]
    fn objects_that_cannot_be_cut_are_fully_decoded() {
        for object in [
            r#"{"metadata": {"name": "p"}}"#,
            r#"{"metadata": {"name": "p", "managedFields": null}}"#,
            r#"{"metadata": {"name": "p", "managed\u0046ields": []}}"#,
        ] {
            let pod: Pod = ManagedFieldsMode::Drop.decode(object.as_bytes()).unwrap();
            assert_eq!(pod.metadata.name.as_deref(), Some("p"), "{object}");
        }
        for damaged in
            ["", "{", r#"{"metadata": {"managedFields": [}}"#, r#"{"metadata": {"managedFields": []}, "spec": 7}"#]
        {
            assert!(ManagedFieldsMode::Drop.decode::<Pod>(damaged.as_bytes()).is_err(), "{damaged}");
        }
    }

    #[test]
    fn extract_returns_the_applied_fields() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"mine": "1", "theirs": "1"}, "finalizers": ["a", "b"],
                "managedFields": [
                    {"manager": "me", "operation": "Update", "fieldsV1": {"f:spec": {}}},
                    {"manager": "me", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {"f:phase": {}}}},
                    {"manager": "me", "operation": "Apply", "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:mine": {}}, "f:finalizers": {"v:\"b\"": {}}},
                        "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:none": {}}},
                            "f:nodeSelector": {}}}}]},
            "spec": {"containers": [{"name": "b", "image": "1"}, {"name": "a", "image": "2", "tty": true}],
                "nodeSelector": {"zone": "a"}},
            "status": {"phase": "Running"},
        }))
        .unwrap();
        let mine = Manager::new("me").extract(&pod).unwrap().unwrap();
        assert_eq!(
            serde_json::to_value(&mine).unwrap(),
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"finalizers": ["b"], "labels": {"mine": "1"}, "name": "p", "namespace": "n"},
                "spec": {"containers": [{"image": "2", "name": "a"}], "nodeSelector": {"zone": "a"}}})
        );
        let status = Manager::new("me").subresource("status").extract(&pod).unwrap().unwrap();
        assert_eq!(Value::Object(status.data), json!({"status": {"phase": "Running"}}));
        assert_eq!(Manager::new("nobody").extract(&pod).unwrap(), None);
    }

    #[test]
    fn updates_become_applies_of_the_same_fields() {
        let entries = [
            entry("old", "Update", json!({"f:spec": {"f:a": {}}})),
            entry("me", "Apply", json!({"f:spec": {"f:b": {}}})),
            entry("other", "Update", json!({"f:spec": {"f:c": {}}})),
        ];
        let after = Manager::new("me").take_over(&["old"], &entries);
        assert_eq!(after, [entry("me", "Apply", json!({"f:spec": {"f:b": {}, "f:a": {}}})), entries[2].clone()]);
        let renamed = Manager::new("new").take_over(&["old", "other"], &entries);
        assert_eq!(renamed[0], entry("new", "Apply", json!({"f:spec": {"f:a": {}, "f:c": {}}})));
        assert_eq!(renamed.len(), 2);
    }

    #[test]
    fn fields_of_another_version_are_not_mixed_in() {
        let mut old = entry("old", "Update", json!({"f:spec": {"f:a": {}}}));
        old.api_version = Some("v1beta1".to_owned());
        let applied = entry("me", "Apply", json!({"f:spec": {"f:b": {}}}));
        assert_eq!(Manager::new("me").take_over(&["old"], &[old, applied.clone()]), [applied]);
    }

    #[test]
    fn the_patch_is_bound_to_the_version_that_was_read() {
        let mut pod = Pod::default();
        pod.metadata.resource_version = Some("7".to_owned());
        pod.metadata.managed_fields = Some(vec![entry("old", "Update", json!({"f:spec": {}}))]);
        let patch = Manager::new("me").take_over_patch(&["old"], &pod).unwrap();
        assert_eq!(patch.body()[1], json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}));
        assert_eq!(patch.body()[0]["value"][0]["operation"], "Apply");
        assert_eq!(Manager::new("me").take_over_patch(&["nobody"], &pod), None);
    }
}
