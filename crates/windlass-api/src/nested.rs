//! Access to fields by path, for objects whose shape is known only at run time.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value};
use thiserror::Error;

#[cfg(feature = "k8s-openapi")]
use crate::DynamicObject;

/// Access to fields by path.
///
/// A missing or null field is `None`. A field of another type than requested is an error with its path and its type.
///
/// ```
/// use windlass_api::Nested;
/// use serde_json::json;
///
/// let mut object = json!({"spec": {"replicas": 3, "image": "nginx"}}).as_object().unwrap().clone();
/// assert_eq!(object.nested_i64(&["spec", "replicas"])?, Some(3));
/// assert_eq!(object.nested_str(&["spec", "none", "deeper"])?, None);
/// object.set_nested(&["spec", "template", "name"], "a")?;
/// let error = object.nested_i64(&["spec", "image"]).unwrap_err();
/// assert_eq!(error.to_string(), "spec.image is a string, expected an integer");
/// # Ok::<_, windlass_api::NestedError>(())
/// ```
pub trait Nested {
    /// Returns the fields of the object.
    fn fields(&self) -> &Map<String, Value>;

    /// Returns the fields of the object, mutably.
    fn fields_mut(&mut self) -> &mut Map<String, Value>;

    /// Returns an error if the fields at this path are not in [`Self::fields`].
    fn refuses(&self, _path: &[&str]) -> Option<NestedError> {
        None
    }

    /// Returns a field of any type.
    fn nested(&self, path: &[&str]) -> Result<Option<&Value>, NestedError> {
        if let Some(error) = self.refuses(path) {
            return Err(error);
        }
        let Some((first, rest)) = path.split_first() else { return Ok(None) };
        let mut current = self.fields().get(*first);
        for (at, field) in rest.iter().enumerate() {
            current = match current {
                None | Some(Value::Null) => return Ok(None),
                Some(Value::Object(fields)) => fields.get(*field),
                Some(other) => return Err(NestedError::mismatch(&path[..=at], other, JsonType::Object)),
            };
        }
        Ok(current.filter(|value| !value.is_null()))
    }

    /// Returns a string field.
    fn nested_str(&self, path: &[&str]) -> Result<Option<&str>, NestedError> {
        expect(path, self.nested(path)?, JsonType::String, Value::as_str)
    }

    /// Returns an integer field.
    fn nested_i64(&self, path: &[&str]) -> Result<Option<i64>, NestedError> {
        expect(path, self.nested(path)?, JsonType::Integer, Value::as_i64)
    }

    /// Returns a number field.
    fn nested_f64(&self, path: &[&str]) -> Result<Option<f64>, NestedError> {
        expect(path, self.nested(path)?, JsonType::Number, Value::as_f64)
    }

    /// Returns a boolean field.
    fn nested_bool(&self, path: &[&str]) -> Result<Option<bool>, NestedError> {
        expect(path, self.nested(path)?, JsonType::Bool, Value::as_bool)
    }

    /// Returns a list field.
    fn nested_slice(&self, path: &[&str]) -> Result<Option<&[Value]>, NestedError> {
        expect(path, self.nested(path)?, JsonType::Array, |value| value.as_array().map(Vec::as_slice))
    }

    /// Returns an object field.
    fn nested_map(&self, path: &[&str]) -> Result<Option<&Map<String, Value>>, NestedError> {
        expect(path, self.nested(path)?, JsonType::Object, Value::as_object)
    }

    /// Returns a field with a list of strings.
    fn nested_str_slice(&self, path: &[&str]) -> Result<Option<Vec<&str>>, NestedError> {
        let Some(items) = self.nested_slice(path)? else { return Ok(None) };
        let text = |item| expect(path, Some(item), JsonType::String, Value::as_str).map(Option::unwrap_or_default);
        items.iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// Returns a field with a map of strings, such as labels.
    fn nested_str_map(&self, path: &[&str]) -> Result<Option<BTreeMap<&str, &str>>, NestedError> {
        let Some(entries) = self.nested_map(path)? else { return Ok(None) };
        let text = |value, key| {
            let path = [path, &[key]].concat();
            expect(&path, Some(value), JsonType::String, Value::as_str).map(Option::unwrap_or_default)
        };
        entries.iter().map(|(key, value)| Ok((key.as_str(), text(value, key)?))).collect::<Result<_, _>>().map(Some)
    }

    /// Sets a field and creates missing objects on its path. Returns an error, and changes nothing, if a value on the
    /// path is not an object.
    fn set_nested(&mut self, path: &[&str], value: impl Into<Value>) -> Result<(), NestedError>
    where
        Self: Sized,
    {
        if let Some(error) = self.refuses(path) {
            return Err(error);
        }
        let Some((last, parents)) = path.split_last() else { return Err(NestedError::Empty) };
        let mut fields = self.fields_mut();
        for (at, parent) in parents.iter().enumerate() {
            let next = fields.entry(*parent).or_insert(Value::Null);
            if next.is_null() {
                *next = Value::Object(Map::new());
            }
            fields = match next {
                Value::Object(fields) => fields,
                other => return Err(NestedError::mismatch(&path[..=at], other, JsonType::Object)),
            };
        }
        fields.insert((*last).to_owned(), value.into());
        Ok(())
    }

    /// Removes a field and returns it. The objects on its path are retained.
    fn remove_nested(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        let mut fields = self.fields_mut();
        for parent in parents {
            fields = fields.get_mut(*parent)?.as_object_mut()?;
        }
        fields.shift_remove(*last)
    }
}

/// The error of an access by path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NestedError {
    /// The field, or a value on its path, has another type.
    #[error("{path} is {}, expected {}", found.with_article(), expected.with_article())]
    Type {
        /// The path, separated by dots.
        path: String,
        /// The type found.
        found: JsonType,
        /// The type expected.
        expected: JsonType,
    },
    /// The field is stored in typed form in a [`DynamicObject`](crate::DynamicObject).
    #[error("{path} is typed: use the field `{field}` of the object")]
    Typed {
        /// The path, separated by dots.
        path: String,
        /// The name of the typed field.
        field: &'static str,
    },
    /// The path is empty.
    #[error("the path of the field is empty")]
    Empty,
}

