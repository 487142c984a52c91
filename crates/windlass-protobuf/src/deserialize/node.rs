//! The places of values, and the kinds of values, before they are read.

use super::State;
use crate::{
    Error,
    occurrences::{Entries, problem},
    table::{Field, Form, Item, Message, Special},
    time::{self, Precision, Time},
    wire::{Span, low, narrow},
};

/// The indexes of fields in the messages of special types.
const FIRST: u16 = 0;
const SECOND: u16 = 1;
const THIRD: u16 = 2;

/// The values of `type` in an `IntOrString`.
const INTEGER: u64 = 0;
const STRING: u64 = 1;

/// The place of a value: the field that contains it, and the field's occurrences.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) message: &'static Message,
    /// The field; `None` for the message itself.
    pub(super) field: Option<&'static Field>,
    /// The positions of the occurrences on the stack of entries.
    pub(super) start: u32,
    pub(super) end: u32,
    /// The depth of the message.
    depth: u16,
    /// One item of a list or a map.
    pub(super) is_item: bool,
    /// The value is known not to be null.
    pub(super) is_present: bool,
}

/// A value.
#[derive(Debug)]
pub(super) enum Node {
    Null,
    /// Go's zero time, which is null in JSON.
    NoTime,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Span),
    Bytes(Span),
    /// The text of a quantity, which may not be canonical; `None` is zero.
    Quantity(Option<Span>),
    Time(Time, Precision),
    /// JSON in a bytes field.
    Raw(Span),
    Message {
        message: &'static Message,
        parts: Entries,
        depth: u16,
    },
    List {
        message: &'static Message,
        field: &'static Field,
        items: Entries,
        depth: u16,
    },
    /// The entries are those between the positions `start` and `end` of the stack of pairs.
    Map {
        message: &'static Message,
        field: &'static Field,
        start: usize,
        end: usize,
        depth: u16,
    },
}

impl Slot {
    /// Returns the place of the outermost message.
    pub(super) const fn root(message: &'static Message) -> Self {
        Self { message, field: None, start: 0, end: 1, depth: 0, is_item: false, is_present: true }
    }

    /// Returns the place of a member of an object. `depth` is that of its message.
    pub(super) fn member(message: &'static Message, field: &'static Field, found: Entries, depth: u16) -> Self {
        // A stack has fewer entries than the input has bytes.
        let (start, end) = (narrow(found.start), narrow(found.end));
        Self { message, field: Some(field), start, end, depth, is_item: false, is_present: false }
    }

    /// Returns the place of an item of a list or a map. `depth` is that of the list or map.
    pub(super) fn item(message: &'static Message, field: &'static Field, found: Entries, depth: u16) -> Self {
        Self { is_item: true, ..Self::member(message, field, found, depth) }
    }

    const fn found(&self) -> Entries {
        self.start as usize..self.end as usize
    }
}

