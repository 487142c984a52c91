//! The protobuf writer: encodes trees as messages.

use serde_json::Value;

use super::{
    super::{
        base64, encode,
        time::{self, Precision},
        types::{self, Field, Kind, MessageTarget, Special, Struct, Type},
    },
    wire::Writer,
};

impl Writer {
    /// Writes the fields of a struct in reverse order.
    pub(super) fn message(&mut self, shape: &'static Struct, value: &Value) {
        for field in shape.messages.iter().rev() {
            match field.target {
                MessageTarget::Field(index) => {
                    let Field { name, ty, .. } = &shape.fields[index];
                    self.field(field.number, ty, value.get(*name).unwrap_or(&Value::Null));
                }
                MessageTarget::Embedded { inner, .. } => self.nested(field.number, inner.get(), value),
            }
        }
    }

    fn nested(&mut self, number: u32, shape: &'static Struct, value: &Value) {
        let end = self.end();
        self.message(shape, value);
        self.close(number, end);
    }

    /// Writes all occurrences of a field; none for an absent optional value.
    fn field(&mut self, number: u32, ty: &Type, value: &Value) {
        match (&ty.kind, value) {
            (Kind::Pointer(_) | Kind::Bytes, Value::Null) => {}
            (Kind::Pointer(inner), _) => self.field(number, inner, value),
            (Kind::Slice(element), _) if !ty.wrapped => {
                for item in value.as_array().into_iter().flatten().rev() {
                    self.single(number, element, item);
                }
            }
            (Kind::Map { value: element, .. }, _) => {
                let mut entries: Vec<_> = value.as_object().into_iter().flatten().collect();
                // The entries are usually sorted already.
                entries.sort_unstable_by_key(|(key, _)| *key);
                for (key, entry) in entries.into_iter().rev() {
                    let end = self.end();
                    self.single(2, element, entry);
                    self.bytes(1, key.as_bytes());
                    self.close(number, end);
                }
            }
            _ => self.single(number, ty, value),
        }
    }

    /// Writes one value; null is the zero value.
    fn single(&mut self, number: u32, ty: &Type, value: &Value) {
        match &ty.kind {
            Kind::String => self.bytes(number, text(value).as_bytes()),
            Kind::Bool => self.number(number, u64::from(value.as_bool().unwrap_or_default())),
            Kind::Int32 | Kind::Int64 | Kind::Uint8 => self.number(number, integer(value)),
            Kind::Float64 => self.float(number, value.as_f64().unwrap_or_default()),
            Kind::Bytes => self.bytes(number, &base64::decode(text(value))),
            Kind::Struct(inner) => self.nested(number, inner.get(), value),
            Kind::Special(special) => {
                let end = self.end();
                self.special(*special, value);
                self.close(number, end);
            }
            Kind::Pointer(inner) => self.single(number, inner, value),
            // A list that is wrapped in a message: its elements are field 1.
            Kind::Slice(element) => {
                let end = self.end();
                for item in value.as_array().into_iter().flatten().rev() {
                    self.single(1, element, item);
                }
                self.close(number, end);
            }
            // The table has no map within a map or a list; protobuf does not support them.
            Kind::Map { .. } => {}
        }
    }

    /// Writes the message content of a type with a custom encoding.
    fn special(&mut self, special: Special, value: &Value) {
        match (special, value) {
            (Special::Quantity, Value::Null) => self.bytes(1, b"0"),
            (Special::Quantity, _) => self.bytes(1, text(value).as_bytes()),
            (Special::IntOrString, Value::String(text)) => {
                self.bytes(3, text.as_bytes());
                self.number(2, 0);
                self.number(1, 1);
            }
            (Special::IntOrString, _) => {
                self.bytes(3, b"");
                self.number(2, integer(value));
                self.number(1, 0);
            }
            (Special::Time | Special::MicroTime, _) => {
                let precision = if special == Special::Time { Precision::Seconds } else { Precision::Micros };
                if let Some((seconds, nanos)) = time::to_unix(text(value), precision) {
                    self.number(2, u64::from(nanos));
                    self.number(1, seconds.cast_unsigned());
                }
            }
            (Special::Duration, _) => {
                let nanos = time::parse_duration(text(value)).unwrap_or_default();
                self.number(1, nanos.cast_unsigned());
            }
            (Special::SchemaOrBool, Value::Object(_)) => {
                self.nested(2, types::json_schema().get(), value);
                self.number(1, 1);
            }
            (Special::SchemaOrBool, _) => self.number(1, u64::from(value.as_bool().unwrap_or_default())),
            (_, Value::Null) => {}
            (Special::FieldsV1 | Special::RawExtension | Special::Json, _) => self.bytes(1, &encode(value)),
            (Special::SchemaOrArray, Value::Array(items)) => {
                for item in items.iter().rev() {
                    self.nested(2, types::json_schema().get(), item);
                }
            }
            (Special::SchemaOrStringArray, Value::Array(items)) => {
                for item in items.iter().rev() {
                    self.bytes(2, text(item).as_bytes());
                }
            }
            (Special::SchemaOrArray | Special::SchemaOrStringArray, _) => {
                self.nested(1, types::json_schema().get(), value);
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the varint of an integer. Negative numbers, including 32-bit ones, are extended to 64 bits.
fn integer(value: &Value) -> u64 {
    value.as_i64().unwrap_or_default().cast_unsigned()
}
