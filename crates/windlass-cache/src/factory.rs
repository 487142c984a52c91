//! A factory that shares one informer between all users of the same objects.

#[cfg(test)]
mod tests;

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    convert::Infallible,
    fmt,
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use indexmap::IndexMap;
use parking_lot::Mutex;
use tokio::{
    sync::{oneshot, watch},
    task::JoinSet,
};
use windlass_api::{ApiResource, DynamicObject, ListWatch, Object, PartialObject, Resource, Scope};

use crate::{
    informer::SharedInformer,
    options::InformerOptions,
    status::InformerStatus,
    synced::{HasSynced, Stopped},
};

/// Creates, starts and stops informers. A second request for the same type, resource, namespace and selectors returns
/// the same informer. Clones are handles of one factory.
///
/// Request all informers first, then start them with [`start`](Self::start); both steps can be repeated. The informers
/// stop when the last handle is dropped.
#[derive(Clone)]
pub struct InformerFactory {
    shared: Arc<Shared>,
    /// The namespace of selections that don't specify one.
    namespace: Option<String>,
}

/// The objects of a resource that an informer holds. Defaults to all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct Selection {
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
}

struct Shared {
    list_watch: Box<ListWatchFn>,
    options: InformerOptions,
    state: Mutex<State>,
    /// `true` after the factory has been shut down.
    stop: watch::Sender<bool>,
}

type ListWatchFn = dyn Fn(&ApiResource, Option<&str>) -> Arc<dyn ListWatch> + Send + Sync;

/// The type that the objects are decoded into, the resource, and the selection.
type Key = (TypeId, ApiResource, Selection);

#[derive(Default)]
struct State {
    /// The informers, in the order of the first request.
    informers: IndexMap<Key, Entry>,
    /// The resources with their own options.
    options: HashMap<ApiResource, InformerOptions>,
    /// The tasks of the started informers. Dropping the set aborts them.
    tasks: JoinSet<()>,
}

struct Entry {
    informer: Box<dyn AnyInformer>,
    started: Started,
    /// Dropping this stops the informer.
    stop: watch::Sender<()>,
}

enum Started {
    No,
    /// Closed when the informer's task has ended.
    Yes(oneshot::Receiver<Infallible>),
}

/// An informer with its object type erased.
trait AnyInformer: Any + Send + Sync {
    fn run(&self, shutdown: BoxFuture<'static, ()>) -> BoxFuture<'static, ()>;
    fn has_synced(&self) -> HasSynced;
    fn resource(&self) -> &ApiResource;
    fn status(&self) -> InformerStatus;
}

impl<K: Object> AnyInformer for SharedInformer<K> {
    fn run(&self, shutdown: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().run(shutdown))
    }

    fn has_synced(&self) -> HasSynced {
        Self::has_synced(self)
    }

    fn resource(&self) -> &ApiResource {
        Self::resource(self)
    }

    fn status(&self) -> InformerStatus {
        Self::status(self)
    }
}

// === impl InformerFactory ===

impl InformerFactory {
    /// Creates a factory. `list_watch` gives access to the objects of a resource, in one namespace or in all. `options`
    /// apply to every informer; the selectors of a [`Selection`] override those in `options`.
    pub fn new(
        list_watch: impl Fn(&ApiResource, Option<&str>) -> Arc<dyn ListWatch> + Send + Sync + 'static,
        options: InformerOptions,
    ) -> Self {
        let (stop, _) = watch::channel(false);
        let state = Mutex::new(State::default());
        let shared = Shared { list_watch: Box::new(list_watch), options, state, stop };
        Self { shared: Arc::new(shared), namespace: None }
    }

    /// Returns the same factory with a default namespace: it applies to selections that don't specify a namespace.
    /// Cluster-scoped resources are not affected.
    #[must_use]
    pub fn within(&self, namespace: impl Into<String>) -> Self {
        let namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        Self { shared: Arc::clone(&self.shared), namespace }
    }

