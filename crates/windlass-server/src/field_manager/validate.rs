//! Validation of a value against its type, with the real server's messages, which show Go types and values.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{
    element::Element,
    items::element_of,
    schema::{Form, ListType, MapType, Scalar, Type},
};
use crate::{
    object::show_untyped,
    patch::{go_format, go_type},
};

/// The reason why a value does not fit its type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypeMismatch {
    path: String,
    why: String,
    /// `true` if the only problem is a repeated list item.
    is_duplicate: bool,
}

/// Reports whether the value of an update fits; its lists may have duplicates.
pub(super) fn fits(value: &Value, ty: &Type) -> bool {
    let mut found = Vec::new();
    visit(value, ty, "", &mut found);
    found.iter().all(|mismatch| mismatch.is_duplicate)
}

/// Validates an applied value; its lists may not have duplicates. The error is one text for all problems.
pub(super) fn check(value: &Value, ty: &Type) -> Result<(), String> {
    let mut found = Vec::new();
    visit(value, ty, "", &mut found);
    let shown = |mismatch: &TypeMismatch| match mismatch.path.as_str() {
        "" => mismatch.why.clone(),
        path => format!("{path}: {}", mismatch.why),
    };
    match found.as_slice() {
        [] => Ok(()),
        [only] => Err(shown(only)),
        many => Err(many.iter().fold("errors:".to_owned(), |mut text, mismatch| {
            // Writing into a String cannot fail.
            let _ = write!(text, "\n  {}", shown(mismatch));
            text
        })),
    }
}

fn visit(value: &Value, ty: &Type, path: &str, found: &mut Vec<TypeMismatch>) {
    let mut mismatch = |why: String| found.push(TypeMismatch { path: path.to_owned(), why, is_duplicate: false });
    match (ty.form(Some(value)), value) {
        (_, Value::Null) => {}
        (Form::Scalar(scalar), value) => {
            if let Some(why) = scalar_mismatch(scalar, value) {
                mismatch(why);
            }
        }
        (Form::Map(map), Value::Object(entries)) => visit_map(map, entries, path, found),
        (Form::List(list), Value::Array(items)) => visit_list(list, items, path, found),
        (Form::Map(_), value) => mismatch(format!("expected map, got &{{{}}}", go_format(value))),
        (Form::List(_), value) => mismatch(format!("expected list, got &{{{}}}", go_format(value))),
    }
}

fn visit_map(map: &MapType, entries: &Map<String, Value>, path: &str, found: &mut Vec<TypeMismatch>) {
    for (name, value) in entries {
        let path = format!("{path}.{name}");
        let Some(ty) = map.field(name) else {
            // Like the real server, stops at the first undeclared field of an object.
            found.push(TypeMismatch { path, why: "field not declared in schema".to_owned(), is_duplicate: false });
            return;
        };
        visit(value, ty, &path, found);
    }
}

fn visit_list(list: &ListType, items: &[Value], path: &str, found: &mut Vec<TypeMismatch>) {
    let mut seen: Vec<Element> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let element = if list.is_atomic() {
            Element::Index(i64::try_from(index).unwrap_or(i64::MAX))
        } else {
            match element_of(list, item) {
                Ok(element) => element,
                Err(bad) => {
                    let why = format!("element {index}: {}", bad.describe(list));
                    found.push(TypeMismatch { path: path.to_owned(), why, is_duplicate: false });
                    return;
                }
            }
        };
        if !list.is_atomic() {
            match seen.binary_search(&element) {
                Ok(_) => {
                    let why = format!("duplicate entries for key {element}");
                    found.push(TypeMismatch { path: path.to_owned(), why, is_duplicate: true });
                }
                Err(at) => seen.insert(at, element.clone()),
            }
        }
        visit(item, list.element.get(), &format!("{path}{element}"), found);
    }
}

fn scalar_mismatch(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (Scalar::Numeric, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, value) => Some(format!("expected numeric (int or float), got {}", go_type(value))),
        (Scalar::Text, value) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", show_untyped(value)))
        }
        (Scalar::Boolean, value) => Some(format!("expected boolean, got &{{{}}}", go_format(value))),
        (Scalar::Untyped, value) => Some(format!("expected any scalar, got &{{{}}}", go_format(value))),
    }
}
