//! Descriptions of fields, for OpenAPI documents and table columns.
//!
//! The server's own schemas have no descriptions. The builder accepts schemas with descriptions, see
//! [`ServerBuilder::descriptions`](crate::ServerBuilder::descriptions); only their descriptions are used. Except for
//! the texts of columns they are not cached, but generated for each document.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
};

use serde_json::{Map, Value};

/// JSON schemas by their names in the OpenAPI documents of Kubernetes.
type SchemaSource = fn() -> Map<String, Value>;

/// The kind whose descriptions of `apiVersion`, `kind` and `metadata` apply to every object.
const ANY_OBJECT: &str = "io.k8s.api.core.v1.ConfigMap";

/// Separates a description from the enum values that OpenAPI appends to it. Columns show the description only.
const VALUES: &str = "\n\nPossible enum values:";

/// The descriptions of a server, if it has any. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Descriptions(Option<Arc<Described>>);

struct Described {
    source: SchemaSource,
    /// The texts of columns by `schema#property`.
    columns: OnceLock<HashMap<&'static str, String>>,
}

impl Descriptions {
    pub(crate) fn new(source: fn() -> Map<String, Value>) -> Self {
        Self(Some(Arc::new(Described { source, columns: OnceLock::new() })))
    }

    /// Reports whether the server has descriptions.
    pub(crate) fn exist(&self) -> bool {
        self.0.is_some()
    }

    /// Returns all schemas. Empty without descriptions.
    pub(crate) fn schemas(&self) -> Schemas {
        Schemas(self.0.as_ref().map(|described| (described.source)()).unwrap_or_default())
    }

    /// Returns the description of a property, given as `schema#property`. The first call extracts the descriptions of
    /// `all` properties that are ever requested.
    pub(crate) fn column<I>(&self, source: &str, all: impl FnOnce() -> I) -> &str
    where
        I: Iterator<Item = &'static str>,
    {
        let Some(described) = &self.0 else { return "" };
        let columns = described.columns.get_or_init(|| {
            let schemas = self.schemas();
            all().filter_map(|source| Some((source, schemas.property(source)?.to_owned()))).collect()
        });
        columns.get(source).map_or("", String::as_str)
    }
}

impl fmt::Debug for Descriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Descriptions").field(&self.exist()).finish()
    }
}

/// Schemas with descriptions, for the generation of one document.
#[derive(Debug, Default)]
pub(crate) struct Schemas(Map<String, Value>);

impl Schemas {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the descriptions to the schema with this name.
    pub(crate) fn describe(&self, name: &str, schema: &mut Value) {
        if let Some(described) = self.0.get(name) {
            describe(schema, described);
        }
    }

    /// Adds the descriptions of the named properties that every object has.
    pub(crate) fn describe_object(&self, properties: &mut Map<String, Value>, names: &[&str]) {
        let Some(object) = self.0.get(ANY_OBJECT) else { return };
        for name in names {
            if let Some(property) = properties.get_mut(*name) {
                describe(property, &object["properties"][*name]);
            }
        }
    }

    /// Returns the description of a `schema#property`, without the list of enum values.
    fn property(&self, source: &str) -> Option<&str> {
        let (schema, property) = source.split_once('#')?;
        let text = self.0.get(schema)?["properties"][property]["description"].as_str()?;
        Some(text.split(VALUES).next().unwrap_or_default())
    }
}

/// Adds descriptions to the parts that exist in both schemas.
fn describe(schema: &mut Value, described: &Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(text) = described["description"].as_str() {
        schema.shift_insert(0, "description".to_owned(), text.into());
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            describe(property, &described["properties"][name]);
        }
    }
    for part in ["items", "additionalProperties"] {
        if let Some(part_schema) = schema.get_mut(part) {
            describe(part_schema, &described[part]);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns sample schemas with descriptions.
    pub(crate) fn source() -> Map<String, Value> {
        let schemas = json!({
            ANY_OBJECT: {"description": "a map", "properties": {
                "apiVersion": {"description": "the version"},
                "data": {"description": "the data", "additionalProperties": {"description": "one of the data"}},
                "kind": {"description": "the kind"},
                "metadata": {"description": "the metadata", "$ref": "elsewhere"},
                "unknown": {"description": "not in the server's schema"},
            }},
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"properties": {
                "name": {"description": "the name\n\nPossible enum values:\n - `a`"},
            }},
        });
        schemas.as_object().unwrap().clone()
    }

    #[test]
    fn descriptions_are_added_to_properties_of_both_schemas() {
        let mut schema = json!({"type": "object", "properties": {
            "data": {"type": "object", "additionalProperties": {"type": "string"}},
            "kind": {"type": "string"},
            "more": {"type": "string"},
        }});
        Descriptions::new(source).schemas().describe(ANY_OBJECT, &mut schema);
        let expected = json!({"description": "a map", "type": "object", "properties": {
            "data": {"description": "the data", "type": "object",
                "additionalProperties": {"description": "one of the data", "type": "string"}},
            "kind": {"description": "the kind", "type": "string"},
            "more": {"type": "string"},
        }});
        assert_eq!(schema.to_string(), expected.to_string());
    }

    #[test]
    fn column_descriptions_omit_possible_values() {
        let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta#name";
        assert_eq!(Descriptions::new(source).column(name, || [name].into_iter()), "the name");
        assert_eq!(Descriptions::new(source).column("io.k8s.api.core.v1.Nothing#name", || [name].into_iter()), "");
        assert_eq!(Descriptions::default().column(name, || [name].into_iter()), "");
    }
}
