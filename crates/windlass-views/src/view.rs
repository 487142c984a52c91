//! Positions in an encoded object, and the reading of values.

use std::{borrow::Cow, cell::RefCell, fmt};

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::json::{Cursor, Damaged, Json, RawText, Type};

/// An encoded object that is read through views.
///
/// A document belongs to one thread at a time: it retains the first error, and the positions of fields that were read.
#[derive(Debug)]
pub struct Document<'a> {
    json: Json<'a>,
    error: RefCell<Option<ViewError>>,
}

/// A value in an encoded object, of any type; or an absent value. Typed views dereference to it.
#[derive(Clone, Copy)]
pub struct View<'a>(Option<Position<'a>>);

#[derive(Clone, Copy)]
struct Position<'a> {
    document: &'a Document<'a>,
    at: usize,
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
        Self { json: Json::new(text), error: RefCell::default() }
    }

    /// Returns the view of the whole object as this type.
    pub fn view<K: HasView>(&self) -> K::View<'_> {
        FromView::from_view(self.root())
    }

    /// Returns the whole object.
    pub fn root(&self) -> View<'_> {
        View::at(self, self.json.root())
    }

    /// Returns the first error of a read so far.
    pub fn check(&self) -> Result<(), ViewError> {
        self.error.borrow().clone().map_or(Ok(()), Err)
    }

    fn fail(&self, at: usize, reason: impl fmt::Display) {
        let mut error = self.error.borrow_mut();
        if error.is_none() {
            *error = Some(ViewError { field: self.json.path_of(at), reason: reason.to_string() });
        }
    }

    fn succeed<T>(&self, result: Result<T, Damaged>) -> Option<T> {
        result.map_err(|Damaged { at }| self.fail(at, "the text is not JSON")).ok()
    }
}

// === impl View ===

impl<'a> View<'a> {
    /// An absent value.
    pub const ABSENT: Self = Self(None);

    /// Returns the value at a position; null is absent.
    pub(crate) fn at(document: &'a Document<'a>, at: usize) -> Self {
        match document.succeed(document.json.type_at(at)) {
            None | Some(Type::Null) => Self::ABSENT,
            Some(_) => Self(Some(Position { document, at })),
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
        let Position { document, at } = self.0?;
        let raw = document.succeed(document.json.raw(at))?;
        windlass_api::from_json(raw).map_err(|error| document.fail(at, error)).ok()
    }

    /// Reports to the document that the value is not of the expected type: "an integer", for example.
    pub fn mismatch(self, expected: &str) {
        if let Some(Position { document, at }) = self.0
            && let Some(found) = document.succeed(document.json.type_at(at))
        {
            document.fail(at, format_args!("{found} instead of {expected}"));
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

    fn of_type(self, expected: Type, name: &str) -> Self {
        if self.has_type(expected) {
            return self;
        }
        self.mismatch(name);
        Self::ABSENT
    }

    fn has_type(self, expected: Type) -> bool {
        self.0.is_some_and(|Position { document, at }| document.json.type_at(at) == Ok(expected))
    }

    /// Returns a member of an object.
    fn field(self, name: &str) -> Self {
        let Some(Position { document, at }) = self.as_object().0 else { return Self::ABSENT };
        let found = document.succeed(document.json.member(at, name)).flatten();
        found.map_or(Self::ABSENT, |at| Self::at(document, at))
    }

    /// Returns a member of an object, without retaining the positions of others.
    pub(crate) fn entry(self, key: &str) -> Self {
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
        self.0.map(|Position { document, at }| Elements { document, cursor: Some(document.json.cursor(at)) })
    }

    /// Reads a string.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        let Position { document, at } = self.0?;
        if !self.has_type(Type::String) {
            self.mismatch("a string");
            return None;
        }
        let text = document.succeed(document.json.string(at))?.decoded();
        if text.is_none() {
            document.fail(at, "the string is not valid");
        }
        text
    }

    /// Reads a number or a boolean with its decoder.
    fn literal<T: DeserializeOwned>(self, expected: &str) -> Option<T> {
        let Position { document, at } = self.0?;
        if !self.has_type(Type::Number) && !self.has_type(Type::Bool) {
            self.mismatch(expected);
            return None;
        }
        let literal = document.succeed(document.json.literal(at))?;
        let read = serde_json::from_str(literal).ok();
        if read.is_none() {
            document.fail(at, format_args!("{literal} instead of {expected}"));
        }
        read
    }

    /// Returns a number as written, if the value is one.
    pub(crate) fn number(self) -> Option<&'a str> {
        let Position { document, at } = self.0.filter(|_| self.has_type(Type::Number))?;
        document.succeed(document.json.literal(at))
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Position { document, at }) => write!(f, "View({:?})", document.json.path_of(at)),
            None => f.write_str("View(absent)"),
        }
    }
}

/// The elements of an object or list. Ends at damaged text, which is an error of the document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements<'a> {
    document: &'a Document<'a>,
    /// `None` after the end.
    cursor: Option<Cursor<'a>>,
}

impl<'a> Elements<'a> {
    /// Returns a property of the next key, and the value.
    pub(crate) fn next_member<T>(&mut self, key: impl FnOnce(RawText<'a>) -> T) -> Option<(T, View<'a>)> {
        let member = self.document.succeed(self.cursor.as_mut()?.next_member()).flatten();
        self.cursor = self.cursor.filter(|_| member.is_some());
        member.map(|member| (key(member.key), View::at(self.document, member.value)))
    }

    /// Returns a key, or reports that it is not valid.
    pub(crate) fn checked<T>(&self, key: Option<T>) -> Option<T> {
        if let (None, Some(cursor)) = (&key, &self.cursor) {
            self.document.fail(cursor.at(), "a key is not valid");
        }
        key
    }

    pub(crate) fn next_item(&mut self) -> Option<View<'a>> {
        let item = self.document.succeed(self.cursor.as_mut()?.next_item()).flatten();
        self.cursor = self.cursor.filter(|_| item.is_some());
        item.map(|at| View::at(self.document, at))
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
