//! Reading what informers hold.

use std::{fmt, sync::Arc};

use windlass_api::{ApiResource, LabelSelector, ObjectRef, ResourceVersion, Status};

use crate::{cached::Cached, error::UnknownIndex, store::Store};

/// Reads the objects of one informer, or of several that share a resource out among themselves; or those of one namespace.
/// Clones read the same stores.
///
/// What it gives is as fresh as the informer: usually some milliseconds behind the server, more while the server cannot
/// be reached. Before the informer has synced there is nothing in it. Several informers are not equally fresh.
pub struct Lister<K> {
    stores: Stores<K>,
    resource: Arc<ApiResource>,
    /// Only objects in this namespace are seen.
    namespace: Option<Arc<str>>,
}

/// No object is in two of them.
enum Stores<K> {
    One(Store<K>),
    Several(Arc<[Store<K>]>),
}

impl<K> Lister<K> {
    pub(crate) fn new(store: Store<K>, resource: Arc<ApiResource>) -> Self {
        Self { stores: Stores::One(store), resource, namespace: None }
    }

    /// The same objects, but only those in one namespace. Takes time in proportion to what is in the namespace.
    #[must_use]
    pub fn within(&self, namespace: impl Into<Arc<str>>) -> Self {
        Self { namespace: Some(namespace.into()), ..self.clone() }
    }

    /// What this one holds, and what the others do; none of their objects may be in two of them.
    pub(crate) fn and(self, others: impl IntoIterator<Item = Self>) -> Self {
        let mut stores = self.stores.as_slice().to_vec();
        stores.extend(others.into_iter().flat_map(|other| other.stores.as_slice().to_vec()));
        if stores.len() == 1 {
            return self;
        }
        Self { stores: Stores::Several(stores.into()), ..self }
    }

    /// The object of this name. A lister of one namespace takes a reference without a namespace as one in its own.
    #[must_use]
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Cached<K>> {
        let namespace = match (self.namespace.as_deref(), key.namespace()) {
            (Some(own), Some(other)) if own != other => return None,
            (own, other) => other.or(own),
        };
        self.stores.as_slice().iter().find_map(|store| store.get_by(namespace, key.name()))
    }

    /// The object of this name, or the `NotFound` that the server would have answered.
    pub fn require(&self, key: &ObjectRef<K>) -> Result<Cached<K>, Box<Status>> {
        self.get(key).ok_or_else(|| Box::new(Status::not_found(&self.resource.gvr().group_resource(), key.name())))
    }

    /// Every object.
    #[must_use]
    pub fn list(&self) -> Vec<Cached<K>> {
        self.stores.collect(|store| match &self.namespace {
            Some(namespace) => store.within(namespace),
            None => store.list(),
        })
    }

    /// Every object whose labels match. Looks at each object's labels; decodes nothing.
    #[must_use]
    pub fn select(&self, selector: &LabelSelector) -> Vec<Cached<K>> {
        let mut objects = self.list();
        objects.retain(|object| selector.matches(|key| object.meta().label(key)));
        objects
    }

    /// Every object that an index has under a value. Takes time in proportion to what it finds.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Cached<K>>, UnknownIndex> {
        let mut objects = self.stores.try_collect(|store| store.by_index(index, value))?;
        if let Some(namespace) = &self.namespace {
            objects.retain(|object| object.meta().namespace() == Some(namespace));
        }
        Ok(objects)
    }

    /// The values in use in an index, in all namespaces, sorted.
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, UnknownIndex> {
        let mut values = self.stores.try_collect(|store| store.index_values(index))?;
        if let Stores::Several(_) = self.stores {
            values.sort_unstable();
            values.dedup();
        }
        Ok(values)
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let count = |store: &Store<K>| {
            self.namespace.as_ref().map_or_else(|| store.len(), |namespace| store.within(namespace).len())
        };
        self.stores.as_slice().iter().map(count).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version up to which changes have been applied, of several informers by each of them; empty before the first
    /// list.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        let versions = self.stores.as_slice().iter().map(Store::version);
        versions.min_by_key(ResourceVersion::as_u64).unwrap_or_default()
    }

    /// What the objects are.
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
