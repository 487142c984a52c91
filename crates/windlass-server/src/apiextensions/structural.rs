//! Validation of the schemas in CRDs: they must be structural, so that each field has a defined type.
//!
//! Checks everything that the server needs to prune, default and validate objects by the schema. `windlass-cel` checks
//! the validation rules in a schema after that, if there are no other errors.

use std::collections::HashSet;

use serde_json::Value;
use windlass_cel::{Dialect, Rules, check_rules_in, compile_pattern};

use super::{
    prune::has_unknown_fields,
    schema::Schema,
    validate::{report, validate as validate_value},
};
use crate::{
    kubernetes::KubernetesVersion,
    object::{Causes, Errors, Field},
};

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
/// The keywords that define a type and are therefore not allowed in combinators.
const TYPE_KEYWORDS: [&str; 12] = [
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

/// Returns the functions and the syntax that a Kubernetes version accepts in new validation rules.
fn dialect(kubernetes: KubernetesVersion) -> Dialect {
    match kubernetes {
        KubernetesVersion::V1_33 => Dialect::V1_33,
        KubernetesVersion::V1_34 => Dialect::V1_34,
        KubernetesVersion::V1_35 | KubernetesVersion::V1_36 => Dialect::V1_35,
        KubernetesVersion::V1_37 => Dialect::V1_37,
    }
}

/// Returns the functions and the syntax in which stored rules are evaluated: at least those of 1.35.
pub(super) fn stored_dialect(kubernetes: KubernetesVersion) -> Dialect {
    dialect(kubernetes).max(Dialect::default())
}

/// Validates a schema.
pub(super) fn validate(schema: &Field<'_>, errors: &mut Errors) {
    let before = errors.len();
    check(schema, Level::Root, errors);
    if errors.len() == before {
        let dialect = dialect(errors.kubernetes());
        report(check_rules_in(dialect, schema.json(), &schema.path().to_string()), errors);
    }
}

fn check(schema: &Field<'_>, level: Level, errors: &mut Errors) {
    let is_embedded = schema.child("x-kubernetes-embedded-resource").flag();
    check_keywords(schema, errors);
    check_combinators(schema, schema.child("x-kubernetes-int-or-string").flag(), errors);
    check_type(schema, level, errors);
    check_list(schema, errors);
    check_pattern(&schema.child("pattern"), errors);
    if is_embedded {
        check_embedded(schema, errors);
    }
    if level == Level::Root || is_embedded {
        check_metadata(schema, errors);
    }
    for (_, property) in schema.child("properties").entries() {
        check(&property, Level::Field, errors);
    }
    let entry = schema.child("additionalProperties");
    if entry.json().is_object() {
        check(&entry, Level::Entry, errors);
    }
    let item = schema.child("items");
    if item.is_set() {
        check(&item, Level::Item, errors);
    }
    let default = schema.child("default");
    if default.is_set() {
        check_default(&default, schema, level, errors);
    }
}

fn check_keywords(schema: &Field<'_>, errors: &mut Errors) {
    let reference = schema.child("$ref");
    if !reference.text().is_empty() {
        reference.forbidden("$ref is not supported", errors);
    }
    let unique = schema.child("uniqueItems");
    if unique.flag() {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        unique.forbidden(detail, errors);
    }
    let entries = schema.child("additionalProperties");
    let allows_entries = entries.value().is_some_and(|entries| *entries != Value::Bool(false));
    if allows_entries && !schema.child("properties").is_empty() {
        entries.forbidden("additionalProperties and properties are mutual exclusive", errors);
    }
    for name in ["definitions", "dependencies", "patternProperties"] {
        let keyword = schema.child(name);
        if keyword.is_set() {
            keyword.forbidden(&format!("{name} is not supported"), errors);
        }
    }
    let preserve = schema.child("x-kubernetes-preserve-unknown-fields");
    if preserve.value() == Some(&Value::Bool(false)) {
        preserve.invalid("must be true or undefined", errors);
    }
}

fn check_type(schema: &Field<'_>, level: Level, errors: &mut Errors) {
    let (kind, items) = (schema.child("type"), schema.child("items"));
    let may_be_empty = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"]
        .iter()
        .any(|keyword| schema.child(keyword).flag());
    match (level, kind.text()) {
        (Level::Root, "") => kind.required("must not be empty at the root", errors),
        (Level::Root, text) if text != "object" => kind.invalid("must be object at the root", errors),
        (Level::Field | Level::Entry, "") if !may_be_empty => {
            kind.required("must not be empty for specified object fields", errors);
        }
        (Level::Item, "") if !may_be_empty => {
            kind.required("must not be empty for specified array items", errors);
        }
        (_, "") => {}
        (_, text) if !TYPES.contains(&text) => kind.unsupported(&TYPES, errors),
        (_, "array") if !items.is_set() => items.required("must be specified", errors),
        _ => {}
    }
}

/// Checks a pattern. With few exceptions, Rust rejects the same patterns as Go.
fn check_pattern(pattern: &Field<'_>, errors: &mut Errors) {
    if let Err(problem) = compile_pattern(pattern.text()) {
        let detail = format!("must be a valid regular expression, but isn't: {problem}");
        pattern.invalid_as(pattern.text(), &detail, errors);
    }
}

fn check_list(schema: &Field<'_>, errors: &mut Errors) {
    let (list_type, kind) = (schema.child("x-kubernetes-list-type"), schema.child("type"));
    if matches!(list_type.text(), "atomic" | "set" | "map") {
        require_type(&kind, "array", "must be array if x-kubernetes-list-type is specified", errors);
    }
    schema.child("x-kubernetes-map-type").one_of(&["atomic", "granular"], errors);
    match list_type.text() {
        "map" => check_list_map_keys(schema, errors),
        // Unlike other lists of supported values, this one is not sorted.
        _ => list_type.one_of(&["atomic", "set", "map"], errors),
    }
}

fn check_list_map_keys(schema: &Field<'_>, errors: &mut Errors) {
    let keys = schema.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        return keys.required("must not be empty if x-kubernetes-list-type is map", errors);
    }
    let (properties, required) = (schema.child("items.properties"), schema.child("items.required"));
    let required: HashSet<&str> = required.items().filter_map(|name| name.json().as_str()).collect();
    for key in keys.items().filter_map(|key| key.json().as_str()) {
        let property = properties.key(key);
        let default = property.child("default");
        if !property.is_set() {
            keys.invalid("entries must all be names of item properties", errors);
        } else if !required.contains(key) && !default.is_set() {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            default.required(detail, errors);
        }
    }
}

