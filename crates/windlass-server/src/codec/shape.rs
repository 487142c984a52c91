//! The rules of Go's encoder for a struct: the encoded fields, their order, and the form of absent values.

use serde_json::{Map, Value};

use super::types::{Field, Kind, Special, Struct, Type};

/// Builds the struct's object from the values of its fields; `None` is the Go zero value.
pub(super) fn object(shape: &Struct, values: Vec<Option<Value>>) -> Value {
    let present = values.iter().flatten().count();
    let mut object = Map::with_capacity(present + 4);
    for (field, value) in shape.fields.iter().zip(values) {
        if let Some(value) = encode(field, value) {
            object.insert(field.name.to_owned(), value);
        }
    }
    Value::Object(object)
}

fn encode(field: &Field, value: Option<Value>) -> Option<Value> {
    if field.omit_empty && field.ty.is_empty(value.as_ref()) {
        return None;
    }
    let value = value.unwrap_or_else(|| zero(&field.ty));
    let is_zero = field.omit_zero && value == zero(&field.ty);
    (!is_zero).then_some(value)
}

/// Reports whether a value of the field is not encoded; null is the zero value.
pub(super) fn is_omitted(field: &Field, value: &Value) -> bool {
    let value = Some(value).filter(|value| !value.is_null());
    let is_zero = || value.is_none_or(|value| *value == zero(&field.ty));
    field.omit_empty && field.ty.is_empty(value) || field.omit_zero && is_zero()
}

/// Returns the encoding of a type's zero value.
pub(super) fn zero(ty: &Type) -> Value {
    match &ty.kind {
        Kind::String => Value::String(String::new()),
        Kind::Bool => Value::Bool(false),
        Kind::Int32 | Kind::Int64 | Kind::Uint8 | Kind::Float64 => Value::from(0),
        Kind::Bytes | Kind::Pointer(_) | Kind::Slice(_) | Kind::Map { .. } => Value::Null,
        Kind::Struct(inner) => zero_struct(inner.get()),
        Kind::Special(special) => match special {
            Special::Quantity => Value::from("0"),
            Special::IntOrString => Value::from(0),
            Special::Duration => Value::from("0s"),
            Special::SchemaOrBool => Value::Bool(false),
            // Go would encode these as an empty text; they are only used behind pointers.
            Special::FieldsV1
            | Special::Time
            | Special::MicroTime
            | Special::RawExtension
            | Special::Json
            | Special::SchemaOrArray
            | Special::SchemaOrStringArray => Value::Null,
        },
    }
}

/// Returns the encoding of a struct with no fields set.
pub(super) fn zero_struct(shape: &Struct) -> Value {
    object(shape, vec![None; shape.fields.len()])
}

/// Removes empty lists and maps, as storing in protobuf does.
pub(super) fn drop_empty_containers(shape: &Struct, object: &mut Value) {
    let Value::Object(object) = object else { return };
    for field in &shape.fields {
        if let Some(value) = object.get_mut(field.name) {
            field.ty.drop_empty_containers(value);
        }
    }
}

impl Type {
    fn drop_empty_containers(&self, value: &mut Value) {
        match (&self.kind, &mut *value) {
            (Kind::Struct(inner), _) => drop_empty_containers(inner.get(), value),
            (Kind::Pointer(inner), _) => inner.drop_empty_containers(value),
            (Kind::Slice(_), Value::Array(items)) if items.is_empty() => *value = Value::Null,
            (Kind::Map { .. }, Value::Object(entries)) if entries.is_empty() => *value = Value::Null,
            (Kind::Slice(inner), Value::Array(items)) => {
                for item in items {
                    inner.drop_empty_containers(item);
                }
            }
            (Kind::Map { value: inner, .. }, Value::Object(entries)) => {
                for value in entries.values_mut() {
                    inner.drop_empty_containers(value);
                }
            }
            _ => {}
        }
    }

    /// Reports whether `omitempty` drops a value: false, 0, "", nil, and empty containers, but never a struct.
    fn is_empty(&self, value: Option<&Value>) -> bool {
        match (&self.kind, value) {
            (Kind::Struct(_) | Kind::Special(_), _) | (Kind::Pointer(_), Some(_)) => false,
            (_, None | Some(Value::Null)) => true,
            (_, Some(Value::String(text))) => text.is_empty(),
            (_, Some(Value::Array(items))) => items.is_empty(),
            (_, Some(Value::Object(entries))) => entries.is_empty(),
            (_, Some(Value::Bool(flag))) => !flag,
            (_, Some(Value::Number(number))) => number.as_f64() == Some(0.0),
        }
    }
}
