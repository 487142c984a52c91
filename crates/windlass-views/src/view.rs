//! Positions in an encoded object, and the reading of values.

use std::{borrow::Cow, cell::RefCell, fmt};

use serde::de::{DeserializeOwned, IntoDeserializer};
use thiserror::Error;

use windlass_api::jiff::Timestamp;
use windlass_protobuf::{Error, Node, Reading};

use self::elements::State;
pub(crate) use self::elements::{Elements, Key};
use crate::{
    json::{Damaged, Json, Type},
    protobuf_path,
};

mod elements;

/// An encoded object that is read through views.
///
/// A document belongs to one thread at a time: it retains the first error, and the positions of fields that were read.
#[derive(Debug)]
pub struct Document<'a> {
    source: Source<'a>,
    error: RefCell<Option<ViewError>>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each document")]
enum Source<'a> {
    Json(Json<'a>),
    /// `None` if the envelope cannot be read.
    Protobuf(Option<Reading<'a>>),
}

/// A value in an encoded object, of any type; or an absent value. Typed views dereference to it.
#[derive(Clone, Copy)]
pub struct View<'a>(Option<Position<'a>>);

#[derive(Clone, Copy)]
struct Position<'a> {
    document: &'a Document<'a>,
    place: Place<'a>,
}

#[derive(Clone, Copy)]
enum Place<'a> {
    /// A position in a document in JSON.
    Json(usize),
    /// A position in the JSON that a bytes field of a message contains.
    Inner(&'a [u8], usize),
    Protobuf(&'a Reading<'a>, Node<'a>),
}

/// A type with a view of its encoded form.
///
/// Built-in kinds and their parts have one with the feature `built-in`. `#[derive(View)]` of windlass-derive implements
/// it for custom kinds and their parts.
pub trait HasView {
    /// The view of a required field of this type.
    type View<'a>: FromView<'a>;
    /// The view of an optional field of this type: `Option<…>` for scalars. Structs, lists and maps are empty if they are
    /// absent.
    type Optional<'a>: FromView<'a>;
}

/// A type that is read from a view.
pub trait FromView<'a>: Sized {
    /// Reads the value. An absent value, and a value of another type, is the type's empty value. The latter is an error
    /// of the document.
    fn from_view(view: View<'a>) -> Self;
}

/// A value without parts. Absent scalars are `None` if their field is optional.
pub trait Scalar<'a>: Sized {
    /// Reads a present value. Returns `None`, and reports the error to the document, if it has another type.
    fn read(view: View<'a>) -> Option<Self>;
}

/// A value could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{reason}", Prefix(field))]
pub struct ViewError {
    field: String,
    reason: String,
}

/// The path of a field, before its reason.
struct Prefix<'a>(&'a str);

// === impl Document ===

impl<'a> Document<'a> {
    /// Creates the document of an object in JSON.
    pub fn json(text: &'a [u8]) -> Self {
        Self { source: Source::Json(Json::new(text)), error: RefCell::default() }
    }

    /// Creates the document of an object in protobuf, with its envelope. Views return what they return for the JSON of
    /// [`windlass_protobuf::to_json`]. A value without a known kind is an error of the document.
    pub fn protobuf(value: &'a [u8]) -> Self {
        let (reading, error) = match Reading::new(value) {
            Ok(reading) => (Some(reading), None),
            Err(error) => (None, Some(ViewError { field: String::new(), reason: error.to_string() })),
        };
        Self { source: Source::Protobuf(reading), error: RefCell::new(error) }
    }

