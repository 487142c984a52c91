//! Patches: JSON patch, merge patch, strategic merge patch.
//!
//! Each is applied to the tree of the current object. What comes out is not yet an object of its kind: [`patch_object`]
//! takes a built-in's through its plan, with the errors of the real server; a custom resource's tree from
//! [`apply_patch`] goes through its schema. Names, namespaces and resource versions are the caller's to check.
//! Server-side apply is not here: it is merged by schema and owners, not by the patch alone.

mod json;
mod merge;
mod strategic;

#[cfg(test)]
mod tests;

use serde_json::Value;
use windlass_api::{Cause, FieldValidation, GroupKind, Status, StatusDetails};

use crate::codec::{self, Decoded, Plan};

/// The patches of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
}

/// Applies a patch. The tree is as the patch left it; the warnings are about the patch itself (duplicate keys and, in a
/// JSON patch, unknown ones), also with `Strict`, where the caller must refuse them together with what it finds.
///
/// A strategic merge patch needs the plan of the kind; without one it is refused.
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

/// Patches an object of a built-in kind and brings the result into the kind's form.
pub(crate) fn patch_object(
    kind: PatchType,
    body: &[u8],
    current: &Value,
    plan: &Plan,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let mut patched = apply_patch(kind, body, current, Some(plan), validation)?;
    if kind == PatchType::Strategic {
        // What has no type is written as a map of Go is.
        codec::sort_keys(&mut patched.value);
    }
    // What the answer shows of a patch that leads nowhere: the result, or for a strategic one the patch.
    let shown = || match kind {
        PatchType::Json | PatchType::Merge => codec::go_json(&patched.value),
        PatchType::Strategic => codec::decode_untyped(body, FieldValidation::Ignore)
            .map(|mut patch| {
                codec::go_numbers(&mut patch.value);
                go_format(&patch.value)
            })
            .unwrap_or_default(),
    };
    // Strict errors become one answer, so they are collected first.
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

/// The result of a patch is no object of its kind: 422 without the object's name, as the real server has it.
pub(crate) fn invalid(shown: &str, error: &str) -> Status {
    let cause = Cause {
        reason: "FieldValueInvalid".into(),
        message: format!("Invalid value: {}: {error}", codec::go_quote(shown)),
        field: "patch".into(),
    };
    Status::invalid(&GroupKind::default(), "", vec![cause])
}

/// 422 with the words that the real server has for every status of that number it cannot explain.
fn unprocessable() -> Status {
    Status::failure(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details(StatusDetails::default())
}

/// Go's `%T` of a value.
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

/// A tree as Go's `%v` prints it: `map[a:1 b:[x y]]`.
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

/// Go's `%v` of a float: large and small ones as powers of ten, with two digits at least.
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