    /// Sets the options of one resource, derived from the factory's options or from the resource's current ones: for
    /// example a transform, a resync period, or separate metrics. They apply to informers that have not been requested
    /// yet.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass_api::{Resource, k8s_openapi::api::core::v1::Secret};
    /// # use windlass_cache::{InformerFactory, Transform};
    /// # fn example(factory: &InformerFactory) {
    /// factory.configure(Secret::api_resource(), |options| {
    ///     options.transform(Transform::without(["/data"])).resync(Duration::from_mins(10))
    /// });
    /// # }
    /// ```
    pub fn configure(&self, resource: ApiResource, change: impl FnOnce(InformerOptions) -> InformerOptions) {
        let changed = change(self.options_of(&resource));
        self.shared.state.lock().options.insert(resource, changed);
    }

    /// Returns the informer of all objects of a kind. Shorthand for [`Self::select`] with the default selection.
    #[must_use]
    pub fn informer<K: Resource>(&self) -> SharedInformer<K> {
        self.select(Selection::default())
    }

    /// Returns the informer of some objects of a kind.
    #[must_use]
    pub fn select<K: Resource>(&self, selection: Selection) -> SharedInformer<K> {
        self.for_resource(K::api_resource(), selection)
    }

    /// Returns the informer of all objects of a resource that is known only at run time. Shorthand for
    /// [`Self::for_resource`] with [`DynamicObject`].
    #[must_use]
    pub fn dynamic(&self, resource: ApiResource) -> SharedInformer<DynamicObject> {
        self.for_resource(resource, Selection::default())
    }

    /// Returns the informer of the metadata of all objects of a resource. Only metadata is requested from the server.
    /// Shorthand for [`Self::for_resource`].
    #[must_use]
    pub fn metadata(&self, resource: ApiResource) -> SharedInformer<PartialObject> {
        self.for_resource(resource, Selection::default())
    }

    /// Returns the informer of some objects of a resource that is known only at run time. `K` is usually
    /// `DynamicObject` or `PartialObject`.
    #[must_use]
    pub fn for_resource<K: Object>(&self, resource: ApiResource, mut selection: Selection) -> SharedInformer<K> {
        self.place(&resource, &mut selection);
        let key = (TypeId::of::<K>(), resource, selection);
        if let Some(informer) = self.find(&key) {
            return informer;
        }
        // Created without the lock because user code runs here. If two callers race, the first one wins.
        let (_, resource, selection) = &key;
        let list_watch = (self.shared.list_watch)(resource, selection.namespace.as_deref());
        let mut options = self.options_of(resource);
        options.labels = selection.labels.clone().or(options.labels);
        options.fields = selection.fields.clone().or(options.fields);
        options.namespace.clone_from(&selection.namespace);
        let made = SharedInformer::<K>::for_resource(resource.clone(), list_watch, options);
        let mut state = self.shared.state.lock();
        if state.informers.contains_key(&key) {
            drop(state);
            return self.find(&key).unwrap_or(made);
        }
        let entry = Entry { informer: Box::new(made.clone()), started: Started::No, stop: watch::Sender::new(()) };
        state.informers.insert(key, entry);
        made
    }

    /// Reports whether the informer of these objects was requested before.
    #[must_use]
    pub fn contains<K: Object>(&self, resource: ApiResource, mut selection: Selection) -> bool {
        self.place(&resource, &mut selection);
        self.shared.state.lock().informers.contains_key(&(TypeId::of::<K>(), resource, selection))
    }

    /// Stops an informer, waits until it has ended, and removes it from the factory. The next request for the same
    /// objects creates a new informer. Handles on the old informer read its last content and deliver no more
    /// notifications. Returns `true` if the informer existed.
    ///
    /// client-go has no equivalent: its factories stop only as a whole.
    pub async fn remove<K: Object>(&self, resource: ApiResource, mut selection: Selection) -> bool {
        self.place(&resource, &mut selection);
        let removed = self.shared.state.lock().informers.shift_remove(&(TypeId::of::<K>(), resource, selection));
        let Some(Entry { started, stop, .. }) = removed else { return false };
        drop(stop);
        if let Started::Yes(ended) = started {
            let _closed = ended.await;
        }
        true
    }

