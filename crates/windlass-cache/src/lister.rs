//! Reading what an informer holds.

use std::{fmt, sync::Arc};

use windlass_api::{ApiResource, LabelSelector, ObjectRef, ResourceVersion, Status};

use crate::{cached::Cached, error::UnknownIndex, store::Store};

/// Reads the objects of one informer, or those of one namespace. Clones read the same store.
///
/// What it gives is as fresh as the informer: usually some milliseconds behind the server, more while the server cannot
/// be reached. Before the informer has synced there is nothing in it.
pub struct Lister<K> {
    store: Store<K>,
    resource: Arc<ApiResource>,
    /// Only objects in this namespace are seen.
    namespace: Option<Arc<str>>,
}

impl<K> Lister<K> {
    pub(crate) fn new(store: Store<K>, resource: Arc<ApiResource>) -> Self {
        Self { store, resource, namespace: None }
    }

    /// The same objects, but only those in one namespace. Takes time in proportion to what is in the namespace.
    #[must_use]
    pub fn within(&self, namespace: impl Into<Arc<str>>) -> Self {
        Self { namespace: Some(namespace.into()), ..self.clone() }
    }

    /// The object of this name. A lister of one namespace takes a reference without a namespace as one in its own.
    #[must_use]
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Cached<K>> {
        let namespace = match (self.namespace.as_deref(), key.namespace()) {
            (Some(own), Some(other)) if own != other => return None,
            (own, other) => other.or(own),
        };
        self.store.get_by(namespace, key.name())
    }

    /// The object of this name, or the `NotFound` that the server would have answered.
    pub fn require(&self, key: &ObjectRef<K>) -> Result<Cached<K>, Box<Status>> {
        self.get(key).ok_or_else(|| Box::new(Status::not_found(&self.resource.gvr().group_resource(), key.name())))
    }

    /// Every object.
    #[must_use]
    pub fn list(&self) -> Vec<Cached<K>> {
        match &self.namespace {
            Some(namespace) => self.store.within(namespace),
            None => self.store.list(),
        }
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
        let mut objects = self.store.by_index(index, value)?;
        if let Some(namespace) = &self.namespace {
            objects.retain(|object| object.meta().namespace() == Some(namespace));
        }
        Ok(objects)
    }

    /// The values in use in an index, in all namespaces, sorted.
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, UnknownIndex> {
        self.store.index_values(index)
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.namespace.as_ref().map_or_else(|| self.store.len(), |namespace| self.store.within(namespace).len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version up to which changes have been applied; empty before the first list.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        self.store.version()
    }

    /// What the objects are.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), resource: Arc::clone(&self.resource), namespace: self.namespace.clone() }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("namespace", &self.namespace).field("store", &self.store).finish_non_exhaustive()
    }
}
