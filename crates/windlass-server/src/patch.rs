//! Patches: JSON patch, merge patch, and strategic merge patch.
//!
//! A patch is applied to the tree of the current object. The result is not yet an object of its kind. For built-in
//! kinds, [`patch_object`] decodes it with the kind's plan and returns the real server's errors. For custom resources,
//! the caller passes the tree from [`apply_patch`] through the schema. The caller checks names, namespaces and resource
//! versions. Server-side apply is in the field manager, because it merges by schema and owners.

mod json;
mod merge;
mod strategic;

#[cfg(test)]
mod tests;

use serde_json::Value;
use windlass_api::{Cause, FieldValidation, GroupKind, Status, StatusDetails};

use crate::codec::{self, Decoded, Plan};

pub(crate) use self::json::{OperationError, apply_operations};

/// The patch types of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
}

/// Applies a patch. The returned tree is not normalized. The warnings are about the patch itself: duplicate keys, and
/// unknown fields in a JSON patch. With `Strict`, the caller must combine them with its own errors and reject the
/// patch.
///
/// A strategic merge patch requires the plan of the kind; without one it is rejected.
pub(crate) fn apply_patch(
    kind: PatchType,
    body: &[u8],
    current: &Value,
    plan: Option<&Plan>,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    match kind {
        PatchType::Json => json::apply(body, current, validation),
        PatchType::Merge => merge::apply(body, current, validation),
        PatchType::Strategic => {
            let plan = plan.ok_or_else(|| Status::bad_request("strategic merge patch format is not supported"))?;
            let patch = strategic::read(body, validation)?;
            let value = strategic::apply(current, &patch.value, plan.shape()).map_err(strategic::Error::into_status)?;
            Ok(Decoded { value, warnings: patch.warnings })
        }
    }
}

/// Patches an object of a built-in kind and decodes the result as that kind.
pub(crate) fn patch_object(
    kind: PatchType,
    body: &[u8],
    current: &Value,
    plan: &Plan,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let mut patched = apply_patch(kind, body, current, Some(plan), validation)?;
    if kind == PatchType::Strategic {
        // Go encodes untyped objects as maps, with sorted keys.
        codec::sort_keys(&mut patched.value);
    }
    // The value in the error message: the result of the patch, or for a strategic merge patch the patch itself.
    let shown = || match kind {
        PatchType::Json | PatchType::Merge => codec::go_json(&patched.value),
        PatchType::Strategic => codec::decode_untyped(body, FieldValidation::Ignore)
            .map(|mut patch| {
                codec::go_numbers(&mut patch.value);
                go_format(&patch.value)
            })
            .unwrap_or_default(),
    };
    // Strict errors are collected and reported as one error.
    let lenient = if validation == FieldValidation::Strict { FieldValidation::Warn } else { validation };
    let decoded = match kind {
        PatchType::Json | PatchType::Merge => plan.decode_patched(&patched.value, lenient),
        PatchType::Strategic => plan.convert(&patched.value, lenient),
    };
    let mut decoded = decoded.map_err(|error| invalid(&shown(), &error))?;
    if validation == FieldValidation::Ignore {
        return Ok(decoded);
    }
    let mut warnings = patched.warnings.clone();
    warnings.append(&mut decoded.warnings);
    if validation == FieldValidation::Strict && !warnings.is_empty() {
        return Err(invalid(&shown(), &format!("strict decoding error: {}", warnings.join(", "))));
    }
    decoded.warnings = warnings;
    Ok(decoded)
}

/// Returns the error for a patch result that is not a valid object of its kind. Like in the real server, it is a 422
/// without the object's name.
pub(crate) fn invalid(shown: &str, error: &str) -> Status {
    let cause = Cause {
        reason: "FieldValueInvalid".into(),
        message: format!("Invalid value: {}: {error}", codec::go_quote(shown)),
        field: "patch".into(),
    };
    Status::invalid(&GroupKind::default(), "", vec![cause])
}

/// Returns the real server's generic message for a 422.
fn unprocessable() -> Status {
    Status::failure(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details(StatusDetails::default())
}

/// Returns Go's `%T` of a value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if !number.is_i64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a tree like Go's `%v`: `map[a:1 b:[x y]]`.
pub(crate) fn go_format(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) if !number.is_i64() => go_float(number.as_f64().unwrap_or_default()),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_format).collect::<Vec<_>>().join(" ")),
        Value::Object(entries) => {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| key.as_str());
            let entries: Vec<String> =
                sorted.into_iter().map(|(key, value)| format!("{key}:{}", go_format(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// Formats a float like Go's `%v`: large and small numbers have an exponent of at least two digits.
fn go_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let parts = scientific.split_once('e').and_then(|(digits, power)| Some((digits, power.parse::<i32>().ok()?)));
    match parts {
        Some((digits, power)) if !(-4..6).contains(&power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.abs())
        }
        _ => float.to_string(),
    }
}
