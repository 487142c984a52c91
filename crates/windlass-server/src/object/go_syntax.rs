//! Rewrites the values in error messages from JSON to the syntax of Go, which Kubernetes shows before 1.34.
//!
//! The values in messages are JSON and don't contain Go's types. The type follows from the path of the field, or from
//! the names of the value's fields. Long messages stay as they are.

mod quantity;
mod types;

use serde_json::Value;
use windlass_api::Cause;

use self::types::Type;
use crate::codec::go_quote;

/// The maximum length of a message that is rewritten, in bytes. The syntax of Go can be 25 times as long as JSON.
const MAX_REWRITTEN: usize = 64 << 10;

/// The starts of messages that show a value.
const SHOWING: [&str; 4] = ["Invalid value: ", "Unsupported value: ", "Duplicate value: ", "Not found: "];

/// Maps of resources by name. Go shows the names without quotes.
const RESOURCES: [&str; 9] =
    ["limits", "requests", "hard", "overhead", "min", "max", "default", "defaultRequest", "maxLimitRequestRatio"];

/// The starts of messages about the name of a resource.
const RESOURCE_NAMES: [&str; 2] = ["must be a standard resource", "doesn't follow extended resource name standard"];

/// Parts of messages about a quantity that is shown as a structure instead of a text.
const QUANTITIES: [&str; 5] =
    [" is greater than ", " is less than ", " must equal to defaultRequest ", "must be an integer", "must be positive"];

/// Shows the value in a message about an object of a built-in kind in Go's syntax.
pub(super) fn rewrite(cause: &mut Cause) {
    let field = cause.field.clone();
    replace_value(&mut cause.message, |value, detail| show(&field, value, detail));
}

/// Shows the value in a message about a custom object in Go's syntax.
pub(super) fn rewrite_untyped(cause: &mut Cause) {
    replace_value(&mut cause.message, |value, _| match value {
        Value::Object(_) | Value::Array(_) => Some(Type::Any.show(value)),
        _ => None,
    });
}

/// Returns a value without a type in Go's syntax.
pub(crate) fn show_untyped(value: &Value) -> String {
    Type::Any.show(value)
}

/// Replaces the value in a message. `show` gets the value and the detail that follows it, and returns `None` to keep
/// the JSON.
fn replace_value(message: &mut String, show: impl FnOnce(&Value, &str) -> Option<String>) {
    if message.len() > MAX_REWRITTEN {
        return;
    }
    let mut starts = SHOWING.iter();
    let Some((start, rest)) = starts.find_map(|start| Some((start, message.strip_prefix(start)?))) else { return };
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    // Some values are not JSON, such as the position of a duplicate.
    let Some(Ok(value)) = values.next() else { return };
    let end = &rest[values.byte_offset()..];
    let detail = match end.strip_prefix(": ") {
        Some(detail) => detail,
        None if end.is_empty() => "",
        None => return,
    };
    if let Some(shown) = show(&value, detail) {
        *message = format!("{start}{shown}{end}");
    }
}

/// Returns the form of a value in Go; `None` if it is that of JSON.
fn show(field: &str, value: &Value, detail: &str) -> Option<String> {
    let path = without_positions(field);
    match value {
        // A nil pointer, unless the field is known to be a list or a map.
        Value::Null => {
            Some(types::of_field(&path, value, detail).map_or_else(|| go_quote("null"), |ty| ty.show(value)))
        }
        Value::Bool(_) => None,
        Value::Number(number) if path == "metadata.resourceVersion" => {
            number.as_u64().map(|number| format!("{number:#x}"))
        }
        Value::Number(_) => types::is_int_or_string(&path, detail).then(|| Type::IntOrString.show(value)),
        Value::String(text) => show_text(field, &path, text, detail),
        // Go shows addresses of internal structures.
        Value::Object(_) if detail.contains("dataSourceRef") => None,
        Value::Array(_) | Value::Object(_) => {
            Some(types::of_field(&path, value, detail).unwrap_or(&Type::Any).show(value))
        }
    }
}

fn show_text(field: &str, path: &str, text: &str, detail: &str) -> Option<String> {
    let value = || Value::from(text);
    if types::is_int_or_string(path, detail) {
        return Some(Type::IntOrString.show(&value()));
    }
    if types::is_bytes(path) {
        return Some(types::show_bytes("[]byte", text));
    }
    if path.ends_with("Timestamp") || path.ends_with("Time") {
        return types::show_time(text);
    }
    if RESOURCE_NAMES.iter().any(|start| detail.starts_with(start)) || is_name_of_resource(field, text) {
        return Some(text.to_owned());
    }
    // Later versions show all quantities as texts. Earlier ones do so in the other messages.
    if QUANTITIES.iter().any(|part| detail.contains(part)) {
        // The original notation is unknown. In messages about integers, a decimal fraction is assumed: `1.5`, not
        // `1500m`.
        let is_decimal = detail == "must be an integer";
        return quantity::show(text, is_decimal);
    }
    None
}

/// Reports whether a text is the key of a map of resources.
fn is_name_of_resource(field: &str, text: &str) -> bool {
    let map = field.strip_suffix(']').and_then(|field| field.strip_suffix(text)?.strip_suffix('['));
    map.is_some_and(|map| RESOURCES.contains(&map.rsplit('.').next().unwrap_or_default()))
}

/// Returns a path without the positions and keys in brackets.
fn without_positions(field: &str) -> String {
    let mut depth = 0_usize;
    let mut path = String::with_capacity(field.len());
    for character in field.chars() {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => path.push(character),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests;
