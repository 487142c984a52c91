//! A normal form of CRDs, and the differences between two of them.

use std::fmt;

use serde_json::{Map, Value, json};

/// A difference between an original CRD and the CRD of the generated types.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The place: `spec.versions[v1].schema.spec.replicas`.
    pub place: String,
    /// The value in the original CRD.
    pub wanted: Option<Value>,
    /// The value in the CRD of the types.
    pub found: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| {
            let text = value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
            if text.chars().count() > 120 { format!("{}…", text.chars().take(120).collect::<String>()) } else { text }
        };
        write!(formatter, "{}: {}, and in the types {}", self.place, shown(&self.wanted), shown(&self.found))
    }
}

/// Keywords for which only the value `true` has a meaning.
const FLAGS: [&str; 8] = [
    "exclusiveMaximum",
    "exclusiveMinimum",
    "nullable",
    "optionalOldSelf",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
];

/// The annotation with the program that generated a CRD.
const WRITER: &str = "controller-gen.kubebuilder.io/version";

/// Returns the labels or annotations, without the one for the generator.
pub(crate) fn own_pairs(pairs: &Value) -> Vec<(String, String)> {
    let pairs = pairs.as_object().into_iter().flatten().filter(|(key, _)| *key != WRITER);
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Returns a CRD with only one of its versions, which becomes the stored one.
pub(crate) fn only(definition: &Value, version: Option<&str>) -> Value {
    let mut definition = definition.clone();
    if let (Some(only), Some(versions)) = (version, definition["spec"]["versions"].as_array_mut()) {
        versions.retain(|version| version["name"] == only);
        for version in versions {
            version["storage"] = json!(true);
        }
    }
    definition
}

/// Returns the differences in meaning between an original CRD and the CRD of types.
pub fn differences(wanted: &Value, found: &Value) -> Vec<Difference> {
    let mut all = Vec::new();
    compare(&normal(wanted), &normal(found), "", &mut all);
    all
}

fn compare(wanted: &Value, found: &Value, place: &str, all: &mut Vec<Difference>) {
    match (wanted, found) {
        (Value::Object(one), Value::Object(other)) => {
            let mut keys = one.keys().chain(other.keys()).collect::<Vec<_>>();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                match (one.get(key), other.get(key)) {
                    (Some(wanted), Some(found)) => compare(wanted, found, &place, all),
                    (wanted, found) => all.push(Difference { place, wanted: wanted.cloned(), found: found.cloned() }),
                }
            }
        }
        (wanted, found) if wanted == found => {}
        (wanted, found) => {
            all.push(Difference { place: place.to_owned(), wanted: Some(wanted.clone()), found: Some(found.clone()) });
        }
    }
}

/// Returns a CRD without meaningless parts and with an API server's defaults.
fn normal(definition: &Value) -> Value {
    let spec = &definition["spec"];
    let given = &spec["names"];
    let kind = given["kind"].as_str().unwrap_or_default();
    let or = |value: &Value, usual: String| match value.as_str() {
        Some(text) if !text.is_empty() => Value::from(text),
        _ => Value::from(usual),
    };
    let pairs = |key: &str| Value::from_iter(own_pairs(&definition["metadata"][key]));
    let versions = spec["versions"].as_array().into_iter().flatten().map(|version| {
        let name = version["name"].as_str().unwrap_or_default().to_owned();
        (name, normal_version(version))
    });
    let mut whole = json!({
        "name": definition["metadata"]["name"],
        "labels": pairs("labels"),
        "annotations": pairs("annotations"),
        "group": spec["group"],
        "scope": spec["scope"],
        "kind": kind,
        "plural": given["plural"],
        "singular": or(&given["singular"], kind.to_lowercase()),
        "listKind": or(&given["listKind"], format!("{kind}List")),
        "shortNames": given["shortNames"],
        "categories": given["categories"],
        "versions": versions.collect::<Value>(),
        "conversion": if spec["conversion"]["strategy"] == "None" { &Value::Null } else { &spec["conversion"] },
        "preserveUnknownFields": if spec["preserveUnknownFields"] == true { json!(true) } else { Value::Null },
    });
    drop_empty(&mut whole);
    whole
}

