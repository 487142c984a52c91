//! CustomResourceDefinitions in `apiextensions.k8s.io/v1beta1`, a version that Kubernetes has removed.
//!
//! kube-apiserver still stores CRDs in this version. [`to_v1`] and [`to_v1beta1`] convert those, and change only the form.
//! [`upgrade`] and [`downgrade`] convert the CRDs of clients. They also turn `preserveUnknownFields: true`, the default of
//! v1beta1, into schemas that v1 accepts (see [`open`]), and back.
//!
//! The versions of a v1beta1 definition share a schema, columns, selectable fields and subresources, if these are equal
//! in all of them. If a client sets a shared field together with that of a version, the shared one counts.

mod open;

use serde_json::{Map, Value, json};

use self::open::{is_open, open, unspecified};
use crate::object::{Tree, default_to};

/// The version that kube-apiserver stores.
pub(crate) const V1BETA1: &str = "apiextensions.k8s.io/v1beta1";
/// The version that the server stores.
pub(crate) const V1: &str = "apiextensions.k8s.io/v1";

/// The error for a `CustomResourceDefinition` that cannot be converted to `apiextensions.k8s.io/v1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// The API version is neither v1 nor v1beta1.
    #[error("apiVersion: {0:?} is neither {V1:?} nor {V1BETA1:?}")]
    ApiVersion(String),
    /// There is no version.
    #[error("spec.versions: a CustomResourceDefinition of v1beta1 needs spec.version or spec.versions")]
    NoVersion,
    /// The version in `spec.version` is not the first one in `spec.versions`.
    #[error("spec.version: {0:?} must be the first version in spec.versions")]
    Version(String),
    /// A field of all versions is set together with that of one version.
    #[error("spec.{shared}: not allowed together with spec.versions[{index}].{own}")]
    Shared {
        /// The field of all versions.
        shared: &'static str,
        /// The index of the version.
        index: usize,
        /// The field of the version.
        own: &'static str,
    },
}

/// The fields that all versions can share: those of the spec, and those of a version.
const SHARED: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// The name of the schema in a version.
const SCHEMA: &str = "openAPIV3Schema";

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

/// Returns a `CustomResourceDefinition` in `apiextensions.k8s.io/v1`, for example from a file. One in v1 is not changed.
///
/// One in v1beta1 gets the defaults of that version. By default it preserves unknown fields: its schemas then get
/// `x-kubernetes-preserve-unknown-fields` for each object. Parts of them that v1 does not accept, because they are not
/// structural, are dropped, so that they validate nothing. If that is not sufficient, the whole schema is replaced by one
/// that accepts every object.
///
/// # Errors
/// If the definition is in another version, or if its versions are contradictory. Other errors are found when it is
/// created.
pub fn definition_to_v1(definition: Value) -> Result<Value, DefinitionError> {
    match definition.text(&["apiVersion"]) {
        V1 => Ok(definition),
        V1BETA1 => {
            check(&definition["spec"])?;
            Ok(upgrade(definition))
        }
        other => Err(DefinitionError::ApiVersion(other.to_owned())),
    }
}

fn check(spec: &Value) -> Result<(), DefinitionError> {
    let (version, versions) = (spec.text(&["version"]), spec.items(&["versions"]));
    match versions.first() {
        None if version.is_empty() => return Err(DefinitionError::NoVersion),
        Some(first) if !version.is_empty() && first.text(&["name"]) != version => {
            return Err(DefinitionError::Version(version.to_owned()));
        }
        _ => {}
    }
    for (shared, own) in SHARED.into_iter().filter(|(shared, _)| spec.at(&[shared]).is_some()) {
        if let Some(index) = versions.iter().position(|version| version.at(&[own]).is_some()) {
            return Err(DefinitionError::Shared { shared, index, own });
        }
    }
    Ok(())
}

/// Converts the definition of a client to v1.
pub(crate) fn upgrade(mut definition: Value) -> Value {
    if let Some(Value::Object(spec)) = definition.get_mut("spec") {
        spec.retain(|_, value| !value.is_null());
    }
    to_v1(&mut definition);
    let Some(Value::Object(spec)) = definition.get_mut("spec") else { return definition };
    default_to(spec, "scope", "Namespaced");
    if spec.shift_remove("preserveUnknownFields") == Some(true.into()) {
        each_version(spec, |version| {
            let opened = version.get("schema").and_then(|schema| schema.get(SCHEMA)).map_or_else(unspecified, open);
            version.insert("schema".to_owned(), json!({SCHEMA: opened}));
            order(version, &VERSION);
        });
    }
    order(spec, &V1_SPEC);
    definition
}

