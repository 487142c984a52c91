//! The removal of required fields at their default from an encoded object.

use serde_json::{Map, Value};

/// The fields of a struct. Copies are references to a table or a schema.
pub(super) trait Shape<'s>: Copy {
    /// Returns a field. `None` if nothing is known of it.
    fn field(self, name: &str) -> Option<Field<'s, Self>>;

    /// Reports whether the fields are owned as a whole.
    fn is_atomic(self) -> bool;
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'s, S> {
    pub(super) is_required: bool,
    pub(super) part: Part<'s, S>,
}

/// The part of a field's value that has fields.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'s, S> {
    /// No part, or none whose fields are owned separately.
    None,
    Struct(S),
    Items(Keys<'s>, S),
    /// The values of a map.
    Entries(S),
}

/// The fields that identify the items of a list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys<'s> {
    /// Separated by commas.
    Joined(&'s str),
    List(&'s [String]),
}

/// Removes the required fields at their default from an object. Takes time proportional to the object's size.
pub(super) fn omit_defaults<'s, S: Shape<'s>>(object: &mut Map<String, Value>, shape: S) {
    omit(object, shape, Keys::List(&[]));
}

/// Removes the required fields at their default, except for the keys of a list's item.
fn omit<'s, S: Shape<'s>>(fields: &mut Map<String, Value>, shape: S, keys: Keys<'_>) {
    if shape.is_atomic() {
        return;
    }
    fields.retain(|name, value| {
        let Some(field) = shape.field(name) else { return true };
        // The parts come first: a struct whose fields are all omitted is at its default.
        match (field.part, &mut *value) {
            (Part::Struct(shape), Value::Object(fields)) => omit(fields, shape, Keys::List(&[])),
            (Part::Items(keys, shape), Value::Array(items)) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| omit(item, shape, keys));
            }
            (Part::Entries(shape), Value::Object(entries)) => {
                let entries = entries.values_mut().filter_map(Value::as_object_mut);
                entries.for_each(|entry| omit(entry, shape, Keys::List(&[])));
            }
            _ => {}
        }
        // Null is the encoding of an option that is not set.
        !(value.is_null() || field.is_required && is_default(value, field.part) && !keys.contain(name))
    });
}

/// Reports whether a value is the default of its type, after the defaults of its parts are removed.
fn is_default<'s, S: Shape<'s>>(value: &Value, part: Part<'s, S>) -> bool {
    match (value, part) {
        (Value::Null, _) => true,
        (Value::Bool(flag), _) => !flag,
        (Value::Number(number), _) => number.as_f64() == Some(0.0),
        (Value::String(text), _) => text.is_empty(),
        (Value::Array(items), _) => items.is_empty(),
        (Value::Object(fields), Part::Struct(shape)) if shape.is_atomic() => fields.iter().all(|(name, value)| {
            shape.field(name).is_some_and(|field| field.is_required && is_default(value, field.part))
        }),
        (Value::Object(fields), _) => fields.is_empty(),
    }
}

impl Keys<'_> {
    fn contain(self, name: &str) -> bool {
        match self {
            Self::Joined(names) => names.split(',').any(|key| key == name),
            Self::List(names) => names.iter().any(|key| key == name),
        }
    }
}
