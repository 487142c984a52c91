//! The protobuf reader: decodes messages into the values of the table's structs.

use serde_json::{Map, Value};

use super::{
    super::{
        MAX_ELEMENTS, Strictness, base64, check_json,
        decode::{decode_any, go_float},
        go_numbers,
        json::MAX_DEPTH,
        quantity, shape, sort_keys,
        time::{self, Precision},
        types::{self, Kind, MessageTarget, Special, Struct, Type},
    },
    text,
    wire::{self, Reader},
};

/// Decodes a message into the values of the struct's fields; `None` is the Go zero value.
pub(in crate::codec) fn decode(data: &[u8], shape: &'static Struct) -> Result<Vec<Option<Value>>, String> {
    Decoder { elements: 0 }.message(data, shape, 0)
}

struct Decoder {
    elements: usize,
}

impl Decoder {
    fn message(&mut self, data: &[u8], shape: &'static Struct, depth: usize) -> Result<Vec<Option<Value>>, String> {
        let mut values = vec![None; shape.fields.len()];
        self.fill(data, shape, &mut values, depth)?;
        for (field, value) in shape.fields.iter().zip(&mut values) {
            if let (Kind::Map { .. }, Some(Value::Object(entries))) = (&field.ty.kind, value) {
                entries.sort_keys();
            }
        }
        Ok(values)
    }

