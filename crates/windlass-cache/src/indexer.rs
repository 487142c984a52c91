//! The table of objects and its indices: plain data, without locks or user code.
//!
//! Each object has a slot for as long as it is stored. The namespaces and the values of each index refer to slots. All
//! results are in the order of the slots, which depends only on the history of changes: the same history gives the same
//! order.

use std::{collections::BTreeSet, fmt, hash::BuildHasher, hint::black_box, marker::PhantomData, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable, hash_map::EntryRef};
use serde::de::DeserializeOwned;
use smallvec::SmallVec;
use windlass_api::{BoxError, Meta, Object, ObjectKey, ResourceVersion};
use windlass_views::HasView;

use crate::cached::{Cached, Untyped};

/// A named index: a function that computes the values under which an object can be found.
///
/// The function runs on the informer's task whenever an object changes, before the store is locked. If it fails or
/// panics, the object is left out of this index and the error is passed to the error hook.
///
/// Clones are the same index: several users of a cache can each add one.
pub struct Index<K> {
    name: Arc<str>,
    values: Arc<ValuesFn>,
    kind: PhantomData<fn(&K)>,
}

type ValuesFn = dyn Fn(&Cached<Untyped>) -> Result<Values, BoxError> + Send + Sync;

/// The usual number of objects that are looked up at once.
const LOOK_AHEAD: usize = 64;

/// The values of one object in one index. Most objects have one.
pub(crate) type Values = SmallVec<[Arc<str>; 1]>;

pub(crate) struct Indexer {
    slots: Vec<Option<Cached<Untyped>>>,
    /// The empty slots, used from the end.
    free: Vec<u32>,
    /// The occupied slots, by key.
    by_key: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The occupied slots of namespaced objects. No set is empty.
    namespaces: Postings,
    indices: Vec<IndexTable>,
    /// The server's resource version that the content corresponds to.
    version: ResourceVersion,
}

/// The objects of each value, and the values of each object.
pub(crate) struct IndexTable {
    name: Arc<str>,
    postings: Postings,
    /// The values by slot; slots beyond the end have none. They are stored because a user's function may return
    /// different values for the same object later. Equal strings are shared.
    values: Vec<Values>,
}

/// The slots by value; no set is empty.
#[derive(Debug, Default)]
struct Postings(HashMap<Arc<str>, BTreeSet<u32>>);

// === impl Index ===

impl<K: 'static> Index<K> {
    /// Creates an index of values from the metadata: labels, owners, finalizers. Objects are not decoded.
    pub fn on_meta<V: Into<Arc<str>>, I: IntoIterator<Item = V>>(
        name: impl Into<Arc<str>>,
        values: impl Fn(&Meta) -> I + Send + Sync + 'static,
    ) -> Self {
        Self::from_fn(name, move |object| Ok(collect(values(object.meta()))))
    }

    /// Creates an index of values from a view of the object. Only the fields that the function reads are found; nothing is
    /// decoded.
    ///
    /// ```
    /// # use std::borrow::Cow;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use windlass_cache::Index;
    /// // The images of each pod.
    /// let index = Index::<Pod>::on_view("image", |pod| {
    ///     let images = pod.spec().containers().iter().filter_map(|container| container.image());
    ///     images.map(Cow::into_owned).collect::<Vec<String>>()
    /// });
    /// ```
    pub fn on_view<V: Into<Arc<str>>, I: IntoIterator<Item = V>>(
        name: impl Into<Arc<str>>,
        values: impl for<'a> Fn(K::View<'a>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        K: HasView,
    {
        Self::from_fn(name, move |object| Ok(object.view_as::<K, Values>(|view| collect(values(view)))?))
    }

    /// Creates an index of values from a part of the object. `P` has only the required fields; nothing else is decoded.
    pub fn on_projection<P: DeserializeOwned, V: Into<Arc<str>>, I: IntoIterator<Item = V>>(
        name: impl Into<Arc<str>>,
        values: impl Fn(&P) -> I + Send + Sync + 'static,
    ) -> Self {
        Self::from_fn(name, move |object| Ok(collect(values(&object.project::<P>()?))))
    }

    /// Creates an index of the string at a path, for example `["spec", "nodeName"]`. Objects without such a string are
    /// left out. The rest of the object is skipped.
    pub fn on_path<const N: usize>(name: impl Into<Arc<str>>, path: [&'static str; N]) -> Self {
        Self::from_fn(name, move |object| Ok(object.text_at(&path)?.into_iter().collect()))
    }

    /// Creates an index of values from the whole object. This is slow: each object is decoded when it changes.
    pub fn on_object<V: Into<Arc<str>>, I: IntoIterator<Item = V>>(
        name: impl Into<Arc<str>>,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Self
    where
        K: Object,
    {
        Self::from_fn(name, move |object| Ok(collect(values(&*object.get_as::<K>()?))))
    }

    fn from_fn(
        name: impl Into<Arc<str>>,
        values: impl Fn(&Cached<Untyped>) -> Result<Values, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), values: Arc::new(values), kind: PhantomData }
    }
}

