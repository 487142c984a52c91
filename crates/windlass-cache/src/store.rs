//! The storage of the objects, with one writer and many readers.
//!
//! # What is guaranteed
//!
//! - Each store has one [`StoreWriter`], which cannot be cloned.
//! - Readers see each change as a whole: the object, all indices and the version together. A replacement of all objects
//!   is one change.
//! - Readers wait at most for one change. A replacement is prepared outside the store and then swapped in.
//! - No user code runs while the store is locked.
//!
//! # What is not guaranteed
//!
//! - Two successive reads may see different states.

use std::{fmt, marker::PhantomData, sync::Arc};

use parking_lot::RwLock;
use windlass_api::{BoxError, ObjectKey, ResourceVersion};

use crate::{
    cached::{Cached, Untyped},
    error::{AddIndexError, UnknownIndex},
    indexer::{Index, Indexer, Values},
};

/// A read handle of one informer's objects. Clones read the same store.
///
/// [`Lister`](crate::Lister) is the handle for everyday use.
pub struct Store<K> {
    indexer: Arc<RwLock<Indexer>>,
    kind: PhantomData<fn() -> K>,
}

/// The write handle of a store.
pub(crate) struct StoreWriter<K> {
    store: Store<K>,
    /// The index functions, in the order of the indices in the store.
    indices: Vec<Index<K>>,
    on_index_error: Box<IndexErrorFn>,
}

type IndexErrorFn = dyn Fn(&Arc<str>, &ObjectKey, BoxError) + Send + Sync;

/// The changes made by a replacement of all objects.
pub(crate) struct Replaced<K> {
    /// The last states of the objects that were removed.
    pub(crate) vanished: Vec<Cached<K>>,
    /// Every object that is stored now, with its previous state if it had one.
    pub(crate) present: Vec<(Option<Cached<K>>, Cached<K>)>,
}

// === impl Store ===

impl<K> Store<K> {
    /// Changes the type parameter, as [`Cached::cast`] does.
    pub(crate) fn cast<T>(self) -> Store<T> {
        Store { indexer: self.indexer, kind: PhantomData }
    }

    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Cached<K>> {
        self.get_by(key.namespace.as_deref(), &key.name)
    }

    pub(crate) fn get_by(&self, namespace: Option<&str>, name: &str) -> Option<Cached<K>> {
        self.indexer.read().get(namespace, name).cloned().map(Cached::cast)
    }

    /// Returns every object.
    #[must_use]
    pub fn list(&self) -> Vec<Cached<K>> {
        self.indexer.read().iter().cloned().map(Cached::cast).collect()
    }

    /// Returns every object in a namespace.
    #[must_use]
    pub fn within(&self, namespace: &str) -> Vec<Cached<K>> {
        self.indexer.read().within(namespace).cloned().map(Cached::cast).collect()
    }

    /// Returns every object with this value in an index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Cached<K>>, UnknownIndex> {
        let indexer = self.indexer.read();
        let found = indexer.by_index(index, value).ok_or_else(|| UnknownIndex(index.to_owned()))?;
        Ok(found.cloned().map(Cached::cast).collect())
    }

    /// Returns the used values of an index, sorted.
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, UnknownIndex> {
        self.indexer.read().index_values(index).ok_or_else(|| UnknownIndex(index.to_owned()))
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.indexer.read().len()
    }

    /// Reports whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the version up to which all changes have been applied; empty before the first list.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        self.indexer.read().version().clone()
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { indexer: Arc::clone(&self.indexer), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.indexer.read().fmt(f)
    }
}

// === impl StoreWriter ===

impl<K> StoreWriter<K> {
    pub(crate) fn new(on_index_error: impl Fn(&Arc<str>, &ObjectKey, BoxError) + Send + Sync + 'static) -> Self {
        let store = Store { indexer: Arc::new(RwLock::new(Indexer::new(Vec::new(), 0))), kind: PhantomData };
        Self { store, indices: Vec::new(), on_index_error: Box::new(on_index_error) }
    }

    pub(crate) fn store(&self) -> &Store<K> {
        &self.store
    }

