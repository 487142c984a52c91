//! The deserializer of one value, and the access to lists and maps.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{BorrowedStrDeserializer, MapAccessDeserializer, StrDeserializer, StringDeserializer},
    },
    forward_to_deserialize_any,
};

use super::{
    Fault, Members, State,
    node::{Node, Slot},
};
use crate::{
    Error, json,
    occurrences::{Entries, Entry, Pair, problem},
    quantity,
    table::{Field, Form, Item, Message},
    time::{Precision, Time},
    wire::{Span, low, text},
};

/// The zero time of Go, for types that do not take null.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// The place of a value in the input, for errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) message: &'static Message,
    pub(super) field: Option<&'static str>,
    pub(super) offset: u32,
}

/// The deserializer of a value. It is small, because visitors of optional values pass it on.
pub(super) struct Value<'s, 'de> {
    pub(super) state: &'s mut State<'de>,
    pub(super) slot: &'s Slot,
}

struct Items<'s, 'de> {
    state: &'s mut State<'de>,
    message: &'static Message,
    field: &'static Field,
    next: usize,
    end: usize,
    depth: u16,
}

struct Pairs<'s, 'de> {
    state: &'s mut State<'de>,
    message: &'static Message,
    field: &'static Field,
    next: usize,
    end: usize,
    depth: u16,
}

impl<'de> Value<'_, 'de> {
    /// Returns a string. As in JSON, each byte that is not UTF-8 is U+FFFD.
    fn text(&self, span: Span) -> Cow<'de, str> {
        text(span.of(self.state.found.input))
    }

    /// Returns the content of a present value, if its type is the one that most fields have where the visitor expects such
    /// a value. Other values take the way of [`State::node`].
    fn usual(&self, is_usual: impl FnOnce(Item) -> bool) -> Option<Span> {
        let field = self.slot.field?;
        let is_single = self.slot.is_item || matches!(field.form, Form::Value | Form::Pointer);
        let last = self.slot.end.checked_sub(1).filter(|last| *last >= self.slot.start)?;
        (is_single && is_usual(field.item)).then(|| self.state.found.entries[last as usize].span)
    }

    fn visit_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.usual(|item| item == Item::String) {
            Some(span) => visit_text(self.text(span), visitor),
            None => self.deserialize_any(visitor),
        }
    }

    /// Deserializes the JSON in a bytes field.
    fn raw<T>(
        &self,
        span: Span,
        read: impl FnOnce(&mut serde_json::Deserializer<serde_json::de::SliceRead<'de>>) -> serde_json::Result<T>,
    ) -> Result<T, Fault> {
        let mut json = serde_json::Deserializer::from_slice(span.of(self.state.found.input));
        let value = read(&mut json).and_then(|value| json.end().map(|()| value));
        value.map_err(|error| {
            let Place { message, field, .. } = self.state.place(self.slot);
            problem(message, field, span.start as usize, format!("not the expected JSON: {error}")).into()
        })
    }

    fn quantity(&self, span: Span) -> Result<Cow<'de, str>, Fault> {
        let error = |text: String| -> Error {
            let Place { message, field, .. } = self.state.place(self.slot);
            problem(message, field, span.start as usize, text)
        };
        let text =
            std::str::from_utf8(span.of(self.state.found.input)).map_err(|_| error("invalid UTF-8".to_owned()))?;
        let canonical = quantity::canonical(text).map_err(|reason| error(reason.to_string()))?;
        Ok(canonical)
    }
}

fn visit_text<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value, Fault> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

/// Visits a number as its JSON form would be: integers are not floats.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the range is checked")]
fn visit_float<'de, V: Visitor<'de>>(number: f64, visitor: V) -> Result<V::Value, Fault> {
    let is_integer = number.fract() == 0.0 && (number != 0.0 || number.is_sign_positive());
    if is_integer && number.abs() < i64::MAX as f64 {
        visit_integer(number as i64, visitor)
    } else {
        visitor.visit_f64(number)
    }
}

fn visit_integer<'de, V: Visitor<'de>>(number: i64, visitor: V) -> Result<V::Value, Fault> {
    match u64::try_from(number) {
        Ok(number) => visitor.visit_u64(number),
        Err(_) => visitor.visit_i64(number),
    }
}

// The functions below are not inlined, so that nested values take less of the stack. Values are large, so errors are
// changed in place.

/// Visits the members of a message. All of them must be read.
#[inline(never)]
fn visit_message<'de, V: Visitor<'de>>(
    state: &mut State<'de>,
    message: &'static Message,
    parts: Entries,
    depth: u16,
    visitor: V,
) -> Result<V::Value, Fault> {
    let (outer, mark) = (state.outer.len(), state.mark());
    let mut members = Members::new(state, message, depth);
    members.frame.open(members.state, parts)?;
    let mut value = visitor.visit_map(&mut members);
    let more = if value.is_ok() { members.key() } else { Ok(None) };
    // A visitor that does not read all members leaves messages open.
    state.outer.truncate(outer);
    state.reset(mark);
    match more {
        Ok(None) => {}
        Ok(Some(_)) => value = Err(Fault::custom("the object has more members")),
        Err(error) => value = Err(error.into()),
    }
    value
}

/// Visits the items of a list. All of them must be read.
#[inline(never)]
fn visit_list<'de, V: Visitor<'de>>(mut items: Items<'_, 'de>, visitor: V) -> Result<V::Value, Fault> {
    let mut value = visitor.visit_seq(&mut items);
    if value.is_ok() && items.next < items.end {
        value = Err(Fault::custom("the list has more items"));
    }
    value
}

