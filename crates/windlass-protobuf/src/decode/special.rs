//! The types with their own JSON encoding.

use super::{Decoder, Entries, Result, low, problem};
use crate::{
    json, quantity,
    table::{Message, Special},
    time::{Precision, Time},
    wire::Span,
};

/// The indexes of fields in the messages of special types.
const FIRST: u16 = 0;
const SECOND: u16 = 1;
const THIRD: u16 = 2;

/// The value of `type` in an `IntOrString`.
const INTEGER: u64 = 0;
const STRING: u64 = 1;

impl Decoder<'_> {
    /// Writes a value of a special type; without occurrences, Go's zero value.
    pub(super) fn special(
        &mut self,
        special: Special,
        message: &'static Message,
        found: Entries,
        depth: usize,
    ) -> Result<()> {
        // An occurrence of one of these replaces the value, also an empty one.
        let parts = match special {
            Special::Time | Special::MicroTime if !found.is_empty() => found.end - 1..found.end,
            _ => found,
        };
        let start = self.found.entries.get(parts.start).map_or(0, |entry| entry.span.start as usize);
        let is_empty = self.found.entries[parts.clone()].iter().all(|entry| entry.span.of(self.found.input).is_empty());
        let collected = self.found.collect(message, parts, depth)?;
        let base = collected.start;
        match special {
            Special::Quantity => self.quantity(message, self.found.last(collected, FIRST))?,
            Special::IntOrString => self.int_or_string(message, collected, start)?,
            Special::Time | Special::MicroTime if is_empty => self.null(),
            Special::Time => self.time(message, collected, start, Precision::Seconds)?,
            Special::MicroTime => self.time(message, collected, start, Precision::Micros)?,
            Special::Raw => self.raw(message, self.found.last(collected, FIRST))?,
            Special::Strings => self.list(message, FIRST, self.found.all(collected, FIRST), depth)?,
            Special::SchemaOrBool => {
                let schema = self.found.all(collected.clone(), SECOND);
                if schema.is_empty() {
                    let allows = self.found.last(collected, FIRST).is_some_and(|allows| self.found.varint(allows) != 0);
                    self.out.extend_from_slice(if allows { b"true" } else { b"false" });
                } else {
                    self.value(message, &message.fields[1], schema, depth)?;
                }
            }
            Special::SchemaOrArray | Special::SchemaOrStrings => {
                let schema = self.found.all(collected.clone(), FIRST);
                let items = self.found.all(collected, SECOND);
                if !items.is_empty() {
                    self.list(message, SECOND, items, depth)?;
                } else if schema.is_empty() {
                    self.null();
                } else {
                    self.value(message, &message.fields[0], schema, depth)?;
                }
            }
        }
        self.found.entries.truncate(base);
        Ok(())
    }

    /// Writes the occurrences of a field as a list.
    fn list(&mut self, message: &'static Message, field: u16, items: Entries, depth: usize) -> Result<()> {
        self.out.push(b'[');
        for item in items.clone() {
            if item > items.start {
                self.out.push(b',');
            }
            self.value(message, &message.fields[usize::from(field)], item..item + 1, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn quantity(&mut self, message: &'static Message, text: Option<Span>) -> Result<()> {
        let Some(span) = text else {
            self.out.extend_from_slice(b"\"0\"");
            return Ok(());
        };
        let start = span.start as usize;
        let error = |text: String| problem(message, Some("string"), start, text);
        let text = std::str::from_utf8(span.of(self.found.input)).map_err(|_| error("invalid UTF-8".to_owned()))?;
        let canonical = quantity::canonical(text).map_err(|reason| error(reason.to_string()))?;
        self.out.push(b'"');
        self.out.extend_from_slice(canonical.as_bytes());
        self.out.push(b'"');
        Ok(())
    }

    fn int_or_string(&mut self, message: &'static Message, collected: Entries, start: usize) -> Result<()> {
        match self.found.last(collected.clone(), FIRST).map_or(INTEGER, |ty| self.found.varint(ty)) {
            INTEGER => {
                let number = self.found.last(collected, SECOND).map_or(0, |number| low(self.found.varint(number)));
                json::integer(self.out, number.into());
                Ok(())
            }
            STRING => {
                let text = self.found.last(collected, THIRD).unwrap_or_default();
                self.string(text);
                Ok(())
            }
            other => Err(problem(message, Some("type"), start, format!("the unknown type {other}"))),
        }
    }

    fn time(
        &mut self,
        message: &'static Message,
        collected: Entries,
        start: usize,
        precision: Precision,
    ) -> Result<()> {
        let seconds =
            self.found.last(collected.clone(), FIRST).map_or(0, |seconds| self.found.varint(seconds).cast_signed());
        let nanos = self.found.last(collected, SECOND).map_or(0, |nanos| low(self.found.varint(nanos)));
        match Time::from_parts(seconds, nanos, precision) {
            Some(time) if time.is_zero() => self.null(),
            Some(time) => time.write(self.out, precision),
            None => {
                return Err(problem(
                    message,
                    Some("seconds"),
                    start,
                    "a year that is negative or has more than five digits",
                ));
            }
        }
        Ok(())
    }

    /// Writes JSON in a bytes field. Absent and empty bytes are null.
    fn raw(&mut self, message: &'static Message, json: Option<Span>) -> Result<()> {
        let span = json.unwrap_or_default();
        let json = span.of(self.found.input);
        if json.is_empty() {
            self.null();
            return Ok(());
        }
        json::compact(self.out, json).map_err(|(at, reason)| {
            problem(message, Some(message.fields[0].name), span.start as usize + at, format!("not JSON: {reason}"))
        })
    }
}