impl<K> Index<K> {
    /// Returns the index's name, as used by listers.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Changes the type parameter. The objects of the index must have the same type as before.
    pub(crate) fn cast<T>(self) -> Index<T> {
        Index { name: self.name, values: self.values, kind: PhantomData }
    }

    /// Reports whether both are clones of one index.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.values, &other.values)
    }

    /// Returns the object's values without duplicates.
    pub(crate) fn values_of(&self, object: &Cached<Untyped>) -> Result<Values, BoxError> {
        let mut values =
            crate::panics::catch_panic(|| (self.values)(object)).unwrap_or_else(|panic| Err(panic.into()))?;
        if values.len() > 1 {
            values.sort_unstable();
            values.dedup();
        }
        Ok(values)
    }
}

fn collect<V: Into<Arc<str>>>(values: impl IntoIterator<Item = V>) -> Values {
    values.into_iter().map(Into::into).collect()
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self { name: Arc::clone(&self.name), values: Arc::clone(&self.values), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({})", self.name)
    }
}

// === impl Indexer ===

impl Indexer {
    /// Creates an empty table with a capacity of `room` objects.
    pub(crate) fn new(names: Vec<Arc<str>>, room: usize) -> Self {
        Self {
            slots: Vec::with_capacity(room),
            free: Vec::new(),
            by_key: HashTable::with_capacity(room),
            hasher: DefaultHashBuilder::default(),
            namespaces: Postings::default(),
            indices: names.into_iter().map(IndexTable::new).collect(),
            version: ResourceVersion::default(),
        }
    }

    pub(crate) fn version(&self) -> &ResourceVersion {
        &self.version
    }

