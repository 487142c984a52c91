//! Preparation of an object for validation: unknown fields and nulls are removed, and defaults are applied.

use serde_json::{Map, Value};

use super::schema::{Field, Schema};

/// The position of a value: the root object or inside of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Inside,
}

/// Removes the fields that are not in the schema, except for kind, apiVersion and metadata of API objects. Returns the
/// removed paths, sorted.
pub(super) fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruned = Vec::new();
    drop_unknown(object, Some(schema), Place::Root, &mut Vec::new(), &mut pruned);
    pruned.sort();
    pruned
}

/// Reports whether pruning would remove anything from a value that is not a whole object.
pub(super) fn has_unknown_fields(value: &Value, schema: &Schema) -> bool {
    let mut pruned = Vec::new();
    drop_unknown(&mut value.clone(), Some(schema), Place::Inside, &mut Vec::new(), &mut pruned);
    !pruned.is_empty()
}

fn is_type_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Removes unknown fields. `path` contains the segments of the current path, with their dots and brackets.
fn drop_unknown(
    value: &mut Value,
    schema: Option<&Schema>,
    place: Place,
    path: &mut Vec<String>,
    pruned: &mut Vec<String>,
) {
    let preserve = schema.is_some_and(|schema| schema.preserve);
    match value {
        Value::Object(entries) => {
            let is_object = place == Place::Root || schema.is_some_and(|schema| schema.embedded);
            let mut unknown = Vec::new();
            for (name, value) in entries.iter_mut() {
                if is_object && is_type_field(name) {
                    continue;
                }
                let dot = if path.is_empty() { "" } else { "." };
                path.push(format!("{dot}{name}"));
                match schema.map_or(Field::Unknown, |schema| schema.field(name)) {
                    Field::Known(schema) => drop_unknown(value, Some(schema), Place::Inside, path, pruned),
                    Field::Any => drop_unknown(value, None, Place::Inside, path, pruned),
                    Field::Unknown if preserve => {}
                    Field::Unknown => {
                        pruned.push(path.concat());
                        unknown.push(name.clone());
                    }
                }
                path.pop();
            }
            for name in unknown {
                entries.shift_remove(&name);
            }
        }
        Value::Array(items) => {
            let items_schema = schema.and_then(|schema| schema.items.as_deref());
            if items_schema.is_none() && preserve {
                return;
            }
            for (index, item) in items.iter_mut().enumerate() {
                path.push(format!("[{index}]"));
                drop_unknown(item, items_schema, Place::Inside, path, pruned);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Removes nulls of fields that are not nullable and have no default.
pub(super) fn drop_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(entries) => {
            entries.retain(|name, value| match schema.field(name) {
                Field::Known(schema) if value.is_null() => !schema.refuses_null() || schema.default.is_some(),
                _ => true,
            });
            for (name, value) in entries {
                if let Field::Known(schema) = schema.field(name) {
                    drop_nulls(value, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for item in items {
                    drop_nulls(item, schema);
                }
            }
        }
        _ => {}
    }
}

/// Applies defaults, including those inside of applied defaults.
pub(super) fn default(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(entries) => {
            for (name, schema) in &schema.properties {
                if let Some(default) = &schema.default
                    && entries.get(name).is_none_or(|value| value.is_null() && schema.refuses_null())
                {
                    insert_sorted(entries, name, default.clone());
                }
            }
            for (name, value) in entries {
                if let Field::Known(schema) = schema.field(name) {
                    default_null(value, schema);
                    default(value, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for item in items {
                    default_null(item, schema);
                    default(item, schema);
                }
            }
        }
        _ => {}
    }
}

fn default_null(value: &mut Value, schema: &Schema) {
    if value.is_null()
        && schema.refuses_null()
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}

/// Inserts an entry and keeps the keys sorted.
fn insert_sorted(entries: &mut Map<String, Value>, name: &str, value: Value) {
    let new = entries.insert(name.to_owned(), value).is_none();
    if new && entries.keys().rev().nth(1).is_some_and(|before| before.as_str() > name) {
        entries.sort_keys();
    }
}
