//! Published documents of CRDs: discovery, and the schemas for explanation, output and completion in clients.
//!
//! The content that comes from CRDs must be equal. Additions of the real server for readers are ignored: descriptions
//! of operations and common types, and in OpenAPI v2 the parameters and media types of operations. Resources of a group
//! version have no defined order in discovery, so they are sorted by name.

use std::{collections::BTreeSet, time::Duration};

use http::Request;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use windlass_client::Client;

use super::{
    Both,
    definition::{Definition, Version},
};

/// The timeout for the real server, which publishes slowly and in the background.
const PUBLISHED: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(500);
/// The maximum number of reported places per difference.
const TOLD: usize = 12;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The documents of some groups.
pub(super) struct Documents {
    groups: BTreeSet<String>,
    versions: BTreeSet<(String, String)>,
}

/// A document: its path, its format, and the compared part.
struct Document {
    path: String,
    accept: &'static str,
    part: Part,
}

/// The compared part of a document.
enum Part {
    Whole,
    /// The items of these groups.
    Items,
    /// The paths and definitions of these groups.
    Schemas,
}

impl Documents {
    pub(super) fn of(definitions: &[Definition]) -> Self {
        let versions = definitions.iter().flat_map(|definition| {
            definition.versions.iter().map(|version| (definition.group.clone(), version.name.clone()))
        });
        Self {
            groups: definitions.iter().map(|definition| definition.group.clone()).collect(),
            versions: versions.collect(),
        }
    }

    /// Returns the number of equal documents, and the differences of the others.
    pub(super) async fn compare(&self, both: &Both) -> (usize, Vec<String>) {
        let mut differences = Vec::new();
        let all = self.all();
        let count = all.len();
        let end = Instant::now() + PUBLISHED;
        for document in all {
            differences.extend(self.difference(both, &document, end).await);
        }
        (count - differences.len(), differences)
    }

    fn all(&self) -> Vec<Document> {
        let whole = |path: String| Document { path, accept: "application/json", part: Part::Whole };
        let mut all = vec![Document { path: "/apis".to_owned(), accept: AGGREGATED, part: Part::Items }];
        all.extend(self.groups.iter().map(|group| whole(format!("/apis/{group}"))));
        for (group, version) in &self.versions {
            all.push(whole(format!("/apis/{group}/{version}")));
            all.push(whole(format!("/openapi/v3/apis/{group}/{version}")));
        }
        all.push(Document { path: "/openapi/v2".to_owned(), accept: "application/json", part: Part::Schemas });
        all
    }

    /// Repeats the requests until both responses are equal, up to the timeout for publishing.
    async fn difference(&self, both: &Both, document: &Document, end: Instant) -> Option<String> {
        loop {
            let asked = [&both.embedded, &both.upstream].map(|target| self.ask(&target.client, document));
            let [embedded, upstream] = <[Value; 2]>::try_from(futures::future::join_all(asked).await).ok()?;
            if embedded == upstream {
                return None;
            }
            if Instant::now() > end {
                let mut lines = Vec::new();
                differ(&upstream, &embedded, String::new(), &mut lines);
                lines.truncate(TOLD);
                return Some(format!("GET {}\n    {}", document.path, lines.join("\n    ")));
            }
            sleep(PAUSE).await;
        }
    }

    async fn ask(&self, client: &Client, document: &Document) -> Value {
        let request = Request::get(&document.path).header("Accept", document.accept).body(Vec::new());
        let Ok(request) = request else { return Value::Null };
        let value = match client.request_json::<Value>(request).await {
            Ok(value) => value,
            Err(error) => return Value::from(format!("no answer: {error:?}")),
        };
        match document.part {
            Part::Whole => self.without_prose(value),
            Part::Items => {
                let items = value["items"].as_array().into_iter().flatten();
                let ours =
                    |item: &&Value| item["metadata"]["name"].as_str().is_some_and(|name| self.groups.contains(name));
                let mut items: Value = items.filter(ours).cloned().collect();
                items.as_array_mut().into_iter().flatten().for_each(|item| {
                    item["versions"]
                        .as_array_mut()
                        .into_iter()
                        .flatten()
                        .for_each(|version| sort(&mut version["resources"]));
                });
                items
            }
            Part::Schemas => {
                let mut paths = self.of_groups(&value["paths"]);
                strip(&mut paths, &["description", "parameters", "consumes", "produces"]);
                let definitions = self.without_prose(self.of_groups(&value["definitions"]));
                Value::Array(vec![paths, definitions])
            }
        }
    }