    /// Returns the view of the whole object as this type.
    pub fn view<K: HasView>(&self) -> K::View<'_> {
        FromView::from_view(self.root())
    }

    /// Returns the whole object.
    pub fn root(&self) -> View<'_> {
        match &self.source {
            Source::Json(json) => View::at(self, Place::Json(json.root())),
            Source::Protobuf(Some(reading)) => View::at(self, Place::Protobuf(reading, reading.root())),
            Source::Protobuf(None) => View::ABSENT,
        }
    }

    /// Returns the first error of a read so far.
    pub fn check(&self) -> Result<(), ViewError> {
        self.error.borrow().clone().map_or(Ok(()), Err)
    }

    fn fail(&self, place: Place<'_>, reason: impl fmt::Display) {
        let mut error = self.error.borrow_mut();
        if error.is_none() {
            *error = Some(ViewError { field: self.path_of(place), reason: reason.to_string() });
        }
    }

    fn succeed<T>(&self, place: Place<'_>, result: Result<T, Damaged>) -> Option<T> {
        result.map_err(|Damaged { at }| self.fail(place.moved(at), "the text is not JSON")).ok()
    }

    fn understand<T>(&self, place: Place<'_>, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.fail(place, error)).ok()
    }

    /// Returns the path of a value. That of a value in protobuf is found by a search for its bytes.
    fn path_of(&self, place: Place<'_>) -> String {
        match (place, &self.source) {
            (Place::Json(at), Source::Json(json)) => json.path_of(at),
            (Place::Inner(text, at), Source::Protobuf(Some(reading))) => {
                let mut path = protobuf_path::of(reading, text);
                let inner = Json::new(text).path_of(at);
                if !path.is_empty() && !inner.is_empty() && !inner.starts_with('[') {
                    path.push('.');
                }
                path + &inner
            }
            (Place::Protobuf(_, node), Source::Protobuf(Some(reading))) => {
                protobuf_path::bytes_of(node).map_or_else(String::new, |bytes| protobuf_path::of(reading, bytes))
            }
            _ => String::new(),
        }
    }
}

impl Place<'_> {
    /// Returns another position in the same text.
    const fn moved(self, at: usize) -> Self {
        match self {
            Self::Json(_) => Self::Json(at),
            Self::Inner(text, _) => Self::Inner(text, at),
            Self::Protobuf(..) => self,
        }
    }
}

impl<'a> Position<'a> {
    /// Calls a function with the text that contains the value, and its position there.
    fn with_json<T>(self, read: impl FnOnce(&Json<'a>, usize) -> T) -> Option<T> {
        match (self.place, &self.document.source) {
            (Place::Json(at), Source::Json(json)) => Some(read(json, at)),
            (Place::Inner(text, at), _) => Some(read(&Json::new(text), at)),
            _ => None,
        }
    }

    /// Like [`Self::with_json`], for a function whose error is one of the document.
    fn in_json<T>(self, read: impl FnOnce(&Json<'a>, usize) -> Result<T, Damaged>) -> Option<T> {
        self.with_json(read).and_then(|result| self.document.succeed(self.place, result))
    }

    fn value_type(self) -> Option<Type> {
        let Place::Protobuf(_, node) = self.place else { return self.in_json(Json::type_at) };
        Some(match node {
            Node::Bool(_) => Type::Bool,
            Node::Int(_) | Node::Float(_) => Type::Number,
            Node::Text(_) | Node::Bytes(_) | Node::Quantity(_) | Node::Time(_) => Type::String,
            Node::List(_) => Type::List,
            Node::Message(_) | Node::Map(_) => Type::Object,
            Node::Null | Node::Json(_) => Type::Null,
        })
    }
}

// === impl View ===

impl<'a> View<'a> {
    /// An absent value.
    pub const ABSENT: Self = Self(None);

    /// Returns the value at a position; null is absent.
    fn at(document: &'a Document<'a>, place: Place<'a>) -> Self {
        let place = match place {
            Place::Protobuf(_, Node::Json(text)) => Place::Inner(text, Json::new(text).root()),
            place => place,
        };
        let position = Position { document, place };
        match position.value_type() {
            None | Some(Type::Null) => Self::ABSENT,
            Some(_) => Self(Some(position)),
        }
    }

    /// Reports whether there is a value other than null.
    #[must_use]
    pub const fn is_present(self) -> bool {
        self.0.is_some()
    }

    /// Reads a field by its name in the encoded object.
    #[must_use]
    pub fn get<T: FromView<'a>>(self, name: &str) -> T {
        T::from_view(self.field(name))
    }

    /// Reads the value as a type.
    #[must_use]
    pub fn read<T: FromView<'a>>(self) -> T {
        T::from_view(self)
    }

    /// Decodes the value into a type of k8s-openapi, or any other type. Returns `None` if the value is absent or has
    /// another type.
    #[must_use]
    pub fn decode<T: DeserializeOwned>(self) -> Option<T> {
        let position @ Position { document, place } = self.0?;
        if let Place::Protobuf(reading, node) = place {
            return document.understand(place, reading.decode(node));
        }
        let raw = position.in_json(Json::raw)?;
        windlass_api::from_json(raw).map_err(|error| document.fail(place, error)).ok()
    }

