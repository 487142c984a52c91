//! A tree brought into the form that decoding its text would give it, without writing and reading the text.
//!
//! What the server has changed in an object is nearly always well typed. What is not (a number where a text belongs) is left as
//! it is and reported, for the decoder to find the words for.

use std::mem;

use serde_json::{Map, Value};

use super::{
    MAX_ELEMENTS, base64,
    decode::go_float,
    go_numbers,
    json::MAX_DEPTH,
    quantity, shape, sort_keys,
    time::{self, Precision},
    types::{self, Kind, Special, Struct, Type},
};

/// Something in the tree is not of its type: decode its text instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mistyped;

/// Brings a struct's tree into its form. On an error it means what it meant before.
pub(super) fn tidy(value: &mut Value, shape: &'static Struct) -> Result<(), Mistyped> {
    let mut tidier = Tidier { mistyped: false, elements: 0 };
    tidier.fields(value, shape, 0);
    if tidier.mistyped { Err(Mistyped) } else { Ok(()) }
}

struct Tidier {
    mistyped: bool,
    elements: usize,
}

impl Tidier {
    fn fields(&mut self, value: &mut Value, shape: &'static Struct, depth: usize) {
        let Value::Object(entries) = value else { return self.mistyped = true };
        if depth > MAX_DEPTH {
            return self.mistyped = true;
        }
        let mut old = mem::take(entries);
        let mut new = Map::with_capacity(old.len() + 2);
        for field in &shape.fields {
            let (key, mut value) = old.swap_remove_entry(field.name).unwrap_or_else(|| (String::new(), Value::Null));
            self.value(&mut value, &field.ty, depth);
            if let Some(value) = shape::encode(field, Some(value).filter(|value| !value.is_null())) {
                new.insert(if key.is_empty() { field.name.to_owned() } else { key }, value);
            }
        }
        *entries = new;
    }

    /// Null is the zero value, before and after.
    fn value(&mut self, value: &mut Value, ty: &Type, depth: usize) {
        match (&ty.kind, &mut *value) {
            (Kind::Special(special), _) => self.special(value, *special, depth),
            (_, Value::Null) => {}
            (Kind::Pointer(inner), _) => {
                self.value(value, inner, depth);
                if value.is_null() {
                    *value = shape::zero(inner);
                }
            }
            (Kind::String, Value::String(_)) | (Kind::Bool, Value::Bool(_)) => {}
            (Kind::Int32 | Kind::Int64 | Kind::Uint8, Value::Number(number)) => {
                let fits = match ty.kind {
                    Kind::Int32 => number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
                    Kind::Uint8 => number.as_i64().is_some_and(|number| u8::try_from(number).is_ok()),
                    _ => number.is_i64(),
                };
                self.mistyped |= !fits;
            }
            (Kind::Float64, Value::Number(number)) => match number.as_f64().and_then(go_float) {
                Some(written) => *number = written,
                None => self.mistyped = true,
            },
            (Kind::Bytes, Value::String(text)) => match base64::normalise(text) {
                Ok(written) => *text = written,
                Err(_) => self.mistyped = true,
            },
            (Kind::Slice(element), Value::Array(items)) => {
                self.count(items.len());
                for item in items {
                    self.value(item, element, depth + 1);
                    if item.is_null() {
                        *item = shape::zero(element);
                    }
                }
            }
            (Kind::Map { value: element, .. }, Value::Object(entries)) => {
                self.count(entries.len());
                for entry in entries.values_mut() {
                    self.value(entry, element, depth + 1);
                    if entry.is_null() {
                        *entry = shape::zero(element);
                    }
                }
                entries.sort_keys();
            }
            (Kind::Struct(inner), _) => self.fields(value, inner.get(), depth + 1),
            _ => self.mistyped = true,
        }
    }

    fn special(&mut self, value: &mut Value, special: Special, depth: usize) {
        let written = match (special, &mut *value) {
            // The decoder has its own ideas of no duration.
            (Special::Duration | Special::SchemaOrBool, Value::Null) => None,
            (_, Value::Null) => return,
            (Special::Quantity, Value::String(text)) => quantity::canonical(text.trim()).ok().map(Value::String),
            (Special::Quantity, Value::Number(number)) => {
                quantity::canonical(&number.to_string()).ok().map(Value::String)
            }
            (Special::IntOrString, Value::String(_)) | (Special::SchemaOrBool, Value::Bool(_)) => return,
            (Special::IntOrString, Value::Number(number)) => {
                let number = number.as_i64().and_then(|number| i32::try_from(number).ok());
                number.map(Value::from)
            }
            (Special::Time, Value::String(text)) => at(text, Precision::Seconds),
            (Special::MicroTime, Value::String(text)) => at(text, Precision::Micros),
            (Special::Duration, Value::String(text)) => time::normalise_duration(text).ok().map(Value::String),
            (Special::FieldsV1 | Special::RawExtension, _) => {
                self.mistyped |= has_large_numbers(value);
                return;
            }
            (Special::Json, _) => {
                self.mistyped |= has_large_numbers(value);
                go_numbers(value);
                return sort_keys(value);
            }
            (Special::SchemaOrBool | Special::SchemaOrArray | Special::SchemaOrStringArray, Value::Object(_)) => {
                return self.fields(value, types::json_schema().get(), depth + 1);
            }
            // Lists of schemas are rare, and have rules of their own.
            _ => None,
        };
        match written {
            Some(written) => *value = written,
            None => self.mistyped = true,
        }
    }

    /// Bounds what the decoder bounds.
    fn count(&mut self, elements: usize) {
        self.elements += elements;
        self.mistyped |= self.elements > MAX_ELEMENTS;
    }
}

/// A time as it is written; null for Go's zero time, none for what is no time.
fn at(text: &str, precision: Precision) -> Option<Value> {
    Some(time::normalise_time(text, precision).ok()?.map_or(Value::Null, Value::String))
}

/// Whether there is an integer that Go's decoder would make a float of.
fn has_large_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_u64() && !number.is_i64(),
        Value::Array(items) => items.iter().any(has_large_numbers),
        Value::Object(entries) => entries.values().any(has_large_numbers),
        _ => false,
    }
}
