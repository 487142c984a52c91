//! Protobuf → JSON. Writes the JSON while it reads the messages.

use crate::{
    Error, json,
    occurrences::{Entries, Occurrences, problem},
    table::{Field, Form, Item, Message},
    wire::{Span, low},
};

mod map;
mod special;

type Result<T> = std::result::Result<T, Error>;

struct Decoder<'a> {
    found: Occurrences<'a>,
    out: &'a mut Vec<u8>,
    /// Fields that Kubernetes 1.`minor` does not have are not written.
    minor: u32,
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
    let mut decoder = Decoder { found: Occurrences::new(input, span), out, minor };
    decoder.out.push(b'{');
    for (name, value) in head {
        decoder.key(name);
        // A string is always UTF-8.
        json::string(decoder.out, value.as_bytes());
    }
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
        let collected = self.found.collect(message, parts, depth)?;
        let mut at = collected.start;
        for (index, field) in (0u16..).zip(&message.fields) {
            let first = at;
            while at < collected.end && self.found.entries[at].field == index {
                at += 1;
            }
            if (first < at || field.is_always_written) && field.minors.contains(&self.minor) {
                self.field(message, field, first..at, depth)?;
            }
        }
        self.found.entries.truncate(collected.start);
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
            Form::Value if field.omit_empty && self.found.is_empty(field, found.clone()) => return Ok(()),
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

    /// Writes a value; without occurrences, Go's zero value.
    fn value(&mut self, message: &'static Message, field: &'static Field, found: Entries, depth: usize) -> Result<()> {
        let last = self.found.entries[found.clone()].last().map(|entry| entry.span);
        match field.item {
            Item::Message(inner) => return self.object(inner.get(), found, depth + 1),
            Item::Special(special, inner) => return self.special(special, inner.get(), found, depth + 1),
            Item::String => self.string(last.unwrap_or_default()),
            Item::Bytes => json::bytes(self.out, last.unwrap_or_default().of(self.found.input)),
            Item::Bool => {
                let value = last.is_some_and(|last| self.found.varint(last) != 0);
                self.out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            Item::Int32 => {
                let number = last.map_or(0, |last| low(self.found.varint(last)));
                json::integer(self.out, number.into());
            }
            Item::Int64 => {
                let number = last.map_or(0, |last| self.found.varint(last).cast_signed());
                json::integer(self.out, number);
            }
            Item::Float64 => {
                let number = last.map_or(0.0, |last| self.found.float(last));
                if !json::float(self.out, number) {
                    let at = last.unwrap_or_default().start as usize;
                    return Err(problem(message, Some(field.name), at, format!("JSON has no number {number}")));
                }
            }
        }
        Ok(())
    }

    fn string(&mut self, span: Span) {
        json::string(self.out, span.of(self.found.input));
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
}