impl State<'_> {
    /// Reports whether a value is null in JSON.
    pub(super) fn is_null(&mut self, slot: &Slot) -> Result<bool, Error> {
        let Some(field) = slot.field.filter(|_| !slot.is_present) else { return Ok(false) };
        let has_value = slot.start < slot.end;
        if !slot.is_item {
            match field.form {
                Form::Pointer | Form::List | Form::Map if !has_value => return Ok(true),
                Form::Value if !has_value && field.item.is_nil_without_value() => return Ok(true),
                Form::List | Form::Map => return Ok(false),
                _ => {}
            }
        }
        let Item::Special(special, _) = field.item else { return Ok(false) };
        if matches!(special, Special::Quantity | Special::IntOrString | Special::Strings) {
            return Ok(false);
        }
        let mark = self.mark();
        let node = self.node(slot);
        self.reset(mark);
        Ok(matches!(node?, Node::Null | Node::NoTime))
    }

    /// Returns a value. It may refer to entries that were added to the stacks.
    pub(super) fn node(&mut self, slot: &Slot) -> Result<Node, Error> {
        let (message, found, depth) = (slot.message, slot.found(), slot.depth);
        let Some(field) = slot.field else { return Ok(Node::Message { message, parts: found, depth }) };
        if !slot.is_item {
            match field.form {
                Form::Pointer | Form::List | Form::Map if found.is_empty() => return Ok(Node::Null),
                Form::List => return Ok(Node::List { message, field, items: found, depth: depth + 1 }),
                Form::Map => {
                    let start = self.found.map(message, field, found)?;
                    return Ok(Node::Map { message, field, start, end: self.found.pairs.len(), depth: depth + 1 });
                }
                Form::Value if found.is_empty() && field.item.is_nil_without_value() => return Ok(Node::Null),
                _ => {}
            }
        }
        self.item(message, field, found, depth)
    }

    /// Returns one value; without occurrences, Go's zero value.
    fn item(
        &mut self,
        message: &'static Message,
        field: &'static Field,
        found: Entries,
        depth: u16,
    ) -> Result<Node, Error> {
        let last = self.found.entries[found.clone()].last().map(|entry| entry.span);
        Ok(match field.item {
            Item::Message(inner) => Node::Message { message: inner.get(), parts: found, depth: depth + 1 },
            Item::Special(special, inner) => return self.special(special, inner.get(), found, depth + 1),
            Item::String => Node::Text(last.unwrap_or_default()),
            Item::Bytes => Node::Bytes(last.unwrap_or_default()),
            Item::Bool => Node::Bool(last.is_some_and(|last| self.found.varint(last) != 0)),
            Item::Int32 => Node::Int(last.map_or(0, |last| low(self.found.varint(last)).into())),
            Item::Int64 => Node::Int(last.map_or(0, |last| self.found.varint(last).cast_signed())),
            Item::Float64 => {
                let number = last.map_or(0.0, |last| self.found.float(last));
                if !number.is_finite() {
                    let at = last.unwrap_or_default().start as usize;
                    return Err(problem(message, Some(field.name), at, format!("JSON has no number {number}")));
                }
                Node::Float(number)
            }
        })
    }

    /// Returns a value of a type with its own JSON encoding.
    fn special(
        &mut self,
        special: Special,
        message: &'static Message,
        found: Entries,
        depth: u16,
    ) -> Result<Node, Error> {
        // An occurrence of one of these replaces the value, also an empty one.
        let parts = match special {
            Special::Time | Special::MicroTime if !found.is_empty() => found.end - 1..found.end,
            _ => found,
        };
        let start = self.found.entries.get(parts.start).map_or(0, |entry| entry.span.start as usize);
        let input = self.found.input;
        if let (Special::Time | Special::MicroTime, Some(entry)) = (special, self.found.entries[parts.clone()].last())
            && let Some((seconds, nanos)) = time::usual_parts(entry.span.of(input))
        {
            let precision = if special == Special::Time { Precision::Seconds } else { Precision::Micros };
            return of_time(message, seconds, nanos, start, precision);
        }
        let is_empty = self.found.entries[parts.clone()].iter().all(|entry| entry.span.of(input).is_empty());
        let collected = self.found.collect(message, parts, depth.into())?;
        let list = |field: u16, items: Entries| Node::List {
            message,
            field: &message.fields[usize::from(field)],
            items,
            depth: depth + 1,
        };
        match special {
            Special::Quantity => Ok(Node::Quantity(self.found.last(collected, FIRST))),
            Special::IntOrString => self.int_or_string(message, collected, start),
            Special::Time | Special::MicroTime if is_empty => Ok(Node::NoTime),
            Special::Time => self.time(message, collected, start, Precision::Seconds),
            Special::MicroTime => self.time(message, collected, start, Precision::Micros),
            Special::Raw => {
                let span = self.found.last(collected, FIRST).unwrap_or_default();
                let json = span.of(input).trim_ascii();
                Ok(if json.is_empty() && span.of(input).is_empty() || json == b"null" {
                    Node::Null
                } else {
                    Node::Raw(span)
                })
            }
            Special::Strings => {
                let items = self.found.all(collected, FIRST);
                Ok(list(FIRST, items))
            }
            Special::SchemaOrBool => {
                let schema = self.found.all(collected.clone(), SECOND);
                if schema.is_empty() {
                    let allows = self.found.last(collected, FIRST);
                    return Ok(Node::Bool(allows.is_some_and(|allows| self.found.varint(allows) != 0)));
                }
                self.item(message, &message.fields[1], schema, depth)
            }
            Special::SchemaOrArray | Special::SchemaOrStrings => {
                let schema = self.found.all(collected.clone(), FIRST);
                let items = self.found.all(collected, SECOND);
                if !items.is_empty() {
                    Ok(list(SECOND, items))
                } else if schema.is_empty() {
                    Ok(Node::Null)
                } else {
                    self.item(message, &message.fields[0], schema, depth)
                }
            }
        }
    }

    fn int_or_string(&self, message: &'static Message, collected: Entries, start: usize) -> Result<Node, Error> {
        match self.found.last(collected.clone(), FIRST).map_or(INTEGER, |ty| self.found.varint(ty)) {
            INTEGER => {
                let number = self.found.last(collected, SECOND).map_or(0, |number| low(self.found.varint(number)));
                Ok(Node::Int(number.into()))
            }
            STRING => Ok(Node::Text(self.found.last(collected, THIRD).unwrap_or_default())),
            other => Err(problem(message, Some("type"), start, format!("the unknown type {other}"))),
        }
    }

    fn time(
        &self,
        message: &'static Message,
        collected: Entries,
        start: usize,
        precision: Precision,
    ) -> Result<Node, Error> {
        let seconds = self.found.last(collected.clone(), FIRST);
        let seconds = seconds.map_or(0, |seconds| self.found.varint(seconds).cast_signed());
        let nanos = self.found.last(collected, SECOND).map_or(0, |nanos| low(self.found.varint(nanos)));
        of_time(message, seconds, nanos, start, precision)
    }
}

fn of_time(
    message: &'static Message,
    seconds: i64,
    nanos: i32,
    start: usize,
    precision: Precision,
) -> Result<Node, Error> {
    match Time::from_parts(seconds, nanos, precision) {
        Some(time) if time.is_zero() => Ok(Node::NoTime),
        Some(time) => Ok(Node::Time(time, precision)),
        None => {
            let text = "a year that is negative or has more than five digits";
            Err(problem(message, Some("seconds"), start, text))
        }
    }
}