/// Converts a definition of v1 to the form that a client of v1beta1 gets.
pub(crate) fn downgrade(mut definition: Value) -> Value {
    let versions = definition.items(&["spec", "versions"]);
    let preserves = !versions.is_empty() && versions.iter().all(|version| is_open(&version["schema"][SCHEMA]));
    if preserves && let Some(Value::Object(spec)) = definition.get_mut("spec") {
        spec.insert("preserveUnknownFields".to_owned(), true.into());
        each_version(spec, |version| {
            if version["schema"][SCHEMA] == unspecified() {
                version.shift_remove("schema");
            }
        });
    }
    to_v1beta1(&mut definition);
    definition
}

/// Converts a stored definition to v1.
pub(crate) fn to_v1(definition: &mut Value) {
    definition["apiVersion"] = V1.into();
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

/// Converts a definition of v1 to the version that kube-apiserver stores.
pub(crate) fn to_v1beta1(definition: &mut Value) {
    definition["apiVersion"] = V1BETA1.into();
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
        to_v1beta1(&mut stored);
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
        assert_eq!(stored["apiVersion"], V1BETA1);
        to_v1(&mut stored);
        assert_eq!(stored.to_string(), served.to_string());
    }

    #[test]
    fn definition_of_an_old_cluster_is_converted() {
        let mut stored = json!({
            "kind": "CustomResourceDefinition", "apiVersion": V1BETA1,
            "spec": {"group": "ex.io", "version": "v1", "names": {"plural": "as"}, "scope": "Cluster",
                "validation": schema("all"), "subresources": {"status": {}}},
        });
        to_v1(&mut stored);
        let expected = json!({
            "group": "ex.io", "names": {"plural": "as"}, "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema("all"),
                "subresources": {"status": {}}}],
            "preserveUnknownFields": true,
        });
        assert_eq!(stored["spec"].to_string(), expected.to_string());
    }

    /// Returns the spec of a v1beta1 definition in v1.
    fn upgraded(spec: &Value) -> Result<Value, String> {
        let definition = json!({"apiVersion": V1BETA1, "kind": "CustomResourceDefinition", "spec": spec});
        definition_to_v1(definition).map(|definition| definition["spec"].clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn definition_without_a_schema_preserves_unknown_fields() {
        let spec = json!({"group": "ex.io", "version": "v1", "names": {"plural": "as"}});
        let v1 = upgraded(&spec).unwrap();
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open}});
        let expected =
            json!({"group": "ex.io", "names": {"plural": "as"}, "scope": "Namespaced", "versions": [version]});
        assert_eq!(v1.to_string(), expected.to_string());
        let shown = downgrade(json!({"apiVersion": V1, "spec": v1}));
        let spec = &shown["spec"];
        assert_eq!((&spec["preserveUnknownFields"], &spec["version"]), (&json!(true), &json!("v1")));
        assert!(spec.get("validation").is_none() && spec["versions"][0].get("schema").is_none(), "{spec}");
    }

    #[test]
    fn structural_definition_keeps_its_schema() {
        let spec = json!({"version": "v1", "preserveUnknownFields": false, "validation": schema("mine")});
        let v1 = upgraded(&spec).unwrap();
        assert_eq!(v1["versions"][0]["schema"], schema("mine"));
        let shown = downgrade(json!({"apiVersion": V1, "spec": v1}));
        assert_eq!(shown["spec"]["preserveUnknownFields"], false);
        assert_eq!(shown["spec"]["validation"], schema("mine"));
    }

    #[test]
    fn contradictory_definitions_are_errors() {
        let versions = json!([{"name": "v1"}, {"name": "v2", "schema": schema("two")}]);
        for (spec, error) in [
            (json!({}), "spec.versions: a CustomResourceDefinition of v1beta1 needs spec.version or spec.versions"),
            (
                json!({"version": "v2", "versions": versions}),
                "spec.version: \"v2\" must be the first version in spec.versions",
            ),
            (
                json!({"versions": versions, "validation": schema("all")}),
                "spec.validation: not allowed together with spec.versions[1].schema",
            ),
        ] {
            assert_eq!(upgraded(&spec).unwrap_err(), error);
        }
        let other = definition_to_v1(json!({"apiVersion": "apiextensions.k8s.io/v2"})).unwrap_err();
        let expected = "\"apiextensions.k8s.io/v2\" is neither \"apiextensions.k8s.io/v1\" nor";
        assert!(other.to_string().contains(expected), "{other}");
        let v1 = json!({"apiVersion": V1, "spec": {}});
        assert_eq!(definition_to_v1(v1.clone()), Ok(v1));
    }
}
