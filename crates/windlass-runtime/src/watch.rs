//! What to watch, as a value: a type or a resource, a scope, selectors, a predicate.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use windlass_api::{ApiResource, Object, PartialObject, Resource};
use windlass_cache::{Cached, Index, Selection};

use crate::predicate::Predicate;

/// A watch on objects of type `T`: which of them, and which of their events matter.
///
/// Watches that differ only in their predicates and indices share one connection and one cache within a manager; other namespaces
/// or selectors make another watch.
#[must_use = "a watch does nothing until a controller is given it"]
pub struct Watch<T> {
    pub(crate) resource: ApiResource,
    /// With the resource, what tells one informer of a type from another.
    pub(crate) selection: Selection,
    pub(crate) predicate: Option<Arc<dyn Predicate<T>>>,
    pub(crate) indices: Vec<Index<T>>,
}

impl<T: Object> Watch<T> {
    /// All objects of the type, in every namespace.
    pub fn all() -> Self
    where
        T: Resource,
    {
        Self::dynamic(T::api_resource())
    }

    /// The objects of the type in one namespace.
    pub fn within(namespace: impl Into<String>) -> Self
    where
        T: Resource,
    {
        Self::all().in_namespace(namespace)
    }

    /// All objects of a resource that is known only at run time, as `T`: for
    /// [`DynamicObject`](windlass_api::DynamicObject) and [`PartialObject`].
    pub fn dynamic(resource: ApiResource) -> Self {
        Self { resource, selection: Selection::default(), predicate: None, indices: Vec::new() }
    }

    /// Only those in one namespace; the empty namespace is all of them.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.selection = self.selection.within(namespace);
        self
    }

    /// Only those that match a label selector, in its string form. The server does the selecting.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.selection = self.selection.labels(selector);
        self
    }

    /// Only those that match a field selector, in its string form. The server does the selecting.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.selection = self.selection.fields(selector);
        self
    }

    /// Adds an index to the cache, for `by_index` of [`Context::store`](crate::Context::store).
    ///
    /// The cache is shared with others that watch the same, and so are the names of its indices: another index of a taken
    /// name is an error at the start of the controller. Clones of one index are the same index.
    pub fn index(mut self, index: Index<T>) -> Self {
        self.indices.push(index);
        self
    }

    /// Only events that pass `predicate`. The cache still follows all of them. Given twice, both must agree.
    pub fn filter(mut self, predicate: impl Predicate<T>) -> Self {
        self.predicate = Some(match self.predicate.take() {
            Some(first) => Arc::new(Both(first, predicate)),
            None => Arc::new(predicate),
        });
        self
    }

    /// Only updates for which `changed(old, new)` holds; every creation and deletion. The same as `filter(changed)`, but
    /// the argument types of a closure need not be spelled.
    pub fn filter_updates(self, changed: impl Fn(&Cached<T>, &Cached<T>) -> bool + Send + Sync + 'static) -> Self {
        self.filter(changed)
    }
}

impl Watch<PartialObject> {
    /// The metadata of all objects of a type; no more is asked of the server, and no more is cached.
    pub fn metadata_of<K: Resource>() -> Self {
        Self::dynamic(K::api_resource())
    }
}

struct Both<T, P>(Arc<dyn Predicate<T>>, P);

impl<T: Object, P: Predicate<T>> Predicate<T> for Both<T, P> {
    fn added(&self, object: &Cached<T>) -> bool {
        self.0.added(object) && self.1.added(object)
    }

    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        self.0.updated(old, new) && self.1.updated(old, new)
    }

    fn deleted(&self, object: &Cached<T>) -> bool {
        self.0.deleted(object) && self.1.deleted(object)
    }
}

// By hand: `T` need not be cloned or shown.
impl<T> Clone for Watch<T> {
    fn clone(&self) -> Self {
        Self {
            resource: self.resource.clone(),
            selection: self.selection.clone(),
            predicate: self.predicate.clone(),
            indices: self.indices.clone(),
        }
    }
}

impl<T> Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("resource", &self.resource)
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}
