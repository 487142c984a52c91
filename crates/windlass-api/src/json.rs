//! Decoding of JSON from API servers.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The times that are required in types of k8s-openapi.
const REQUIRED_TIMES: [&str; 2] = ["lastObservedTime", "lastTransitionTime"];

/// The zero time of Go.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// Decodes an API object. A `null` that the type does not accept is decoded as the zero value, as in Go.
///
/// API servers send `null` for zero times, for example for the `lastTransitionTime` of a condition, but the types of
/// k8s-openapi require a time. Only objects that fail to decode are decoded a second time.
///
/// # Errors
///
/// Returns the error of the first attempt if the second fails, too.
pub fn from_json<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| {
        let Ok(mut value) = serde_json::from_slice::<Value>(json) else { return Err(error) };
        if !replace_nulls(&mut value) {
            return Err(error);
        }
        // Text again: decoding from a `Value` would compile a second decoder for each type.
        serde_json::to_vec(&value).and_then(|json| serde_json::from_slice(&json)).map_err(|_| error)
    })
}

/// Replaces required times that are `null` with the zero time, and removes other null fields. Reports whether there
/// were any.
fn replace_nulls(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => {
            let mut changed = false;
            fields.retain(|name, field| {
                changed |= field.is_null();
                if field.is_null() && REQUIRED_TIMES.contains(&name.as_str()) {
                    *field = ZERO_TIME.into();
                }
                !field.is_null()
            });
            fields.values_mut().fold(changed, |changed, field| replace_nulls(field) | changed)
        }
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| replace_nulls(item) | changed),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::Condition};

    use super::*;

    #[test]
    fn null_is_the_zero_time_where_a_time_is_required() {
        let json = br#"{"status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "a", "message": "b", "lastTransitionTime": null}
        ]}}"#;
        assert!(serde_json::from_slice::<Service>(json).is_err());
        let service: Service = from_json(json).unwrap();
        let conditions = service.status.unwrap().conditions.unwrap();
        assert_eq!(conditions[0].type_, "Ready");
        assert_eq!(conditions[0].last_transition_time.0.to_string(), ZERO_TIME);
    }

    #[test]
    fn null_is_an_absent_field_where_the_type_takes_none() {
        let json = br#"{"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80, "nodePort": null}], "type": null}}"#;
        assert_eq!(from_json::<Service>(json).unwrap().metadata.name.as_deref(), Some("a"));
        let strict = from_json::<std::collections::BTreeMap<String, u8>>(br#"{"a": null, "b": 1}"#).unwrap();
        assert_eq!(strict, [("b".to_owned(), 1)].into());
    }

    #[test]
    fn null_is_kept_where_the_type_takes_it() {
        assert_eq!(from_json::<Value>(br#"{"a": null}"#).unwrap(), serde_json::json!({"a": null}));
    }

    #[test]
    fn error_of_the_first_attempt_is_returned() {
        let json = br#"{"lastTransitionTime": null, "status": 7}"#;
        let first = serde_json::from_slice::<Condition>(json).unwrap_err().to_string();
        assert_eq!(from_json::<Condition>(json).unwrap_err().to_string(), first);
        assert!(from_json::<Condition>(b"{\"type\": 7}").is_err());
        assert!(from_json::<Condition>(b"{").is_err());
    }
}