/// Visits the entries of a map. All of them must be read.
#[inline(never)]
fn visit_pairs<'de, V: Visitor<'de>>(mut pairs: Pairs<'_, 'de>, visitor: V) -> Result<V::Value, Fault> {
    let mut value = visitor.visit_map(&mut pairs);
    if value.is_ok() && pairs.next < pairs.end {
        value = Err(Fault::custom("the map has more entries"));
    }
    value
}

/// Visits an object whose only member is a variant of an enum.
struct OfVariant<V> {
    name: &'static str,
    variants: &'static [&'static str],
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for OfVariant<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(formatter)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        MapAccessDeserializer::new(members).deserialize_enum(self.name, self.variants, self.visitor)
    }
}

impl<'de> Deserializer<'de> for Value<'_, 'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.state.node(self.slot) {
            Err(error) => Err(error.into()),
            Ok(Node::Null | Node::NoTime) => visitor.visit_unit(),
            Ok(Node::Bool(value)) => visitor.visit_bool(value),
            Ok(Node::Int(number)) => visit_integer(number, visitor),
            Ok(Node::Float(number)) => visit_float(number, visitor),
            Ok(Node::Text(span)) => visit_text(self.text(span), visitor),
            Ok(Node::Bytes(span)) => {
                let mut text = Vec::new();
                json::bytes(&mut text, span.of(self.state.found.input));
                visitor.visit_str(unquoted(&text))
            }
            Ok(Node::Quantity(None)) => visitor.visit_borrowed_str("0"),
            Ok(Node::Quantity(Some(span))) => visit_text(self.quantity(span)?, visitor),
            Ok(Node::Time(time, precision)) => visitor.visit_str(unquoted(&time_text(time, precision))),
            Ok(Node::Raw(span)) => self.raw(span, |json| json.deserialize_any(visitor)),
            Ok(Node::Message { message, parts, depth }) => visit_message(self.state, message, parts, depth, visitor),
            Ok(Node::List { message, field, items, depth }) => {
                let (next, end) = (items.start, items.end);
                visit_list(Items { state: self.state, message, field, next, end, depth }, visitor)
            }
            Ok(Node::Map { message, field, start, end, depth }) => {
                visit_pairs(Pairs { state: self.state, message, field, next: start, end, depth }, visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.state.is_null(self.slot)? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        if let "Time" | "MicroTime" = name {
            let mark = self.state.mark();
            let node = self.state.node(self.slot)?;
            self.state.reset(mark);
            match node {
                // The type of a required field does not take null.
                Node::NoTime => return visitor.visit_newtype_struct(StrDeserializer::<Fault>::new(ZERO_TIME)),
                Node::Time(time, precision) => {
                    let text = time_text(time, precision);
                    return visitor.visit_newtype_struct(StrDeserializer::<Fault>::new(unquoted(&text)));
                }
                _ => {}
            }
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.state.node(self.slot)? {
            Node::Text(span) => visitor.visit_enum(self.text(span).into_deserializer()),
            Node::Raw(span) => self.raw(span, |json| json.deserialize_enum(name, variants, visitor)),
            Node::Message { message, parts, depth } => {
                visit_message(self.state, message, parts, depth, OfVariant { name, variants, visitor })
            }
            Node::Map { message, field, start, end, depth } => {
                let pairs = Pairs { state: self.state, message, field, next: start, end, depth };
                visit_pairs(pairs, OfVariant { name, variants, visitor })
            }
            _ => Err(Fault::custom(format_args!("the value is not a variant of {name}"))),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_string(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.usual(|item| item == Item::Bool) {
            Some(span) => visitor.visit_bool(self.state.found.varint(span) != 0),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.usual(|item| item == Item::Int32) {
            Some(span) => visit_integer(low(self.state.found.varint(span)).into(), visitor),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let at = self.next;
        if at == self.end {
            return Ok(None);
        }
        self.next += 1;
        let slot = Slot::item(self.message, self.field, at..at + 1, self.depth);
        let mark = self.state.mark();
        let value = match seed.deserialize(Value { state: self.state, slot: &slot }) {
            Ok(value) => Ok(Some(value)),
            Err(fault) => Err(fault.at(self.state.place(&slot))),
        };
        self.state.reset(mark);
        value
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.end - self.next)
    }
}

impl<'de> MapAccess<'de> for Pairs<'_, 'de> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        if self.next == self.end {
            return Ok(None);
        }
        let key = self.state.found.pairs[self.next].key;
        let value = match text(key.of(self.state.found.input)) {
            Cow::Borrowed(key) => seed.deserialize(BorrowedStrDeserializer::new(key)),
            Cow::Owned(key) => seed.deserialize(StringDeserializer::new(key)),
        };
        let place = Place { message: self.message, field: Some(self.field.name), offset: key.start };
        value.map(Some).map_err(|fault: Fault| fault.at(place))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let Pair { key, value } = self.state.found.pairs[self.next];
        self.next += 1;
        let mark = self.state.mark();
        self.state.found.entries.extend(value.map(|span| Entry { field: 0, span }));
        let slot = Slot::item(self.message, self.field, mark.entries..self.state.found.entries.len(), self.depth);
        let mut value = seed.deserialize(Value { state: self.state, slot: &slot });
        if let Err(fault) = &mut value {
            let place = self.state.place(&slot);
            fault.add(if slot.start < slot.end { place } else { Place { offset: key.start, ..place } });
        }
        self.state.reset(mark);
        value
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.end - self.next)
    }
}

fn time_text(time: Time, precision: Precision) -> Vec<u8> {
    let mut text = Vec::with_capacity(32);
    time.write(&mut text, precision);
    text
}

/// Returns the content of a string that was written as JSON without escapes.
fn unquoted(json: &[u8]) -> &str {
    let content = json.strip_prefix(b"\"").and_then(|json| json.strip_suffix(b"\""));
    std::str::from_utf8(content.unwrap_or_default()).unwrap_or_default()
}
