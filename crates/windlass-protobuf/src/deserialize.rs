//! Protobuf → Rust types: a deserializer of serde that has the JSON form of each value.

mod node;
mod path;
mod value;

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{DeserializeSeed, MapAccess, value::BorrowedStrDeserializer},
};

pub(crate) use self::path::value_at;
use self::{
    node::Slot,
    value::{Place, Value},
};
use crate::{
    Error,
    occurrences::{Entries, Occurrences, problem},
    table::{Form, Item, Message},
    wire::Span,
};

/// The number of members of a head.
const HEAD: usize = 2;

/// The error of a visitor has no place; the access to the field that contains the value adds it. It is small, because
/// all functions return it.
#[derive(Debug)]
pub(super) struct Fault(Box<Cause>);

#[derive(Debug)]
enum Cause {
    Placed(Error),
    Unplaced(String),
}

/// Members of the outermost object before those of its message: kind and API version.
pub(crate) type Head<'de> = [(&'static str, &'de str); 2];

/// The stacks of the messages that are being read.
struct State<'de> {
    found: Occurrences<'de>,
    /// The messages around the embedded messages that are being read.
    outer: Vec<Frame>,
    head: Option<Head<'de>>,
    /// Fields that Kubernetes 1.`minor` does not have are ignored.
    minor: u32,
}

/// A message whose fields are being read.
#[derive(Debug)]
struct Frame {
    message: &'static Message,
    /// The fields that are in the JSON in any case, from the next one on.
    written: &'static [u16],
    /// The fields that were not read yet.
    rest: Entries,
    depth: u16,
    /// The length of the stack of entries without this message.
    base: usize,
}

/// The members of a message's JSON object, including those of embedded messages.
struct Members<'s, 'de> {
    state: &'s mut State<'de>,
    frame: Frame,
    /// The number of frames in `outer` that are not of this object.
    outer: usize,
    /// The number of read members of the head.
    head: usize,
    /// The value of the last key.
    next: Next<'de>,
}

enum Next<'de> {
    None,
    Head(&'de str),
    Slot(Slot),
}

/// The lengths of the stacks before a value.
#[derive(Clone, Copy)]
struct Mark {
    entries: usize,
    pairs: usize,
}

/// Deserializes a message, which is a part of the input. The members of the head come first.
pub(crate) fn deserialize<'de, T: Deserialize<'de>>(
    message: &'static Message,
    head: Option<Head<'de>>,
    input: &'de [u8],
    span: Span,
    minor: u32,
) -> Result<T, Error> {
    let mut state = State { found: Occurrences::new(input, span), outer: Vec::new(), head, minor };
    let slot = Slot::root(message);
    let value = T::deserialize(Value { state: &mut state, slot: &slot });
    value.map_err(|fault| fault.at(state.place(&slot)).into_error())
}

impl Fault {
    /// Adds the place, if the error has none.
    fn at(mut self, place: Place) -> Self {
        self.add(place);
        self
    }

    #[cold]
    fn add(&mut self, place: Place) {
        if let Cause::Unplaced(text) = &mut *self.0 {
            let text = Cow::Owned(std::mem::take(text));
            *self.0 = Cause::Placed(problem(place.message, place.field, place.offset as usize, text));
        }
    }

    fn into_error(self) -> Error {
        match *self.0 {
            Cause::Placed(error) => error,
            Cause::Unplaced(text) => {
                Error::Protobuf { message: "Unknown", field: None, offset: 0, problem: text.into() }
            }
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self(Box::new(Cause::Placed(error)))
    }
}

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Box::new(Cause::Unplaced(message.to_string())))
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Placed(error) => error.fmt(formatter),
            Cause::Unplaced(text) => formatter.write_str(text),
        }
    }
}

impl State<'_> {
    fn mark(&self) -> Mark {
        Mark { entries: self.found.entries.len(), pairs: self.found.pairs.len() }
    }

    fn reset(&mut self, mark: Mark) {
        self.found.entries.truncate(mark.entries);
        self.found.pairs.truncate(mark.pairs);
    }

    /// Returns the place of a value, for errors.
    #[cold]
    fn place(&self, slot: &Slot) -> Place {
        let first = self.found.entries.get(slot.start as usize).filter(|_| slot.start < slot.end);
        let offset = first.map_or(0, |entry| entry.span.start);
        Place { message: slot.message, field: slot.field.map(|field| field.name), offset }
    }
}

