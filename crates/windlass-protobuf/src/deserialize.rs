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
    node::Node,
    value::{Place, Value},
};
use crate::{
    Error,
    occurrences::{Entries, Occurrences, problem},
    table::{Form, Item, Message},
    wire::Span,
};

/// The error of a visitor has no place; the access to the field that contains the value adds it. It is small, because
/// all functions return it.
#[derive(Debug)]
pub(super) struct Fault(Box<Cause>);

#[derive(Debug)]
enum Cause {
    Placed(Error),
    Unplaced(String),
}

/// The stacks of the messages that are being read.
struct State<'de> {
    found: Occurrences<'de>,
    /// The messages around the embedded messages that are being read.
    outer: Vec<Frame>,
    /// Fields that Kubernetes 1.`minor` does not have are ignored.
    minor: u32,
}

/// A message whose fields are being read.
#[derive(Debug)]
struct Frame {
    message: &'static Message,
    /// The next field.
    index: usize,
    /// The fields that were not read yet.
    rest: Entries,
    depth: usize,
    /// The length of the stack of entries without this message.
    base: usize,
}

/// The members of a message's JSON object, including those of embedded messages.
struct Members<'s, 'de> {
    state: &'s mut State<'de>,
    frame: Frame,
    /// The number of frames in `outer` that are not of this object.
    outer: usize,
    /// Members before those of the message.
    head: &'s [(&'static str, &'de str)],
    /// The value of the last key.
    next: Option<Next<'de>>,
}

enum Next<'de> {
    Head(&'de str),
    Node(Node, Place, Mark),
}

/// The lengths of the stacks before a value.
#[derive(Clone, Copy)]
struct Mark {
    entries: usize,
    pairs: usize,
}

/// Deserializes a message, which is a part of the input. The members in `head` come first.
pub(crate) fn deserialize<'de, T: Deserialize<'de>>(
    message: &'static Message,
    head: &[(&'static str, &'de str)],
    input: &'de [u8],
    span: Span,
    minor: u32,
) -> Result<T, Error> {
    let mut state = State { found: Occurrences::new(input, span), outer: Vec::new(), minor };
    let place = Place { message, field: None, offset: span.start };
    let node = Node::Message { message, parts: 0..1, depth: 0 };
    T::deserialize(Value { state: &mut state, node, head, place }).map_err(|fault| fault.at(place).into_error())
}

impl Fault {
    /// Adds the place, if the error has none.
    fn at(mut self, place: Place) -> Self {
        if let Cause::Unplaced(text) = &mut *self.0 {
            let text = Cow::Owned(std::mem::take(text));
            *self.0 = Cause::Placed(problem(place.message, place.field, place.offset as usize, text));
        }
        self
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

    /// Opens a message.
    fn frame(&mut self, message: &'static Message, parts: Entries, depth: usize) -> Result<Frame, Error> {
        let base = self.found.entries.len();
        let rest = self.found.collect(message, parts, depth)?;
        Ok(Frame { message, index: 0, rest, depth, base })
    }
}

impl Frame {
    /// Returns the index of the next field that the JSON object has, and the occurrences of the field.
    fn next(&mut self, state: &State<'_>) -> Option<(usize, Entries)> {
        loop {
            let (index, first) = (self.index, self.rest.start);
            let field = self.message.fields.get(index)?;
            self.index += 1;
            let mut at = first;
            while at < self.rest.end && usize::from(state.found.entries[at].field) == index {
                at += 1;
            }
            self.rest.start = at;
            let is_there = (first < at || field.is_always_written) && field.minors.contains(&state.minor);
            let is_omitted = field.form == Form::Value && field.omit_empty && state.found.is_empty(field, first..at);
            if is_there && !is_omitted {
                return Some((index, first..at));
            }
        }
    }
}

impl<'s, 'de> Members<'s, 'de> {
    fn new(
        state: &'s mut State<'de>,
        head: &'s [(&'static str, &'de str)],
        message: &'static Message,
        parts: Entries,
        depth: usize,
    ) -> Result<Self, Error> {
        let frame = state.frame(message, parts, depth)?;
        let outer = state.outer.len();
        Ok(Self { state, frame, outer, head, next: None })
    }

    /// Returns the key of the next member, whose value is then in `next`.
    fn key(&mut self) -> Result<Option<&'static str>, Error> {
        if let Some(((name, value), rest)) = self.head.split_first() {
            self.head = rest;
            self.next = Some(Next::Head(value));
            return Ok(Some(name));
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
                let inner = self.state.frame(inner.get(), found, depth + 1)?;
                self.state.outer.push(std::mem::replace(&mut self.frame, inner));
                continue;
            }
            let mark = self.state.mark();
            let start = self.state.found.entries.get(found.start).filter(|_| !found.is_empty());
            let place = Place { message, field: Some(field.name), offset: start.map_or(0, |entry| entry.span.start) };
            let node = self.state.node(message, field, found, depth)?;
            // A zero time.
            if field.omit_zero && matches!(node, Node::Null | Node::NoTime) {
                self.state.reset(mark);
                continue;
            }
            self.next = Some(Next::Node(node, place, mark));
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
        match self.next.take() {
            Some(Next::Head(text)) => seed
                .deserialize(BorrowedStrDeserializer::new(text))
                .map_err(|fault: Fault| fault.at(Place { message: self.frame.message, field: None, offset: 0 })),
            Some(Next::Node(node, place, mark)) => {
                let value = seed.deserialize(Value { state: self.state, node, head: &[], place });
                self.state.reset(mark);
                value.map_err(|fault| fault.at(place))
            }
            None => Err(serde::de::Error::custom("a value was requested before its key")),
        }
    }
}
