//! The types with their own JSON encoding.

use jiff::Timestamp;
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, JSONSchemaPropsOrStringArray,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{FieldsV1, MicroTime, Time},
        runtime::RawExtension,
        util::intstr::IntOrString,
    },
};
use serde_json::Value as Json;
use windlass_protobuf::canonical_quantity;

use crate::{
    value::{Limits, State, Value, list},
    wire::{BYTES, Field, Fields, Result, Unusual, VARINT},
};

/// The seconds of Go's zero time, the start of year 1, which is null in JSON.
const ZERO: i64 = -62_135_596_800;
const ZERO_TIME: Timestamp = Timestamp::constant(ZERO, 0);
/// The first second of year 0.
const START: i64 = -62_167_219_200;

/// The values of `type` in an `IntOrString`.
const INTEGER: u64 = 0;
const STRING: u64 = 1;

/// Reads fields 1 to N of a message, each at most once and in this order. Other fields are unusual.
fn parts<const N: usize>(message: &[u8]) -> Result<[Option<Field<'_>>; N]> {
    let mut rest = Fields::new(message);
    let mut parts = [None; N];
    for (number, part) in (1..).zip(&mut parts) {
        *part = rest.next_of(number)?;
    }
    if rest.next()?.is_none() { Ok(parts) } else { Err(Unusual) }
}

/// Returns the seconds and nanoseconds of a time; `None` for Go's zero time.
#[inline]
fn time(message: &[u8]) -> Result<Option<(i64, i32)>> {
    if message.is_empty() {
        return Ok(None);
    }
    let [seconds, nanos] = parts(message)?;
    for part in [seconds, nanos].iter().flatten() {
        part.expect(VARINT)?;
    }
    let seconds = seconds.map_or(0, |part| part.value.cast_signed());
    if seconds < START {
        return Err(Unusual);
    }
    Ok(Some((seconds, nanos.map_or(0, |part| part.int()))))
}

fn timestamp(seconds: i64, nanos: i32) -> Result<Timestamp> {
    Timestamp::new(seconds, nanos).map_err(|_| Unusual)
}

impl Value for Time {
    const WIRE: u8 = BYTES;

    fn blank() -> Self {
        Self(ZERO_TIME)
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
        // JSON has seconds only.
        if let Some((seconds, _)) = time(field.content)?.filter(|(seconds, _)| *seconds != ZERO) {
            self.0 = timestamp(seconds, 0)?;
            return Ok(State::Value);
        }
        self.0 = ZERO_TIME;
        Ok(State::Null)
    }
}

impl Value for MicroTime {
    const WIRE: u8 = BYTES;

    fn blank() -> Self {
        Self(ZERO_TIME)
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
        if let Some((seconds, nanos)) = time(field.content)? {
            let nanos = if (0..1_000_000_000).contains(&nanos) { nanos / 1000 * 1000 } else { return Err(Unusual) };
            if (seconds, nanos) != (ZERO, 0) {
                self.0 = timestamp(seconds, nanos)?;
                return Ok(State::Value);
            }
        }
        self.0 = ZERO_TIME;
        Ok(State::Null)
    }
}

impl Value for Quantity {
    const WIRE: u8 = BYTES;

    fn blank() -> Self {
        Self(String::new())
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
        let [text] = parts(field.content)?;
        let text = text.map_or(Ok("0"), |text| text.text())?;
        self.0 = canonical_quantity(text).ok_or(Unusual)?.into_owned();
        Ok(State::Value)
    }
}

impl Value for IntOrString {
    const WIRE: u8 = BYTES;

    fn blank() -> Self {
        Self::Int(0)
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
        let [ty, number, text] = parts(field.content)?;
        for part in [ty, number].iter().flatten() {
            part.expect(VARINT)?;
        }
        // The wire type of the text is checked, also if it does not count.
        let text = text.map_or(Ok(""), |text| text.text())?;
        *self = match ty.map_or(INTEGER, |ty| ty.value) {
            INTEGER => Self::Int(number.map_or(0, |number| number.int())),
            STRING => Self::String(text.to_owned()),
            _ => return Err(Unusual),
        };
        Ok(State::Value)
    }
}

/// Decodes JSON in a bytes field.
fn raw(message: &[u8]) -> Result<Json> {
    let [json] = parts(message)?;
    let Some(json) = json else { return Ok(Json::Null) };
    json.expect(BYTES)?;
    if json.content.is_empty() { Ok(Json::Null) } else { serde_json::from_slice(json.content).map_err(|_| Unusual) }
}

macro_rules! raw {
    ($($type:ident)*) => {$(
        impl Value for $type {
            const WIRE: u8 = BYTES;

            fn blank() -> Self {
                Self(Json::Null)
            }

            fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
                self.0 = raw(field.content)?;
                Ok(if self.0.is_null() { State::Null } else { State::Value })
            }
        }
    )*};
}

raw! { FieldsV1 JSON RawExtension }

impl Value for JSONSchemaPropsOrBool {
    const WIRE: u8 = BYTES;

    fn blank() -> Self {
        Self::Bool(false)
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, level: u32) -> Result<State> {
        let [allows, schema] = parts(field.content)?;
        if let Some(allows) = allows {
            allows.expect(VARINT)?;
        }
        *self = match schema {
            Some(schema) => Self::Schema(boxed::<L>(schema, level)?),
            None => Self::Bool(allows.is_some_and(|allows| allows.value != 0)),
        };
        Ok(State::Value)
    }
}

impl Value for JSONSchemaPropsOrArray {
    const WIRE: u8 = BYTES;

    fn blank() -> Self {
        Self::Schemas(Vec::new())
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, level: u32) -> Result<State> {
        let mut rest = Fields::new(field.content);
        if let Some(schema) = rest.next_of(1)? {
            *self = Self::Schema(boxed::<L>(schema, level)?);
        } else {
            let first = rest.next_of(2)?.ok_or(Unusual)?;
            let mut schemas = Vec::new();
            list::<L, JSONSchemaProps>(&mut schemas, first, &mut rest, level + 1)?;
            *self = Self::Schemas(schemas);
        }
        if rest.next()?.is_none() { Ok(State::Value) } else { Err(Unusual) }
    }
}

impl Value for JSONSchemaPropsOrStringArray {
    const WIRE: u8 = BYTES;

    fn blank() -> Self {
        Self::Strings(Vec::new())
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, level: u32) -> Result<State> {
        let mut rest = Fields::new(field.content);
        if let Some(schema) = rest.next_of(1)? {
            *self = Self::Schema(boxed::<L>(schema, level)?);
        } else {
            let first = rest.next_of(2)?.ok_or(Unusual)?;
            let mut strings = Vec::new();
            list::<L, String>(&mut strings, first, &mut rest, level + 1)?;
            *self = Self::Strings(strings);
        }
        if rest.next()?.is_none() { Ok(State::Value) } else { Err(Unusual) }
    }
}

fn boxed<L: Limits>(schema: Field<'_>, level: u32) -> Result<Box<JSONSchemaProps>> {
    schema.expect(BYTES)?;
    let mut value = Box::<JSONSchemaProps>::blank();
    value.read::<L>(schema, level + 1)?;
    Ok(value)
}
