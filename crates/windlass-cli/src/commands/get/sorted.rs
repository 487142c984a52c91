//! The order of `--sort-by`.

use std::{cmp::Ordering, str::FromStr};

use serde_json::Value;
use windlass_api::{JsonPath, JsonType, Quantity};

use super::format;

/// The field to sort by.
#[derive(Clone, Debug)]
pub(super) struct SortBy {
    text: String,
    path: JsonPath,
}

impl FromStr for SortBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = format::relaxed(text);
        let path = JsonPath::parse(&text).map_err(|error| error.to_string())?;
        Ok(Self { text, path })
    }
}

impl SortBy {
    /// Sorts items by a field of their objects. Items without the field come first; items with equal values keep their
    /// order.
    ///
    /// Returns an error if no object has the field, or a value has no order. Strings that are quantities are compared
    /// as quantities.
    pub(super) fn sort<T>(&self, items: Vec<T>, object: impl Fn(&T) -> Value) -> Result<Vec<T>, String> {
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let object = object(&item);
            keyed.push((self.path.find(&object).first().map(|key| Key::of(key)).transpose()?, item));
        }
        if !keyed.is_empty() && keyed.iter().all(|(key, _)| key.is_none()) {
            return Err(format!("couldn't find any field with path {:?} in the list of objects", self.text));
        }
        keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(keyed.into_iter().map(|(_, item)| item).collect())
    }
}

/// A sortable value; numbers come before strings.
#[derive(Debug, PartialEq)]
enum Key {
    Null,
    Number(f64),
    Text(String, Option<Quantity>),
}

impl Key {
    fn of(value: &Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self::Null),
            Value::Number(number) => Ok(Self::Number(number.as_f64().unwrap_or(f64::NAN))),
            Value::String(text) => Ok(Self::Text(text.clone(), text.parse().ok())),
            other => Err(format!("objects cannot be sorted by values of type {}", JsonType::of(other))),
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Number(_) => 1,
            Self::Text(..) => 2,
        }
    }
}

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(_, Some(one)), Self::Text(_, Some(other))) => one.cmp(other),
            // Quantities come before other strings, so that the order is transitive.
            (Self::Text(one, one_is), Self::Text(other, other_is)) => {
                other_is.is_some().cmp(&one_is.is_some()).then_with(|| one.cmp(other))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sorted(path: &str, values: &Value) -> Result<Vec<u64>, String> {
        let items = values.as_array().unwrap().iter().enumerate().collect();
        let sorted = path.parse::<SortBy>()?.sort(items, |(_, value)| (*value).clone())?;
        Ok(sorted.into_iter().map(|(at, _)| at as u64).collect())
    }

    #[test]
    fn numbers_times_and_quantities_have_their_own_order() {
        assert_eq!(sorted(".n", &json!([{"n": 10}, {"n": 9.5}, {}, {"n": null}])), Ok(vec![2, 3, 1, 0]));
        assert_eq!(sorted("m", &json!([{"m": "1Gi"}, {"m": "900Mi"}, {"m": "1G"}])), Ok(vec![1, 2, 0]));
        let times = json!([{"t": "2026-01-02T00:00:00Z"}, {"t": "2025-12-31T00:00:00Z"}]);
        assert_eq!(sorted("{.t}", &times), Ok(vec![1, 0]));
        assert_eq!(sorted(".s", &json!([{"s": "b"}, {"s": "a"}, {"s": "7"}])), Ok(vec![2, 1, 0]));
    }

    #[test]
    fn sorting_by_unordered_values_is_rejected() {
        assert!(sorted(".b", &json!([{"b": true}])).unwrap_err().contains("boolean"));
        let error = sorted(".x", &json!([{}, {"y": 1}])).unwrap_err();
        assert_eq!(error, "couldn't find any field with path \"{.x}\" in the list of objects");
        assert_eq!(sorted(".x", &json!([])), Ok(vec![]));
        assert!(sorted(".x[", &json!([])).is_err());
    }
}
