//! Objects that are read in place: single values are found without decoding the others.
//!
//! A [`Node`] is a value at its position in the encoded object. It has the JSON form that [`to_json`](crate::to_json)
//! writes: an absent member is absent there, and fields of embedded messages are members of the outer object.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

pub use self::elements::{Elements, ListNode};
use self::{
    found::{Found, float, is_empty, number},
    merged::Merged,
};
use crate::{
    Error, NEWEST_MINOR, decode, deserialize,
    envelope::Envelope,
    json,
    occurrences::{MAX_DEPTH, problem},
    quantity,
    table::{Field, Form, Item, Message, Special},
    time::{Precision, Time},
    wire::{Span, low, narrow, text},
};

mod elements;
mod found;
mod merged;

/// The fields of the messages of special types, and those of a map's entry.
const FIRST: u32 = 1;
const SECOND: u32 = 2;
const THIRD: u32 = 3;

/// The values of `type` in an `IntOrString`.
const INTEGER: u64 = 0;
const STRING: u64 = 1;

type Result<T> = std::result::Result<T, Error>;

/// An object in protobuf that is read in place.
///
/// ```
/// use windlass_protobuf::{Node, Reading};
///
/// let value = windlass_protobuf::to_protobuf(br#"{"kind":"Pod","apiVersion":"v1","spec":{"nodeName":"n"}}"#)?;
/// let reading = Reading::new(&value)?;
/// let spec = reading.member(reading.root(), "spec")?.unwrap();
/// assert!(matches!(reading.member(spec, "nodeName")?, Some(Node::Text(b"n"))));
/// # Ok::<_, windlass_protobuf::Error>(())
/// ```
#[derive(Debug)]
pub struct Reading<'a> {
    api_version: &'a str,
    kind: &'a str,
    message: &'static Message,
    input: &'a [u8],
    /// Messages whose occurrences are not next to each other.
    merged: Merged,
}