    /// Reports to the document that the value is not of the expected type: "an integer", for example.
    pub fn mismatch(self, expected: &str) {
        if let Some(position) = self.0
            && let Some(found) = position.value_type()
        {
            position.document.fail(position.place, format_args!("{found} instead of {expected}"));
        }
    }

    /// Returns the value if it is an object; otherwise an absent value.
    #[must_use]
    pub fn as_object(self) -> Self {
        self.of_type(Type::Object, "an object")
    }

    pub(crate) fn list(self) -> Self {
        self.of_type(Type::List, "a list")
    }

    #[cfg(test)]
    pub(crate) fn is_object(self) -> bool {
        self.has_type(Type::Object)
    }

    #[cfg(test)]
    pub(crate) fn is_list(self) -> bool {
        self.has_type(Type::List)
    }

    fn of_type(self, expected: Type, name: &str) -> Self {
        if self.has_type(expected) {
            return self;
        }
        self.mismatch(name);
        Self::ABSENT
    }

    fn has_type(self, expected: Type) -> bool {
        self.0.is_some_and(|position| position.value_type() == Some(expected))
    }

    /// Returns a member of an object.
    fn field(self, name: &str) -> Self {
        let Some(position @ Position { document, place }) = self.as_object().0 else { return Self::ABSENT };
        if let Place::Protobuf(reading, node) = place {
            let found = document.understand(place, reading.member(node, name)).flatten();
            return found.map_or(Self::ABSENT, |node| Self::at(document, Place::Protobuf(reading, node)));
        }
        let found = position.in_json(|json, at| json.member(at, name)).flatten();
        found.map_or(Self::ABSENT, |at| Self::at(document, place.moved(at)))
    }

    /// Returns a member of an object, without retaining the positions of others.
    pub(crate) fn entry(self, key: &str) -> Self {
        if let Some(Position { place: Place::Protobuf(..), .. }) = self.0 {
            return self.field(key);
        }
        let Some(mut cursor) = self.cursor() else { return Self::ABSENT };
        let mut found = Self::ABSENT;
        while let Some((is_match, value)) = cursor.next_member(|text| text.is(key)) {
            if is_match {
                found = value;
            }
        }
        found
    }

