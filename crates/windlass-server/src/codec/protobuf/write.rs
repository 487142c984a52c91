//! The protobuf writer: encodes parsed JSON as messages.

use super::{
    super::{
        base64,
        time::{self, Precision},
        types::{self, Kind, MessageTarget, Special, Struct, Type},
    },
    parse::{Element, Part, Parts},
    wire::Writer,
};

impl Writer {
    /// Writes the fields of a struct in reverse order.
    pub(super) fn message(&mut self, shape: &'static Struct, parts: &Parts<'_>, value: Part) {
        self.fields(shape, parts, parts.fields(value, shape.fields.len()));
    }

    fn fields(&mut self, shape: &'static Struct, parts: &Parts<'_>, fields: &[Part]) {
        for field in shape.messages.iter().rev() {
            match field.target {
                MessageTarget::Field(index) => {
                    self.field(field.number, &shape.fields[index].ty, parts, fields[index]);
                }
                MessageTarget::Embedded { first, inner } => {
                    let (inner, end) = (inner.get(), self.end());
                    self.fields(inner, parts, &fields[first..first + inner.fields.len()]);
                    self.close(field.number, end);
                }
            }
        }
    }

    fn nested(&mut self, number: u32, shape: &'static Struct, parts: &Parts<'_>, value: Part) {
        let end = self.end();
        self.message(shape, parts, value);
        self.close(number, end);
    }

    /// Writes all occurrences of a field; none for an absent optional value.
    fn field(&mut self, number: u32, ty: &Type, parts: &Parts<'_>, value: Part) {
        match (&ty.kind, value) {
            (Kind::Pointer(_) | Kind::Bytes, Part::Absent) => {}
            (Kind::Pointer(inner), _) => self.field(number, inner, parts, value),
            (Kind::Slice(element), _) if !ty.wrapped => {
                for item in parts.elements_reversed(value) {
                    self.single(number, element, parts, item.value);
                }
            }
            (Kind::Map { value: element, .. }, Part::Map { sorted: true, .. }) => {
                for entry in parts.elements_reversed(value) {
                    self.entry(number, element, parts, entry);
                }
            }
            (Kind::Map { value: element, .. }, _) => {
                let mut entries: Vec<_> = parts.elements_reversed(value).collect();
                // The sort is stable: of equal keys, the last of the document is the first.
                entries.sort_by(|one, other| parts.str(other.key).cmp(parts.str(one.key)));
                entries.dedup_by(|one, other| parts.str(one.key) == parts.str(other.key));
                for entry in entries {
                    self.entry(number, element, parts, entry);
                }
            }
            _ => self.single(number, ty, parts, value),
        }
    }

    fn entry(&mut self, number: u32, ty: &Type, parts: &Parts<'_>, entry: &Element) {
        let end = self.end();
        self.single(2, ty, parts, entry.value);
        self.bytes(1, parts.str(entry.key).as_bytes());
        self.close(number, end);
    }

    /// Writes one value. An absent value, and one of another type, is the zero value.
    fn single(&mut self, number: u32, ty: &Type, parts: &Parts<'_>, value: Part) {
        match &ty.kind {
            Kind::String => self.bytes(number, parts.str(value).as_bytes()),
            Kind::Bool => self.number(number, u64::from(parts.literal(value) == "true")),
            Kind::Int32 | Kind::Int64 | Kind::Uint8 => self.number(number, integer(parts, value)),
            Kind::Float64 => self.float(number, parts.literal(value).parse().unwrap_or_default()),
            Kind::Bytes => self.bytes(number, &base64::decode(parts.str(value))),
            Kind::Struct(inner) => self.nested(number, inner.get(), parts, value),
            Kind::Special(special) => {
                let end = self.end();
                self.special(*special, parts, value);
                self.close(number, end);
            }
            Kind::Pointer(inner) => self.single(number, inner, parts, value),
            // A list that is wrapped in a message: its elements are field 1.
            Kind::Slice(element) => {
                let end = self.end();
                for item in parts.elements_reversed(value) {
                    self.single(1, element, parts, item.value);
                }
                self.close(number, end);
            }
            // The table has no map within a map or a list; protobuf does not support them.
            Kind::Map { .. } => {}
        }
    }

    /// Writes the message content of a type with a custom encoding.
    fn special(&mut self, special: Special, parts: &Parts<'_>, value: Part) {
        match (special, value) {
            (Special::Quantity, Part::Absent) => self.bytes(1, b"0"),
            (Special::Quantity, _) => self.bytes(1, parts.str(value).as_bytes()),
            (Special::IntOrString, Part::Text(_) | Part::Converted(_)) => {
                self.bytes(3, parts.str(value).as_bytes());
                self.number(2, 0);
                self.number(1, 1);
            }
            (Special::IntOrString, _) => {
                self.bytes(3, b"");
                self.number(2, integer(parts, value));
                self.number(1, 0);
            }
            (Special::Time | Special::MicroTime, _) => {
                let precision = if special == Special::Time { Precision::Seconds } else { Precision::Micros };
                if let Some((seconds, nanos)) = time::to_unix(parts.str(value), precision) {
                    self.number(2, u64::from(nanos));
                    self.number(1, seconds.cast_unsigned());
                }
            }
            (Special::Duration, _) => {
                let nanos = time::parse_duration(parts.str(value)).unwrap_or_default();
                self.number(1, nanos.cast_unsigned());
            }
            (Special::SchemaOrBool, Part::Struct(_)) => {
                self.nested(2, types::json_schema().get(), parts, value);
                self.number(1, 1);
            }
            (Special::SchemaOrBool, _) => self.number(1, u64::from(parts.literal(value) == "true")),
            (_, Part::Absent) => {}
            (Special::FieldsV1 | Special::RawExtension | Special::Json, _) => {
                self.bytes(1, parts.json(value).as_bytes());
            }
            (Special::SchemaOrArray, Part::List(_)) => {
                for item in parts.elements_reversed(value) {
                    self.nested(2, types::json_schema().get(), parts, item.value);
                }
            }
            (Special::SchemaOrStringArray, Part::List(_)) => {
                for item in parts.elements_reversed(value) {
                    self.bytes(2, parts.str(item.value).as_bytes());
                }
            }
            (Special::SchemaOrArray | Special::SchemaOrStringArray, _) => {
                self.nested(1, types::json_schema().get(), parts, value);
            }
        }
    }
}

/// Returns the varint of an integer. Negative numbers, including 32-bit ones, are extended to 64 bits.
fn integer(parts: &Parts<'_>, value: Part) -> u64 {
    parts.literal(value).parse::<i64>().unwrap_or_default().cast_unsigned()
}
