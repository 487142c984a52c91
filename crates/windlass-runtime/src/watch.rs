//! Watches as values: a type or resource, a namespace, selectors and a predicate.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use windlass_api::{ApiResource, Object, PartialObject, Resource};
use windlass_cache::{Cached, Index, Selection};
use windlass_views::HasView;

use crate::predicate::{self, Predicate};

/// A selection of objects of type `T`, and of the events that matter.
///
/// Within a manager, watches that differ only in their predicates and indices share one connection and one cache.
/// Different namespaces or selectors need separate watches.
#[must_use = "a watch does nothing until it is passed to a controller"]
pub struct Watch<T> {
    pub(crate) resource: ApiResource,
    /// Identifies an informer, together with the type and resource.
    pub(crate) selection: Selection,
    pub(crate) predicate: Option<Arc<dyn Predicate<T>>>,
    pub(crate) indices: Vec<Index<T>>,
}

impl<T: Object> Watch<T> {
    /// Watches all objects of the type, in all namespaces.
    pub fn all() -> Self
    where
        T: Resource,
    {
        Self::dynamic(T::api_resource())
    }

    /// Watches the objects of the type in one namespace.
    pub fn within(namespace: impl Into<String>) -> Self
    where
        T: Resource,
    {
        Self::all().in_namespace(namespace)
    }

    /// Watches all objects of a resource that is known only at run time, as `T`:
    /// [`DynamicObject`](windlass_api::DynamicObject) or [`PartialObject`].
    pub fn dynamic(resource: ApiResource) -> Self {
        Self { resource, selection: Selection::default(), predicate: None, indices: Vec::new() }
    }

    /// Restricts the watch to one namespace. An empty namespace means all namespaces.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.selection = self.selection.within(namespace);
        self
    }

    /// Restricts the watch to objects that match a label selector, in its string form. The server filters.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.selection = self.selection.labels(selector);
        self
    }

    /// Restricts the watch to objects that match a field selector, in its string form. The server filters.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.selection = self.selection.fields(selector);
        self
    }

    /// Adds an index to the cache, for `by_index` of [`Context::store`](crate::Context::store).
    ///
    /// All watches with the same selection share the cache and the names of its indices. If another index already has
    /// the name, the controller fails at its start. Clones of an index are the same index.
    pub fn index(mut self, index: Index<T>) -> Self {
        self.indices.push(index);
        self
    }

    /// Passes only events that match `predicate`. The cache still receives all events. Several predicates are combined
    /// with AND.
    pub fn filter(mut self, predicate: impl Predicate<T>) -> Self {
        self.predicate = Some(match self.predicate.take() {
            Some(first) => Arc::new(Both(first, predicate)),
            None => Arc::new(predicate),
        });
        self
    }

    /// Passes only updates for which `changed(old, new)` returns `true`, and every creation and deletion. The same as
    /// `filter(changed)`, but closures need no argument types.
    pub fn filter_updates(self, changed: impl Fn(&Cached<T>, &Cached<T>) -> bool + Send + Sync + 'static) -> Self {
        self.filter(changed)
    }

    /// Passes only events of objects whose view matches. Objects are not decoded. An update passes if the old or the new
    /// state matches, so that a controller notices when an object stops to match.
    ///
    /// ```
    /// # use windlass_api::k8s_openapi::api::core::v1::Pod;
    /// # use windlass_runtime::Watch;
    /// let failed = Watch::<Pod>::all().filter_view(|pod| pod.status().phase().as_deref() == Some("Failed"));
    /// # drop(failed);
    /// ```
    pub fn filter_view(self, matches: impl for<'a> Fn(T::View<'a>) -> bool + Send + Sync + 'static) -> Self
    where
        T: HasView,
    {
        self.filter(predicate::viewed::<T, _>(matches))
    }

    /// Passes only updates that change a value that is read from the view, and every creation and deletion. Objects are
    /// not decoded.
    ///
    /// ```
    /// # use std::borrow::Cow;
    /// # use windlass_api::k8s_openapi::api::core::v1::Pod;
    /// # use windlass_runtime::Watch;
    /// let moved = Watch::<Pod>::all().filter_view_changes(|pod| pod.spec().node_name().map(Cow::into_owned));
    /// # drop(moved);
    /// ```
    pub fn filter_view_changes<V: PartialEq>(
        self,
        value: impl for<'a> Fn(T::View<'a>) -> V + Send + Sync + 'static,
    ) -> Self
    where
        T: HasView,
    {
        self.filter(predicate::view_changed::<T, V>(value))
    }
}

impl Watch<PartialObject> {
    /// Watches the metadata of all objects of a type. Only metadata is requested from the server and cached.
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

// Implemented by hand, because `T` need not implement `Clone` or `Debug`.
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
