//! Checks of the files.

use std::{collections::HashSet, hash::Hash};

use serde_json::Value;

use crate::object::{Errors, Path, Tree};

/// Checks the version, the kind and the fields of a configuration in the version `v1alpha1`.
pub(super) fn check_file(file: &Value, group: &str, fields: &[&str], errors: &mut Errors) {
    let version = format!("{group}/v1alpha1");
    check_kind((file.text(&["apiVersion"]), file.text(&["kind"])), &[&version], "Configuration", errors);
    let known: Vec<&str> = fields.iter().copied().chain(["apiVersion", "kind"]).collect();
    check_fields(file, &known, &Path::new(""), errors);
}

pub(super) fn check_fields(value: &Value, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let Some(fields) = value.as_object() else {
        errors.invalid(path, value, "must be an object");
        return;
    };
    for field in fields.keys().filter(|field| !known.contains(&field.as_str())) {
        errors.invalid_without_value(&path.child(field), "unknown field");
    }
}

/// Checks the type of a field, if it has a value.
pub(super) fn check_type(file: &Value, field: &str, is_right: fn(&Value) -> bool, detail: &str, errors: &mut Errors) {
    if let Some(value) = file.get(field).filter(|value| !value.is_null() && !is_right(value)) {
        errors.invalid(&Path::new(field), value, detail);
    }
}

pub(super) fn check_kind((version, kind): (&str, &str), versions: &[&str], expected: &str, errors: &mut Errors) {
    if !versions.contains(&version) {
        errors.unsupported(&Path::new("apiVersion"), version, versions);
    }
    if kind != expected {
        errors.unsupported(&Path::new("kind"), kind, &[expected]);
    }
}

/// Parses a value with a default.
pub(super) fn parsed<T: Default>(
    path: &str,
    text: &str,
    parse: impl Fn(&str) -> Result<T, &'static str>,
    errors: &mut Errors,
) -> T {
    if text.is_empty() {
        return T::default();
    }
    parse(text).unwrap_or_else(|detail| {
        errors.invalid(&Path::new(path), text, detail);
        T::default()
    })
}

/// Returns a list of names as a set, and reports invalid and duplicate ones.
pub(super) fn checked<T: AsRef<str> + Eq + Hash + Clone>(
    path: &str,
    names: Vec<T>,
    problems: impl Fn(&str) -> Vec<String>,
    errors: &mut Errors,
) -> HashSet<T> {
    let mut known = HashSet::new();
    for (index, name) in names.into_iter().enumerate() {
        let path = Path::new(path);
        let found = problems(name.as_ref());
        if !found.is_empty() {
            errors.invalid(&path.index(index), name.as_ref(), &found.join(", "));
        } else if !known.insert(name.clone()) {
            errors.duplicate(&path.index(index), name.as_ref());
        }
    }
    known
}