    pub(crate) fn set_version(&mut self, version: ResourceVersion) {
        self.version = version;
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Cached<Untyped>> {
        let slot = *self.by_key.find(self.hash(namespace, name), |slot| self.has_key(*slot, namespace, name))?;
        self.at(slot)
    }

    /// Prefetches the memory that [`Self::insert`] and [`Self::remove`] will access. With a million objects, most are
    /// not in the processor's caches; fetching many at once takes little longer than fetching one.
    pub(crate) fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k ObjectKey>) {
        // Takes any entry with the same hash: comparing the names would wait for each.
        let likely = |key: &ObjectKey| self.by_key.find(self.hash(key.namespace.as_deref(), &key.name), |_| true);
        let slots: SmallVec<[u32; LOOK_AHEAD]> = keys.filter_map(likely).copied().collect();
        for at in slots {
            black_box(self.at(at).map(|object| object.key().name.len()));
            for index in &self.indices {
                black_box(index.values.get(at as usize).map(Values::len));
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Cached<Untyped>> {
        self.slots.iter().flatten()
    }

    pub(crate) fn within(&self, namespace: &str) -> impl Iterator<Item = &Cached<Untyped>> {
        self.namespaces.slots(namespace).filter_map(|slot| self.at(slot))
    }

    /// Returns the objects with this value, or `None` if the index does not exist.
    pub(crate) fn by_index(&self, index: &str, value: &str) -> Option<impl Iterator<Item = &Cached<Untyped>>> {
        Some(self.index(index)?.postings.slots(value).filter_map(|slot| self.at(slot)))
    }

    /// Returns the used values of an index, sorted, or `None` if the index does not exist.
    pub(crate) fn index_values(&self, index: &str) -> Option<Vec<Arc<str>>> {
        Some(self.index(index)?.postings.values())
    }

    /// Stores an object and returns the one that it replaces. `values` are its values in each index, in the order of
    /// the indices.
    pub(crate) fn insert(&mut self, object: Cached<Untyped>, values: Vec<Values>) -> Option<Cached<Untyped>> {
        debug_assert_eq!(values.len(), self.indices.len());
        let key = object.key();
        let (namespace, name) = (key.namespace.as_deref(), &*key.name);
        let hash = self.hash(namespace, name);
        if let Some(&at) = self.by_key.find(hash, |slot| self.has_key(*slot, namespace, name)) {
            for (index, values) in self.indices.iter_mut().zip(values) {
                index.put(at, values);
            }
            return self.slots[at as usize].replace(object);
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("no server holds four billion objects of one resource")
        });
        if let Some(namespace) = &key.namespace {
            self.namespaces.add(at, namespace);
        }
        for (index, values) in self.indices.iter_mut().zip(values) {
            index.put(at, values);
        }
        self.slots[at as usize] = Some(object);
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_key.insert_unique(hash, at, |slot| {
            slots[*slot as usize].as_ref().map_or(0, |object| hash_of(hasher, object.key()))
        });
        None
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Cached<Untyped>> {
        let (namespace, name) = (key.namespace.as_deref(), &*key.name);
        let hash = self.hash(namespace, name);
        let slots = &self.slots;
        let found = self.by_key.find_entry(hash, |slot| has_key(slots, *slot, namespace, name)).ok()?;
        let (at, _) = found.remove();
        let object = self.slots[at as usize].take()?;
        self.free.push(at);
        if let Some(namespace) = &object.key().namespace {
            self.namespaces.remove(at, namespace);
        }
        for index in &mut self.indices {
            index.put(at, Values::new());
        }
        Some(object)
    }

    pub(crate) fn has_index(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// Builds an index of the stored objects. `values` contains each object's values, in the order of [`Self::iter`].
    pub(crate) fn index_of(&self, name: Arc<str>, values: impl IntoIterator<Item = Values>) -> IndexTable {
        let mut index = IndexTable::new(name);
        let occupied = (0..).zip(&self.slots).filter(|(_, slot)| slot.is_some());
        for ((at, _), values) in occupied.zip(values) {
            index.put(at, values);
        }
        index
    }

    /// Adds an index built by [`Self::index_of`]. The table must not have changed in between.
    pub(crate) fn add_index(&mut self, index: IndexTable) {
        self.indices.push(index);
    }

    fn index(&self, name: &str) -> Option<&IndexTable> {
        self.indices.iter().find(|index| *index.name == *name)
    }

    fn at(&self, slot: u32) -> Option<&Cached<Untyped>> {
        self.slots[slot as usize].as_ref()
    }

    fn has_key(&self, slot: u32, namespace: Option<&str>, name: &str) -> bool {
        has_key(&self.slots, slot, namespace, name)
    }

    fn hash(&self, namespace: Option<&str>, name: &str) -> u64 {
        self.hasher.hash_one((namespace, name))
    }
}

fn has_key(slots: &[Option<Cached<Untyped>>], slot: u32, namespace: Option<&str>, name: &str) -> bool {
    slots[slot as usize].as_ref().is_some_and(|object| {
        let key = object.key();
        *key.name == *name && key.namespace.as_deref() == namespace
    })
}

fn hash_of(hasher: &DefaultHashBuilder, key: &ObjectKey) -> u64 {
    hasher.hash_one((key.namespace.as_deref(), &*key.name))
}

impl fmt::Debug for Indexer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexer")
            .field("objects", &self.len())
            .field("indices", &self.indices.iter().map(|index| &index.name).collect::<Vec<_>>())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

// === impl IndexTable ===

impl IndexTable {
    fn new(name: Arc<str>) -> Self {
        Self { name, postings: Postings::default(), values: Vec::new() }
    }

    /// Replaces the values of a slot.
    fn put(&mut self, slot: u32, mut values: Values) {
        let at = slot as usize;
        if at >= self.values.len() {
            if values.is_empty() {
                return;
            }
            self.values.resize_with(at + 1, Values::new);
        }
        let old = std::mem::take(&mut self.values[at]);
        if old == values {
            self.values[at] = old;
            return;
        }
        for value in old.iter().filter(|value| !values.contains(value)) {
            self.postings.remove(slot, value);
        }
        for value in &mut values {
            *value = self.postings.add(slot, value);
        }
        self.values[at] = values;
    }
}

// === impl Postings ===

impl Postings {
    fn slots(&self, value: &str) -> impl Iterator<Item = u32> {
        self.0.get(value).into_iter().flatten().copied()
    }

    fn values(&self) -> Vec<Arc<str>> {
        let mut values: Vec<_> = self.0.keys().cloned().collect();
        values.sort_unstable();
        values
    }

    /// Adds a slot to a value. Returns the shared string.
    fn add(&mut self, slot: u32, value: &Arc<str>) -> Arc<str> {
        match self.0.entry_ref(value) {
            EntryRef::Occupied(mut entry) => {
                entry.get_mut().insert(slot);
                Arc::clone(entry.key())
            }
            EntryRef::Vacant(entry) => {
                entry.insert(BTreeSet::new()).insert(slot);
                Arc::clone(value)
            }
        }
    }

    fn remove(&mut self, slot: u32, value: &str) {
        if let Some(slots) = self.0.get_mut(value) {
            slots.remove(&slot);
            if slots.is_empty() {
                self.0.remove(value);
            }
        }
    }
}
