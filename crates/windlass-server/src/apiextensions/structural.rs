//! Validation of the schemas in CRDs: they must be structural, so that each field has a defined type.
//!
//! Checks everything that the server needs to prune, default and validate objects by the schema. `windlass-cel` checks
//! the validation rules in a schema after that, if there are no other errors.

use std::collections::HashSet;

use serde_json::Value;
use windlass_cel::{Rules, check_rules, compile_pattern};

use super::{
    prune::has_unknown_fields,
    schema::Schema,
    validate::{report, validate as validate_value},
};
use crate::object::{Causes, Errors, Path, Tree};

/// The level of a schema in its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
    /// The schema in `additionalProperties`.
    Entry,
}

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const COMBINATORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Validates a schema.
pub(super) fn validate(schema: &Value, path: &Path<'_>, errors: &mut Errors) {
    let before = errors.len();
    check(schema, Level::Root, path, errors);
    if errors.len() == before {
        report(check_rules(schema, &path.to_string()), errors);
    }
}

fn check(schema: &Value, level: Level, path: &Path<'_>, errors: &mut Errors) {
    check_keywords(schema, path, errors);
    check_combinators(schema, schema.flag(&["x-kubernetes-int-or-string"]), path, errors);
    check_kind(schema, level, path, errors);
    check_list(schema, path, errors);
    check_pattern(schema, path, errors);
    if schema.flag(&["x-kubernetes-embedded-resource"]) {
        check_embedded(schema, path, errors);
    }
    if level == Level::Root || schema.flag(&["x-kubernetes-embedded-resource"]) {
        check_metadata(schema, path, errors);
    }
    for (name, field) in schema.entries(&["properties"]) {
        check(field, Level::Field, &path.child("properties").key(name), errors);
    }
    if let Some(entry) = schema.at(&["additionalProperties"]).filter(|entry| entry.is_object()) {
        check(entry, Level::Entry, &path.child("additionalProperties"), errors);
    }
    if let Some(item) = schema.at(&["items"]) {
        check(item, Level::Item, &path.child("items"), errors);
    }
    if let Some(default) = schema.at(&["default"]) {
        check_default(default, schema, level, &path.child("default"), errors);
    }
}

fn check_keywords(schema: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !schema.text(&["$ref"]).is_empty() {
        errors.forbidden(&path.child("$ref"), "$ref is not supported");
    }
    if schema.flag(&["uniqueItems"]) {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(&path.child("uniqueItems"), why);
    }
    let entries = schema.at(&["additionalProperties"]).is_some_and(|entries| *entries != Value::Bool(false));
    if entries && schema.entries(&["properties"]).next().is_some() {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.forbidden(&path.child("additionalProperties"), why);
    }
    for key in ["definitions", "dependencies", "patternProperties"] {
        if schema.at(&[key]).is_some() {
            errors.forbidden(&path.child(key), &format!("{key} is not supported"));
        }
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        errors.invalid(&path, &Value::Bool(false), "must be true or undefined");
    }
}

fn check_kind(schema: &Value, level: Level, path: &Path<'_>, errors: &mut Errors) {
    let kind = schema.text(&["type"]);
    let path_of_kind = path.child("type");
    let open = schema.flag(&["x-kubernetes-int-or-string"]) || schema.flag(&["x-kubernetes-preserve-unknown-fields"]);
    match (level, kind) {
        (Level::Root, "") => errors.required(&path_of_kind, "must not be empty at the root"),
        (Level::Root, kind) if kind != "object" => {
            errors.invalid(&path_of_kind, kind, "must be object at the root");
        }
        (Level::Field | Level::Entry, "") if !open => {
            errors.required(&path_of_kind, "must not be empty for specified object fields");
        }
        (Level::Item, "") if !open => errors.required(&path_of_kind, "must not be empty for specified array items"),
        (_, "") => {}
        (_, kind) if !TYPES.contains(&kind) => errors.unsupported(&path_of_kind, kind, &TYPES),
        (_, "array") if schema.at(&["items"]).is_none() => errors.required(&path.child("items"), "must be specified"),
        _ => {}
    }
}

/// Checks a pattern. With few exceptions, Rust rejects the same patterns as Go.
fn check_pattern(schema: &Value, path: &Path<'_>, errors: &mut Errors) {
    let pattern = schema.text(&["pattern"]);
    if let Err(problem) = compile_pattern(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {problem}");
        errors.invalid(&path.child("pattern"), pattern, &why);
    }
}