/// Adds an error unless a type has the expected value.
fn require_type(kind: &Field<'_>, expected: &str, detail: &str, errors: &mut Errors) {
    match kind.text() {
        text if text == expected => {}
        "" => kind.required(detail, errors),
        _ => kind.invalid(detail, errors),
    }
}

fn check_embedded(schema: &Field<'_>, errors: &mut Errors) {
    let detail = "must be object if x-kubernetes-embedded-resource is true";
    require_type(&schema.child("type"), "object", detail, errors);
    let properties = schema.child("properties");
    if !properties.is_set() && !schema.child("x-kubernetes-preserve-unknown-fields").flag() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        properties.required(detail, errors);
    }
}

/// Reports whether `allOf`, `anyOf`, `oneOf` and `not` of a schema only restrict values that the schema declares.
pub(super) fn has_structural_combinators(schema: &Field<'_>) -> bool {
    let mut errors = Errors::default();
    check_combinators(schema, schema.child("x-kubernetes-int-or-string").flag(), &mut errors);
    errors.is_empty()
}

/// Checks the schema of metadata, which may only restrict the names.
fn check_metadata(schema: &Field<'_>, errors: &mut Errors) {
    let properties = schema.child("properties");
    let metadata = properties.key("metadata");
    if !metadata.is_set() {
        return;
    }
    let kind = metadata.child("type");
    if kind.text() != "object" {
        kind.invalid_as(kind.text(), "must be object", errors);
    }
    if !restricts_only_names(&metadata) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        metadata.forbidden(detail, errors);
    }
}

/// Reports whether a schema of metadata contains nothing but a type, a description, and the schemas of names.
pub(super) fn restricts_only_names(metadata: &Field<'_>) -> bool {
    metadata.child("properties").entries().all(|(name, _)| matches!(name, "name" | "generateName"))
        && metadata.entries().all(|(key, _)| matches!(key, "type" | "properties" | "description"))
}

/// Checks the schemas in `allOf`, `anyOf`, `oneOf` and `not`. They may only restrict values and not define their type.
/// With `int_or_string`, they may distinguish integers from strings.
fn check_combinators(schema: &Field<'_>, int_or_string: bool, errors: &mut Errors) {
    for name in COMBINATORS {
        for restriction in schema.child(name).items() {
            check_restriction(&restriction, int_or_string, errors);
            check_declared(&restriction, schema, errors);
        }
    }
    let not = schema.child("not");
    if not.is_set() {
        check_restriction(&not, false, errors);
    }
}

fn check_restriction(restriction: &Field<'_>, int_or_string: bool, errors: &mut Errors) {
    for name in TYPE_KEYWORDS {
        let keyword = restriction.child(name);
        let is_allowed = name == "type" && int_or_string && matches!(keyword.text(), "integer" | "string");
        if keyword.is_set() && !is_allowed {
            keyword.forbidden("must be empty to be structural", errors);
        }
    }
    check_combinators(restriction, int_or_string, errors);
    for (_, property) in restriction.child("properties").entries() {
        check_restriction(&property, false, errors);
    }
    let item = restriction.child("items");
    if item.is_set() {
        check_restriction(&item, false, errors);
    }
}

/// Checks that the surrounding schema declares the fields that a restriction mentions.
fn check_declared(restriction: &Field<'_>, schema: &Field<'_>, errors: &mut Errors) {
    let declared_properties = schema.child("properties");
    let allows_entries = schema.child("additionalProperties").json().is_object();
    for (name, property) in restriction.child("properties").entries() {
        let declared = declared_properties.key(name);
        if declared.is_set() {
            check_declared(&property, &declared, errors);
        } else if !allows_entries {
            declared.required(&format!("because it is defined in {}", property.path()), errors);
        }
    }
    let (item, declared) = (restriction.child("items"), schema.child("items"));
    if item.is_set() && declared.is_set() {
        check_declared(&item, &declared, errors);
    } else if item.is_set() {
        declared.required(&format!("because it is defined in {}", item.path()), errors);
    }
}

fn check_default(default: &Field<'_>, schema: &Field<'_>, level: Level, errors: &mut Errors) {
    if level == Level::Root {
        return default.forbidden("must not be set at the root", errors);
    }
    let compiled = Schema::compile(schema.json(), errors.kubernetes());
    if has_unknown_fields(default.json(), &compiled) {
        return default.invalid("must not have unknown fields", errors);
    }
    let mut causes = Causes::default();
    let path = default.path().to_string();
    validate_value(default.json(), None, &compiled, &path, &path, &mut causes);
    if causes.is_empty()
        && let Some(rules) = Rules::of_value_in(stored_dialect(errors.kubernetes()), schema.json())
    {
        let rules = rules.show_types(errors.before(KubernetesVersion::V1_35));
        return errors.append_rule_errors(rules.validate_at(&path, default.json()).causes);
    }
    errors.append_causes(causes);
}