    /// Removes descriptions that do not come from a CRD, and sorts unordered lists.
    fn without_prose(&self, mut value: Value) -> Value {
        if let Some(fields) = value.as_object_mut() {
            for (name, field) in fields {
                match &**name {
                    "components" => {
                        let schemas = field["schemas"].take();
                        field["schemas"] = self.without_prose(schemas);
                    }
                    "resources" => sort(field),
                    name if self.ours(name) && !name.ends_with("List") => {
                        strip_objects(field);
                        embedded(field);
                    }
                    // The real server adds these to each group that uses them.
                    name if name.starts_with("io.k8s.") => {
                        strip(field, &["description", "x-kubernetes-group-version-kind"]);
                    }
                    _ => strip(field, &["description"]),
                }
            }
        }
        value
    }

    /// Reports whether a path or the name of a schema belongs to one of the groups.
    fn ours(&self, key: &str) -> bool {
        self.groups.iter().any(|group| {
            let backwards = group.split('.').rev().collect::<Vec<_>>().join(".");
            key.starts_with(&format!("/apis/{group}/")) || key.starts_with(&format!("{backwards}."))
        })
    }

    /// Returns the members of an object whose key contains one of the groups: in a path as it is, in a schema name in
    /// reverse order.
    fn of_groups(&self, members: &Value) -> Value {
        let kept = members.as_object().into_iter().flatten().filter(|(key, _)| self.ours(key));
        Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>())
    }
}

/// Removes the server's descriptions of fields that all objects have.
fn strip_objects(schema: &mut Value) {
    for name in ["apiVersion", "kind", "metadata"] {
        if let Some(property) = schema["properties"].get_mut(name) {
            strip(property, &["description"]);
        }
    }
}

/// Does the same for embedded objects.
fn embedded(schema: &mut Value) {
    if schema["x-kubernetes-embedded-resource"] == true {
        strip_objects(schema);
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(embedded),
        Value::Array(items) => items.iter_mut().for_each(embedded),
        _ => {}
    }
}

/// Removes the members with these names at any depth.
fn strip(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| !names.contains(&&**name) || !(field.is_string() || field.is_array()));
            fields.values_mut().for_each(|field| strip(field, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, names)),
        _ => {}
    }
}

/// Sorts the items by their content.
fn sort(items: &mut Value) {
    items.as_array_mut().into_iter().for_each(|items| items.sort_by_key(ToString::to_string));
}

/// Reports whether a server publishes a schema for each version of a CRD.
pub(super) async fn are_published(client: &Client, definition: &Definition) -> bool {
    let group = definition.group.split('.').rev().collect::<Vec<_>>().join(".");
    for Version { name, .. } in &definition.versions {
        let request = Request::get(format!("/openapi/v3/apis/{}/{name}", definition.group)).body(Vec::new());
        let Ok(request) = request else { return false };
        let published = client.request_json::<Value>(request).await.unwrap_or_default();
        if !published["components"]["schemas"][format!("{group}.{name}.{}", definition.kind)].is_object() {
            return false;
        }
    }
    true
}

/// Collects the places where two values differ.
fn differ(upstream: &Value, embedded: &Value, place: String, lines: &mut Vec<String>) {
    match (upstream, embedded) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for key in keys {
                differ(&upstream[key], &embedded[key], format!("{place}/{key}"), lines);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differ(one, other, format!("{place}/{index}"), lines);
            }
        }
        (one, other) if one != other => {
            let short = |value: &Value| value.to_string().chars().take(200).collect::<String>();
            lines.extend([format!("- {place} {}", short(one)), format!("+ {place} {}", short(other))]);
        }
        _ => {}
    }
}