fn check_list(schema: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (list, kind) = (schema.text(&["x-kubernetes-list-type"]), schema.text(&["type"]));
    if matches!(list, "atomic" | "set" | "map") && kind != "array" {
        let why = "must be array if x-kubernetes-list-type is specified";
        match kind {
            "" => errors.required(&path.child("type"), why),
            kind => errors.invalid(&path.child("type"), kind, why),
        }
    }
    let map = schema.text(&["x-kubernetes-map-type"]);
    if !map.is_empty() && !matches!(map, "atomic" | "granular") {
        errors.unsupported(&path.child("x-kubernetes-map-type"), map, &["atomic", "granular"]);
    }
    let keys = schema.items(&["x-kubernetes-list-map-keys"]);
    let path_of_keys = path.child("x-kubernetes-list-map-keys");
    match schema.text(&["x-kubernetes-list-type"]) {
        "map" if keys.is_empty() => {
            errors.required(&path_of_keys, "must not be empty if x-kubernetes-list-type is map");
        }
        "map" => {
            let item = &schema["items"];
            let required: HashSet<&str> = item.items(&["required"]).iter().filter_map(Value::as_str).collect();
            let all = Value::from(keys);
            for key in keys.iter().filter_map(Value::as_str) {
                let field = path.child("items.properties");
                let Some(property) = item.at(&["properties", key]) else {
                    errors.invalid(&path_of_keys, &all, "entries must all be names of item properties");
                    continue;
                };
                if !required.contains(key) && property.at(&["default"]).is_none() {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    errors.required(&field.key(key).child("default"), why);
                }
            }
        }
        "" | "atomic" | "set" => {}
        other => {
            // Unlike other lists of supported values, this one is not sorted.
            let message = format!(
                "Unsupported value: {}: supported values: \"atomic\", \"set\", \"map\"",
                crate::codec::go_quote(other)
            );
            errors.add(&path.child("x-kubernetes-list-type"), "FieldValueNotSupported", message);
        }
    }
}

fn check_embedded(schema: &Value, path: &Path<'_>, errors: &mut Errors) {
    match schema.text(&["type"]) {
        "object" => {}
        "" => errors.required(&path.child("type"), "must be object if x-kubernetes-embedded-resource is true"),
        kind => errors.invalid(&path.child("type"), kind, "must be object if x-kubernetes-embedded-resource is true"),
    }
    if schema.at(&["properties"]).is_none() && !schema.flag(&["x-kubernetes-preserve-unknown-fields"]) {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(&path.child("properties"), why);
    }
}

/// Checks the schema of metadata, which may only restrict the names.
fn check_metadata(schema: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(metadata) = schema.at(&["properties", "metadata"]) else { return };
    let properties = path.child("properties");
    let path = properties.key("metadata");
    match metadata.text(&["type"]) {
        "object" => {}
        kind => errors.invalid(&path.child("type"), kind, "must be object"),
    }
    let names = |name: &String| matches!(name.as_str(), "name" | "generateName");
    let keywords = |key: &String| matches!(key.as_str(), "type" | "properties" | "description");
    let narrow = metadata.entries(&["properties"]).all(|(name, _)| names(name))
        && metadata.entries(&[]).all(|(key, _)| keywords(key));
    if !narrow {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(&path, why);
    }
}

/// Checks the schemas in `allOf`, `anyOf`, `oneOf` and `not`. They may only restrict values and not define their type.
/// With `either`, they may distinguish integers from strings.
fn check_combinators(schema: &Value, either: bool, path: &Path<'_>, errors: &mut Errors) {
    for junctor in COMBINATORS {
        for (index, part) in schema.items(&[junctor]).iter().enumerate() {
            check_junction(part, either, &path.child(junctor).index(index), errors);
            check_declared(part, schema, &path.child(junctor).index(index), path, errors);
        }
    }
    if let Some(part) = schema.at(&["not"]) {
        check_junction(part, false, &path.child("not"), errors);
    }
}

fn check_junction(schema: &Value, either: bool, path: &Path<'_>, errors: &mut Errors) {
    const DESCRIBING: [&str; 12] = [
        "type",
        "default",
        "title",
        "description",
        "nullable",
        "additionalProperties",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    ];
    for key in DESCRIBING {
        let is_either = key == "type" && either && matches!(schema.text(&["type"]), "integer" | "string");
        if schema.at(&[key]).is_some() && !is_either {
            errors.forbidden(&path.child(key), "must be empty to be structural");
        }
    }
    check_combinators(schema, either, path, errors);
    for (name, field) in schema.entries(&["properties"]) {
        check_junction(field, false, &path.child("properties").key(name), errors);
    }
    if let Some(item) = schema.at(&["items"]) {
        check_junction(item, false, &path.child("items"), errors);
    }
}

/// Checks that the surrounding schema declares the fields that a restriction mentions.
fn check_declared(part: &Value, schema: &Value, path: &Path<'_>, outer: &Path<'_>, errors: &mut Errors) {
    for (name, field) in part.entries(&["properties"]) {
        let (here, there) = (path.child("properties"), outer.child("properties"));
        match schema.at(&["properties", name]) {
            Some(declared) => check_declared(field, declared, &here.key(name), &there.key(name), errors),
            None if schema.at(&["additionalProperties"]).is_some_and(Value::is_object) => {}
            None => errors.required(&there.key(name), &format!("because it is defined in {}", here.key(name))),
        }
    }
    let Some(item) = part.at(&["items"]) else { return };
    let (here, there) = (path.child("items"), outer.child("items"));
    if let Some(declared) = schema.at(&["items"]) {
        check_declared(item, declared, &here, &there, errors);
    } else {
        errors.required(&there, &format!("because it is defined in {here}"));
    }
}

fn check_default(default: &Value, schema: &Value, level: Level, path: &Path<'_>, errors: &mut Errors) {
    if level == Level::Root {
        return errors.forbidden(path, "must not be set at the root");
    }
    let compiled = Schema::compile(schema);
    if has_unknown_fields(default, &compiled) {
        return errors.invalid(path, default, "must not have unknown fields");
    }
    let mut causes = Causes::default();
    let text = path.to_string();
    validate_value(default, None, &compiled, &text, &text, &mut causes);
    if causes.is_empty()
        && let Some(rules) = Rules::of_value(schema)
    {
        return report(rules.validate_at(&text, default).causes, errors);
    }
    errors.append_causes(causes);
}