/// A value of an object that is read in place.
// The layout makes each copy one of whole words. Otherwise, the compiler copies the bytes after the tag, with loads that
// overlap several stores and have to wait for all of them.
#[derive(Clone, Copy, Debug)]
#[repr(C, u64)]
pub enum Node<'a> {
    /// Null, which is also the zero time.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number, which is finite.
    Float(f64),
    /// A string. Its bytes may be invalid UTF-8: see [`text`].
    Text(&'a [u8]),
    /// Bytes, which JSON has in base64.
    Bytes(&'a [u8]),
    /// A quantity, which may not be canonical: see [`Node::quantity`].
    Quantity(&'a [u8]),
    /// A time.
    Time(TimeNode),
    /// JSON in a bytes field.
    Json(&'a [u8]),
    /// An object with the fields of a message.
    Message(MessageNode<'a>),
    /// A list.
    List(ListNode<'a>),
    /// An object with any keys.
    Map(ListNode<'a>),
}

/// A time that is read in place.
#[derive(Clone, Copy, Debug)]
pub struct TimeNode(Time, Precision);

/// A message that is read in place.
#[derive(Clone, Copy, Debug)]
pub struct MessageNode<'a> {
    message: &'static Message,
    bytes: &'a [u8],
    depth: u8,
    is_root: bool,
}

// === impl Reading ===

impl<'a> Reading<'a> {
    /// Reads the envelope of an object.
    pub fn new(value: &'a [u8]) -> Result<Self> {
        let Envelope { api_version, kind, raw } = Envelope::read(value)?;
        let message = crate::message_of(api_version, kind)?;
        Ok(Self { api_version, kind, message, input: raw.of(value), merged: Merged::default() })
    }

    /// Returns the whole object.
    pub fn root(&self) -> Node<'_> {
        Node::Message(MessageNode { message: self.message, bytes: self.input, depth: 0, is_root: true })
    }

    /// Returns a member of an object; `None` if the object has no such member, or the value is not an object.
    ///
    /// JSON in a bytes field has no members here.
    #[inline]
    pub fn member<'r>(&'r self, node: Node<'r>, name: &str) -> Result<Option<Node<'r>>> {
        match node {
            Node::Message(node) => {
                let found = self.field(node, name)?;
                Ok(match (found, name) {
                    (None, "kind") if node.is_root => Some(Node::Text(self.kind.as_bytes())),
                    (None, "apiVersion") if node.is_root => Some(Node::Text(self.api_version.as_bytes())),
                    (found, _) => found,
                })
            }
            Node::Map(map) => {
                let (mut elements, mut found) = (Elements::new(map), None);
                // Only such a name can be that of a key whose invalid bytes are replaced.
                let has_replacement = name.contains(char::REPLACEMENT_CHARACTER);
                while let Some(entry) = elements.next_span()? {
                    let (key, value) = map.pair(entry)?;
                    if key == name.as_bytes() || has_replacement && text(key) == name {
                        found = Some(value);
                    }
                }
                found.map(|value| self.item(map.field, value, map.depth)).transpose()
            }
            _ => Ok(None),
        }
    }

    #[inline]
    fn field<'r>(&'r self, node: MessageNode<'r>, name: &str) -> Result<Option<Node<'r>>> {
        let MessageNode { message, bytes, depth, .. } = node;
        let Some(field) = message.field_of(name) else { return Ok(None) };
        if usize::from(depth) > MAX_DEPTH {
            return Err(problem(message, None, 0, "more than 128 nested messages"));
        }
        if !field.minors.contains(&NEWEST_MINOR) {
            return Ok(None);
        }
        let found = Found::of(message, field, bytes)?;
        if found.count == 0 && !field.is_always_written {
            return Ok(None);
        }
        if field.form == Form::Embedded {
            let Item::Message(inner) = field.item else { return Ok(None) };
            let bytes = self.joined(inner.get(), field, &found, bytes)?;
            return self.embedded(MessageNode { message: inner.get(), bytes, depth: depth + 1, is_root: false }, name);
        }
        let list = || ListNode { field, bytes: &bytes[found.start..found.end], depth: depth + 1 };
        let value = match field.form {
            Form::Pointer | Form::List | Form::Map if found.count == 0 => Node::Null,
            Form::List => Node::List(list()),
            Form::Map => Node::Map(list()),
            Form::Value if found.count == 0 && field.item.is_nil_without_value() => Node::Null,
            Form::Value if field.omit_empty && is_empty(field, &found) => return Ok(None),
            _ => {
                let value = match field.item {
                    // An occurrence of a time replaces the value.
                    Item::Special(Special::Time | Special::MicroTime, _) => found.last,
                    Item::Message(inner) | Item::Special(_, inner) => {
                        Some(self.joined(inner.get(), field, &found, bytes)?)
                    }
                    _ => found.last,
                };
                self.item(field, value, depth)?
            }
        };
        Ok(if field.omit_zero && matches!(value, Node::Null) { None } else { Some(value) })
    }

    /// Returns a field of an embedded message. Not inlined, unlike [`Self::field`], which calls it.
    #[inline(never)]
    fn embedded<'r>(&'r self, node: MessageNode<'r>, name: &str) -> Result<Option<Node<'r>>> {
        self.field(node, name)
    }

    /// Returns a message as one part. Several occurrences are merged, which is the message of their joined bytes.
    fn joined<'r>(
        &'r self,
        message: &'static Message,
        field: &'static Field,
        found: &Found<'r>,
        outer: &'r [u8],
    ) -> Result<&'r [u8]> {
        if found.count < 2 {
            return Ok(found.last.unwrap_or_default());
        }
        let outer = &outer[found.start..found.end];
        self.merged.get_or_insert(outer, message.name, || {
            let (mut joined, mut elements) = (Vec::new(), Elements::new(ListNode { field, bytes: outer, depth: 0 }));
            while let Some(part) = elements.next_span()? {
                joined.extend_from_slice(part);
            }
            Ok(joined)
        })
    }

    /// Returns one value; without bytes, Go's zero value.
    #[inline]
    fn item<'r>(&'r self, field: &'static Field, value: Option<&'r [u8]>, depth: u8) -> Result<Node<'r>> {
        let bytes = value.unwrap_or_default();
        Ok(match field.item {
            Item::Message(inner) => {
                Node::Message(MessageNode { message: inner.get(), bytes, depth: depth + 1, is_root: false })
            }
            Item::Special(special, inner) => self.special(special, inner.get(), bytes, depth + 1)?,
            Item::String => Node::Text(bytes),
            Item::Bytes => Node::Bytes(bytes),
            Item::Bool => Node::Bool(number(bytes) != 0),
            Item::Int32 => Node::Int(low(number(bytes)).into()),
            Item::Int64 => Node::Int(number(bytes).cast_signed()),
            Item::Float64 => match float(bytes) {
                number if number.is_finite() => Node::Float(number),
                number => {
                    let text = format!("JSON has no number {number}");
                    return Err(Error::Protobuf {
                        message: "double",
                        field: Some(field.name),
                        offset: 0,
                        problem: text.into(),
                    });
                }
            },
        })
    }

    /// Returns a value of a type with its own JSON encoding.
    fn special<'r>(
        &'r self,
        special: Special,
        message: &'static Message,
        bytes: &'r [u8],
        depth: u8,
    ) -> Result<Node<'r>> {
        if usize::from(depth) > MAX_DEPTH {
            return Err(problem(message, None, 0, "more than 128 nested messages"));
        }
        let field = |number: u32| &message.fields[number as usize - 1];
        let found = |number: u32| Found::of(message, field(number), bytes);
        let list = |number: u32, found: &Found<'_>| {
            Node::List(ListNode { field: field(number), bytes: &bytes[found.start..found.end], depth: depth + 1 })
        };
        let schema = |number: u32, found: &Found<'r>| {
            let Item::Message(inner) = field(number).item else { return Ok(Node::Null) };
            let joined = self.joined(inner.get(), field(number), found, bytes)?;
            self.item(field(number), Some(joined), depth)
        };
        Ok(match special {
            Special::Quantity => match found(FIRST)?.last {
                Some(text) => {
                    check_quantity(message, text)?;
                    Node::Quantity(text)
                }
                None => Node::Quantity(b"0"),
            },
            Special::IntOrString => match found(FIRST)?.last.map_or(INTEGER, number) {
                INTEGER => Node::Int(low(found(SECOND)?.last.map_or(0, number)).into()),
                STRING => Node::Text(found(THIRD)?.last.unwrap_or_default()),
                other => return Err(problem(message, Some("type"), 0, format!("the unknown type {other}"))),
            },
            Special::Time | Special::MicroTime if bytes.is_empty() => Node::Null,
            Special::Time | Special::MicroTime => {
                let precision = if special == Special::Time { Precision::Seconds } else { Precision::Micros };
                let seconds = found(FIRST)?.last.map_or(0, number).cast_signed();
                let nanos = low(found(SECOND)?.last.map_or(0, number));
                match Time::from_parts(seconds, nanos, precision) {
                    Some(time) if time.is_zero() => Node::Null,
                    Some(time) => Node::Time(TimeNode(time, precision)),
                    None => {
                        let text = "a year that is negative or has more than five digits";
                        return Err(problem(message, Some("seconds"), 0, text));
                    }
                }
            }
            Special::Raw => {
                let json = found(FIRST)?.last.unwrap_or_default();
                if json.is_empty() || json.trim_ascii() == b"null" { Node::Null } else { Node::Json(json) }
            }
            Special::Strings => match found(FIRST)? {
                found if found.count == 0 => Node::List(ListNode { field: field(FIRST), bytes: &[], depth: depth + 1 }),
                found => list(FIRST, &found),
            },
            Special::SchemaOrBool => match found(SECOND)? {
                none if none.count == 0 => Node::Bool(found(FIRST)?.last.map_or(0, number) != 0),
                found => schema(SECOND, &found)?,
            },
            Special::SchemaOrArray | Special::SchemaOrStrings => {
                let items = found(SECOND)?;
                let single = found(FIRST)?;
                if items.count > 0 {
                    list(SECOND, &items)
                } else if single.count == 0 {
                    Node::Null
                } else {
                    schema(FIRST, &single)?
                }
            }
        })
    }

    /// Returns the elements of a list or a map, and none of another value. The keys of a map are in their order, each
    /// once, as in JSON.
    pub fn elements<'r>(&'r self, node: Node<'r>) -> Result<Option<Elements<'r>>> {
        match node {
            Node::List(list) => Ok(Some(Elements::new(list))),
            Node::Map(map) => {
                let (mut elements, mut last) = (Elements::new(map), None);
                while let Some(entry) = elements.next_span()? {
                    let (key, _) = map.pair(entry)?;
                    if last.is_some_and(|last| last >= key) {
                        let bytes = self.merged.get_or_insert(map.bytes, "", || map.sorted())?;
                        return Ok(Some(Elements::new(ListNode { bytes, ..map })));
                    }
                    last = Some(key);
                }
                Ok(Some(Elements::new(map)))
            }
            _ => Ok(None),
        }
    }

    /// Returns the next item of a list.
    pub fn next_item<'r>(&'r self, elements: &mut Elements<'r>) -> Result<Option<Node<'r>>> {
        let Some(item) = elements.next_span()? else { return Ok(None) };
        // The depth of a list is that of its items.
        self.item(elements.list.field, Some(item), elements.list.depth - 1).map(Some)
    }

    /// Returns the next entry of a map.
    pub fn next_entry<'r>(&'r self, elements: &mut Elements<'r>) -> Result<Option<(&'r [u8], Node<'r>)>> {
        let Some(entry) = elements.next_span()? else { return Ok(None) };
        let (key, value) = elements.list.pair(entry)?;
        Ok(Some((key, self.item(elements.list.field, value, elements.list.depth - 1)?)))
    }

    /// Returns the names of the members of a message's object, in the order of JSON. Some may be absent.
    pub fn names(&self, node: MessageNode<'_>) -> impl Iterator<Item = &'static str> + use<> {
        let head: &[&str] = if node.is_root { &["kind", "apiVersion"] } else { &[] };
        let message = node.message;
        let head = head.iter().copied().filter(|name| message.field_of(name).is_none());
        head.chain(message.keys.iter().copied())
    }

    /// Decodes a value. Nulls that the type does not accept are decoded as by [`windlass_api::from_json`].
    pub fn decode<T: DeserializeOwned>(&self, node: Node<'_>) -> Result<T> {
        if let Node::Message(MessageNode { message, bytes, is_root, .. }) = node {
            let head = [("kind", self.kind), ("apiVersion", self.api_version)];
            let span = Span { start: 0, end: narrow(bytes.len()) };
            if let Ok(value) = deserialize::deserialize(message, is_root.then_some(head), bytes, span, NEWEST_MINOR) {
                return Ok(value);
            }
        }
        let json = self.json(node)?;
        windlass_api::from_json(&json)
            .map_err(|error| Error::Value { path: String::new(), problem: error.to_string().into() })
    }

    /// Converts a value to JSON.
    pub fn json(&self, node: Node<'_>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write(node, &mut out)?;
        Ok(out)
    }

    fn write<'r>(&'r self, node: Node<'r>, out: &mut Vec<u8>) -> Result<()> {
        match node {
            Node::Null => out.extend_from_slice(b"null"),
            Node::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Node::Int(number) => json::integer(out, number),
            Node::Float(number) => {
                json::float(out, number);
            }
            Node::Text(bytes) => json::string(out, bytes),
            Node::Bytes(bytes) => json::bytes(out, bytes),
            Node::Quantity(_) => json::string(out, node.quantity().unwrap_or_default().as_bytes()),
            Node::Time(TimeNode(time, precision)) => time.write(out, precision),
            Node::Json(json) => json::compact(out, json).map_err(|(offset, reason)| Error::Protobuf {
                message: "RawExtension",
                field: Some("raw"),
                offset,
                problem: format!("not JSON: {reason}").into(),
            })?,
            Node::Message(MessageNode { message, bytes, is_root, .. }) => {
                let head = [("kind", self.kind), ("apiVersion", self.api_version)];
                let head = if is_root { &head[..] } else { &[] };
                let span = Span { start: 0, end: narrow(bytes.len()) };
                decode::decode(message, head, bytes, span, NEWEST_MINOR, out)?;
            }
            Node::List(list) => {
                out.push(b'[');
                let mut elements = Elements::new(list);
                while let Some(item) = self.next_item(&mut elements)? {
                    separate(out, b'[');
                    self.write(item, out)?;
                }
                out.push(b']');
            }
            Node::Map(_) => {
                out.push(b'{');
                let mut is_first = true;
                if let Some(mut elements) = self.elements(node)? {
                    while let Some((key, value)) = self.next_entry(&mut elements)? {
                        if !std::mem::take(&mut is_first) {
                            out.push(b',');
                        }
                        json::string(out, key);
                        out.push(b':');
                        self.write(value, out)?;
                    }
                }
                out.push(b'}');
            }
        }
        Ok(())
    }
}

/// Writes a comma, except after the opening bracket of the list that is being written.
fn separate(out: &mut Vec<u8>, opening: u8) {
    if out.last() != Some(&opening) {
        out.push(b',');
    }
}

// === impl Node ===

impl<'a> Node<'a> {
    /// Returns the canonical text of a quantity; `None` for another value.
    pub fn quantity(self) -> Option<Cow<'a, str>> {
        let Self::Quantity(text) = self else { return None };
        quantity::canonical(str::from_utf8(text).ok()?).ok()
    }
}

impl<'a> MessageNode<'a> {
    /// Returns the encoded message.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

impl TimeNode {
    /// Returns the seconds since 1970, and the nanoseconds after them.
    #[must_use]
    pub const fn parts(self) -> (i64, u32) {
        (self.0.seconds, self.0.nanos)
    }
}

fn check_quantity(message: &'static Message, bytes: &[u8]) -> Result<()> {
    let error = |text: String| problem(message, Some("string"), 0, text);
    let text = str::from_utf8(bytes).map_err(|_| error("invalid UTF-8".to_owned()))?;
    quantity::canonical(text).map(drop).map_err(|reason| error(reason.to_string()))
}
