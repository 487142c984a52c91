//! What is in the cluster, as the exploration sees it.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_api::{ApiResource, Resource};

/// The objects of the kinds that somebody has written to, at one moment.
#[derive(Clone, Debug, Default)]
pub struct State(pub(crate) BTreeMap<String, Objects>);

/// By key: `namespace/name`, or the name alone.
pub(crate) type Objects = BTreeMap<String, Value>;

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) resource: String,
    pub(crate) key: String,
    pub(crate) how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum How {
    Created,
    Changed,
    Removed,
}

impl State {
    /// All objects of a kind.
    #[must_use]
    pub fn all<K: Resource + DeserializeOwned>(&self) -> Vec<K> {
        let objects = self.0.get(&resource_name(&K::api_resource())).into_iter().flat_map(BTreeMap::values);
        objects.filter_map(|object| serde_json::from_value(object.clone()).ok()).collect()
    }

    /// The object of that name; of a namespaced kind, in `default`, unless the name is `namespace/name`.
    #[must_use]
    pub fn get<K: Resource + DeserializeOwned>(&self, name: &str) -> Option<K> {
        let objects = self.0.get(&resource_name(&K::api_resource()))?;
        let object = objects.get(name).or_else(|| objects.get(&format!("default/{name}")))?;
        serde_json::from_value(object.clone()).ok()
    }

    /// Takes what a list has shown, and says what is new in it.
    pub(crate) fn replace(&mut self, resource: &str, objects: Objects) -> Vec<Change> {
        let before = self.0.insert(resource.to_owned(), objects).unwrap_or_default();
        let now = &self.0[resource];
        let mut changes = Vec::new();
        let mut add = |key: &String, how| changes.push(Change { resource: resource.to_owned(), key: key.clone(), how });
        for (key, old) in &before {
            match now.get(key) {
                None => add(key, How::Removed),
                Some(new) if new["metadata"]["uid"] != old["metadata"]["uid"] => {
                    add(key, How::Removed);
                    add(key, How::Created);
                }
                Some(new) if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] => {
                    add(key, How::Changed);
                }
                Some(_) => {}
            }
        }
        for key in now.keys().filter(|key| !before.contains_key(*key)) {
            add(key, How::Created);
        }
        changes
    }
}

/// `pods`, `deployments.apps`.
pub(crate) fn name_of(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

pub(crate) fn resource_name(resource: &ApiResource) -> String {
    name_of(&resource.group, &resource.plural)
}

/// What a list holds, by key, each object with its kind and without the fields' owners. `None`: it is no list.
pub(crate) fn objects_of(list: Value) -> Option<(Objects, String)> {
    let Value::Object(mut list) = list else { return None };
    let kind = list.get("kind")?.as_str()?.strip_suffix("List")?.to_owned();
    let api_version = list.get("apiVersion")?.clone();
    let revision = list.get("metadata")?.get("resourceVersion")?.as_str()?.to_owned();
    let Value::Array(items) = list.remove("items")? else { return None };
    let mut objects = Objects::new();
    for mut item in items {
        let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) else { continue };
        metadata.remove("managedFields");
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
        let key = match metadata.get("namespace").and_then(Value::as_str) {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        item["kind"] = kind.clone().into();
        item["apiVersion"] = api_version.clone();
        objects.insert(key, item);
    }
    Some((objects, revision))
}
