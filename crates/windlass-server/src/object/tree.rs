//! Access to value trees by path. Readers do not distinguish absent values, `null` and values of the wrong type.

use serde_json::{Map, Value};

/// Read access to a tree.
pub(crate) trait Tree {
    /// Returns the value at a path of object keys; `null` counts as absent.
    fn at(&self, path: &[&str]) -> Option<&Value>;

    /// Returns the text at a path; empty if there is none.
    fn text(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the integer at a path.
    fn int(&self, path: &[&str]) -> Option<i64> {
        self.at(path).and_then(Value::as_i64)
    }

    /// Returns `true` if the value at a path is `true`.
    fn flag(&self, path: &[&str]) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Returns the elements of the array at a path.
    fn items(&self, path: &[&str]) -> &[Value] {
        self.at(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the entries of the object at a path.
    fn entries(&self, path: &[&str]) -> impl Iterator<Item = (&String, &Value)> {
        self.at(path).and_then(Value::as_object).into_iter().flatten()
    }
}

impl Tree for Value {
    fn at(&self, path: &[&str]) -> Option<&Value> {
        let mut value = self;
        for key in path {
            value = value.as_object()?.get(*key)?;
        }
        (!value.is_null()).then_some(value)
    }
}

impl Tree for Map<String, Value> {
    fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        self.get(*first)?.at(rest)
    }
}

/// Returns the object under `key`. A missing value or one of another type is replaced by an empty object.
pub(crate) fn object_mut<'v>(value: &'v mut Value, key: &str) -> &'v mut Map<String, Value> {
    as_object(as_object(value).entry(key).or_insert(Value::Null))
}

/// Returns the value as an object. A value of another type is replaced by an empty object.
pub(crate) fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("any other value was replaced above"),
    }
}

/// Returns the object's metadata. Missing metadata are created.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    object_mut(object, "metadata")
}

/// Returns the elements of the array under a key; empty if there is none.
pub(crate) fn items_mut<'v>(value: &'v mut Value, key: &str) -> &'v mut [Value] {
    value.get_mut(key).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// Returns the object under a key, if present.
pub(crate) fn entry_mut<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    value.get_mut(key).filter(|value| value.is_object())
}

/// Changes each object at a dotted path, in which `*` stands for each element of a list.
pub(crate) fn change_each(value: &mut Value, path: &str, mut change: impl FnMut(&mut Map<String, Value>)) {
    fn visit(value: &mut Value, path: &str, change: &mut dyn FnMut(&mut Map<String, Value>)) {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        match value {
            Value::Object(fields) if path.is_empty() => change(fields),
            Value::Object(fields) => {
                if let Some(field) = fields.get_mut(first) {
                    visit(field, rest, change);
                }
            }
            Value::Array(items) if first == "*" => items.iter_mut().for_each(|item| visit(item, rest, change)),
            _ => {}
        }
    }
    visit(value, path, &mut change);
}

/// Sets a key that is absent; `null`, `""` and 0 count as absent (Go's zero values).
pub(crate) fn default_to(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if is_zero(map.get(key)) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets a key that is absent; explicit zero values stay (Go's pointers).
pub(crate) fn default_pointer(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Copies the value of a key from `from`, or removes the key if `from` does not have it.
pub(crate) fn copy_key(to: &mut Map<String, Value>, from: &Value, key: &str) {
    match from.at(&[key]) {
        Some(value) => drop(to.insert(key.to_owned(), value.clone())),
        None => drop(to.shift_remove(key)),
    }
}

fn is_zero(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(_) => false,
    }
}

/// Reports whether two values are equivalent: empty containers, `null` and absent values are equal.
pub(crate) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    fn content(value: Option<&Value>) -> Option<&Value> {
        value.filter(|value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
            _ => true,
        })
    }
    match (content(a), content(b)) {
        (None, None) => true,
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))).all(|key| same(a.get(key), b.get(key)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn change_each_visits_only_objects_at_the_path() {
        let mut value = json!({"a": [{"b": {}}, {"b": "text"}, "text", {}], "b": {}});
        change_each(&mut value, "a.*.b", |map| default_to(map, "set", 1));
        assert_eq!(value, json!({"a": [{"b": {"set": 1}}, {"b": "text"}, "text", {}], "b": {}}));
        change_each(&mut value, "missing.*.b", |_| panic!("nothing is there"));
    }
}
