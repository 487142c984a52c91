//! An indexed store of objects for direct use.

use std::{fmt, sync::Arc};

use parking_lot::{Mutex, RwLock};
use windlass_api::{BoxError, ObjectKey, ResourceVersion};

use super::ObjectStore;
use crate::{
    cached::Cached,
    error::{AddIndexError, UnknownIndex},
    indexer::Index,
    store::{Store, StoreWriter},
};

/// A store of objects by key, with indices that change together with the objects. Informers store their objects in the
/// same structure.
///
/// Compared with Go: an [`Index`] is an entry of `Indexers`, a name and the function that computes values. The map from
/// names to values to keys, `Indices`, is internal; [`Self::by_index`] and [`Self::index_values`] read it.
///
/// If an index function fails or panics, the object is left out of that index, and the error is logged or passed to the
/// hook.
///
/// ```
/// use windlass_cache::{Cached, Index, collections::ThreadSafeMap};
/// # use windlass_api::k8s_openapi::{api::core::v1::{Pod, PodSpec}, apimachinery::pkg::apis::meta::v1::ObjectMeta};
/// # fn pod(namespace: &str, name: &str, node: &str) -> Pod {
/// #     let metadata = ObjectMeta { name: Some(name.into()), namespace: Some(namespace.into()), ..ObjectMeta::default() };
/// #     Pod { metadata, spec: Some(PodSpec { node_name: Some(node.into()), ..PodSpec::default() }), ..Pod::default() }
/// # }
///
/// let pods = ThreadSafeMap::new();
/// pods.add_index(Index::on_meta("namespace", |meta| meta.namespace().cloned()))?;
/// pods.add_index(Index::on_object("nodeName", |pod: &Pod| pod.spec.as_ref()?.node_name.clone()))?;
///
/// pods.insert(Cached::of(&pod("default", "pod1", "node1"))?);
/// pods.insert(Cached::of(&pod("default", "pod2", "node2"))?);
/// pods.insert(Cached::of(&pod("kube-system", "pod3", "node2"))?);
///
/// let keys = |index, value| Ok::<_, windlass_cache::UnknownIndex>(
///     pods.index_keys(index, value)?.iter().map(ToString::to_string).collect::<Vec<_>>());
/// assert_eq!(keys("namespace", "default")?, ["default/pod1", "default/pod2"]);
/// assert_eq!(keys("namespace", "kube-system")?, ["kube-system/pod3"]);
/// assert_eq!(keys("nodeName", "node1")?, ["default/pod1"]);
/// assert_eq!(keys("nodeName", "node2")?, ["default/pod2", "kube-system/pod3"]);
/// assert_eq!(pods.by_index("nodeName", "node2")?[0].get()?.metadata.name.as_deref(), Some("pod2"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct ThreadSafeMap<K> {
    writer: Mutex<StoreWriter<K>>,
    reader: Store<K>,
    /// The same indices as in the writer, for lookups by object instead of value.
    indices: RwLock<Vec<Index<K>>>,
}

impl<K: 'static> ThreadSafeMap<K> {
    /// Creates an empty map. Errors of index functions are logged.
    #[must_use]
    pub fn new() -> Self {
        Self::with_hook(|index, key, error| tracing::warn!(index, %key, error, "left out of the index"))
    }

    /// Creates an empty map. Errors of index functions are passed to `on_index_error`, with the index's name and the
    /// object's key. It must not use the map.
    pub fn with_hook(on_index_error: impl Fn(&str, &ObjectKey, BoxError) + Send + Sync + 'static) -> Self {
        let writer = StoreWriter::new(move |index, key, error| on_index_error(index, key, error));
        let reader = writer.store().clone();
        Self { writer: Mutex::new(writer), reader, indices: RwLock::default() }
    }

    /// Adds an index, which includes the objects that are already stored.
    pub fn add_index(&self, index: Index<K>) -> Result<(), AddIndexError> {
        self.writer.lock().add_index(index.clone())?;
        self.indices.write().push(index);
        Ok(())
    }

    /// Stores an object and returns the one that it replaces.
    pub fn insert(&self, object: Cached<K>) -> Option<Cached<K>> {
        self.writer.lock().insert(object, None)
    }

    /// Removes and returns an object.
    pub fn remove(&self, key: &ObjectKey) -> Option<Cached<K>> {
        self.writer.lock().remove(key, None)
    }

    /// Replaces the content with the objects of a version. The change is atomic for readers.
    pub fn replace(&self, objects: Vec<Cached<K>>, version: ResourceVersion) {
        self.writer.lock().replace(objects, version);
    }

    /// Sets the version: all changes up to it have been applied.
    pub fn advance(&self, version: ResourceVersion) {
        self.writer.lock().advance(version);
    }

    /// Returns a read-only handle of this map.
    pub const fn reader(&self) -> &Store<K> {
        &self.reader
    }

    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Cached<K>> {
        self.reader.get(key)
    }

    /// Returns every object.
    #[must_use]
    pub fn list(&self) -> Vec<Cached<K>> {
        self.reader.list()
    }

    /// Returns every object with this value in an index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Cached<K>>, UnknownIndex> {
        self.reader.by_index(index, value)
    }

    /// Returns the keys of the objects with this value in an index.
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, UnknownIndex> {
        Ok(self.reader.by_index(index, value)?.iter().map(|object| object.key().clone()).collect())
    }

    /// Returns the used values of an index, sorted.
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, UnknownIndex> {
        self.reader.index_values(index)
    }

    /// Returns every object that shares a value with `object` in an index, without duplicates. `object` need not be in
    /// the map.
    pub fn like(&self, index: &str, object: &Cached<K>) -> Result<Vec<Cached<K>>, UnknownIndex> {
        let found = self.indices.read().iter().find(|known| **known.name() == *index).cloned();
        let found = found.ok_or_else(|| UnknownIndex(index.to_owned()))?;
        let mut alike: Vec<Cached<K>> = Vec::new();
        // An object without values shares none.
        for value in found.values_of(&object.clone().cast()).unwrap_or_default() {
            for other in self.reader.by_index(index, &value)? {
                if !alike.iter().any(|known| known.ptr_eq(&other)) {
                    alike.push(other);
                }
            }
        }
        Ok(alike)
    }

    /// Returns the version of the last replacement or [`Self::advance`]; empty before.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        self.reader.version()
    }
}

