//! The content of points: patterns of names, and changed fields.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

/// The fields of metadata that are not part of a point: they change with every write, or never.
const IGNORED: [&str; 5] = ["resourceVersion", "managedFields", "generation", "creationTimestamp", "uid"];

/// The names of objects and their patterns, by UID.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<String, (String, String)>);

impl Names {
    /// Adds the name of an object.
    pub(super) fn add(&mut self, object: &Value) {
        let uid = text(object, "/metadata/uid");
        if !self.0.contains_key(uid) {
            let pattern = self.pattern(object);
            self.0.insert(uid.to_owned(), (text(object, "/metadata/name").to_owned(), pattern));
        }
    }

    /// Returns the name of an object with `*` for its generated parts: the suffix that the server generated, and those
    /// in a prefix that is the name of an owner.
    pub(super) fn pattern(&self, object: &Value) -> String {
        let name = text(object, "/metadata/name");
        let prefix = text(object, "/metadata/generateName");
        let (stem, end) = match name.strip_prefix(prefix) {
            Some(_) if !prefix.is_empty() => (prefix, "*"),
            _ => (name, ""),
        };
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owners = owners.into_iter().flatten().filter_map(|owner| self.0.get(text(owner, "/uid")));
        for (owner, pattern) in owners {
            if let Some(rest) = stem.strip_prefix(owner.as_str()) {
                return format!("{pattern}{rest}{end}");
            }
        }
        format!("{stem}{end}")
    }
}

/// Returns the fields that differ, at most two levels deep, sorted.
pub(crate) fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let (before, after) = (fields(Some(before)), fields(Some(after)));
    let mut changed = BTreeSet::new();
    for key in keys(&before, &after) {
        let (old, new) = (before.get(key), after.get(key));
        if old == new || matches!(key.as_str(), "apiVersion" | "kind") {
            continue;
        }
        let is_map = |value: Option<&Value>| value.is_none_or(Value::is_object);
        if !is_map(old) || !is_map(new) {
            changed.insert(key.clone());
            continue;
        }
        let (old, new) = (fields(old), fields(new));
        for field in keys(&old, &new) {
            if old.get(field) != new.get(field) && !(key == "metadata" && IGNORED.contains(&field.as_str())) {
                changed.insert(format!("{key}.{field}"));
            }
        }
    }
    changed.into_iter().collect()
}

/// Returns the text at a JSON pointer, or an empty text.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn keys<'v>(one: &'v Map<String, Value>, other: &'v Map<String, Value>) -> impl Iterator<Item = &'v String> {
    one.keys().chain(other.keys())
}

fn fields(value: Option<&Value>) -> std::borrow::Cow<'_, Map<String, Value>> {
    match value.and_then(Value::as_object) {
        Some(fields) => std::borrow::Cow::Borrowed(fields),
        None => std::borrow::Cow::Owned(Map::new()),
    }
}