fn normal_version(version: &Value) -> Value {
    let mut schema = version["schema"]["openAPIV3Schema"].clone();
    if let Some(fields) = schema.as_object_mut() {
        own_parts(fields);
        normal_schema(fields);
    }
    let mut columns = version["additionalPrinterColumns"].clone();
    for column in columns.as_array_mut().into_iter().flatten() {
        if let Some(column) = column.as_object_mut() {
            column.retain(|key, value| !(value.is_null() || value == "" || (key == "priority" && *value == 0)));
        }
    }
    let subresources = &version["subresources"];
    let mut scale = subresources["scale"].clone();
    if let Some(scale) = scale.as_object_mut() {
        scale.retain(|_, value| !value.is_null() && value != "");
    }
    let is_deprecated = version["deprecated"] == true;
    let mut version = json!({
        "served": version["served"],
        "storage": version["storage"],
        "deprecated": is_deprecated.then_some(true),
        "deprecationWarning": if is_deprecated { version["deprecationWarning"].clone() } else { Value::Null },
        "status": (!subresources["status"].is_null()).then_some(true),
        "scale": scale,
        "columns": columns,
        "selectable": version["selectableFields"],
    });
    drop_empty(&mut version);
    version["schema"] = schema;
    version
}

/// Removes nulls, empty texts, empty lists and empty objects from the outer level.
fn drop_empty(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        });
    }
}

/// Removes the fields that every object has, because the server has its own schema for them.
fn own_parts(schema: &mut Map<String, Value>) {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !["apiVersion", "kind", "metadata"].iter().any(|own| name == own));
    }
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for key in ["apiVersion", "kind"] {
        properties.shift_remove(key);
    }
    let says_nothing = |metadata: &Value| {
        metadata
            .as_object()
            .is_some_and(|fields| fields.keys().all(|key| matches!(key.as_str(), "type" | "description")))
    };
    if properties.get("metadata").is_some_and(says_nothing) {
        properties.shift_remove("metadata");
    }
    if let Some(metadata) = properties.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("description");
    }
}

/// Normalizes a schema recursively.
fn normal_schema(schema: &mut Map<String, Value>) {
    schema.retain(|key, value| match value {
        Value::Null => key == "default",
        Value::Bool(false) => !FLAGS.contains(&key.as_str()),
        Value::Array(items) => !items.is_empty() || matches!(key.as_str(), "default" | "example" | "enum"),
        Value::Object(fields) => !fields.is_empty() || key != "properties",
        _ => true,
    });
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        required.dedup();
    }
    for key in ["minimum", "maximum", "multipleOf"] {
        if let Some(number) = schema.get(key).and_then(Value::as_f64) {
            schema.insert(key.to_owned(), json!(number));
        }
    }
    for rule in schema.get_mut("x-kubernetes-validations").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(rule) = rule.as_object_mut() {
            rule.retain(|_, value| !(value.is_null() || value == "" || *value == false));
        }
    }
    let inner = |schema: &mut Value| {
        if let Some(schema) = schema.as_object_mut() {
            normal_schema(schema);
        }
    };
    for key in ["items", "additionalProperties", "not"] {
        schema.get_mut(key).into_iter().for_each(inner);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        schema.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().for_each(inner);
    }
    schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut).for_each(inner);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(schema: Value) -> Value {
        json!({
            "metadata": {"name": "as.b.c", "annotations": {WRITER: "v0.1"}, "creationTimestamp": null},
            "spec": {"group": "b.c", "scope": "Namespaced", "names": {"kind": "A", "plural": "as"}, "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        })
    }

    #[test]
    fn empty_schema_parts_are_no_difference() {
        let one = definition(json!({"type": "object", "required": ["metadata"], "properties": {
            "kind": {"type": "string"}, "metadata": {"type": "object"}, "a": {"type": "integer", "minimum": 1, "nullable": false}}}));
        let mut other = definition(json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1.0}}}));
        other["spec"]["names"]["listKind"] = json!("AList");
        other["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
        assert_eq!(differences(&one, &other), []);
    }

    #[test]
    fn differences_are_reported_with_their_path() {
        let of = |minimum: i32| definition(json!({"type": "object", "properties": {"a": {"minimum": minimum}}}));
        let found = differences(&of(1), &of(2));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "versions.v1.schema.properties.a.minimum: 1.0, and in the types 2.0");
    }
}
