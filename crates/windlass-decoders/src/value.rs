//! Values, and the places in structs into which they are decoded.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use crate::wire::{BYTES, FIXED64, Field, Fields, Result, Unusual, VARINT};

/// The limits of a decoder. They are a type parameter, so that a decoder is compiled only in crates that use it.
pub(crate) trait Limits {
    /// The deepest nesting of messages.
    const LEVELS: u32;
}

/// Reports whether a decoded value is null in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Value,
    Null,
}

/// A type whose values are decoded in place.
pub(crate) trait Value: Sized {
    /// The wire type.
    const WIRE: u8;

    /// Returns a value to decode into. It is also the decoded value of null.
    fn blank() -> Self;

    /// Decodes a field into a blank value. The caller has checked its wire type.
    fn read<L: Limits>(&mut self, field: Field<'_>, level: u32) -> Result<State>;

    /// Reports whether `omitempty` applies to a value.
    fn is_empty(_field: Field<'_>) -> bool {
        false
    }
}

/// A place for one value: the value, or an `Option` of it.
pub(crate) trait Place {
    type Value: Value;

    /// Returns the place of an absent value.
    fn absent() -> Self;

    /// Returns a blank value in this place.
    fn open(&mut self) -> &mut Self::Value;

    /// Sets the value to null.
    fn clear(&mut self);
}

/// A place for a list or a map: the collection, or an `Option` of it.
pub(crate) trait Collection {
    type Content;

    fn content(&mut self) -> &mut Self::Content;
}

impl<T: Value> Place for T {
    type Value = T;

    fn absent() -> Self {
        T::blank()
    }

    fn open(&mut self) -> &mut T {
        self
    }

    fn clear(&mut self) {}
}

impl<T: Value> Place for Option<T> {
    type Value = T;

    fn absent() -> Self {
        None
    }

    #[inline]
    fn open(&mut self) -> &mut T {
        self.insert(T::blank())
    }

    #[inline]
    fn clear(&mut self) {
        *self = None;
    }
}

impl<T> Collection for Vec<T> {
    type Content = Self;

    fn content(&mut self) -> &mut Self {
        self
    }
}

impl<T> Collection for Option<Vec<T>> {
    type Content = Vec<T>;

    fn content(&mut self) -> &mut Vec<T> {
        self.get_or_insert_default()
    }
}

impl<T> Collection for BTreeMap<String, T> {
    type Content = Self;

    fn content(&mut self) -> &mut Self {
        self
    }
}

impl<T> Collection for Option<BTreeMap<String, T>> {
    type Content = BTreeMap<String, T>;

    fn content(&mut self) -> &mut BTreeMap<String, T> {
        self.get_or_insert_default()
    }
}

// === Fields of messages ===

/// Decodes a field with one value.
#[inline]
pub(crate) fn keep<L: Limits, P: Place>(place: &mut P, field: Field<'_>, level: u32) -> Result<()> {
    field.expect(P::Value::WIRE)?;
    if place.open().read::<L>(field, level)? == State::Null {
        place.clear();
    }
    Ok(())
}

/// Decodes a field with one value, which is omitted if it is empty.
#[inline]
pub(crate) fn omit<L: Limits, P: Place>(place: &mut P, field: Field<'_>, level: u32) -> Result<()> {
    field.expect(P::Value::WIRE)?;
    if P::Value::is_empty(field) { Ok(()) } else { keep::<L, P>(place, field, level) }
}

/// Sets an absent field to Go's zero value.
#[cold]
pub(crate) fn fill<L: Limits, P: Place>(place: &mut P, level: u32) -> Result<()> {
    keep::<L, P>(place, Field::zero(P::Value::WIRE), level)
}

/// Decodes all items of a list, which are next to each other.
pub(crate) fn list<L: Limits, T: Value>(
    place: &mut impl Collection<Content = Vec<T>>,
    first: Field<'_>,
    rest: &mut Fields<'_>,
    level: u32,
) -> Result<()> {
    let count = 1 + rest.count_of(first.number)?;
    let items = place.content();
    items.reserve_exact(count);
    items.resize_with(count, T::blank);
    let mut next = Some(first);
    for item in items {
        let field = next.ok_or(Unusual)?;
        field.expect(T::WIRE)?;
        item.read::<L>(field, level)?;
        next = rest.next_of(first.number)?;
    }
    Ok(())
}

/// Decodes all entries of a map, which are next to each other. Each has a key, then a value; Go omits those that are nil.
pub(crate) fn map<L: Limits, T: Value>(
    place: &mut impl Collection<Content = BTreeMap<String, T>>,
    first: Field<'_>,
    rest: &mut Fields<'_>,
    level: u32,
) -> Result<()> {
    let entries = place.content();
    let mut next = Some(first);
    while let Some(entry) = next {
        entry.expect(BYTES)?;
        let mut parts = Fields::new(entry.content);
        let (key, part, None) = (parts.next_of(1)?, parts.next_of(2)?, parts.next()?) else { return Err(Unusual) };
        // Go's zero values.
        let (key, part) = (key.unwrap_or(Field::zero(BYTES)), part.unwrap_or(Field::zero(T::WIRE)));
        part.expect(T::WIRE)?;
        let mut value = T::blank();
        value.read::<L>(part, level)?;
        entries.insert(key.text()?.to_owned(), value);
        next = rest.next_of(first.number)?;
    }
    Ok(())
}

// === Values ===

impl Value for String {
    const WIRE: u8 = BYTES;

