//! The fields that a value mentions.

use serde_json::Value;

use super::{
    element::Element,
    items::Items,
    schema::{Form, Type},
    set::Set,
};

/// All fields of a value: single values, elements of lists, and objects that are empty or one value.
pub(super) fn fields_of(value: &Value, ty: &Type) -> Set {
    below(value, ty).1
}

/// Whether the value itself is mentioned, and what is below it.
fn below(value: &Value, ty: &Type) -> (bool, Set) {
    let mut set = Set::default();
    match ty.form(Some(value)) {
        Form::Scalar(_) => return (true, set),
        Form::Map(map) if map.atomic => return (true, set),
        Form::List(list) if list.is_atomic() => return (true, set),
        Form::Map(map) => {
            for (name, value) in value.as_object().into_iter().flatten() {
                let (itself, below) = below(value, map.field_or_deduced(name));
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                set.push(Element::field(name), itself || empty || !map.declares(name), below);
            }
        }
        Form::List(list) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            // What cannot be told apart has been refused before, or is not owned.
            let Ok(items) = Items::of(list, items) else { return (false, set) };
            for (element, values) in items.groups() {
                let below = match values.as_slice() {
                    [only] => below(only, list.element.get()).1,
                    // Duplicates are owned as one.
                    _ => Set::default(),
                };
                set.push(element.clone(), true, below);
            }
        }
    }
    set.finish();
    (false, set)
}
