//! In-place decoding of trees, with the same result as decoding the tree's text.
//!
//! A tree with unknown fields, values of other types, or too many elements is rejected, and left to the decoder, which
//! produces the error messages. A rejected tree may have been normalized in part, which does not change its meaning.

use serde_json::{Map, Value};

use super::{
    MAX_ELEMENTS, base64, quantity, shape,
    time::{self, Precision},
    types::{Field, Kind, Special, Struct, Type},
};

/// The tree cannot be normalized in place; the decoder has to handle it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotInPlace;

/// Brings a tree into the form that decoding its text into the struct and encoding the result would give.
pub(super) fn in_place(tree: &mut Value, shape: &'static Struct) -> Result<(), NotInPlace> {
    match tree {
        Value::Object(entries) => InPlace::default().fields(entries, shape),
        _ => Err(NotInPlace),
    }
}

#[derive(Default)]
struct InPlace {
    /// The number of list and map elements so far.
    elements: usize,
}

impl InPlace {
    fn fields(&mut self, entries: &mut Map<String, Value>, shape: &'static Struct) -> Result<(), NotInPlace> {
        // Most trees have been normalized before; their fields are not moved.
        let (mut next, mut in_form, mut seen) = (0, true, 0u128);
        for (name, value) in entries.iter_mut() {
            let index = shape.position(name, next).ok_or(NotInPlace)?;
            let field = &shape.fields[index];
            in_form &= index >= next;
            next = index + 1;
            seen |= 1 << index;
            self.value(value, &field.ty)?;
            let stays = !value.is_null() || shape::zero(&field.ty).is_null();
            in_form &= stays && !shape::is_omitted(field, value);
        }
        let is_missing =
            |(index, field): (usize, &Field)| seen & 1 << index == 0 && !shape::is_omitted(field, &Value::Null);
        if in_form && !shape.fields.iter().enumerate().any(is_missing) {
            return Ok(());
        }
        let mut values = vec![None; shape.fields.len()];
        for (name, value) in std::mem::take(entries) {
            if let Some(slot) = shape.position(&name, 0).and_then(|index| values.get_mut(index)) {
                *slot = Some(value).filter(|value| !value.is_null());
            }
        }
        if let Value::Object(normalized) = shape::object(shape, values) {
            *entries = normalized;
        }
        Ok(())
    }

    /// Settles one value. Null stays: it is the zero value of any type.
    fn value(&mut self, value: &mut Value, ty: &Type) -> Result<(), NotInPlace> {
        match (&ty.kind, &mut *value) {
            (_, Value::Null) | (Kind::String, Value::String(_)) | (Kind::Bool, Value::Bool(_)) => Ok(()),
            (Kind::Pointer(inner), _) => self.value(value, inner),
            (Kind::Struct(inner), Value::Object(entries)) => self.fields(entries, inner.get()),
            (Kind::Special(special), _) => normalize_special(value, *special),
            (Kind::Int32, Value::Number(number)) => fits::<i32>(number.as_i64()),
            (Kind::Int64, Value::Number(number)) => fits::<i64>(number.as_i64()),
            (Kind::Uint8, Value::Number(number)) => fits::<u8>(number.as_i64()),
            (Kind::Bytes, Value::String(text)) => {
                let canonical = base64::normalize(text).ok();
                replace(value, canonical)
            }
            (Kind::Slice(element), Value::Array(items)) => {
                self.add_elements(items.len())?;
                items.iter_mut().try_for_each(|item| self.element(item, element))
            }
            (Kind::Map { value: element, .. }, Value::Object(entries)) => {
                self.add_elements(entries.len())?;
                entries.values_mut().try_for_each(|entry| self.element(entry, element))?;
                if !entries.keys().is_sorted() {
                    entries.sort_keys();
                }
                Ok(())
            }
            _ => Err(NotInPlace),
        }
    }

    fn element(&mut self, value: &mut Value, ty: &Type) -> Result<(), NotInPlace> {
        if value.is_null() {
            *value = shape::zero(ty);
        }
        self.value(value, ty)
    }

    fn add_elements(&mut self, more: usize) -> Result<(), NotInPlace> {
        self.elements += more;
        if self.elements > MAX_ELEMENTS { Err(NotInPlace) } else { Ok(()) }
    }
}

fn normalize_special(value: &mut Value, special: Special) -> Result<(), NotInPlace> {
    let canonical = match (special, &*value) {
        (Special::Quantity, Value::String(text)) => quantity::canonical(text.trim()).ok(),
        (Special::IntOrString, Value::String(_))
        | (Special::FieldsV1 | Special::RawExtension, _)
        | (Special::SchemaOrBool, Value::Bool(_)) => return Ok(()),
        (Special::IntOrString, Value::Number(number)) => return fits::<i32>(number.as_i64()),
        (Special::Time, Value::String(text)) => time_of(text, Precision::Seconds),
        (Special::MicroTime, Value::String(text)) => time_of(text, Precision::Micros),
        (Special::Duration, Value::String(text)) => time::normalize_duration(text).ok(),
        _ => None,
    };
    replace(value, canonical)
}

fn time_of(text: &str, precision: Precision) -> Option<String> {
    time::normalize_time(text, precision).ok()?
}

fn fits<T: TryFrom<i64>>(number: Option<i64>) -> Result<(), NotInPlace> {
    number.and_then(|number| T::try_from(number).ok()).map(drop).ok_or(NotInPlace)
}

fn replace(value: &mut Value, text: Option<String>) -> Result<(), NotInPlace> {
    *value = Value::String(text.ok_or(NotInPlace)?);
    Ok(())
}