    /// Starts every informer that has been requested and not started yet. Does nothing after [`Self::shutdown`].
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub fn start(&self) {
        if *self.shared.stop.borrow() {
            return;
        }
        let mut state = self.shared.state.lock();
        let State { informers, tasks, .. } = &mut *state;
        while tasks.try_join_next().is_some() {} // The tasks of removed informers.
        for entry in informers.values_mut().filter(|entry| !entry.is_started()) {
            let (ending, ended) = oneshot::channel::<Infallible>();
            entry.started = Started::Yes(ended);
            let (mut stop_all, mut stop) = (self.shared.stop.subscribe(), entry.stop.subscribe());
            let shutdown = Box::pin(async move {
                // An error means that the factory was dropped, which also stops the informer.
                tokio::select! {
                    _ = stop_all.wait_for(|stop| *stop) => {}
                    _removed = stop.changed() => {}
                }
            });
            let run = entry.informer.run(shutdown);
            let run = async move {
                let _ending = ending;
                run.await;
            };
            tasks.spawn(run.boxed());
        }
    }

    /// Waits until every started informer holds its first list. Returns an error if one stops before.
    pub async fn wait_for_sync(&self) -> Result<(), Stopped> {
        let waiting: Vec<_> = {
            let state = self.shared.state.lock();
            let started = state.informers.values().filter(|entry| entry.is_started());
            started.map(|entry| entry.informer.has_synced()).collect()
        };
        for synced in waiting {
            synced.await?;
        }
        Ok(())
    }

    /// Reports for each informer whether it holds its first list, in the order of the first request.
    #[must_use]
    pub fn synced(&self) -> Vec<(ApiResource, bool)> {
        let state = self.shared.state.lock();
        let each = state.informers.values().map(|entry| &entry.informer);
        each.map(|informer| (informer.resource().clone(), informer.has_synced().is_synced())).collect()
    }

    /// Returns the status of each informer, in the order of the first request.
    #[must_use]
    pub fn statuses(&self) -> Vec<InformerStatus> {
        self.shared.statuses()
    }

    /// Returns a function that calls [`Self::statuses`] without keeping the factory alive. It returns an empty list
    /// after the factory was dropped.
    pub fn observer(&self) -> impl Fn() -> Vec<InformerStatus> + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map(|shared| shared.statuses()).unwrap_or_default()
    }

    /// Stops all informers and waits until their tasks have ended. Nothing can be started after this.
    pub async fn shutdown(&self) {
        self.shared.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut self.shared.state.lock().tasks);
        while tasks.join_next().await.is_some() {}
    }

    /// Sets the factory's default namespace in a selection without one.
    fn place(&self, resource: &ApiResource, selection: &mut Selection) {
        if resource.scope == Scope::Namespaced && selection.namespace.is_none() {
            selection.namespace.clone_from(&self.namespace);
        }
    }

    fn options_of(&self, resource: &ApiResource) -> InformerOptions {
        let state = self.shared.state.lock();
        state.options.get(resource).unwrap_or(&self.shared.options).clone()
    }

    fn find<K: Object>(&self, key: &Key) -> Option<SharedInformer<K>> {
        let state = self.shared.state.lock();
        let informer: &dyn Any = &*state.informers.get(key)?.informer;
        informer.downcast_ref::<SharedInformer<K>>().cloned()
    }
}

impl Shared {
    fn statuses(&self) -> Vec<InformerStatus> {
        let state = self.state.lock();
        let each = state.informers.iter().map(|((_, _, selection), entry)| (selection, &entry.informer));
        each.map(|(selection, informer)| InformerStatus { namespace: selection.namespace.clone(), ..informer.status() })
            .collect()
    }
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        let resources = state.informers.values().map(|entry| entry.informer.resource().gvr().to_string());
        f.debug_struct("InformerFactory").field("informers", &resources.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

// === impl Entry ===

impl Entry {
    fn is_started(&self) -> bool {
        matches!(self.started, Started::Yes(_))
    }
}

// === impl Selection ===

impl Selection {
    /// Returns the namespace, if one is set.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the field selector, if one is set.
    #[must_use]
    pub fn field_selector(&self) -> Option<&str> {
        self.fields.as_deref()
    }

    /// Selects only objects in this namespace.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self
    }

    /// Selects only objects that match this label selector.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Selects only objects that match this field selector.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }
}