impl<K: 'static> Default for ThreadSafeMap<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// A replacement through this trait does not change the version.
impl<K: 'static> ObjectStore<Cached<K>> for ThreadSafeMap<K> {
    fn insert(&self, object: Cached<K>) {
        Self::insert(self, object);
    }

    fn remove(&self, key: &ObjectKey) {
        Self::remove(self, key);
    }

    fn replace(&self, objects: Vec<Cached<K>>) {
        Self::replace(self, objects, self.version());
    }

    fn get(&self, key: &ObjectKey) -> Option<Cached<K>> {
        Self::get(self, key)
    }

    fn list(&self) -> Vec<Cached<K>> {
        Self::list(self)
    }
}

impl<K> fmt::Debug for ThreadSafeMap<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadSafeMap").field("store", &self.reader).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_api::{DynamicObject, Resource};

    use super::*;
    use crate::testing::cached;

    type Map = ThreadSafeMap<DynamicObject>;

    fn entry(name: &str, tags: &[&str]) -> Cached<DynamicObject> {
        let labels: serde_json::Map<_, _> = tags.iter().map(|tag| ((*tag).to_owned(), json!("x"))).collect();
        cached(
            k8s_openapi::api::core::v1::Pod::api_resource(),
            &json!({"metadata": {"name": name, "resourceVersion": "1", "labels": labels}}),
        )
        .unwrap()
    }

    fn tagged() -> Map {
        let map = Map::new();
        let tags = |meta: &windlass_api::Meta| meta.labels().iter().map(|(tag, _)| Arc::clone(tag)).collect::<Vec<_>>();
        map.add_index(Index::on_meta("tag", tags)).unwrap();
        map
    }

    fn names(objects: &[Cached<DynamicObject>]) -> Vec<&str> {
        objects.iter().map(|object| &*object.key().name).collect()
    }

    #[test]
    fn changed_object_leaves_old_index_values() {
        let map = tagged();
        map.insert(entry("a", &["x", "y"]));
        map.insert(entry("a", &["y", "z"]));
        assert_eq!(map.index_values("tag").unwrap(), ["y", "z"].map(Arc::from));
        map.remove(&ObjectKey::new("a"));
        assert!(map.index_values("tag").unwrap().is_empty() && map.list().is_empty());
    }

    #[test]
    fn index_can_be_added_later_but_not_twice() {
        let map = Map::new();
        map.insert(entry("a", &["x"]));
        map.add_index(Index::on_meta("name", |meta| [Arc::clone(meta.name())])).unwrap();
        assert_eq!(map.index_keys("name", "a").unwrap(), [ObjectKey::new("a")]);
        let again = map.add_index(Index::on_meta("name", |meta| [Arc::clone(meta.name())]));
        assert_eq!(again.unwrap_err().to_string(), "indexer conflict: name");
        assert_eq!(map.by_index("none", "a").unwrap_err().to_string(), "Index with name none does not exist");
        assert_eq!(map.like("none", &entry("a", &[])).unwrap_err(), UnknownIndex("none".to_owned()));
    }

    #[test]
    fn objects_that_share_any_value_are_alike_each_once() {
        let map = tagged();
        for (name, tags) in [("a", &["x", "y"][..]), ("b", &["x", "y"]), ("c", &["z"]), ("d", &["y"])] {
            map.insert(entry(name, tags));
        }
        assert_eq!(names(&map.like("tag", &entry("new", &["x", "y"])).unwrap()), ["a", "b", "d"]);
    }

    #[test]
    fn replacement_of_objects_indices_and_version_is_atomic() {
        let map = Arc::new(tagged());
        ThreadSafeMap::replace(&map, vec![entry("a", &["x"])], 7.into());
        assert_eq!(map.version().as_u64(), Some(7));
        ObjectStore::replace(&map, vec![entry("b", &["y"])]);
        assert_eq!((names(&map.list()), map.version().as_u64()), (vec!["b"], Some(7)));
        assert_eq!(map.index_values("tag").unwrap(), [Arc::from("y")]);
        map.advance(9.into());
        assert_eq!(map.version().as_u64(), Some(9));
        assert_eq!(ObjectStore::keys(&map), [ObjectKey::new("b")]);
    }

    #[test]
    fn failing_index_omits_the_object_in_the_map() {
        let errors = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&errors);
        let map = Map::with_hook(move |index, key, error| log.lock().push(format!("{index} {key}: {error}")));
        map.add_index(Index::on_meta("bad", |_| -> Vec<String> { panic!("expected panic of the test") })).unwrap();
        map.add_index(Index::on_meta("name", |meta| [Arc::clone(meta.name())])).unwrap();
        map.insert(entry("a", &[]));
        assert_eq!(*errors.lock(), ["bad a: expected panic of the test"]);
        assert_eq!((map.by_index("name", "a").unwrap().len(), map.index_values("bad").unwrap().len()), (1, 0));
    }
}
