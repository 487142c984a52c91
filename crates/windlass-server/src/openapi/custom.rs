//! The schemas of custom resources in OpenAPI documents.

use serde_json::{Map, Value, json};

use crate::schemas::{META, REFERENCE};
use crate::{
    descriptions::Schemas,
    resource::{CustomShape, ResourceInfo},
};

/// `io.example.v1.Foo` for a Foo of the group `example.io`.
pub(super) fn schema_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts = group.split('.').rev().collect::<Vec<_>>();
    parts.extend([version, kind]);
    parts.join(".")
}

/// Returns the schema from the CRD. Adds kind, apiVersion and metadata of the object and of embedded objects, and both
/// types of int-or-string fields.
pub(super) fn schema(resource: &ResourceInfo, own: &dyn CustomShape, descriptions: &Schemas) -> Value {
    completed(resource, own, complete(own.schema(), descriptions), descriptions)
}

/// Returns the schema in the restricted form of version 2. If unknown fields are preserved, the schema is empty,
/// because clients would reject unknown fields.
pub(super) fn narrow_schema(resource: &ResourceInfo, own: &dyn CustomShape, descriptions: &Schemas) -> Value {
    if keeps_unknown(own.schema()) {
        let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        add_extensions(&mut schema, resource, &resource.kind, own);
        return Value::Object(schema);
    }
    completed(resource, own, complete(&narrowed(own.schema()), descriptions), descriptions)
}

fn completed(resource: &ResourceInfo, own: &dyn CustomShape, mut schema: Value, descriptions: &Schemas) -> Value {
    if let Some(object) = schema.as_object_mut() {
        add_object_properties(object, descriptions);
        add_extensions(object, resource, &resource.kind, own);
    }
    schema
}

/// Returns the schema of the list.
pub(super) fn list_schema(resource: &ResourceInfo, own: &dyn CustomShape, descriptions: &Schemas) -> Value {
    let item = format!("{REFERENCE}{}", schema_name(&resource.group, &resource.version, &resource.kind));
    let mut list = json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": item}},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": format!("{REFERENCE}{META}ListMeta")}]},
        },
    });
    if let Some(Value::Object(properties)) = list.get_mut("properties") {
        descriptions.describe_object(properties, &["apiVersion", "kind"]);
    }
    if let Some(list) = list.as_object_mut() {
        add_extensions(list, resource, &resource.list_kind, own);
    }
    list
}

/// Adds the group, version and kind of an object or list, and its selectable fields.
fn add_extensions(schema: &mut Map<String, Value>, resource: &ResourceInfo, kind: &str, own: &dyn CustomShape) {
    let kind = json!([{"group": resource.group, "kind": kind, "version": resource.version}]);
    schema.insert("x-kubernetes-group-version-kind".to_owned(), kind);
    let fields = own.selectable().iter().map(|path| json!({"fieldPath": path})).collect::<Vec<_>>();
    if !fields.is_empty() {
        schema.insert("x-kubernetes-selectable-fields".to_owned(), fields.into());
    }
}

/// Adds the properties that every object has. They replace those in the CRD.
fn add_object_properties(schema: &mut Map<String, Value>, descriptions: &Schemas) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        let metadata = json!({"allOf": [{"$ref": format!("{REFERENCE}{META}ObjectMeta")}]});
        properties.insert("metadata".to_owned(), metadata);
        descriptions.describe_object(properties, &["apiVersion", "kind", "metadata"]);
    }
}

fn keeps_unknown(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// Returns a schema without the parts that version 2 does not support or that its clients enforce too strictly.
fn narrowed(schema: &Value) -> Value {
    let Value::Object(object) = schema else { return schema.clone() };
    let mut out = object.clone();
    let (nullable, keeps_unknown) = (schema["nullable"] == true, keeps_unknown(schema));
    out.retain(|name, _| match name.as_str() {
        "allOf" | "oneOf" | "anyOf" | "not" | "nullable" => false,
        "items" | "properties" => !nullable && !keeps_unknown,
        "type" => !nullable && (!keeps_unknown || schema["type"] != "object"),
        _ => true,
    });
    if out.get("type").is_some_and(|kind| kind == "array") && !out.contains_key("items") {
        out.shift_remove("type");
    }
    let may_be_null = |name: &Value| {
        let properties = out.get("properties").zip(name.as_str());
        properties.is_some_and(|(properties, name)| properties[name]["nullable"] == true)
    };
    let required = out.get("required").and_then(Value::as_array).into_iter().flatten();
    let required = required.filter(|name| !may_be_null(name)).cloned().collect::<Vec<_>>();
    if required.is_empty() || schema["additionalProperties"]["nullable"] == true {
        out.shift_remove("required");
    } else {
        out.insert("required".to_owned(), required.into());
    }
    if let Some(Value::Object(properties)) = out.get_mut("properties") {
        properties.values_mut().for_each(|property| *property = narrowed(property));
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(schema) = out.get_mut(inner) {
            *schema = narrowed(schema);
        }
    }
    Value::Object(out)
}

fn complete(schema: &Value, descriptions: &Schemas) -> Value {
    let Value::Object(object) = schema else { return schema.clone() };
    let mut out = Map::new();
    for (key, value) in object {
        let value = match key.as_str() {
            "properties" | "patternProperties" | "definitions" => match value {
                Value::Object(properties) => properties
                    .iter()
                    .map(|(name, schema)| (name.clone(), complete(schema, descriptions)))
                    .collect::<Map<_, _>>()
                    .into(),
                other => other.clone(),
            },
            "items" | "additionalProperties" => complete(value, descriptions),
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    if out.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) && !out.contains_key("anyOf") {
        out.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    // Schemas without a type because they preserve unknown fields stay without properties.
    let is_narrowed = keeps_unknown(schema) && !object.contains_key("type");
    if out.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) && !is_narrowed {
        add_object_properties(&mut out, descriptions);
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