    fn blank() -> Self {
        Self::new()
    }

    #[inline]
    fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
        *self = Self::from(field.text()?);
        Ok(State::Value)
    }

    fn is_empty(field: Field<'_>) -> bool {
        field.content.is_empty()
    }
}

impl Value for ByteString {
    const WIRE: u8 = BYTES;

    fn blank() -> Self {
        Self::default()
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
        self.0 = field.content.to_vec();
        Ok(State::Value)
    }

    fn is_empty(field: Field<'_>) -> bool {
        field.content.is_empty()
    }
}

impl Value for bool {
    const WIRE: u8 = VARINT;

    fn blank() -> Self {
        false
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
        *self = field.value != 0;
        Ok(State::Value)
    }

    fn is_empty(field: Field<'_>) -> bool {
        field.value == 0
    }
}

impl Value for i32 {
    const WIRE: u8 = VARINT;

    fn blank() -> Self {
        0
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
        *self = field.int();
        Ok(State::Value)
    }

    fn is_empty(field: Field<'_>) -> bool {
        field.int() == 0
    }
}

impl Value for i64 {
    const WIRE: u8 = VARINT;

    fn blank() -> Self {
        0
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
        *self = field.value.cast_signed();
        Ok(State::Value)
    }

    fn is_empty(field: Field<'_>) -> bool {
        field.value == 0
    }
}

impl Value for f64 {
    const WIRE: u8 = FIXED64;

    fn blank() -> Self {
        0.0
    }

    /// JSON has only finite numbers, and its integers have no sign of zero.
    fn read<L: Limits>(&mut self, field: Field<'_>, _level: u32) -> Result<State> {
        *self = Self::from_bits(field.value);
        if self.is_finite() { Ok(State::Value) } else { Err(Unusual) }
    }

    fn is_empty(field: Field<'_>) -> bool {
        Self::from_bits(field.value) == 0.0
    }
}

/// A message with a list of strings.
impl Value for Vec<String> {
    const WIRE: u8 = BYTES;

    fn blank() -> Self {
        Self::new()
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, level: u32) -> Result<State> {
        let mut rest = Fields::new(field.content);
        if let Some(first) = rest.next_of(1)? {
            list::<L, String>(self, first, &mut rest, level)?;
        }
        if rest.next()?.is_none() { Ok(State::Value) } else { Err(Unusual) }
    }
}

impl<T: Value> Value for Box<T> {
    const WIRE: u8 = T::WIRE;

    fn blank() -> Self {
        Self::new(T::blank())
    }

    fn read<L: Limits>(&mut self, field: Field<'_>, level: u32) -> Result<State> {
        (**self).read::<L>(field, level)
    }

    fn is_empty(field: Field<'_>) -> bool {
        T::is_empty(field)
    }
}
