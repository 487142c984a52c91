//! The fields of an object, with the changes that its schema permits.

use serde_json::{Map, Value};

use super::values;
use crate::plan::Edit;

/// The maximum number of nested new objects: inside of the first levels of an object, and below.
const NEW: usize = 2;
const LEVELS: usize = 3;
/// The maximum number of changed entries of a map. They have the same schema.
const ENTRIES: usize = 2;
/// The fields of an object that are not changed.
const FIXED: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// A change of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) path: Vec<String>,
    pub(super) edit: Edit,
    /// The field by which changes are ordered: the path, or that of a field within a new object.
    pub(super) field: Vec<String>,
    /// `true` if the manifest does not have the field.
    pub(super) is_absent: bool,
}

/// The possible changes of an object.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) changes: Vec<Change>,
    /// The number of fields that have another value than in the manifest.
    pub(super) changed: usize,
}

/// Returns the changes of an object. `manifest` is the object as the steps have declared it, and `live` as it is at the end
/// of a run.
pub(super) fn walk(schema: &Value, manifest: &Value, live: &Value) -> Walk {
    let mut walk = Walk::default();
    let live = if live["apiVersion"] == manifest["apiVersion"] { live } else { manifest };
    walk.fields(schema, manifest, live, &[]);
    walk
}

/// Returns a path with one more name.
fn join(path: &[String], name: &str) -> Vec<String> {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

impl Walk {
    fn add(&mut self, path: &[String], edit: Edit) {
        self.changes.push(Change { path: path.to_vec(), edit, field: path.to_vec(), is_absent: false });
    }

    fn set(&mut self, path: &[String], value: &Value) {
        self.add(path, Edit::Set(value.into()));
    }

    /// Adds the changes of the fields of an object.
    fn fields(&mut self, schema: &Value, manifest: &Value, live: &Value, path: &[String]) {
        let is_object = path.is_empty() || schema["x-kubernetes-embedded-resource"] == true;
        let required: Vec<_> = schema["required"].as_array().into_iter().flatten().collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if is_object && FIXED.contains(&name.as_str()) {
                continue;
            }
            let is_required = required.iter().any(|required| *required == name);
            let path = join(path, name);
            match (manifest.get(name), live.get(name)) {
                (Some(value), Some(live)) => self.present(property, value, live, is_required, &path),
                (None, Some(value)) if value == &property["default"] => {
                    for value in &values::others(property, value) {
                        self.set(&path, value);
                    }
                }
                // A default with defaults inside.
                (None, Some(_)) if property["default"].is_object() => {}
                // The program has removed or added it.
                (Some(_), None) | (None, Some(_)) => self.changed += 1,
                (None, None) => self.absent(property, &path),
            }
        }
    }

    /// Adds the changes of a field that the manifest has.
    fn present(&mut self, schema: &Value, value: &Value, live: &Value, is_required: bool, path: &[String]) {
        match (value, live) {
            (Value::Object(entries), Value::Object(_)) => {
                self.fields(schema, value, live, path);
                self.entries(schema, entries, live, path);
            }
            (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
                self.items(schema, items, others, path);
            }
            (value, live) if value == live => {
                for value in &values::others(schema, value) {
                    self.set(path, value);
                }
            }
            _ => {
                self.changed += 1;
                return;
            }
        }
        if !is_required {
            self.add(path, Edit::Remove);
        }
    }

    /// Adds the changes of the entries of a map, and of fields without a schema.
    fn entries(&mut self, schema: &Value, entries: &Map<String, Value>, live: &Value, path: &[String]) {
        let additional = &schema["additionalProperties"];
        let is_free = schema["x-kubernetes-preserve-unknown-fields"] == true;
        if !additional.is_object() && !is_free {
            return;
        }
        let has_schema = |name: &String| schema["properties"].get(name).is_some();
        for (name, value) in entries.iter().filter(|(name, _)| !has_schema(name)).take(ENTRIES) {
            if let Some(live) = live.get(name) {
                // The type of a value without a schema is that of its current one.
                self.present(additional, value, live, false, &join(path, name));
            }
        }
        if additional.is_object()
            && let Some((key, value)) = values::entry(schema, entries)
        {
            self.set(&join(path, &key), &value);
        }
    }

    /// Adds the changes of the items of a list. They have the same schema, so only the first one is changed.
    fn items(&mut self, schema: &Value, items: &[Value], live: &[Value], path: &[String]) {
        if let (Some(first), Some(live)) = (items.first(), live.first()) {
            // Another order is no change of the item.
            self.present(&schema["items"], first, live, true, &join(path, "0"));
        }
        let number = items.len() as u64;
        if let Some(item) = values::item(schema, items)
            && schema["maxItems"].as_u64().is_none_or(|most| number < most)
        {
            self.add(path, Edit::Append((&item).into()));
        }
        if number > schema["minItems"].as_u64().unwrap_or_default() {
            self.add(&join(path, &(items.len() - 1).to_string()), Edit::Remove);
        }
        if items.iter().ne(items.iter().rev()) {
            self.add(path, Edit::Reverse);
        }
    }

    /// Adds new values of a field that the object does not have.
    fn absent(&mut self, schema: &Value, path: &[String]) {
        let depth = if path.len() <= LEVELS { NEW } else { NEW - 1 };
        for (value, field) in new(schema, path, depth) {
            let (path, edit) = (path.to_vec(), Edit::Set((&value).into()));
            self.changes.push(Change { path, edit, field, is_absent: true });
        }
    }
}

/// Returns new values of a field: minimal ones, and objects with one optional field more. Each has the path of the field
/// that it adds.
fn new(schema: &Value, path: &[String], depth: usize) -> Vec<(Value, Vec<String>)> {
    let mut found: Vec<_> = values::new(schema).into_iter().map(|value| (value, path.to_vec())).collect();
    let [(Value::Object(object), _)] = &found[..] else { return found };
    let object = object.clone();
    if depth > 1 {
        let excluded = values::excluded(schema);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if object.contains_key(name) || excluded.contains(name) {
                continue;
            }
            for (value, field) in new(property, &join(path, name), depth - 1) {
                let mut object = object.clone();
                object.insert(name.clone(), value);
                found.push((Value::Object(object), field));
            }
        }
    }
    if let Some((key, value)) = values::entry(schema, &object) {
        let mut object = object;
        object.insert(key, value);
        found.push((Value::Object(object), path.to_vec()));
    }
    found
}
