//! Definitions of custom resources as kube-apiserver stores them: in `apiextensions.k8s.io/v1beta1`, although it does
//! not serve this version any more.
//!
//! The versions of a v1beta1 definition share a schema, columns, selectable fields and subresources, if these are equal
//! in all of them.

use serde_json::{Map, Value, json};

/// The version that kube-apiserver stores.
pub(super) const STORED: &str = "apiextensions.k8s.io/v1beta1";
/// The version that the server stores.
pub(super) const SERVED: &str = "apiextensions.k8s.io/v1";

/// The fields that all versions can share: those of the spec, and those of a version.
const SHARED: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// The order of the fields in Go.
const V1_SPEC: [&str; 6] = ["group", "names", "scope", "versions", "conversion", "preserveUnknownFields"];
const V1BETA1_SPEC: [&str; 11] = [
    "group",
    "version",
    "names",
    "scope",
    "validation",
    "subresources",
    "versions",
    "additionalPrinterColumns",
    "selectableFields",
    "conversion",
    "preserveUnknownFields",
];
const VERSION: [&str; 9] = [
    "name",
    "served",
    "storage",
    "deprecated",
    "deprecationWarning",
    "schema",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
];
const COLUMN: [&str; 7] = ["name", "type", "format", "description", "priority", "JSONPath", "jsonPath"];

/// Converts a stored definition to v1.
pub(super) fn to_served(definition: &mut Value) {
    definition["apiVersion"] = SERVED.into();
    let Some(Value::Object(spec)) = definition.get_mut("spec") else { return };
    let version = spec.shift_remove("version");
    if spec.get("versions").and_then(Value::as_array).is_none_or(Vec::is_empty)
        && let Some(name) = version
    {
        spec.insert("versions".to_owned(), json!([{"name": name, "served": true, "storage": true}]));
    }
    for (shared, own) in SHARED {
        if let Some(value) = spec.shift_remove(shared) {
            each_version(spec, |version| drop(version.insert(own.to_owned(), value.clone())));
        }
    }
    each_version(spec, |version| {
        each_column(version, |column| rename(column, "JSONPath", "jsonPath"));
        order(version, &VERSION);
    });
    if let Some(Value::Object(conversion)) = spec.get_mut("conversion") {
        let client = conversion.shift_remove("webhookClientConfig");
        let reviews = conversion.shift_remove("conversionReviewVersions");
        // Defaults of v1beta1, for webhooks that have none.
        if client.is_some() || reviews.is_some() {
            let mut webhook = Map::new();
            webhook.extend(client.map(|client| ("clientConfig".to_owned(), client)));
            webhook.insert("conversionReviewVersions".to_owned(), reviews.unwrap_or_else(|| json!(["v1beta1"])));
            conversion.insert("webhook".to_owned(), webhook.into());
        }
    }
    // The default of v1beta1 is true, and v1 omits false.
    match spec.get("preserveUnknownFields") {
        Some(Value::Bool(false)) => drop(spec.shift_remove("preserveUnknownFields")),
        Some(_) => {}
        None => drop(spec.insert("preserveUnknownFields".to_owned(), true.into())),
    }
    order(spec, &V1_SPEC);
}

/// Converts a definition of v1 to the stored version.
pub(super) fn to_stored(definition: &mut Value) {
    definition["apiVersion"] = STORED.into();
    let Some(Value::Object(spec)) = definition.get_mut("spec") else { return };
    each_version(spec, |version| each_column(version, |column| rename(column, "jsonPath", "JSONPath")));
    let versions = spec.get("versions").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(first) = versions.first() {
        spec.insert("version".to_owned(), first["name"].clone());
        for (shared, own) in SHARED {
            if versions.iter().any(|version| version.get(own) != first.get(own)) {
                continue;
            }
            each_version(spec, |version| drop(version.shift_remove(own)));
            if let Some(value) = first.get(own) {
                spec.insert(shared.to_owned(), value.clone());
            }
        }
    }
    if let Some(Value::Object(conversion)) = spec.get_mut("conversion")
        && let Some(Value::Object(mut webhook)) = conversion.shift_remove("webhook")
    {
        let parts = [("clientConfig", "webhookClientConfig"), ("conversionReviewVersions", "conversionReviewVersions")];
        for (from, to) in parts {
            conversion.extend(webhook.shift_remove(from).map(|value| (to.to_owned(), value)));
        }
    }
    spec.entry("preserveUnknownFields").or_insert(false.into());
    order(spec, &V1BETA1_SPEC);
}

fn each_version(spec: &mut Map<String, Value>, mut change: impl FnMut(&mut Map<String, Value>)) {
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten();
    versions.filter_map(Value::as_object_mut).for_each(&mut change);
}

fn each_column(version: &mut Map<String, Value>, mut change: impl FnMut(&mut Map<String, Value>)) {
    let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut).into_iter().flatten();
    columns.filter_map(Value::as_object_mut).for_each(&mut change);
}

fn rename(column: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = column.shift_remove(from) {
        column.insert(to.to_owned(), value);
    }
    order(column, &COLUMN);
}

/// Sorts fields. Unknown ones follow.
fn order(object: &mut Map<String, Value>, fields: &[&str]) {
    let mut sorted = Map::new();
    for field in fields {
        sorted.extend(object.shift_remove(*field).map(|value| ((*field).to_owned(), value)));
    }
    sorted.append(object);
    *object = sorted;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(name: &str) -> Value {
        json!({"openAPIV3Schema": {"type": "object", "description": name}})
    }

    #[test]
    fn equal_parts_of_all_versions_are_shared() {
        let columns = json!([{"name": "A", "type": "string", "jsonPath": ".a"}]);
        let served = json!({
            "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "a"},
            "spec": {
                "group": "ex.io", "names": {"plural": "as"}, "scope": "Namespaced",
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": schema("one"),
                     "additionalPrinterColumns": columns},
                    {"name": "v2", "served": true, "storage": false, "schema": schema("two"),
                     "additionalPrinterColumns": columns},
                ],
                "conversion": {"strategy": "Webhook",
                    "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]}},
            },
        });
        let mut stored = served.clone();
        to_stored(&mut stored);
        let expected = json!({
            "group": "ex.io", "version": "v1", "names": {"plural": "as"}, "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema("one")},
                {"name": "v2", "served": true, "storage": false, "schema": schema("two")},
            ],
            "additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": ".a"}],
            "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://a"},
                "conversionReviewVersions": ["v1"]},
            "preserveUnknownFields": false,
        });
        assert_eq!(stored["spec"].to_string(), expected.to_string());
        assert_eq!(stored["apiVersion"], STORED);
        to_served(&mut stored);
        assert_eq!(stored.to_string(), served.to_string());
    }

    #[test]
    fn definition_of_an_old_cluster_is_converted() {
        let mut stored = json!({
            "kind": "CustomResourceDefinition", "apiVersion": STORED,
            "spec": {"group": "ex.io", "version": "v1", "names": {"plural": "as"}, "scope": "Cluster",
                "validation": schema("all"), "subresources": {"status": {}}},
        });
        to_served(&mut stored);
        let expected = json!({
            "group": "ex.io", "names": {"plural": "as"}, "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema("all"),
                "subresources": {"status": {}}}],
            "preserveUnknownFields": true,
        });
        assert_eq!(stored["spec"].to_string(), expected.to_string());
    }
}