/// The types of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum JsonType {
    Null,
    Bool,
    Integer,
    /// Any number if expected; a non-integer number if found.
    Number,
    String,
    Array,
    Object,
}

impl NestedError {
    fn mismatch(path: &[&str], found: &Value, expected: JsonType) -> Self {
        Self::Type { path: path.join("."), found: JsonType::of(found), expected }
    }
}

impl JsonType {
    /// Returns the type of a value.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    const fn with_article(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

impl fmt::Display for JsonType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.with_article();
        f.write_str(name.split_once(' ').map_or(name, |(_, name)| name))
    }
}

impl Nested for Map<String, Value> {
    fn fields(&self) -> &Map<String, Value> {
        self
    }

    fn fields_mut(&mut self) -> &mut Map<String, Value> {
        self
    }
}

#[cfg(feature = "k8s-openapi")]
impl Nested for DynamicObject {
    fn fields(&self) -> &Map<String, Value> {
        &self.data
    }

    fn fields_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.data
    }

    fn refuses(&self, path: &[&str]) -> Option<NestedError> {
        let field = match *path.first()? {
            "metadata" => "metadata",
            "apiVersion" | "kind" => "types",
            _ => return None,
        };
        Some(NestedError::Typed { path: path.join("."), field })
    }
}

fn expect<'v, T>(
    path: &[&str],
    value: Option<&'v Value>,
    expected: JsonType,
    read: impl Fn(&'v Value) -> Option<T>,
) -> Result<Option<T>, NestedError> {
    match value {
        None => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(|| NestedError::mismatch(path, value, expected)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Map<String, Value> {
        let pod = json!({"spec": {"n": 3, "f": 1.5, "name": "a", "on": true, "list": ["x", 1], "gone": null, "l": {"a": "b"}}});
        pod.as_object().unwrap().clone()
    }

    #[test]
    fn nested_fields_are_read_with_their_type() {
        let pod = pod();
        assert_eq!(pod.nested_i64(&["spec", "n"]), Ok(Some(3)));
        assert_eq!(pod.nested_f64(&["spec", "f"]), Ok(Some(1.5)));
        assert_eq!(pod.nested_f64(&["spec", "n"]), Ok(Some(3.0)));
        assert_eq!(pod.nested_bool(&["spec", "on"]), Ok(Some(true)));
        assert_eq!(pod.nested_slice(&["spec", "list"]).unwrap().unwrap().len(), 2);
        assert_eq!(pod.nested_str_map(&["spec", "l"]), Ok(Some(BTreeMap::from([("a", "b")]))));
        assert_eq!(pod.nested_str(&["spec", "gone"]), Ok(None));
        assert_eq!(pod.nested(&[]), Ok(None));
    }

    #[test]
    fn wrong_type_error_names_the_path() {
        let pod = pod();
        let message = |error: NestedError| error.to_string();
        assert_eq!(
            message(pod.nested_str(&["spec", "name", "more"]).unwrap_err()),
            "spec.name is a string, expected an object"
        );
        assert_eq!(message(pod.nested_i64(&["spec", "f"]).unwrap_err()), "spec.f is a number, expected an integer");
        assert_eq!(
            message(pod.nested_str_slice(&["spec", "list"]).unwrap_err()),
            "spec.list is an integer, expected a string"
        );
        assert_eq!(
            message(pod.nested_str_map(&["spec"]).unwrap_err()),
            "spec.n is an integer, expected a string",
            "the first that does not fit"
        );
    }

    #[test]
    fn nested_write_creates_intermediate_objects() {
        let mut pod = pod();
        pod.set_nested(&["spec", "gone", "deep"], 1).unwrap();
        assert_eq!(pod.nested_i64(&["spec", "gone", "deep"]), Ok(Some(1)));
        let before = pod.clone();
        assert!(pod.set_nested(&["spec", "name", "x"], 1).is_err());
        assert_eq!(pod, before);
        assert_eq!(pod.remove_nested(&["spec", "gone", "deep"]), Some(json!(1)));
        assert_eq!(pod.remove_nested(&["spec", "none", "deep"]), None);
        assert_eq!(pod.set_nested(&[], 1), Err(NestedError::Empty));
    }

    #[cfg(feature = "k8s-openapi")]
    #[test]
    fn typed_metadata_error_names_its_accessor() {
        let object = DynamicObject::default();
        let error = object.nested_str(&["metadata", "name"]).unwrap_err().to_string();
        assert_eq!(error, "metadata.name is typed: use the field `metadata` of the object");
    }
}
