//! The schemas of custom resources as OpenAPI documents show them.

use serde_json::{Map, Value, json};

use super::schemas::{META, REFERENCE};
use crate::registry::ResourceInfo;

/// `io.example.v1.Foo` for a Foo of the group `example.io`.
pub(super) fn schema_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts = group.split('.').rev().collect::<Vec<_>>();
    parts.extend([version, kind]);
    parts.join(".")
}

/// The definition's schema, completed: kind, apiVersion and metadata of the object and of embedded ones, and both types
/// of what may be a number or a text.
pub(super) fn schema(resource: &ResourceInfo, schema: &Value) -> Value {
    let mut schema = complete(schema);
    if let Some(object) = schema.as_object_mut() {
        add_object_properties(object);
        object.insert("x-kubernetes-group-version-kind".to_owned(), kinds(resource, &resource.kind));
    }
    schema
}

/// The schema of the list.
pub(super) fn list_schema(resource: &ResourceInfo) -> Value {
    let item = format!("{REFERENCE}{}", schema_name(&resource.group, &resource.version, &resource.kind));
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": item}},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": format!("{REFERENCE}{META}ListMeta")}]},
        },
        "x-kubernetes-group-version-kind": kinds(resource, &resource.list_kind),
    })
}

fn kinds(resource: &ResourceInfo, kind: &str) -> Value {
    json!([{"group": resource.group, "kind": kind, "version": resource.version}])
}

/// An object's own properties; whatever the definition says of them is replaced.
fn add_object_properties(schema: &mut Map<String, Value>) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        let metadata = json!({"allOf": [{"$ref": format!("{REFERENCE}{META}ObjectMeta")}]});
        properties.insert("metadata".to_owned(), metadata);
    }
}

fn complete(schema: &Value) -> Value {
    let Value::Object(object) = schema else { return schema.clone() };
    let mut out = Map::new();
    for (key, value) in object {
        let value = match key.as_str() {
            "properties" | "patternProperties" | "definitions" => match value {
                Value::Object(properties) => properties
                    .iter()
                    .map(|(name, schema)| (name.clone(), complete(schema)))
                    .collect::<Map<_, _>>()
                    .into(),
                other => other.clone(),
            },
            "items" | "additionalProperties" => complete(value),
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    if out.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) && !out.contains_key("anyOf") {
        out.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    if out.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        add_object_properties(&mut out);
        let required = out.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|own| own == name) {
                    required.push(name.into());
                }
            }
        }
    }
    Value::Object(out)
}
