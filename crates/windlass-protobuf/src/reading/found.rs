//! The occurrences of one field in a message.

use super::Result;
use crate::{
    occurrences::malformed,
    table::{Field, Form, Item, Message},
    wire::{self, Malformed, Reader, Span, low, narrow},
};

/// The occurrences of a field in a message.
pub(super) struct Found<'a> {
    pub(super) count: usize,
    /// The positions before the first and after the last occurrence.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The value of the last occurrence, without its length.
    pub(super) last: Option<&'a [u8]>,
}

impl<'a> Found<'a> {
    #[inline]
    pub(super) fn of(message: &'static Message, field: &'static Field, bytes: &'a [u8]) -> Result<Self> {
        let mut found = Self { count: 0, start: 0, end: 0, last: None };
        let mut reader = reader(bytes);
        loop {
            reader.skip_usual_fields(field.number);
            if reader.is_at_end() {
                break;
            }
            let start = reader.position() as usize;
            let (number, wire) = reader.tag().map_err(|error| malformed(message, None, error))?;
            if number != field.number {
                reader.skip(wire).map_err(|error| malformed(message, None, error))?;
                continue;
            }
            let is_packed = wire == wire::BYTES && field.form == Form::List;
            if wire != wire_of(field) && !is_packed {
                return Err(malformed(message, Some(field), reader.wrong_wire(wire)));
            }
            let value = value(&mut reader, wire, bytes).map_err(|error| malformed(message, Some(field), error))?;
            // An empty packed list has no items.
            if wire != wire_of(field) && value.is_empty() {
                continue;
            }
            if found.count == 0 {
                found.start = start;
            }
            found.count += 1;
            found.end = reader.position() as usize;
            found.last = Some(value);
        }
        Ok(found)
    }
}

pub(super) fn reader(bytes: &[u8]) -> Reader<'_> {
    Reader::new(bytes, Span { start: 0, end: narrow(bytes.len()) })
}

pub(super) fn wire_of(field: &Field) -> u8 {
    if field.form == Form::Map { wire::BYTES } else { field.item.wire() }
}

/// Reads a value and returns its content.
#[inline]
pub(super) fn value<'a>(
    reader: &mut Reader<'a>,
    wire: u8,
    bytes: &'a [u8],
) -> std::result::Result<&'a [u8], Malformed> {
    if wire == wire::BYTES {
        return Ok(reader.bytes()?.of(bytes));
    }
    let start = reader.position() as usize;
    reader.skip(wire)?;
    Ok(&bytes[start..reader.position() as usize])
}

pub(super) fn number(bytes: &[u8]) -> u64 {
    reader(bytes).varint().unwrap_or_default()
}

pub(super) fn float(bytes: &[u8]) -> f64 {
    f64::from_bits(reader(bytes).fixed64().unwrap_or_default())
}

/// Reports whether `omitempty` applies to a field that is not a pointer, a list or a map.
pub(super) fn is_empty(field: &Field, found: &Found<'_>) -> bool {
    let Some(last) = found.last else { return !field.is_always_written };
    match field.item {
        Item::String | Item::Bytes => last.is_empty(),
        Item::Bool | Item::Int64 => number(last) == 0,
        Item::Int32 => low(number(last)) == 0,
        Item::Float64 => float(last) == 0.0,
        Item::Message(_) | Item::Special(..) => false,
    }
}
