//! Conversion of a tree into a struct by the rules of Go's unstructured converter, which strategic merge patches use
//! instead of the JSON decoder. Numbers follow other rules, error texts differ, and unknown fields are in alphabetical
//! order.

use std::fmt::Write;

use serde_json::Value;

use super::{
    base64, decode,
    types::{Kind, Special, Struct, Type},
};

/// Checks the tree against the struct and converts its numbers to the types of their fields. Returns the unknown
/// fields; the error is Go's message.
pub(super) fn convert(value: &mut Value, shape: &'static Struct) -> Result<Vec<String>, String> {
    let mut converter = Converter { path: String::new(), unknown: Vec::new() };
    converter.fields(value, shape)?;
    converter.unknown.sort_unstable();
    Ok(converter.unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect())
}

struct Converter {
    path: String,
    unknown: Vec<String>,
}

impl Converter {
    fn fields(&mut self, value: &mut Value, shape: &'static Struct) -> Result<(), String> {
        let Value::Object(entries) = value else {
            return Err(format!("cannot restore struct from: {}", go_kind(value)));
        };
        let length = self.path.len();
        for field in &shape.fields {
            if let Some(value) = entries.get_mut(field.name).filter(|value| !value.is_null()) {
                self.push(field.name);
                self.value(value, &field.ty)?;
                self.path.truncate(length);
            }
        }
        for key in entries.keys().filter(|key| shape.field(key).is_none()) {
            self.push(key);
            self.unknown.push(self.path.clone());
            self.path.truncate(length);
        }
        Ok(())
    }

    fn value(&mut self, value: &mut Value, ty: &Type) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        match &ty.kind {
            Kind::Pointer(inner) => self.value(value, inner),
            Kind::Struct(inner) => self.fields(value, inner.get()),
            // These types decode JSON themselves, and their errors do not contain the path.
            Kind::Special(
                special @ (Special::IntOrString | Special::Time | Special::MicroTime | Special::Duration),
            ) if !value.is_string() => decode::check_special(value.to_string().as_bytes(), *special),
            Kind::Special(_) => Ok(()),
            Kind::Bytes if value.is_string() => base64::normalize(value.as_str().unwrap_or_default())
                .map(drop)
                .map_err(|error| format!("error decoding from json: {error}")),
            Kind::Slice(element) => {
                let Value::Array(items) = value else {
                    return Err(format!("cannot restore slice from {}", go_kind(value)));
                };
                let length = self.path.len();
                for (index, item) in items.iter_mut().enumerate() {
                    _ = write!(self.path, "[{index}]");
                    self.value(item, element)?;
                    self.path.truncate(length);
                }
                Ok(())
            }
            Kind::Bytes => Err(format!("cannot restore slice from {}", go_kind(value))),
            Kind::Map { value: element, .. } => {
                let Value::Object(entries) = value else {
                    return Err(format!("cannot restore map from {}", go_kind(value)));
                };
                entries.values_mut().try_for_each(|entry| self.value(entry, element))
            }
            Kind::String if value.is_string() => Ok(()),
            Kind::Bool if value.is_boolean() => Ok(()),
            Kind::Int32 | Kind::Int64 | Kind::Uint8 | Kind::Float64 if value.is_number() => number(value, ty),
            // Go converts numbers to strings elsewhere, but not here.
            Kind::String if value.is_i64() => Err(format!("cannot convert int64 to {}", ty.go_name())),
            _ => Err(format!("unrecognized type: {}", ty.go_kind())),
        }
    }

    fn push(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }
}

fn number(value: &mut Value, ty: &Type) -> Result<(), String> {
    let Some(number) = value.as_f64() else { return Ok(()) };
    if matches!(ty.kind, Kind::Float64) {
        return Ok(());
    }
    let integer = match value.as_i64() {
        Some(integer) => integer,
        None if number.fract() != 0.0 => return Err(format!("cannot convert float64 to {}", ty.go_name())),
        None => go_integer(number),
    };
    // On overflow Go keeps the low bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let converted = match ty.kind {
        Kind::Int32 => i64::from(integer as i32),
        Kind::Uint8 => i64::from(integer as u8),
        _ => integer,
    };
    *value = Value::from(converted);
    Ok(())
}

/// Converts a whole number to an integer. An overflow gives the smallest integer, as on amd64.
fn go_integer(number: f64) -> i64 {
    #[allow(clippy::cast_precision_loss, reason = "a power of two")]
    let limit = i64::MIN as f64;
    if (limit..-limit).contains(&number) {
        #[allow(clippy::cast_possible_truncation, reason = "it fits")]
        return number as i64;
    }
    i64::MIN
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