    /// Returns a cursor before the first element of an object or list; `None` for an absent value.
    pub(crate) fn cursor(self) -> Option<Elements<'a>> {
        let position @ Position { document, place } = self.0?;
        let state = match place {
            Place::Protobuf(reading, Node::Message(_)) => State::Members { reading, node: self, next: 0 },
            Place::Protobuf(reading, node) => {
                State::Parts(reading, document.understand(place, reading.elements(node)).flatten()?)
            }
            Place::Json(_) | Place::Inner(..) => State::Json(position.with_json(Json::cursor)?),
        };
        Some(Elements { document, place, state: Some(state) })
    }

    /// Reads a string.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        let position @ Position { document, place } = self.0?;
        if !self.has_type(Type::String) {
            self.mismatch("a string");
            return None;
        }
        match place {
            Place::Protobuf(_, Node::Text(bytes)) => return Some(windlass_protobuf::text(bytes)),
            Place::Protobuf(_, node @ Node::Quantity(_)) => return node.quantity(),
            Place::Protobuf(..) => return self.decode::<String>().map(Cow::Owned),
            Place::Json(_) | Place::Inner(..) => {}
        }
        let text = position.in_json(Json::string)?.decoded();
        if text.is_none() {
            document.fail(place, "the string is not valid");
        }
        text
    }

    /// Reads a number or a boolean with its decoder.
    fn literal<T: DeserializeOwned>(self, expected: &str) -> Option<T> {
        let position @ Position { document, place } = self.0?;
        if !self.has_type(Type::Number) && !self.has_type(Type::Bool) {
            self.mismatch(expected);
            return None;
        }
        let (literal, read) = match place {
            Place::Protobuf(_, Node::Int(number)) => {
                let read = T::deserialize(IntoDeserializer::<serde_json::Error>::into_deserializer(number)).ok();
                if read.is_some() {
                    return read;
                }
                (Cow::Owned(number.to_string()), None)
            }
            Place::Protobuf(_, Node::Bool(value)) => {
                let text = if value { "true" } else { "false" };
                (Cow::Borrowed(text), serde_json::from_str(text).ok())
            }
            Place::Protobuf(reading, node) => {
                let text = String::from_utf8(document.understand(place, reading.json(node))?).ok()?;
                let read = serde_json::from_str(&text).ok();
                (Cow::Owned(text), read)
            }
            Place::Json(_) | Place::Inner(..) => {
                let literal = position.in_json(Json::literal)?;
                (Cow::Borrowed(literal), serde_json::from_str(literal).ok())
            }
        };
        if read.is_none() {
            document.fail(place, format_args!("{literal} instead of {expected}"));
        }
        read
    }

    /// Returns a number as written, if the value is one.
    pub(crate) fn number(self) -> Option<Cow<'a, str>> {
        let position = self.0.filter(|_| self.has_type(Type::Number))?;
        match position.place {
            Place::Protobuf(reading, node) => {
                let text = position.document.understand(position.place, reading.json(node))?;
                String::from_utf8(text).ok().map(Cow::Owned)
            }
            Place::Json(_) | Place::Inner(..) => position.in_json(Json::literal).map(Cow::Borrowed),
        }
    }

    /// Reports whether the value is a number.
    pub(crate) fn is_number(self) -> bool {
        self.has_type(Type::Number)
    }

    /// Returns bytes that are not encoded in base64.
    pub(crate) fn plain_bytes(self) -> Option<&'a [u8]> {
        match self.0?.place {
            Place::Protobuf(_, Node::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Reads a time.
    pub(crate) fn time(self) -> Option<Timestamp> {
        let time = match self.0?.place {
            Place::Protobuf(_, Node::Time(time)) => {
                let (seconds, nanos) = time.parts();
                i32::try_from(nanos).ok().and_then(|nanos| Timestamp::new(seconds, nanos).ok())
            }
            _ => self.text()?.parse().ok(),
        };
        if time.is_none() {
            self.mismatch("a time");
        }
        time
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Position { document, place }) => write!(f, "View({:?})", document.path_of(place)),
            None => f.write_str("View(absent)"),
        }
    }
}

// === impl FromView and Scalar ===

impl<'a> FromView<'a> for View<'a> {
    fn from_view(view: Self) -> Self {
        view
    }
}

impl<'a, T: Scalar<'a>> FromView<'a> for Option<T> {
    #[inline]
    fn from_view(view: View<'a>) -> Self {
        if view.is_present() { T::read(view) } else { None }
    }
}

impl<'a> Scalar<'a> for Cow<'a, str> {
    fn read(view: View<'a>) -> Option<Self> {
        view.text()
    }
}

impl<'a> FromView<'a> for Cow<'a, str> {
    #[inline]
    fn from_view(view: View<'a>) -> Self {
        view.read::<Option<Self>>().unwrap_or_default()
    }
}

impl<'a> Scalar<'a> for String {
    fn read(view: View<'a>) -> Option<Self> {
        view.text().map(Cow::into_owned)
    }
}

impl<'a> FromView<'a> for String {
    #[inline]
    fn from_view(view: View<'a>) -> Self {
        view.read::<Option<Self>>().unwrap_or_default()
    }
}

macro_rules! literals {
    ($expected:literal $($type:ty)*) => {$(
        impl<'a> Scalar<'a> for $type {
            fn read(view: View<'a>) -> Option<Self> {
                view.literal($expected)
            }
        }

        impl<'a> FromView<'a> for $type {
            #[inline]
            fn from_view(view: View<'a>) -> Self {
                view.read::<Option<Self>>().unwrap_or_default()
            }
        }
    )*};
}

literals! { "a boolean" bool }
literals! { "an integer of 8 bits" i8 u8 }
literals! { "an integer of 16 bits" i16 u16 }
literals! { "an integer of 32 bits" i32 u32 }
literals! { "an integer of 64 bits" i64 u64 isize usize }
literals! { "a number" f32 f64 }

// === errors ===

impl ViewError {
    /// Returns the path of the field, such as `spec.containers[0].name`; `None` for the whole object.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        Some(self.field.as_str()).filter(|field| !field.is_empty())
    }

    /// Returns the reason, without the field.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}: ", self.0) }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::List => "a list",
            Self::Object => "an object",
        })
    }
}