impl Frame {
    /// Creates the frame of a message before its fields are collected.
    fn new(message: &'static Message, depth: u16, base: usize) -> Self {
        Self { message, written: &message.written, rest: base..base, depth, base }
    }

    /// Collects the fields of the message.
    fn open(&mut self, state: &mut State<'_>, parts: Entries) -> Result<(), Error> {
        self.rest = state.found.collect(self.message, parts, self.depth.into())?;
        Ok(())
    }

    /// Returns the index of the next field that the JSON object has, and the occurrences of the field.
    fn next(&mut self, state: &State<'_>) -> Option<(usize, Entries)> {
        loop {
            // After the end, the fields are no longer on the stack.
            let rest = state.found.entries.get(self.rest.clone()).unwrap_or_default();
            let index = match (rest.first(), self.written.first()) {
                (Some(entry), Some(written)) => entry.field.min(*written),
                (Some(entry), None) => entry.field,
                (None, Some(written)) => *written,
                (None, None) => return None,
            };
            if self.written.first() == Some(&index) {
                self.written = &self.written[1..];
            }
            let count = rest.iter().take_while(|entry| entry.field == index).count();
            let found = self.rest.start..self.rest.start + count;
            self.rest.start = found.end;
            let index = usize::from(index);
            let field = &self.message.fields[index];
            let is_omitted =
                field.form == Form::Value && field.omit_empty && state.found.is_empty(field, found.clone());
            if field.minors.contains(&state.minor) && !is_omitted {
                return Some((index, found));
            }
        }
    }
}

impl<'s, 'de> Members<'s, 'de> {
    fn new(state: &'s mut State<'de>, message: &'static Message, depth: u16) -> Self {
        let head = if depth == 0 { 0 } else { HEAD };
        let (outer, base) = (state.outer.len(), state.found.entries.len());
        Self { state, frame: Frame::new(message, depth, base), outer, head, next: Next::None }
    }

    /// Returns the key of the next member, whose value is then in `next`.
    fn key(&mut self) -> Result<Option<&'static str>, Error> {
        if self.head < HEAD {
            self.head += 1;
            if let Some(head) = self.state.head {
                let (name, value) = head[self.head - 1];
                self.next = Next::Head(value);
                return Ok(Some(name));
            }
            self.head = HEAD;
        }
        loop {
            let Some((index, found)) = self.frame.next(self.state) else {
                self.state.found.entries.truncate(self.frame.base);
                if self.state.outer.len() == self.outer {
                    return Ok(None);
                }
                match self.state.outer.pop() {
                    Some(outer) => self.frame = outer,
                    None => return Ok(None),
                }
                continue;
            };
            let (message, depth) = (self.frame.message, self.frame.depth);
            let field = &message.fields[index];
            if let (Form::Embedded, Item::Message(inner)) = (field.form, field.item) {
                let mut inner = Frame::new(inner.get(), depth + 1, self.state.found.entries.len());
                inner.open(self.state, found)?;
                self.state.outer.push(std::mem::replace(&mut self.frame, inner));
                continue;
            }
            let mut slot = Slot::member(message, field, found, depth);
            if field.omit_zero {
                if self.state.is_null(&slot)? {
                    // A zero time.
                    continue;
                }
                slot.is_present = true;
            }
            self.next = Next::Slot(slot);
            return Ok(Some(field.name));
        }
    }
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        match self.key()? {
            Some(name) => seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let slot = match &self.next {
            Next::Slot(slot) => slot,
            Next::Head(text) => {
                return seed
                    .deserialize(BorrowedStrDeserializer::new(text))
                    .map_err(|fault: Fault| fault.at(Place { message: self.frame.message, field: None, offset: 0 }));
            }
            Next::None => return Err(serde::de::Error::custom("a value was requested before its key")),
        };
        let mark = self.state.mark();
        let mut value = seed.deserialize(Value { state: self.state, slot });
        self.state.reset(mark);
        // Values are large, so the error is changed in place.
        if let Err(fault) = &mut value {
            fault.add(self.state.place(slot));
        }
        self.next = Next::None;
        value
    }
}
