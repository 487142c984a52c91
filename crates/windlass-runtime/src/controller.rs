//! Controllers: the objects to reconcile, the related objects to watch, and the reconciler.

mod activation;
mod handle;
#[cfg(feature = "sharding")]
mod moves;
mod run;
mod worker;

use std::{
    fmt::{self, Debug},
    future::Future,
    num::NonZeroUsize,
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use windlass_api::{ApiResource, BoxError, Object, ObjectRef, PartialObject, Resource};
use windlass_cache::{Cached, Notification};
use windlass_queue::RateLimiter;
use windlass_views::HasView;

pub use self::handle::{ControllerHandle, WatchHandle};
use self::{
    activation::Activation,
    handle::Additions,
    worker::{WithKeys, WithObjects},
};
use crate::{
    Action, Cluster, Context, Reconciler, Result, Watch,
    controller_settings::{ControllerOptions, Order},
    handler::{self, Owners},
    layer::Layer,
    mapping,
    runnable::{Group, Runnable, RunnableContext},
    source::{AnyMapper, InformerSource, Source},
};

/// Reconciles objects of type `K` with a reconciler of type `R`.
///
/// Configure it as a builder, then add it to a [`Manager`](crate::Manager):
///
/// ```no_run
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// # use windlass_api::k8s_openapi;
/// # use windlass_runtime::{Action, Context, Controller, Manager, Result};
/// # use std::sync::Arc;
/// # async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> { Ok(Action::await_change()) }
/// # fn add(manager: &mut Manager) {
/// manager.add(Controller::<ConfigMap>::new().owns::<Deployment>().concurrency(4).reconcile(reconcile));
/// # }
/// ```
///
/// A controller without a reconciler cannot be added:
///
/// ```compile_fail
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_runtime::{Controller, Manager};
/// # fn add(manager: &mut Manager) {
/// manager.add(Controller::<ConfigMap>::new());
/// # }
/// ```
///
/// The reconciler must accept the controller's kind:
///
/// ```compile_fail
/// # use windlass_api::k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # use windlass_runtime::{Action, Context, Controller, Manager, Result};
/// # use std::sync::Arc;
/// # async fn reconcile(_: Arc<Secret>, _: Context) -> Result<Action> { Ok(Action::await_change()) }
/// # fn add(manager: &mut Manager) {
/// manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
/// # }
/// ```
///
/// # Behavior
///
/// Events of the watched objects become keys in a queue: the key of the object itself, of its owner, or keys from a
/// mapping function. Workers take keys, read the newest state from the cache and call the reconciler. Several events
/// for one key lead to one call. The reconciler never runs twice at once for the same key, and never before all caches
/// of the controller have synced. After a success the key is reconciled again when something changes or the requested
/// delay has passed. After a failure it is retried with back-off, unless [`Reconciler::retry`] decides otherwise.
#[must_use = "a controller does nothing until it is added to a `Manager`"]
pub struct Controller<K, R = NoReconciler> {
    /// `None`: the kind in lower case.
    name: Option<String>,
    root: ApiResource,
    /// The source of the reconciled kind comes first.
    sources: Vec<Box<dyn Source<K>>>,
    /// Sources added while the controller runs.
    additions: Additions<K>,
    limiter: Option<Box<dyn RateLimiter<ObjectRef<K>>>>,
    options: ControllerOptions,
    /// Streams of keys from other places than caches.
    triggers: Vec<BoxStream<'static, ObjectRef<K>>>,
    /// The outermost layer comes last.
    layers: Vec<Box<dyn Layer>>,
    activation: Activation,
    reconciler: R,
}

/// A placeholder for a missing reconciler.
#[derive(Debug)]
pub struct NoReconciler(());

/// A controller whose reconciler receives keys, see [`Controller::reconcile_keys`].
///
/// A separate type, because any type could implement [`Reconciler`] for a user's kind.
#[must_use = "a controller does nothing until it is added to a `Manager`"]
#[derive(Debug)]
pub struct KeyController<K, F>(Controller<K, F>);

// === impl Controller ===

// The bound is on the function, so that a missing derive produces our diagnostic.
impl<K> Controller<K> {
    /// Creates a controller for all objects of the type. The same as `Controller::watching(Watch::all())`.
    #[allow(clippy::new_without_default, reason = "there is no default controller: it would have no reconciler")]
    pub fn new() -> Self
    where
        K: Resource,
    {
        Self::watching(Watch::all())
    }
}

impl Controller<PartialObject> {
    /// Creates a controller for all objects of a type that watches and caches only their metadata. The same as
    /// `Controller::watching(Watch::metadata_of::<K>())`.
    pub fn for_metadata<K: Resource>() -> Self {
        Self::watching(Watch::metadata_of::<K>())
    }
}

impl<K: Object> Controller<K> {
    /// Creates a controller for the objects that `root` selects.
    pub fn watching(root: Watch<K>) -> Self {
        let resource = root.resource.clone();
        let own = AnyMapper::Direct(handler::enqueue_self());
        Self {
            name: None,
            root: resource,
            sources: vec![Box::new(InformerSource { cluster: None, watch: root, mapper: Some(own) })],
            additions: Additions::new(),
            limiter: None,
            options: ControllerOptions::default(),
            triggers: Vec::new(),
            layers: Vec::new(),
            activation: Activation::Lead,
            reconciler: NoReconciler(()),
        }
    }

    /// Sets the reconciler, which completes the controller.
    pub fn reconcile<R: Reconciler<K>>(self, reconciler: R) -> Controller<K, R> {
        self.with(reconciler)
    }

    /// Completes the controller with a function of keys, which is also called if the object does not exist.
    ///
    /// For the rare controllers that must act on a deletion without a finalizer, such as controllers that track
    /// expectations. Read the object from [`Context::store`]. Every error without a
    /// [`RetryHint`](crate::RetryHint) is retried with back-off.
    pub fn reconcile_keys<F, Fut, E>(self, reconcile: F) -> KeyController<K, F>
    where
        F: Fn(ObjectRef<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send,
        E: Into<BoxError> + Send + 'static,
    {
        KeyController(self.with(reconcile))
    }

    fn with<R>(self, reconciler: R) -> Controller<K, R> {
        Controller {
            name: self.name,
            root: self.root,
            sources: self.sources,
            additions: self.additions,
            limiter: self.limiter,
            options: self.options,
            triggers: self.triggers,
            layers: self.layers,
            activation: self.activation,
            reconciler,
        }
    }
}

impl<K: Object, R> Controller<K, R> {
    /// Sets the name in logs, metrics and managed fields. Defaults to the kind in lower case. It must be unique within
    /// a manager, so of two kinds with the same name in different groups, one needs another name:
    /// `.named("ingress.networking.example.com")`. It is not chosen automatically, because the managed fields of existing
    /// objects contain it.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Watches objects of type `T` and reconciles the `K` that is their controller owner. The same as
    /// `owns_with(Watch::all())`.
    pub fn owns<T: Resource>(self) -> Self {
        self.owns_with(Watch::<T>::all())
    }

    /// Watches the objects that `watch` selects and reconciles the `K` that is their controller owner. The same as
    /// `owns_by(watch, Owners::Controller)`.
    pub fn owns_with<T: Object>(self, watch: Watch<T>) -> Self {
        self.owns_by(watch, Owners::Controller)
    }

    /// Watches the metadata of objects of type `T` and reconciles the `K` that is their controller owner. The same as
    /// `owns_with(Watch::metadata_of::<T>())`. Read them with `cx.client().metadata_of::<T>()`.
    pub fn owns_metadata<T: Resource>(self) -> Self {
        self.owns_with(Watch::metadata_of::<T>())
    }

    /// Watches the objects that `watch` selects and reconciles the owners of kind `K` that `owners` selects.
    ///
    /// Only metadata is read. Group and kind of an owner reference must match; its version is ignored.
    pub fn owns_by<T: Object>(self, watch: Watch<T>, owners: Owners) -> Self {
        let mapper = handler::enqueue_owners(&self.root, owners);
        self.source(watch, Some(AnyMapper::Direct(mapper)))
    }

    /// Watches objects of type `T` and reconciles the keys that `map` returns for the object before and after a change.
    ///
    /// The same as `watches_with(Watch::all(), map)`, except that `map` receives the decoded object. If metadata is
    /// sufficient, `watches_with` avoids decoding every event.
    pub fn watches<T, I>(self, map: impl Fn(&T) -> I + Send + Sync + 'static) -> Self
    where
        T: Resource,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.source(Watch::<T>::all(), Some(AnyMapper::Direct(handler::enqueue_mapped_decoded(map))))
    }

    /// Watches the objects that `watch` selects and reconciles the keys that `map` returns for the object before and
    /// after a change.
    pub fn watches_with<T, I>(self, watch: Watch<T>, map: impl Fn(&Cached<T>) -> I + Send + Sync + 'static) -> Self
    where
        T: Object,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.source(watch, Some(AnyMapper::Direct(handler::enqueue_mapped(map))))
    }

    /// Watches the objects that `watch` selects and reconciles the keys that `map` returns for a view of the object before
    /// and after a change. The object is not decoded.
    ///
    /// ```
    /// # use windlass_api::{ObjectRef, k8s_openapi::api::core::v1::{ConfigMap, Pod}};
    /// # use windlass_runtime::{Controller, Watch};
    /// // Reconciles the ConfigMaps that a pod mounts.
    /// let controller = Controller::<ConfigMap>::new().watches_view(Watch::<Pod>::all(), |pod| {
    ///     let namespace = pod.metadata().namespace().unwrap_or_default();
    ///     let mounted = pod.spec().volumes().iter().filter_map(|volume| volume.config_map().name());
    ///     mounted.map(|name| ObjectRef::new(&*name).within(&*namespace)).collect::<Vec<_>>()
    /// });
    /// # drop(controller);
    /// ```
    pub fn watches_view<T, I>(
        self,
        watch: Watch<T>,
        map: impl for<'a> Fn(T::View<'a>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: Object + HasView,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.source(watch, Some(AnyMapper::Direct(handler::enqueue_mapped_view(map))))
    }

    /// Like [`watches_with`](Self::watches_with), for objects of another cluster: that of a manager which runs
    /// as a [runnable](crate::Manager::into_runnable) of this one. Read them with its [`Cluster::cached_client`];
    /// [`Context::store`] has only objects of the controller's own cluster.
    pub fn watches_in<T, I>(
        mut self,
        cluster: &Cluster,
        watch: Watch<T>,
        map: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: Object,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        let mapper = Some(AnyMapper::Direct(handler::enqueue_mapped(map)));
        self.sources.push(Box::new(InformerSource { cluster: Some(cluster.clone()), watch, mapper }));
        self
    }

    /// Watches the metadata of objects of type `T` and reconciles the keys that `map` returns for it before and after a
    /// change. The same as `watches_with(Watch::metadata_of::<T>(), map)`.
    pub fn watches_metadata<T, I>(self, map: impl Fn(&Cached<PartialObject>) -> I + Send + Sync + 'static) -> Self
    where
        T: Resource,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.watches_with(Watch::metadata_of::<T>(), map)
    }

    /// Watches the objects that `watch` selects and reconciles the keys that an asynchronous function returns for a
    /// change.
    ///
    /// The function receives the change with the object before and after it, and a context to read the caches that the
    /// controller has declared, for example by an index. It is called after they have synced, in tasks of the
    /// controller: at most 8 calls of one watch run at the same time, so a slow function delays neither other watches
    /// nor reconciles. A call has 30 s. An error or a timeout is retried with back-off, 5 times in total; a panic is
    /// not. A change that remains without a result is logged and leads to no keys.
    ///
    /// ```
    /// # use windlass_api::{ObjectRef, k8s_openapi::api::core::v1::{ConfigMap, Secret}};
    /// # use windlass_cache::{Cached, Index, Notification};
    /// # use windlass_runtime::{Action, Context, Controller, Result, Watch};
    /// # use std::sync::Arc;
    /// # async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> { Ok(Action::await_change()) }
    /// /// Returns the ConfigMaps that refer to a Secret.
    /// async fn users_of(change: Notification<Secret>, cx: Context) -> Result<Vec<ObjectRef<ConfigMap>>> {
    ///     let users = cx.store::<ConfigMap>().by_index("secret", &change.key().name)?;
    ///     Ok(users.iter().map(Cached::object_ref).collect())
    /// }
    ///
    /// let by_secret = Index::on_path("secret", ["data", "secret"]);
    /// let controller = Controller::watching(Watch::<ConfigMap>::all().index(by_secret))
    ///     .watches_async(Watch::all(), users_of)
    ///     .reconcile(reconcile);
    /// # let _ = controller;
    /// ```
    pub fn watches_async<T, F, I, E>(
        self,
        watch: Watch<T>,
        map: impl Fn(Notification<T>, Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        T: Object,
        F: Future<Output = Result<I, E>> + Send + 'static,
        I: IntoIterator<Item = ObjectRef<K>>,
        E: Into<BoxError>,
    {
        self.source(watch, Some(AnyMapper::Async(mapping::enqueue_mapped_async(map))))
    }

    /// Keeps a cache of `T` for [`Context::store`] without triggering reconciles. The same as
    /// `reads_with(Watch::all())`.
    pub fn reads<T: Resource>(self) -> Self {
        self.reads_with(Watch::<T>::all())
    }

    /// Keeps a cache of the objects that `watch` selects for [`Context::store`] without triggering reconciles.
    pub fn reads_with<T: Object>(self, watch: Watch<T>) -> Self {
        self.source(watch, None)
    }

    /// Returns a handle that adds watches while the controller runs.
    pub fn handle(&self) -> ControllerHandle<K> {
        ControllerHandle::new(self.root.clone(), &self.additions)
    }

    /// Sets the maximum number of concurrent reconciles. Defaults to the manager's
    /// [`ControllerDefaults`](crate::ControllerDefaults), or 1. The value 0 means 1.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.options.concurrency = Some(NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN));
        self
    }

    /// Sets how long to wait for the caches at the start before the controller fails. Defaults to the manager's
    /// [`ControllerDefaults`](crate::ControllerDefaults), or 2 minutes.
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.options.sync_timeout = Some(timeout);
        self
    }

    /// Sets the delays of failed keys. Defaults to [`DefaultRateLimiter`](windlass_queue::DefaultRateLimiter).
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<ObjectRef<K>>) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Takes keys of changed objects before keys from initial lists and resyncs. By default keys are taken in order.
    /// With priorities, a controller with many objects responds to changes during its start and during resyncs.
    /// Requeued keys retain their priority. See [`Builder::by_priority`](windlass_queue::Builder::by_priority).
    pub fn by_priority(mut self) -> Self {
        self.options.order = Some(Order::Priority);
        self
    }

    /// Limits the duration of a reconcile. Defaults to the manager's [`ControllerDefaults`](crate::ControllerDefaults),
    /// or no limit. A reconcile that exceeds the limit is dropped at an await point and retried with back-off.
    pub fn reconcile_timeout(mut self, limit: Duration) -> Self {
        self.options.reconcile_timeout = Some(limit);
        self
    }

    /// Also reconciles keys from a stream, for example from webhooks, timers or other systems. The end of the stream
    /// does not stop the controller. Keys left in the stream when the controller stops are dropped.
    pub fn triggered_by(mut self, keys: impl Stream<Item = ObjectRef<K>> + Send + 'static) -> Self {
        self.triggers.push(keys.boxed());
        self
    }

    /// Delays the reconcile of a changed object by `window`, so that all changes within it lead to one reconcile. None
    /// by default.
    ///
    /// The window begins with the first change and is not extended by further ones, so an object that changes
    /// continuously is reconciled once per window. It applies to watches and to [triggers](Self::triggered_by), not to
    /// requeues and retries.
    pub fn debounce(mut self, window: Duration) -> Self {
        self.options.debounce = window;
        self
    }

    /// Wraps each reconcile in a layer, outside the layers added before and inside the timeout.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.push(Box::new(layer));
        self
    }

    /// Fills caches and queue in every process, so that a new leader can start at once. Only the leader reconciles.
    pub fn warm_up(mut self) -> Self {
        self.activation = Activation::WarmUp;
        self
    }

    /// Reconciles in every process, regardless of leadership. For controllers of objects that belong to the process
    /// itself.
    pub fn in_every_process(mut self) -> Self {
        self.activation = Activation::None;
        self
    }

    /// Reconciles in every process the objects of the process's [shard](crate::sharding), if the manager uses sharding.
    /// Without sharding it [warms up](Self::warm_up).
    ///
    /// For controllers whose reconciles touch only objects that belong to the reconciled object, and write with
    /// preconditions.
    pub fn sharded(mut self) -> Self {
        self.activation = Activation::Shard;
        self
    }

    fn source<T: Object>(mut self, watch: Watch<T>, mapper: Option<AnyMapper<T, K>>) -> Self {
        self.sources.push(Box::new(InformerSource { cluster: None, watch, mapper }));
        self
    }

    fn display_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.root.kind.to_lowercase())
    }

    fn in_group(&self) -> Group {
        match self.activation {
            Activation::Lead => Group::Controllers,
            Activation::WarmUp | Activation::Shard => Group::WarmUps,
            Activation::None => Group::Others,
        }
    }
}

impl<K: Object, R: Reconciler<K>> Runnable for Controller<K, R> {
    fn name(&self) -> String {
        self.display_name()
    }

    fn group(&self) -> Group {
        self.in_group()
    }

    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>> {
        run::run(*self, context, |informers, limit, reconciler| WithObjects {
            store: informers.store(),
            informers,
            limit,
            reconciler,
        })
        .boxed()
    }
}

impl<K, F, Fut, E> Runnable for KeyController<K, F>
where
    K: Object,
    F: Fn(ObjectRef<K>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: Into<BoxError> + Send + 'static,
{
    fn name(&self) -> String {
        self.0.display_name()
    }

    fn group(&self) -> Group {
        self.0.in_group()
    }

    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>> {
        run::run(self.0, context, |_informers, _limit, reconcile| WithKeys(reconcile)).boxed()
    }
}

impl<K, R> Debug for Controller<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("root", &self.root)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
