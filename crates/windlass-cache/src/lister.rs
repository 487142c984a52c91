//! Read access to the objects of informers.

use std::{fmt, sync::Arc};

use windlass_api::{ApiResource, LabelSelector, ObjectRef, ResourceVersion, Status};

use crate::{cached::Cached, error::UnknownIndex, store::Store};

/// Reads the objects of one informer, or of several informers with different objects of one resource; optionally only
/// those in one namespace. Clones read the same stores.
///
/// Results are as fresh as the informer: usually some milliseconds behind the server, more while the server is
/// unreachable. Before the informer has synced, the lister is empty. Several informers are not equally fresh.
pub struct Lister<K> {
    stores: Stores<K>,
    resource: Arc<ApiResource>,
    /// The only visible namespace, if set.
    namespace: Option<Arc<str>>,
}

/// The stores to read. Each object is in only one of them.
enum Stores<K> {
    One(Store<K>),
    Several(Arc<[Store<K>]>),
}

impl<K> Lister<K> {
    pub(crate) fn new(store: Store<K>, resource: Arc<ApiResource>) -> Self {
        Self { stores: Stores::One(store), resource, namespace: None }
    }

    /// Returns a lister of the objects in one namespace. Its reads take time proportional to the number of objects in
    /// the namespace.
    #[must_use]
    pub fn within(&self, namespace: impl Into<Arc<str>>) -> Self {
        Self { namespace: Some(namespace.into()), ..self.clone() }
    }

    /// Returns a lister of this lister's and the others' objects. Each object must be in only one of them.
    pub(crate) fn and(self, others: impl IntoIterator<Item = Self>) -> Self {
        let mut stores = self.stores.as_slice().to_vec();
        stores.extend(others.into_iter().flat_map(|other| other.stores.as_slice().to_vec()));
        if stores.len() == 1 {
            return self;
        }
        Self { stores: Stores::Several(stores.into()), ..self }
    }

    /// Returns the object with this key. In a lister of one namespace, a reference without a namespace refers to that
    /// namespace.
    #[must_use]
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Cached<K>> {
        let namespace = match (self.namespace.as_deref(), key.namespace()) {
            (Some(own), Some(other)) if own != other => return None,
            (own, other) => other.or(own),
        };
        self.stores.as_slice().iter().find_map(|store| store.get_by(namespace, key.name()))
    }

    /// Returns the object with this key, or the server's `NotFound` status.
    pub fn require(&self, key: &ObjectRef<K>) -> Result<Cached<K>, Box<Status>> {
        self.get(key).ok_or_else(|| Box::new(Status::not_found(&self.resource.gvr().group_resource(), key.name())))
    }

    /// Returns every object.
    #[must_use]
    pub fn list(&self) -> Vec<Cached<K>> {
        self.stores.collect(|store| match &self.namespace {
            Some(namespace) => store.within(namespace),
            None => store.list(),
        })
    }

    /// Returns every object whose labels match. Reads the labels of each object; decodes nothing.
    #[must_use]
    pub fn select(&self, selector: &LabelSelector) -> Vec<Cached<K>> {
        let mut objects = self.list();
        objects.retain(|object| selector.matches(|key| object.meta().label(key)));
        objects
    }

    /// Returns every object with this value in an index. Takes time proportional to the number of results.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Cached<K>>, UnknownIndex> {
        let mut objects = self.stores.try_collect(|store| store.by_index(index, value))?;
        if let Some(namespace) = &self.namespace {
            objects.retain(|object| object.meta().namespace() == Some(namespace));
        }
        Ok(objects)
    }

    /// Returns the used values of an index, in all namespaces, sorted.
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, UnknownIndex> {
        let mut values = self.stores.try_collect(|store| store.index_values(index))?;
        if let Stores::Several(_) = self.stores {
            values.sort_unstable();
            values.dedup();
        }
        Ok(values)
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        let count = |store: &Store<K>| {
            self.namespace.as_ref().map_or_else(|| store.len(), |namespace| store.within(namespace).len())
        };
        self.stores.as_slice().iter().map(count).sum()
    }

    /// Reports whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the version up to which all changes have been applied; empty before the first list. With several
    /// informers, the version that each of them has reached.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        let versions = self.stores.as_slice().iter().map(Store::version);
        versions.min_by_key(ResourceVersion::as_u64).unwrap_or_default()
    }

    /// Returns the resource of the objects.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self { stores: self.stores.clone(), resource: Arc::clone(&self.resource), namespace: self.namespace.clone() }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister")
            .field("namespace", &self.namespace)
            .field("stores", &self.stores.as_slice())
            .finish_non_exhaustive()
    }
}

// === impl Stores ===

impl<K> Stores<K> {
    fn as_slice(&self) -> &[Store<K>] {
        match self {
            Self::One(store) => std::slice::from_ref(store),
            Self::Several(stores) => stores,
        }
    }

    fn collect<T>(&self, read: impl Fn(&Store<K>) -> Vec<T>) -> Vec<T> {
        match self {
            Self::One(store) => read(store),
            Self::Several(stores) => stores.iter().flat_map(read).collect(),
        }
    }

    fn try_collect<T, E>(&self, read: impl Fn(&Store<K>) -> Result<Vec<T>, E>) -> Result<Vec<T>, E> {
        match self {
            Self::One(store) => read(store),
            Self::Several(stores) => {
                let parts = stores.iter().map(read).collect::<Result<Vec<_>, E>>()?;
                Ok(parts.into_iter().flatten().collect())
            }
        }
    }
}

impl<K> Clone for Stores<K> {
    fn clone(&self) -> Self {
        match self {
            Self::One(store) => Self::One(store.clone()),
            Self::Several(stores) => Self::Several(Arc::clone(stores)),
        }
    }
}
