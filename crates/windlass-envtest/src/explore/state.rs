//! The objects in the cluster, as seen by the exploration.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use windlass_api::{ApiResource, Resource};

/// The objects of all kinds that were written to, at one moment.
#[derive(Clone, Debug, Default)]
pub struct State(pub(crate) BTreeMap<String, Objects>);

/// Objects by key: `namespace/name`, or the name alone.
pub(crate) type Objects = BTreeMap<String, Arc<Value>>;

/// Reads successive lists of a resource, and decodes only the objects that have changed since the last one.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    text: Box<str>,
    key: String,
    object: Arc<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<'l> {
    kind: String,
    api_version: String,
    metadata: ListMeta,
    #[serde(borrow)]
    items: Vec<&'l RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

/// The kind of change of an object.
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
    /// Returns all objects of a kind.
    #[must_use]
    pub fn all<K: Resource + DeserializeOwned>(&self) -> Vec<K> {
        let objects = self.0.get(&resource_name(&K::api_resource())).into_iter().flat_map(BTreeMap::values);
        objects.filter_map(|object| K::deserialize(&**object).ok()).collect()
    }

    /// Returns the object with a name. For a namespaced kind, the namespace is `default` unless the name is
    /// `namespace/name`.
    #[must_use]
    pub fn get<K: Resource + DeserializeOwned>(&self, name: &str) -> Option<K> {
        let objects = self.0.get(&resource_name(&K::api_resource()))?;
        let object = objects.get(name).or_else(|| objects.get(&format!("default/{name}")))?;
        K::deserialize(&**object).ok()
    }

    /// Replaces the objects of a resource, and returns the changes.
    pub(crate) fn replace(&mut self, resource: &str, objects: Objects) -> Vec<Change> {
        let before = self.0.insert(resource.to_owned(), objects).unwrap_or_default();
        let now = &self.0[resource];
        let mut changes = Vec::new();
        let mut add = |key: &String, how| changes.push(Change { resource: resource.to_owned(), key: key.clone(), how });
        for (key, old) in &before {
            match now.get(key) {
                Some(new) if Arc::ptr_eq(new, old) => {}
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

impl Reader {
    /// Returns the objects of a list by key, each with its kind and without managed fields, and the list's version.
    /// Returns `None` if the body is not a list.
    pub(crate) fn read(&mut self, list: &[u8]) -> Option<(Objects, String)> {
        let list: List<'_> = serde_json::from_slice(list).ok()?;
        let kind = list.kind.strip_suffix("List")?;
        let mut before = std::mem::take(&mut self.items).into_iter().peekable();
        for text in list.items {
            if let Some(known) = before.next_if(|known| *known.text == *text.get()) {
                self.items.push(known);
            } else if let Some(item) = Item::read(text.get(), kind, &list.api_version) {
                // Lists are sorted by key; otherwise more objects than necessary are decoded.
                while before.next_if(|known| known.key <= item.key).is_some() {}
                self.items.push(item);
            }
        }
        let objects = self.items.iter().map(|item| (item.key.clone(), Arc::clone(&item.object))).collect();
        Some((objects, list.metadata.resource_version))
    }
}

impl Item {
    fn read(text: &str, kind: &str, api_version: &str) -> Option<Self> {
        let mut object: Value = serde_json::from_str(text).ok()?;
        let metadata = object.get_mut("metadata")?.as_object_mut()?;
        metadata.remove("managedFields");
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
        let key = match metadata.get("namespace").and_then(Value::as_str) {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        object["kind"] = kind.into();
        object["apiVersion"] = api_version.into();
        Some(Self { text: text.into(), key, object: Arc::new(object) })
    }
}

/// Returns the name of a resource, such as `pods` or `deployments.apps`.
pub(crate) fn name_of(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

pub(crate) fn resource_name(resource: &ApiResource) -> String {
    name_of(&resource.group, &resource.plural)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(version: u64, pods: &[(&str, u64)]) -> Vec<u8> {
        let pod = |&(name, version): &(&str, u64)| json!({"metadata": {"name": name, "namespace": "default", "resourceVersion": version.to_string(), "managedFields": []}});
        let items: Vec<_> = pods.iter().map(pod).collect();
        let metadata = json!({"resourceVersion": version.to_string()});
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}).to_string().into_bytes()
    }

    #[test]
    fn only_new_list_items_are_decoded() {
        let mut reader = Reader::default();
        let (before, _) = reader.read(&list(5, &[("a", 1), ("b", 2), ("c", 3), ("e", 5)])).unwrap();
        assert_eq!(before["default/a"]["kind"], "Pod");
        assert!(before["default/a"]["metadata"]["managedFields"].is_null());
        // One object is deleted, one changed, one created.
        let (now, version) = reader.read(&list(8, &[("b", 2), ("c", 7), ("d", 8), ("e", 5)])).unwrap();
        assert_eq!(version, "8");
        assert_eq!(now.keys().collect::<Vec<_>>(), ["default/b", "default/c", "default/d", "default/e"]);
        assert_eq!(now["default/c"]["metadata"]["resourceVersion"], "7");
        assert!(Arc::ptr_eq(&now["default/e"], &before["default/e"]), "it is the same text");
        assert!(reader.read(br#"{"kind": "Status"}"#).is_none());
    }
}