    fn fill(
        &mut self,
        data: &[u8],
        shape: &'static Struct,
        values: &mut [Option<Value>],
        depth: usize,
    ) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".into());
        }
        let mut reader = Reader { data, owner: shape.name };
        while let Some((number, wire)) = reader.tag()? {
            let Some(field) = shape.messages.iter().find(|field| field.number == number) else {
                reader.skip(wire)?;
                continue;
            };
            match field.target {
                MessageTarget::Field(index) => {
                    let field = &shape.fields[index];
                    self.field(&mut reader, wire, field.name, &field.ty, &mut values[index], depth)?;
                }
                MessageTarget::Embedded { first, inner } => {
                    let inner = inner.get();
                    let data = reader.bytes(wire, inner.name)?;
                    let count = inner.fields.len();
                    self.fill(data, inner, &mut values[first..first + count], depth)?;
                }
            }
        }
        Ok(())
    }

    /// Decodes one occurrence of a field.
    fn field(
        &mut self,
        reader: &mut Reader<'_>,
        wire: u8,
        name: &str,
        ty: &Type,
        slot: &mut Option<Value>,
        depth: usize,
    ) -> Result<(), String> {
        match &ty.kind {
            Kind::Slice(element) if !ty.wrapped => {
                let items = slot.get_or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(items) = items else { return Ok(()) };
                if wire == wire::BYTES && element.wire() == wire::VARINT {
                    let mut packed = Reader { data: reader.bytes(wire, name)?, owner: reader.owner };
                    while !packed.data.is_empty() {
                        self.count_element()?;
                        items.push(
                            self.single(&mut packed, wire::VARINT, name, element, depth + 1)?.unwrap_or_default(),
                        );
                    }
                } else {
                    self.count_element()?;
                    let item = self.single(reader, wire, name, element, depth + 1)?;
                    items.push(item.unwrap_or_else(|| shape::zero(element)));
                }
            }
            Kind::Map { value, .. } => {
                self.count_element()?;
                let (key, entry) = self.entry(reader.bytes(wire, name)?, name, value, depth + 1)?;
                let entries = slot.get_or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(entries) = entries {
                    entries.insert(key, entry);
                }
            }
            Kind::Pointer(inner) if matches!(inner.kind, Kind::Slice(_) | Kind::Map { .. }) => {
                self.field(reader, wire, name, inner, slot, depth)?;
            }
            Kind::Pointer(inner) => {
                let value = self.single(reader, wire, name, inner, depth)?;
                *slot = Some(value.unwrap_or_else(|| shape::zero(inner)));
            }
            _ => *slot = self.single(reader, wire, name, ty, depth)?,
        }
        Ok(())
    }

    fn entry(&mut self, data: &[u8], name: &str, ty: &Type, depth: usize) -> Result<(String, Value), String> {
        let mut reader = Reader { data, owner: "MapEntry" };
        let (mut key, mut value) = (String::new(), None);
        while let Some((number, wire)) = reader.tag()? {
            match number {
                1 => key = text(reader.bytes(wire, name)?),
                2 => value = self.single(&mut reader, wire, name, ty, depth)?,
                _ => reader.skip(wire)?,
            }
        }
        Ok((key, value.unwrap_or_else(|| shape::zero(ty))))
    }

    /// Decodes a single value; `None` is the zero value.
    fn single(
        &mut self,
        reader: &mut Reader<'_>,
        wire: u8,
        name: &str,
        ty: &Type,
        depth: usize,
    ) -> Result<Option<Value>, String> {
        #[allow(clippy::cast_possible_truncation)] // Go's generated code keeps the low bits too
        let int32 = |number: u64| number as i32;
        Ok(match &ty.kind {
            Kind::String => Some(Value::String(text(reader.bytes(wire, name)?))),
            Kind::Bool => Some(Value::Bool(reader.number(wire, name)? != 0)),
            Kind::Int32 => Some(Value::from(int32(reader.number(wire, name)?))),
            Kind::Uint8 => Some(Value::from(reader.number(wire, name)? & 0xFF)),
            Kind::Int64 => Some(Value::from(reader.number(wire, name)?.cast_signed())),
            Kind::Float64 => {
                let number = reader.float(wire, name)?;
                Some(go_float(number).map_or(Value::Null, Value::Number))
            }
            Kind::Bytes => Some(Value::String(base64::encode(reader.bytes(wire, name)?))),
            Kind::Struct(inner) => {
                let inner = inner.get();
                let values = self.message(reader.bytes(wire, name)?, inner, depth + 1)?;
                Some(shape::object(inner, values))
            }
            Kind::Special(special) => self.special(reader.bytes(wire, name)?, *special, depth)?,
            Kind::Pointer(inner) => {
                Some(self.single(reader, wire, name, inner, depth)?.unwrap_or_else(|| shape::zero(inner)))
            }
            // The remaining lists are wrapped in a message: `items` is field 1.
            Kind::Slice(element) => {
                let mut list = Reader { data: reader.bytes(wire, name)?, owner: reader.owner };
                let mut items = Vec::new();
                while let Some((number, wire)) = list.tag()? {
                    if number == 1 {
                        self.count_element()?;
                        let item = self.single(&mut list, wire, name, element, depth + 1)?;
                        items.push(item.unwrap_or_else(|| shape::zero(element)));
                    } else {
                        list.skip(wire)?;
                    }
                }
                if items.is_empty() { None } else { Some(Value::Array(items)) }
            }
            Kind::Map { .. } => return Err(format!("proto: {}: {name} is a map within a map", reader.owner)),
        })
    }

    fn special(&mut self, data: &[u8], special: Special, depth: usize) -> Result<Option<Value>, String> {
        let mut reader = Reader { data, owner: "special" };
        // The fields of all these types; fields that a type does not have are skipped.
        let mut bytes: Option<&[u8]> = None;
        let mut second: Vec<&[u8]> = Vec::new();
        let mut third: Option<&[u8]> = None;
        let mut numbers = [0u64; 2];
        while let Some((number, wire)) = reader.tag()? {
            match (number, wire) {
                (1, 2) => bytes = Some(reader.bytes(wire, "Raw")?),
                (2, 2) => {
                    self.count_element()?;
                    second.push(reader.bytes(wire, "Items")?);
                }
                (3, 2) => third = Some(reader.bytes(wire, "StrVal")?),
                (1, 0) => numbers[0] = reader.number(wire, "Type")?,
                (2, 0) => numbers[1] = reader.number(wire, "IntVal")?,
                _ => reader.skip(wire)?,
            }
        }
        #[allow(clippy::cast_possible_truncation)] // Go's generated code keeps the low bits too
        let low = |number: u64| number as i32;
        let mut schema = |data: &[u8]| {
            let shape = types::json_schema().get();
            self.message(data, shape, depth + 1).map(|values| shape::object(shape, values))
        };
        Ok(match special {
            Special::Quantity => match bytes {
                Some(bytes) => Some(Value::from(quantity::canonical(&text(bytes))?)),
                None => None,
            },
            Special::IntOrString if numbers[0] == 1 => Some(Value::String(text(third.unwrap_or_default()))),
            Special::IntOrString => Some(Value::from(low(numbers[1]))),
            Special::Time | Special::MicroTime if data.is_empty() => None,
            Special::Time => time::from_unix(numbers[0].cast_signed(), 0, Precision::Seconds)?.map(Value::String),
            Special::MicroTime => {
                time::from_unix(numbers[0].cast_signed(), low(numbers[1]), Precision::Micros)?.map(Value::String)
            }
            Special::Duration => Some(Value::String(time::format_duration(numbers[0].cast_signed()))),
            Special::FieldsV1 | Special::RawExtension => match bytes {
                Some(raw) if !raw.is_empty() => Some(untyped(raw, depth)?).filter(|value| !value.is_null()),
                _ => None,
            },
            Special::Json => match bytes {
                Some(raw) if !raw.is_empty() => {
                    let mut value = untyped(raw, depth)?;
                    go_numbers(&mut value);
                    sort_keys(&mut value);
                    Some(value).filter(|value| !value.is_null())
                }
                _ => None,
            },
            Special::SchemaOrBool => match second.last() {
                Some(data) => Some(schema(data)?),
                None => Some(Value::Bool(numbers[0] != 0)),
            },
            Special::SchemaOrArray if !second.is_empty() => {
                Some(Value::Array(second.into_iter().map(schema).collect::<Result<_, _>>()?))
            }
            Special::SchemaOrStringArray if !second.is_empty() => {
                Some(Value::Array(second.into_iter().map(|item| Value::String(text(item))).collect()))
            }
            Special::SchemaOrArray | Special::SchemaOrStringArray => bytes.map(schema).transpose()?,
        })
    }

    fn count_element(&mut self) -> Result<(), String> {
        self.elements += 1;
        if self.elements > MAX_ELEMENTS { Err(format!("more than {MAX_ELEMENTS} elements")) } else { Ok(()) }
    }
}

/// Decodes JSON in a bytes field.
fn untyped(raw: &[u8], depth: usize) -> Result<Value, String> {
    check_json(raw)?;
    let (value, _) = decode_any(raw, Strictness::Lenient)?;
    if depth + depth_of(&value) > MAX_DEPTH { Err("exceeded max depth".into()) } else { Ok(value) }
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or_default(),
        Value::Object(entries) => 1 + entries.values().map(depth_of).max().unwrap_or_default(),
        _ => 0,
    }
}

impl Type {
    /// Returns the wire type of one value.
    fn wire(&self) -> u8 {
        match &self.kind {
            Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Uint8 => wire::VARINT,
            Kind::Float64 => wire::FIXED64,
            _ => wire::BYTES,
        }
    }
}
