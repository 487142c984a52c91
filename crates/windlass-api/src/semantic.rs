//! Semantic equality of API objects.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

#[cfg(all(feature = "schema", feature = "k8s-openapi"))]
use crate::Resource;
#[cfg(feature = "schema")]
use crate::schema::Schema;
use crate::{Quantity, parse_time};

/// Compares objects by meaning instead of representation. Absent, null and empty lists are equal, and so are zero
/// values that Go's types do not distinguish from absent ones. Quantities are compared as amounts, and times as
/// instants.
///
/// Go's types are available for the built-in kinds, with the feature `schema`. For other kinds, strings are compared
/// exactly, and only null and empty lists are equal to absent ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Semantic {
    /// `None` if the type is unknown.
    schema: Option<Schema>,
}

/// Without the table of Go's types, all types are unknown.
#[cfg(not(feature = "schema"))]
#[derive(Clone, Copy, Debug)]
enum Schema {}

impl Semantic {
    /// Compares values of unknown types.
    #[must_use]
    pub fn untyped() -> Self {
        Self::default()
    }

    /// Compares objects of a kind.
    #[cfg(all(feature = "schema", feature = "k8s-openapi"))]
    #[must_use]
    pub fn of<K: Resource>() -> Self {
        Self { schema: Schema::of(&K::api_resource().gvk()) }
    }

    /// Reports whether both values have the same meaning.
    pub fn equal<T: Serialize, U: Serialize>(self, a: &T, b: &U) -> serde_json::Result<bool> {
        Ok(self.values_equal(&serde_json::to_value(a)?, &serde_json::to_value(b)?))
    }

    /// Reports whether `whole` contains all values of `part`. It may contain more. Empty values in `part` are not
    /// compared, and lists are compared item by item from the front.
    ///
    /// Corresponds to `DeepDerivative` in Go: it determines whether an object still has its desired fields, ignoring
    /// defaults.
    pub fn derivative<T: Serialize, U: Serialize>(self, part: &T, whole: &U) -> serde_json::Result<bool> {
        Ok(self.is_derivative(&serde_json::to_value(part)?, &serde_json::to_value(whole)?))
    }

    fn values_equal(self, a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Object(ours), Value::Object(theirs)) => {
                let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
                let of = |side: &'_ serde_json::Map<String, Value>, key| side.get(key).cloned().unwrap_or_default();
                keys.into_iter().all(|key| self.child(key).values_equal(&of(ours, key), &of(theirs, key)))
            }
            (Value::Array(ours), Value::Array(theirs)) => {
                let item = self.item();
                ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| item.values_equal(a, b))
            }
            _ => self.is_nothing(a) && self.is_nothing(b) || self.scalars_equal(a, b),
        }
    }

    fn is_derivative(self, part: &Value, whole: &Value) -> bool {
        match (part, whole) {
            _ if is_unset(part) => true,
            (Value::Object(ours), Value::Object(theirs)) => ours
                .iter()
                .all(|(key, value)| self.child(key).is_derivative(value, theirs.get(key).unwrap_or(&Value::Null))),
            (Value::Array(ours), Value::Array(theirs)) => {
                let item = self.item();
                ours.len() <= theirs.len() && ours.iter().zip(theirs).all(|(a, b)| item.is_derivative(a, b))
            }
            _ => self.scalars_equal(part, whole),
        }
    }

    fn scalars_equal(self, a: &Value, b: &Value) -> bool {
        let quantity = |value: &Value| match value {
            Value::String(text) => text.parse::<Quantity>().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        };
        let time = |value: &Value| value.as_str().and_then(|text| parse_time(text).ok());
        let as_meant = match self.schema {
            Some(schema) if schema.is_quantity() => quantity(a).zip(quantity(b)).map(|(a, b)| a == b),
            Some(schema) if schema.is_time() => time(a).zip(time(b)).map(|(a, b)| a == b),
            _ => None,
        };
        as_meant.unwrap_or_else(|| a == b)
    }

    /// Reports whether this value is equivalent to an absent one.
    fn is_nothing(self, value: &Value) -> bool {
        let is_empty = || value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        self.schema.map_or_else(is_empty, |schema| schema.is_zero(value))
    }

    fn child(self, name: &str) -> Self {
        Self { schema: self.schema.and_then(|schema| schema.child(name)) }
    }

    fn item(self) -> Self {
        Self { schema: self.schema.and_then(Schema::element) }
    }
}

#[cfg(not(feature = "schema"))]
impl Schema {
    const fn child(self, _name: &str) -> Option<Self> {
        match self {}
    }

    const fn element(self) -> Option<Self> {
        match self {}
    }

    const fn is_zero(self, _value: &Value) -> bool {
        match self {}
    }

    const fn is_quantity(self) -> bool {
        match self {}
    }

    const fn is_time(self) -> bool {
        match self {}
    }
}

/// Reports whether Go ignores a value in a part: null, and empty strings, lists and maps.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_and_missing_values_are_equal() {
        let equal = |a: Value, b: Value| Semantic::untyped().equal(&a, &b).unwrap();
        assert!(equal(json!({"a": null, "c": [], "d": 1}), json!({"d": 1})));
        assert!(!equal(json!({"emptyDir": {}}), json!({})), "an empty member selects the variant of a union");
        assert!(!equal(json!({"d": 1}), json!({"d": 2})));
        assert!(!equal(json!({"l": [1, 2]}), json!({"l": [2, 1]})));
        assert!(!equal(json!({"a": ""}), json!({"a": "x"})));
    }

    #[test]
    fn subset_is_contained_in_its_set() {
        let within = |part: Value, whole: Value| Semantic::untyped().derivative(&part, &whole).unwrap();
        let whole = json!({"image": "a", "ports": [{"port": 80, "protocol": "TCP"}, {"port": 81}], "n": 3});
        assert!(within(json!({"image": "", "ports": [{"port": 80}]}), whole.clone()));
        assert!(!within(json!({"ports": [{"port": 81}]}), whole.clone()));
        assert!(!within(json!({"none": 1}), whole.clone()));
        assert!(!within(whole.clone(), json!({"image": "a"})));
        assert!(within(json!({}), whole));
    }

    #[cfg(all(feature = "schema", feature = "k8s-openapi"))]
    #[test]
    fn equal_quantities_and_times_compare_equal() {
        use k8s_openapi::api::core::v1::Pod;
        let pod = |cpu: &str, at: &str| {
            json!({"metadata": {"creationTimestamp": at}, "spec": {"containers": [
                {"name": "a", "resources": {"limits": {"cpu": cpu}}, "image": cpu}]}})
        };
        let mut other = pod("1000m", "2026-01-01T01:00:00+01:00");
        other["spec"]["containers"][0]["image"] = json!("1");
        let one = pod("1", "2026-01-01T00:00:00Z");
        assert!(Semantic::of::<Pod>().equal(&one, &other).unwrap());
        assert!(!Semantic::untyped().equal(&one, &other).unwrap());
        assert!(Semantic::of::<Pod>().derivative(&other, &one).unwrap());
        assert!(!Semantic::of::<Pod>().equal(&one, &pod("1", "2026-01-01T00:00:01Z")).unwrap());
    }
}
