//! Protobuf → JSON. Writes the JSON while it reads the messages.
//!
//! The fields of a message are collected before any is written: JSON has another order, names absent fields, and joins
//! the occurrences of a field. A repeated message that is not in a list is merged, as in Go.

use std::{borrow::Cow, ops::Range};

use crate::{
    Error, json,
    table::{Field, Form, Item, Message},
    wire::{self, Malformed, Reader, Span},
};

mod map;
mod special;

/// The deepest nesting of messages. Only types that contain themselves, such as schemas, nest deeper than a dozen.
const MAX_DEPTH: usize = 128;

type Result<T> = std::result::Result<T, Error>;

/// An occurrence of a field.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The index of the field in its message.
    field: u16,
    /// The value, without tag and length.
    span: Span,
}

/// The positions of the occurrences of one field in [`Decoder::entries`].
type Entries = Range<usize>;

struct Decoder<'a> {
    input: &'a [u8],
    out: &'a mut Vec<u8>,
    /// Fields that Kubernetes 1.`minor` does not have are not written.
    minor: u32,
    /// A stack of the fields of the open messages. Each has at least one byte in the input.
    entries: Vec<Entry>,
    /// A stack of the entries of the open maps.
    pairs: Vec<map::Pair>,
}

/// Appends the JSON of a message, which is a part of the input. Writes the members in `head` first.
pub(crate) fn decode(
    message: &'static Message,
    head: &[(&str, &str)],
    input: &[u8],
    span: Span,
    minor: u32,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut decoder = Decoder { input, out, minor, entries: Vec::with_capacity(64), pairs: Vec::new() };
    decoder.out.push(b'{');
    for (name, value) in head {
        decoder.key(name);
        // A string is always UTF-8.
        json::string(decoder.out, value.as_bytes());
    }
    decoder.entries.push(Entry { field: 0, span });
    decoder.fields(message, 0..1, 0)?;
    decoder.out.push(b'}');
    Ok(())
}