    /// Prefetches the entries of these keys, which are about to be changed.
    pub(crate) fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k ObjectKey>) {
        self.store.indexer.read().prefetch(keys);
    }

    /// Stores an object and returns its previous state. A `version` means that all changes up to it have been applied.
    pub(crate) fn insert(&mut self, object: Cached<K>, version: Option<ResourceVersion>) -> Option<Cached<K>> {
        let object = object.cast();
        let values = self.values_of(&object);
        let mut indexer = self.store.indexer.write();
        let old = indexer.insert(object, values);
        if let Some(version) = version {
            indexer.set_version(version);
        }
        old.map(Cached::cast)
    }

    /// Removes an object and returns its last state.
    pub(crate) fn remove(&mut self, key: &ObjectKey, version: Option<ResourceVersion>) -> Option<Cached<K>> {
        let mut indexer = self.store.indexer.write();
        let old = indexer.remove(key);
        if let Some(version) = version {
            indexer.set_version(version);
        }
        old.map(Cached::cast)
    }

    /// Sets the version: no change up to it is missing.
    pub(crate) fn advance(&mut self, version: ResourceVersion) {
        self.store.indexer.write().set_version(version);
    }

    /// Replaces all objects with the state at `version`. If a key occurs twice, the later object is stored.
    pub(crate) fn replace(&mut self, objects: Vec<Cached<K>>, version: ResourceVersion) -> Replaced<K> {
        let names = self.indices.iter().map(|index| Arc::clone(index.name())).collect();
        let mut next = Indexer::new(names, objects.len());
        for object in objects.into_iter().map(Cached::cast) {
            let values = self.values_of(&object);
            next.insert(object, values);
        }
        next.set_version(version);
        // This is the only writer, so the comparison stays valid until the swap.
        let replaced = {
            let current = self.store.indexer.read();
            let find = |table: &Indexer, object: &Cached<Untyped>| {
                table.get(object.key().namespace.as_deref(), &object.key().name).cloned()
            };
            Replaced {
                vanished: current
                    .iter()
                    .filter(|object| find(&next, object).is_none())
                    .cloned()
                    .map(Cached::cast)
                    .collect(),
                present: next
                    .iter()
                    .map(|object| (find(&current, object).map(Cached::cast), object.clone().cast()))
                    .collect(),
            }
        };
        let previous = std::mem::replace(&mut *self.store.indexer.write(), next);
        drop(previous); // After the lock is released.
        replaced
    }

    pub(crate) fn add_index(&mut self, index: Index<K>) -> Result<(), AddIndexError> {
        if self.indices.iter().any(|known| known.name() == index.name() && known.is(&index)) {
            return Ok(());
        }
        if self.store.indexer.read().has_index(index.name()) {
            return Err(AddIndexError::Conflict(index.name().to_string()));
        }
        // This is the only writer, so the index stays valid until it is added. Readers don't wait while it is built.
        let objects: Vec<_> = self.store.indexer.read().iter().cloned().collect();
        let values = objects.iter().map(|object| self.values_in(&index, object)).collect::<Vec<_>>();
        let table = self.store.indexer.read().index_of(Arc::clone(index.name()), values);
        self.store.indexer.write().add_index(table);
        self.indices.push(index);
        Ok(())
    }

    fn values_of(&self, object: &Cached<Untyped>) -> Vec<Values> {
        self.indices.iter().map(|index| self.values_in(index, object)).collect()
    }

    fn values_in(&self, index: &Index<K>, object: &Cached<Untyped>) -> Values {
        index.values_of(object).unwrap_or_else(|error| {
            (self.on_index_error)(index.name(), object.key(), error);
            Values::new()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use k8s_openapi::api::core::v1::Pod;
    use parking_lot::Mutex;
    use serde_json::json;
    use windlass_api::{Entropy, Resource};

    use super::*;
    use crate::{ManagedFieldsMode, ingest::Ingest};

    fn pod(namespace: &str, name: &str, version: u64, app: &str) -> Cached<Pod> {
        let body = json!({"metadata": {"name": name, "namespace": namespace, "resourceVersion": version.to_string(),
            "uid": name, "labels": {"app": app}}, "spec": {"nodeName": format!("node-{app}"), "containers": []}});
        Ingest::alone(Pod::api_resource(), ManagedFieldsMode::Drop).read(body.to_string().as_bytes()).unwrap()
    }

    fn writer() -> StoreWriter<Pod> {
        StoreWriter::new(|index, key, error| panic!("{index} {key}: {error}"))
    }

    fn by_app() -> Index<Pod> {
        Index::on_meta("app", |meta| meta.label("app").map(str::to_owned))
    }

    fn keys(objects: &[Cached<Pod>]) -> Vec<String> {
        objects.iter().map(|object| object.key().to_string()).collect()
    }

    #[test]
    fn an_index_changes_with_its_object() {
        let mut writer = writer();
        writer.add_index(by_app()).unwrap();
        let store = writer.store().clone();
        assert!(writer.insert(pod("n", "a", 1, "x"), None).is_none());
        assert_eq!(keys(&store.by_index("app", "x").unwrap()), ["n/a"]);
        assert_eq!(writer.insert(pod("n", "a", 2, "y"), None).unwrap().meta().resource_version().as_u64(), Some(1));
        assert_eq!(keys(&store.by_index("app", "x").unwrap()), [""; 0]);
        assert_eq!(store.index_values("app").unwrap(), [Arc::from("y")]);
        writer.remove(&"n/a".parse().unwrap(), Some(3.into()));
        assert!(store.index_values("app").unwrap().is_empty() && store.is_empty() && store.within("n").is_empty());
        assert_eq!(store.version().as_u64(), Some(3));
    }

    #[test]
    fn an_index_can_read_a_part_of_the_object_or_all_of_it() {
        #[derive(serde::Deserialize)]
        struct OnNode {
            spec: NodeName,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct NodeName {
            node_name: Option<String>,
        }
        let mut writer = writer();
        writer.insert(pod("n", "a", 1, "x"), None);
        writer.add_index(Index::on_projection("part", |pod: &OnNode| pod.spec.node_name.clone())).unwrap();
        writer.add_index(Index::on_path("path", ["spec", "nodeName"])).unwrap();
        writer.add_index(Index::on_object("whole", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())).unwrap();
        writer.insert(pod("n", "b", 2, "x"), None);
        for index in ["part", "path", "whole"] {
            assert_eq!(keys(&writer.store().by_index(index, "node-x").unwrap()), ["n/a", "n/b"]);
        }
    }

    #[test]
    fn index_by_path_reads_strings_in_any_encoding() {
        let mut writer = writer();
        writer.add_index(Index::on_path("node", ["spec", "nodeName"])).unwrap();
        let put = |writer: &mut StoreWriter<Pod>, name: &str, node: &str| {
            let body = format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":{node}}}}}"#);
            let object = Ingest::alone(Pod::api_resource(), ManagedFieldsMode::Drop).read(body.as_bytes()).unwrap();
            writer.insert(object, None);
        };
        put(&mut writer, "a", r#""n1""#);
        put(&mut writer, "b", r#""n\u0031""#);
        put(&mut writer, "c", "null");
        assert_eq!(keys(&writer.store().by_index("node", "n1").unwrap()), ["a", "b"]);
        assert_eq!(writer.store().index_values("node").unwrap().len(), 1);
    }

    #[test]
    fn a_second_index_of_a_name_and_an_unknown_one_are_errors() {
        let mut writer = writer();
        writer.add_index(by_app()).unwrap();
        assert_eq!(writer.add_index(by_app()).unwrap_err().to_string(), "indexer conflict: app");
        let error = writer.store().by_index("none", "x").unwrap_err();
        assert_eq!(error.to_string(), "Index with name none does not exist");
    }

    #[test]
    fn failing_index_is_reported_and_omits_the_object() {
        let errors = Arc::new(Mutex::new(Vec::new()));
        let mut writer = StoreWriter::<Pod>::new({
            let errors = Arc::clone(&errors);
            move |index, key, error| errors.lock().push(format!("{index} {key}: {error}"))
        });
        writer.add_index(Index::on_projection("number", |number: &u8| [number.to_string()])).unwrap();
        writer.add_index(Index::on_meta("panic", |_| -> Vec<String> { panic!("no such luck") })).unwrap();
        writer.insert(pod("n", "a", 1, "x"), None);
        assert_eq!(*errors.lock(), ["number n/a: decoding Pod n/a", "panic n/a: no such luck"]);
        assert_eq!(writer.store().len(), 1);
    }

    #[test]
    fn replacement_returns_removed_and_current_objects() {
        let mut writer = writer();
        writer.add_index(by_app()).unwrap();
        writer.insert(pod("n", "a", 1, "x"), None);
        writer.insert(pod("m", "b", 2, "x"), None);
        let replaced = writer.replace(vec![pod("m", "b", 4, "z"), pod("m", "c", 3, "z")], 5.into());
        assert_eq!(keys(&replaced.vanished), ["n/a"]);
        let present: Vec<_> =
            replaced.present.iter().map(|(old, new)| (old.is_some(), new.key().to_string())).collect();
        assert_eq!(present, [(true, "m/b".to_owned()), (false, "m/c".to_owned())]);
        assert_eq!(keys(&writer.store().by_index("app", "z").unwrap()), ["m/b", "m/c"]);
        assert_eq!(keys(&writer.store().within("m")), ["m/b", "m/c"]);
        assert_eq!(writer.store().version().as_u64(), Some(5));
    }

    #[test]
    fn namespaces_do_not_mix_and_none_is_not_the_empty_one() {
        let mut writer = writer();
        writer.insert(pod("n", "a", 1, "x"), None);
        writer.insert(pod("m", "a", 2, "y"), None);
        let store = writer.store();
        assert_eq!(store.get(&"n/a".parse().unwrap()).unwrap().meta().label("app"), Some("x"));
        assert!(store.get(&"a".parse().unwrap()).is_none());
        assert_eq!(keys(&store.within("m")), ["m/a"]);
    }

    #[test]
    fn store_and_indices_equal_a_model_after_any_history() {
        for seed in 0..20 {
            let entropy = Entropy::seeded(seed);
            let mut writer = writer();
            writer.add_index(by_app()).unwrap();
            let mut model: BTreeMap<String, (u64, String)> = BTreeMap::new();
            let any = |version: u64| {
                pod(
                    &format!("n{}", entropy.below(3)),
                    &format!("p{}", entropy.below(8)),
                    version,
                    &format!("a{}", entropy.below(4)),
                )
            };
            let value = |object: &Cached<Pod>, version| (version, object.meta().label("app").unwrap().to_owned());
            for version in 1..200 {
                match entropy.below(20) {
                    0 => {
                        let objects: Vec<_> = (0..entropy.below(10)).map(|_| any(version)).collect();
                        model =
                            objects.iter().map(|object| (object.key().to_string(), value(object, version))).collect();
                        writer.replace(objects, version.into());
                    }
                    1..=5 => {
                        let key = any(0).key().clone();
                        let removed = writer.remove(&key, Some(version.into()));
                        assert_eq!(removed.is_some(), model.remove(&key.to_string()).is_some());
                    }
                    _ => {
                        let object = any(version);
                        model.insert(object.key().to_string(), value(&object, version));
                        writer.insert(object, None);
                    }
                }
                let store = writer.store();
                let held: BTreeMap<_, _> = store
                    .list()
                    .iter()
                    .map(|object| {
                        (object.key().to_string(), value(object, object.meta().resource_version().as_u64().unwrap()))
                    })
                    .collect();
                assert_eq!(held, model, "seed {seed}");
                for app in 0..4 {
                    let app = format!("a{app}");
                    let expected: BTreeSet<_> =
                        model.iter().filter(|(_, (_, label))| *label == app).map(|(key, _)| key.clone()).collect();
                    assert_eq!(
                        keys(&store.by_index("app", &app).unwrap()).into_iter().collect::<BTreeSet<_>>(),
                        expected
                    );
                    assert_eq!(
                        store.index_values("app").unwrap().iter().any(|value| **value == *app),
                        !expected.is_empty()
                    );
                }
                for namespace in ["n0", "n1", "n2"] {
                    let expected = model.keys().filter(|key| key.starts_with(namespace)).count();
                    assert_eq!(store.within(namespace).len(), expected);
                }
            }
        }
    }
}
