//! Schemas of v1beta1 as v1 accepts them, for definitions that preserve unknown fields.
//!
//! In v1, a schema is structural: each value has a type, and `allOf`, `anyOf`, `oneOf` and `not` only restrict values that
//! the rest of the schema declares. In v1beta1 this is not required of a definition that preserves unknown fields.

use serde_json::{Map, Value, json};

use crate::{
    apiextensions::structural,
    object::{Errors, Field, Path, Tree},
};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// The keywords that v1 does not accept.
const UNSUPPORTED: [&str; 7] =
    ["$ref", "$schema", "id", "definitions", "dependencies", "patternProperties", "uniqueItems"];
const COMBINATORS: [&str; 4] = ["allOf", "anyOf", "oneOf", "not"];
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Returns the schema of a version without one: it accepts every object.
pub(super) fn unspecified() -> Value {
    json!({"type": "object", PRESERVE: true})
}

/// Returns a structural schema that preserves unknown fields. It drops the parts that are not structural. If the rest is
/// still invalid, it returns a schema that accepts every object.
pub(super) fn open(schema: &Value) -> Value {
    let mut opened = schema.clone();
    open_value(&mut opened, true);
    if is_valid(&opened) { opened } else { unspecified() }
}

/// Reports whether a schema has the form of those that [`open`] returns.
pub(super) fn is_open(schema: &Value) -> bool {
    schema.flag(&[PRESERVE]) && open(schema) == *schema
}

fn is_valid(schema: &Value) -> bool {
    let mut errors = Errors::default();
    structural::validate(&Field::new(Path::new("openAPIV3Schema"), Some(schema)), &mut errors);
    errors.is_empty()
}

fn open_value(schema: &mut Value, is_root: bool) {
    if !schema.is_object() {
        *schema = json!({});
    }
    let is_structural = structural::has_structural_combinators(&Field::object(schema));
    let Value::Object(fields) = schema else { return };
    fields.retain(|keyword, value| !UNSUPPORTED.contains(&keyword.as_str()) && !value.is_null());
    if fields.get(PRESERVE) == Some(&false.into()) {
        fields.shift_remove(PRESERVE);
    }
    if is_int_or_string(fields) {
        for keyword in ["type", "anyOf", "oneOf"] {
            fields.shift_remove(keyword);
        }
        fields.insert(INT_OR_STRING.to_owned(), true.into());
    } else if !is_structural {
        fields.retain(|keyword, _| !COMBINATORS.contains(&keyword.as_str()));
    }
    let has_properties = fields.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    if has_properties {
        fields.shift_remove("additionalProperties");
    }
    set_type(fields, is_root);
    let is_map = fields.contains_key("additionalProperties");
    if fields.get("type") == Some(&"object".into()) && !is_map {
        fields.insert(PRESERVE.to_owned(), true.into());
    }
    let is_object = is_root || fields.get("x-kubernetes-embedded-resource") == Some(&true.into());
    for (name, property) in fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        // The metadata of an object have a schema of their own.
        if !is_object || name != "metadata" {
            open_value(property, false);
        } else if !structural::restricts_only_names(&Field::object(property)) {
            *property = json!({"type": "object"});
        }
    }
    for inner in ["additionalProperties", "items"] {
        if let Some(inner) = fields.get_mut(inner).filter(|inner| inner.is_object()) {
            open_value(inner, false);
        }
    }
}

/// Sets the type of a value, if it has none, by the other keywords. Without a hint, the value may be anything.
fn set_type(fields: &mut Map<String, Value>, is_root: bool) {
    let is_known = fields.get("type").and_then(Value::as_str).is_some_and(|kind| TYPES.contains(&kind));
    if is_root {
        fields.insert("type".to_owned(), "object".into());
    } else if !is_known && !fields.contains_key(INT_OR_STRING) {
        fields.shift_remove("type");
        let hints =
            [("properties", "object"), ("additionalProperties", "object"), ("required", "object"), ("items", "array")];
        match hints.iter().find(|(hint, _)| fields.contains_key(*hint)) {
            Some((_, kind)) => drop(fields.insert("type".to_owned(), (*kind).into())),
            None => drop(fields.insert(PRESERVE.to_owned(), true.into())),
        }
    }
    let is_array = fields.get("type") == Some(&"array".into());
    if is_array && !fields.get("items").is_some_and(Value::is_object) {
        fields.insert("items".to_owned(), json!({PRESERVE: true}));
    }
}

/// Reports whether a schema lists an integer and a string as its alternatives, without another type.
fn is_int_or_string(fields: &Map<String, Value>) -> bool {
    let is_pair = |combinator: &str| {
        let Some(Value::Array(alternatives)) = fields.get(combinator) else { return false };
        let has = |kind: &str| alternatives.contains(&json!({"type": kind}));
        alternatives.len() == 2 && has("integer") && has("string")
    };
    let is_typed = fields.get("type").is_some_and(|kind| kind != "");
    !is_typed && (is_pair("anyOf") || is_pair("oneOf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the open form of the schema of a field.
    fn field(schema: &Value) -> Value {
        let opened = open(&json!({"properties": {"f": schema}}));
        assert!(is_open(&opened), "{opened}");
        opened["properties"]["f"].clone()
    }

    #[test]
    fn types_follow_from_other_keywords() {
        let object = json!({"type": "object", "properties": {}, PRESERVE: true});
        for (schema, expected) in [
            (json!({"type": "string", "pattern": "a"}), json!({"type": "string", "pattern": "a"})),
            (json!({"properties": {}}), object),
            (json!({"items": {"type": "string"}}), json!({"type": "array", "items": {"type": "string"}})),
            (json!({"type": "array"}), json!({"type": "array", "items": {PRESERVE: true}})),
            (json!({"description": "d"}), json!({"description": "d", PRESERVE: true})),
            (json!({"type": "any"}), json!({PRESERVE: true})),
            (
                json!({"additionalProperties": {"properties": {"a": {"type": "string"}}}}),
                json!({"type": "object", "additionalProperties":
                    {"type": "object", "properties": {"a": {"type": "string"}}, PRESERVE: true}}),
            ),
        ] {
            assert_eq!(field(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn parts_that_are_not_structural_are_dropped() {
        let pair = json!([{"type": "string"}, {"type": "integer"}]);
        let any = json!({"type": "object", PRESERVE: true});
        for (schema, expected) in [
            (json!({"oneOf": pair}), json!({INT_OR_STRING: true})),
            (json!({"anyOf": pair, "type": "string"}), json!({"type": "string"})),
            (json!({"type": "object", "oneOf": [{"properties": {"a": {"type": "string"}}}]}), any.clone()),
            (json!({"type": "object", "$ref": "#/definitions/a", "definitions": {}}), any.clone()),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, PRESERVE: true}),
            ),
            (
                json!({"type": "array", "items": {}, "uniqueItems": true}),
                json!({"type": "array", "items": {PRESERVE: true}}),
            ),
        ] {
            assert_eq!(field(&schema), expected, "{schema}");
        }
        let metadata = open(&json!({"properties": {"metadata": {"properties": {"annotations": {"type": "object"}}}}}));
        assert_eq!(metadata["properties"]["metadata"], json!({"type": "object"}));
    }

    #[test]
    fn structural_restrictions_stay() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}], PRESERVE: true});
        assert_eq!(field(&schema), schema);
    }

    #[test]
    fn invalid_schema_is_replaced() {
        assert_eq!(open(&json!({"properties": {"a": {"type": "string", "pattern": "("}}})), unspecified());
        assert!(is_open(&unspecified()));
        assert!(!is_open(&json!({"type": "object"})));
    }
}
