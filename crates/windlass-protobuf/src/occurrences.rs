//! The occurrences of fields in messages, as spans of the input.
//!
//! The fields of a message are collected before any is used: JSON has another order, names absent fields, and joins the
//! occurrences of a field. A repeated message that is not in a list is merged, as in Go.

use std::{borrow::Cow, ops::Range};

use crate::{
    Error,
    table::{Field, Form, Item, Message},
    wire::{self, Malformed, Reader, Span, low},
};

/// The deepest nesting of messages. Only types that contain themselves, such as schemas, nest deeper than a dozen.
pub(crate) const MAX_DEPTH: usize = 128;

/// The numbers of the fields of a map's entry.
const KEY: u32 = 1;
const VALUE: u32 = 2;

type Result<T> = std::result::Result<T, Error>;

/// An occurrence of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The index of the field in its message.
    pub(crate) field: u16,
    /// The value, without tag and length.
    pub(crate) span: Span,
}

/// The positions of the occurrences of one field in [`Occurrences::entries`].
pub(crate) type Entries = Range<usize>;

/// An entry of a map; without a value, Go's zero value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) key: Span,
    pub(crate) value: Option<Span>,
}

/// The fields of the messages that are being read.
#[derive(Debug)]
pub(crate) struct Occurrences<'a> {
    pub(crate) input: &'a [u8],
    /// A stack of the fields of the open messages. Each has at least one byte in the input.
    pub(crate) entries: Vec<Entry>,
    /// A stack of the entries of the open maps.
    pub(crate) pairs: Vec<Pair>,
}

impl<'a> Occurrences<'a> {
    /// Starts with one occurrence of a message.
    pub(crate) fn new(input: &'a [u8], message: Span) -> Self {
        let mut entries = Vec::with_capacity(64);
        entries.push(Entry { field: 0, span: message });
        Self { input, entries, pairs: Vec::new() }
    }

    /// Pushes the occurrences of a message's fields, in the order of `fields`.
    pub(crate) fn collect(&mut self, message: &'static Message, parts: Entries, depth: usize) -> Result<Entries> {
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

    /// Reports whether `omitempty` applies to a field that is not a pointer, a list or a map. Structs are never empty.
    pub(crate) fn is_empty(&self, field: &Field, found: Entries) -> bool {
        let Some(last) = self.entries[found].last() else { return !field.is_always_written };
        match field.item {
            Item::String | Item::Bytes => last.span.of(self.input).is_empty(),
            Item::Bool | Item::Int64 => self.varint(last.span) == 0,
            Item::Int32 => low(self.varint(last.span)) == 0,
            Item::Float64 => self.float(last.span) == 0.0,
            Item::Message(_) | Item::Special(..) => false,
        }
    }

    /// Returns the occurrences of a field, which are next to each other.
    pub(crate) fn all(&self, collected: Entries, field: u16) -> Entries {
        let entries = &self.entries[collected.clone()];
        let start = entries.partition_point(|entry| entry.field < field);
        let end = entries.partition_point(|entry| entry.field <= field);
        collected.start + start..collected.start + end
    }

    pub(crate) fn last(&self, collected: Entries, field: u16) -> Option<Span> {
        self.entries[self.all(collected, field)].last().map(|entry| entry.span)
    }

    /// Pushes the entries of a map in the order of its keys. The last one of equal keys counts. Returns the position of
    /// the first.
    pub(crate) fn map(&mut self, message: &'static Message, field: &'static Field, found: Entries) -> Result<usize> {
        let base = self.pairs.len();
        // Encoders write the entries in this order.
        let mut is_sorted = true;
        for entry in found {
            let pair = self.pair(message, field, self.entries[entry].span)?;
            if let Some(last) = self.pairs[base..].last() {
                is_sorted &= last.key.of(self.input) < pair.key.of(self.input);
            }
            self.pairs.push(pair);
        }
        if !is_sorted {
            self.sort(base);
        }
        Ok(base)
    }

    /// Sorts the entries from `base`, and removes all but the last one of each key.
    fn sort(&mut self, base: usize) {
        let input = self.input;
        self.pairs[base..].sort_by_key(|pair| pair.key.of(input));
        let mut kept = base;
        for at in base..self.pairs.len() {
            let pair = self.pairs[at];
            if kept > base && self.pairs[kept - 1].key.of(input) == pair.key.of(input) {
                kept -= 1;
            }
            self.pairs[kept] = pair;
            kept += 1;
        }
        self.pairs.truncate(kept);
    }

    /// Reads an entry.
    fn pair(&self, message: &'static Message, field: &'static Field, span: Span) -> Result<Pair> {
        let mut reader = Reader::new(self.input, span);
        let mut pair = Pair { key: Span::default(), value: None };
        while !reader.is_at_end() {
            let read = (|| {
                let (number, wire) = reader.tag()?;
                match number {
                    KEY if wire == wire::BYTES => pair.key = reader.bytes()?,
                    VALUE if wire == field.item.wire() => pair.value = Some(value(&mut reader, wire)?),
                    KEY | VALUE => return Err(reader.wrong_wire(wire)),
                    _ => reader.skip(wire)?,
                }
                Ok(())
            })();
            read.map_err(|error| malformed(message, Some(field), error))?;
        }
        Ok(pair)
    }

    /// Reads a number that was read before.
    pub(crate) fn varint(&self, span: Span) -> u64 {
        Reader::new(self.input, span).varint().unwrap_or_default()
    }

    pub(crate) fn float(&self, span: Span) -> f64 {
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

pub(crate) fn malformed(message: &'static Message, field: Option<&'static Field>, error: Malformed) -> Error {
    problem(message, field.map(|field| field.name), error.offset, error.problem)
}

pub(crate) fn problem(
    message: &'static Message,
    field: Option<&'static str>,
    offset: usize,
    problem: impl Into<Cow<'static, str>>,
) -> Error {
    Error::Protobuf { message: message.name, field, offset, problem: problem.into() }
}

impl Item {
    pub(crate) const fn wire(self) -> u8 {
        match self {
            Self::Bool | Self::Int32 | Self::Int64 => wire::VARINT,
            Self::Float64 => wire::FIXED64,
            Self::String | Self::Bytes | Self::Message(_) | Self::Special(..) => wire::BYTES,
        }
    }
}