impl Decoder<'_> {
    /// Writes an object with the fields of a message, which consists of several parts if it occurs several times. Without
    /// parts, it is Go's zero value.
    fn object(&mut self, message: &'static Message, parts: Entries, depth: usize) -> Result<()> {
        self.out.push(b'{');
        self.fields(message, parts, depth)?;
        self.out.push(b'}');
        Ok(())
    }

    /// Writes the members of a message's object.
    fn fields(&mut self, message: &'static Message, parts: Entries, depth: usize) -> Result<()> {
        let collected = self.collect(message, parts, depth)?;
        let mut at = collected.start;
        for (index, field) in (0u16..).zip(&message.fields) {
            let first = at;
            while at < collected.end && self.entries[at].field == index {
                at += 1;
            }
            if (first < at || field.is_always_written) && field.minors.contains(&self.minor) {
                self.field(message, field, first..at, depth)?;
            }
        }
        self.entries.truncate(collected.start);
        Ok(())
    }

    /// Pushes the occurrences of a message's fields, in the order of `fields`.
    fn collect(&mut self, message: &'static Message, parts: Entries, depth: usize) -> Result<Entries> {
        let base = self.entries.len();
        let mut is_sorted = true;
        let mut last = 0;
        for part in parts {
            let span = self.entries[part].span;
            if depth > MAX_DEPTH {
                return Err(problem(message, None, span.start as usize, "more than 128 nested messages"));
            }
            let mut reader = Reader::new(self.input, span);
            while !reader.is_at_end() {
                let (number, wire) = reader.tag().map_err(|error| malformed(message, None, error))?;
                let Some(index) = message.index_of(number) else {
                    reader.skip(wire).map_err(|error| malformed(message, None, error))?;
                    continue;
                };
                is_sorted &= last <= index;
                last = index;
                let field = &message.fields[usize::from(index)];
                self.occurrence(&mut reader, wire, field, index)
                    .map_err(|error| malformed(message, Some(field), error))?;
            }
        }
        if !is_sorted {
            self.entries[base..].sort_by_key(|entry| entry.field);
        }
        Ok(base..self.entries.len())
    }

    /// Reads one occurrence of a field; of a packed list, all elements.
    fn occurrence(
        &mut self,
        reader: &mut Reader<'_>,
        wire: u8,
        field: &Field,
        index: u16,
    ) -> std::result::Result<(), Malformed> {
        let expected = if field.form == Form::Map { wire::BYTES } else { field.item.wire() };
        if wire == expected {
            let span = value(reader, wire)?;
            self.entries.push(Entry { field: index, span });
        } else if wire == wire::BYTES && field.form == Form::List {
            let mut packed = Reader::new(self.input, reader.bytes()?);
            while !packed.is_at_end() {
                let span = value(&mut packed, expected)?;
                self.entries.push(Entry { field: index, span });
            }
        } else {
            return Err(reader.wrong_wire(wire));
        }
        Ok(())
    }

    /// Writes a field, if its value is not omitted.
    fn field(&mut self, message: &'static Message, field: &'static Field, found: Entries, depth: usize) -> Result<()> {
        match field.form {
            Form::Embedded => {
                if let Item::Message(inner) = field.item {
                    self.fields(inner.get(), found, depth + 1)?;
                }
                return Ok(());
            }
            Form::Value if field.omit_empty && self.is_empty(field, found.clone()) => return Ok(()),
            _ => {}
        }
        let before = self.out.len();
        self.key(field.name);
        match field.form {
            Form::Pointer | Form::List | Form::Map if found.is_empty() => self.null(),
            Form::List => {
                self.out.push(b'[');
                for (at, entry) in found.enumerate() {
                    if at > 0 {
                        self.out.push(b',');
                    }
                    self.value(message, field, entry..entry + 1, depth)?;
                }
                self.out.push(b']');
            }
            Form::Map => self.map(message, field, found, depth)?,
            Form::Value if found.is_empty() && field.item.is_nil_without_value() => self.null(),
            _ => self.value(message, field, found, depth)?,
        }
        // A zero time.
        if field.omit_zero && self.out.ends_with(b"null") {
            self.out.truncate(before);
        }
        Ok(())
    }

    /// Reports whether `omitempty` applies to a field that is not a pointer, a list or a map. Structs are never empty.
    fn is_empty(&self, field: &Field, found: Entries) -> bool {
        let Some(last) = self.entries[found].last() else { return !field.is_always_written };
        match field.item {
            Item::String | Item::Bytes => last.span.of(self.input).is_empty(),
            Item::Bool | Item::Int64 => self.varint(last.span) == 0,
            Item::Int32 => low(self.varint(last.span)) == 0,
            Item::Float64 => self.float(last.span) == 0.0,
            Item::Message(_) | Item::Special(..) => false,
        }
    }

    /// Writes a value; without occurrences, Go's zero value.
    fn value(&mut self, message: &'static Message, field: &'static Field, found: Entries, depth: usize) -> Result<()> {
        let last = self.entries[found.clone()].last().map(|entry| entry.span);
        match field.item {
            Item::Message(inner) => return self.object(inner.get(), found, depth + 1),
            Item::Special(special, inner) => return self.special(special, inner.get(), found, depth + 1),
            Item::String => self.string(last.unwrap_or_default()),
            Item::Bytes => json::bytes(self.out, last.unwrap_or_default().of(self.input)),
            Item::Bool => {
                let value = last.is_some_and(|last| self.varint(last) != 0);
                self.out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            Item::Int32 => {
                let number = last.map_or(0, |last| low(self.varint(last)));
                json::integer(self.out, number.into());
            }
            Item::Int64 => {
                let number = last.map_or(0, |last| self.varint(last).cast_signed());
                json::integer(self.out, number);
            }
            Item::Float64 => {
                let number = last.map_or(0.0, |last| self.float(last));
                if !json::float(self.out, number) {
                    let at = last.unwrap_or_default().start as usize;
                    return Err(problem(message, Some(field.name), at, format!("JSON has no number {number}")));
                }
            }
        }
        Ok(())
    }

    fn string(&mut self, span: Span) {
        json::string(self.out, span.of(self.input));
    }

    /// Writes a key, after a comma if it is not the first one. No value ends with a brace that opens.
    fn key(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn null(&mut self) {
        self.out.extend_from_slice(b"null");
    }

    /// Reads a number that was read before.
    fn varint(&self, span: Span) -> u64 {
        Reader::new(self.input, span).varint().unwrap_or_default()
    }

    fn float(&self, span: Span) -> f64 {
        f64::from_bits(Reader::new(self.input, span).fixed64().unwrap_or_default())
    }
}

/// Reads a value and returns its content.
fn value(reader: &mut Reader<'_>, wire: u8) -> std::result::Result<Span, Malformed> {
    let start = reader.position();
    match wire {
        wire::VARINT => reader.varint().map(drop)?,
        wire::FIXED64 => reader.fixed64().map(drop)?,
        _ => return reader.bytes(),
    }
    Ok(Span { start, end: reader.position() })
}

/// Returns the low bits, as Go's generated code does for 32-bit numbers.
#[allow(clippy::cast_possible_truncation)]
const fn low(number: u64) -> i32 {
    number as i32
}

fn malformed(message: &'static Message, field: Option<&'static Field>, error: Malformed) -> Error {
    problem(message, field.map(|field| field.name), error.offset, error.problem)
}

fn problem(
    message: &'static Message,
    field: Option<&'static str>,
    offset: usize,
    problem: impl Into<Cow<'static, str>>,
) -> Error {
    Error::Protobuf { message: message.name, field, offset, problem: problem.into() }
}

impl Item {
    const fn wire(self) -> u8 {
        match self {
            Self::Bool | Self::Int32 | Self::Int64 => wire::VARINT,
            Self::Float64 => wire::FIXED64,
            Self::String | Self::Bytes | Self::Message(_) | Self::Special(..) => wire::BYTES,
        }
    }
}
