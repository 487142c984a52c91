//! Writing a document over an existing one while preserving the order of unchanged parts.

use serde_json::{Map, Value};

/// Changes `old` so that its content equals `new`. Existing fields and named entries keep their order, and new ones
/// follow them. Fields with an empty value are not added.
pub(super) fn rewrite(old: &mut Value, new: Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => fields(old, new),
        (Value::Array(old), Value::Array(new)) if new.iter().all(|item| name(item).is_some()) => entries(old, new),
        (old, new) if means_nothing(old) && means_nothing(&new) => {}
        (old, new) => *old = new,
    }
}

fn fields(old: &mut Map<String, Value>, new: Map<String, Value>) {
    old.retain(|field, value| new.contains_key(field) || means_nothing(value));
    for (field, value) in new {
        match old.get_mut(&field) {
            Some(old) => rewrite(old, value),
            None if means_nothing(&value) => {}
            None => {
                old.insert(field, value);
            }
        }
    }
}

fn entries(old: &mut Vec<Value>, mut new: Vec<Value>) {
    old.retain_mut(|old| {
        let Some(index) = new.iter().position(|new| name(new) == name(old)) else { return false };
        rewrite(old, new.remove(index));
        true
    });
    old.append(&mut new);
}

fn name(item: &Value) -> Option<&str> {
    item.get("name")?.as_str()
}

/// Reports whether a value is equivalent to a missing field.
fn means_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unchanged_entries_keep_their_file_and_place() {
        let mut document =
            json!({"users": [{"name": "b", "user": {"z": 1, "a": 2}}, {"name": "a"}], "kind": null, "x": 1});
        let new = json!({
            "clusters": [], "kind": "", "y": 2,
            "users": [{"name": "c"}, {"user": {"a": 3, "z": 1, "m": 4}, "name": "b"}],
        });
        rewrite(&mut document, new);
        let expected = r#"{"users":[{"name":"b","user":{"z":1,"a":3,"m":4}},{"name":"c"}],"kind":null,"y":2}"#;
        assert_eq!(document.to_string(), expected);
    }

    #[test]
    fn lists_without_names_are_replaced() {
        let mut document = json!({"args": ["a", "b"]});
        rewrite(&mut document, json!({"args": ["b"]}));
        assert_eq!(document, json!({"args": ["b"]}));
    }
}
