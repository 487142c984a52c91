//! The merge of an applied configuration into an object, and the removal of fields.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    element::Element,
    items::{BadItem, Items},
    schema::{Form, ListType, MapType, Type},
    set::Set,
    validate::check,
};

/// Merges two values. If both have a field, `applied` wins. Items of lists with keys are merged; they keep the order of
/// `live` unless `applied` has another one.
pub(super) fn merge(live: &Value, applied: &Value, ty: &Type) -> Result<Value, BadItem> {
    match (ty.form(Some(applied)), live, applied) {
        (Form::Map(map), Value::Object(live), Value::Object(applied)) if !map.atomic && !applied.is_empty() => {
            merge_maps(map, live, applied)
        }
        // An empty applied value does not change a non-empty one.
        (Form::Map(map), Value::Object(entries), _) if !map.atomic && !entries.is_empty() => Ok(live.clone()),
        (Form::List(list), Value::Array(live), Value::Array(applied)) if !list.is_atomic() && !applied.is_empty() => {
            merge_lists(list, live, applied)
        }
        (Form::List(list), Value::Array(items), _) if !list.is_atomic() && !items.is_empty() => Ok(live.clone()),
        _ => Ok(applied.clone()),
    }
}

/// Merges a configuration into an object without tracking its fields. The configuration must fit the type, and must not
/// contain atomic lists or objects. The error is a message.
pub(crate) fn merge_into(ty: &Type, live: &Value, applied: &Value) -> Result<Value, String> {
    check(applied, ty).map_err(|why| format!("failed to convert patch object to typed object: {why}"))?;
    let mut atomics = Vec::new();
    find_atomics(applied, ty, &mut String::new(), &mut atomics);
    if !atomics.is_empty() {
        let atomics = atomics.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"));
    }
    merge(live, applied, ty).map_err(|bad| format!("failed to merge patch: {bad}"))
}

/// Finds the paths of atomic lists and objects.
fn find_atomics(value: &Value, ty: &Type, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match (ty.form(Some(value)), value) {
        (Form::Map(map), Value::Object(fields)) => {
            if map.atomic {
                found.push(path.clone());
            }
            for (name, value) in fields {
                path.push_str(&Element::field(name).to_string());
                // As in the real server, undeclared fields have the type of their object.
                find_atomics(value, if map.declares(name) { map.field_or_deduced(name) } else { ty }, path, found);
                path.truncate(length);
            }
        }
        (Form::List(list), Value::Array(items)) => {
            if list.is_atomic() {
                found.push(path.clone());
            }
            for (index, item) in (0..).zip(items) {
                path.push_str(&Element::Index(index).to_string());
                find_atomics(item, list.element.get(), path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn merge_maps(map: &MapType, live: &Map<String, Value>, applied: &Map<String, Value>) -> Result<Value, BadItem> {
    let mut merged = live.clone();
    for (name, applied) in applied {
        let value = match live.get(name) {
            Some(live) => merge(live, applied, map.field_or_deduced(name))?,
            None => applied.clone(),
        };
        merged.insert(name.clone(), value);
    }
    Ok(Value::Object(merged))
}

fn merge_lists(list: &ListType, live: &[Value], applied: &[Value]) -> Result<Value, BadItem> {
    let live = Items::of(list, live).map_err(|(_, bad)| bad)?;
    let applied = Items::of(list, applied).map_err(|(_, bad)| bad)?;
    let ty = list.element.get();
    // Duplicates in the live list are replaced instead of merged.
    let both = |element: &Element, value: &Value| match live.find(element).as_slice() {
        [live] => merge(live, value, ty),
        _ => Ok(value.clone()),
    };
    // Items in both lists follow the order of the applied list; `next` is the first of these that is not yet in the
    // output.
    let mut shared = applied.items.iter().filter(|(element, _)| !live.find(element).is_empty());
    let mut next = shared.next();
    let mut merged: BTreeSet<Element> = BTreeSet::new();
    let mut out = Vec::new();
    let take = |element: &Element, value: &Value, merged: &mut BTreeSet<Element>| {
        merged.insert(element.clone());
        both(element, value)
    };
    let (mut left, mut right) = (0, 0);
    while left < live.items.len() || right < applied.items.len() {
        let from_live = live.items.get(left);
        let from_applied = applied.items.get(right);
        if let (Some((element, _)), Some((other, value))) = (from_live, from_applied) {
            if element == other {
                out.push(take(other, value, &mut merged)?);
                (left, right) = (left + 1, right + 1);
                next = shared.next();
                continue;
            }
            let awaited = next.is_some_and(|(next, _)| next != element);
            if awaited && !applied.find(element).is_empty() {
                // The item is added later, with the applied list.
                left += 1;
                continue;
            }
        }
        if let Some((element, value)) = from_live {
            if applied.find(element).is_empty() {
                out.push((*value).clone());
                left += 1;
                continue;
            }
            if merged.contains(element) {
                left += 1;
            }
        }
        if let Some((element, value)) = from_applied {
            out.push(take(element, value, &mut merged)?);
            right += 1;
            if next.is_some_and(|(next, _)| next == element) {
                next = shared.next();
            }
        }
    }
    Ok(Value::Array(out))
}

/// Returns a value without these fields. A value that loses all of its content becomes null.
pub(super) fn remove(value: &Value, fields: &Set, ty: &Type) -> Value {
    match (ty.form(Some(value)), value) {
        (Form::Scalar(_), value) => value.clone(),
        (Form::Map(map), Value::Object(entries)) if !map.atomic => {
            let mut kept = Map::new();
            for (name, value) in entries {
                match fields.get(&Element::field(name)) {
                    Some(node) if node.member => {}
                    Some(node) => {
                        kept.insert(name.clone(), remove(value, &node.below, map.field_or_deduced(name)));
                    }
                    None => drop(kept.insert(name.clone(), value.clone())),
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Form::List(list), Value::Array(items)) if !list.is_atomic() => {
            let Ok(items) = Items::of(list, items) else { return value.clone() };
            let mut kept = Vec::new();
            for (element, value) in &items.items {
                match fields.get(element) {
                    Some(node) if node.member => {}
                    Some(node) => kept.push(remove(value, &node.below, list.element.get())),
                    None => kept.push((*value).clone()),
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => Value::Null,
    }
}
