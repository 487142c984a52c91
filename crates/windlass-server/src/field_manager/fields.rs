//! The fields that a value contains.

use serde_json::Value;

use super::{
    element::Element,
    items::Items,
    schema::{Form, Type},
    set::Set,
};

/// Returns all fields of a value: scalars, list items, atomic values and empty objects.
pub(super) fn fields_of(value: &Value, ty: &Type) -> Set {
    below(value, ty).1
}

/// Reports whether the value itself counts as a field, and returns the fields below it.
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
            // Lists with invalid items have been rejected before, or are not owned.
            let Ok(items) = Items::of(list, items) else { return (false, set) };
            for (element, values) in items.groups() {
                let below = match values.as_slice() {
                    [only] => below(only, list.element.get()).1,
                    // Duplicates are owned as one item.
                    _ => Set::default(),
                };
                set.push(element.clone(), true, below);
            }
        }
    }
    set.finish();
    (false, set)
}
