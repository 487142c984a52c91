//! Merge patch, RFC 7386. Beyond the RFC, a new list loses the nulls in the objects that it contains.

use serde_json::{Map, Value};
use windlass_api::{FieldValidation, Status};

use crate::codec::{self, Decoded};

pub(super) fn apply(body: &[u8], current: &Value, validation: FieldValidation) -> Result<Decoded, Status> {
    let strict = validation != FieldValidation::Ignore;
    let bad = || Status::bad_request("Invalid JSON Patch");
    let patch = codec::decode_untyped(body, validation)
        .map_err(|error| if strict { Status::bad_request(format!("error decoding patch: {error}")) } else { bad() })?;
    let value = match patch.value {
        Value::Object(patch) => {
            let mut document = current.as_object().cloned().unwrap_or_default();
            merge_entries(&mut document, patch);
            Value::Object(document)
        }
        Value::Null => return Err(bad()),
        other if strict => {
            let word = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            let error = format!("json: cannot unmarshal {word} into Go value of type map[string]interface {{}}");
            return Err(Status::bad_request(format!("error decoding patch: {error}")));
        }
        mut list @ Value::Array(_) => {
            prune(&mut list);
            list
        }
        _ => return Err(bad()),
    };
    Ok(Decoded { value, warnings: patch.warnings })
}

fn merge_entries(document: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, mut value) in patch {
        match document.get_mut(&key) {
            _ if value.is_null() => drop(document.shift_remove(&key)),
            None | Some(Value::Null) => {
                prune(&mut value);
                document.insert(key, value);
            }
            Some(Value::Object(current)) => match value {
                Value::Object(patch) => merge_entries(current, patch),
                other => drop(document.insert(key, other)),
            },
            Some(current) => {
                prune(&mut value);
                *current = value;
            }
        }
    }
    // Go encodes maps with sorted keys.
    document.sort_keys();
}

/// Removes nulls from all objects, including those in lists. Null list items stay.
fn prune(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(prune),
        Value::Object(entries) => {
            entries.retain(|_, value| !value.is_null());
            entries.values_mut().for_each(prune);
            entries.sort_keys();
        }
        _ => {}
    }
}
