//! A controller: which objects to reconcile, which others concern them, and how.

mod defaults;
mod handle;
mod life;
mod moves;
mod need;
mod overrides;
mod worker;

use std::{
    fmt::{self, Debug},
    future::Future,
    num::NonZeroUsize,
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use windlass_api::{ApiResource, Object, ObjectRef, PartialObject, Resource};
use windlass_cache::Cached;
use windlass_queue::RateLimiter;

pub(crate) use self::overrides::Overrides;
pub use self::{
    defaults::ControllerDefaults,
    handle::{ControllerHandle, Watching},
    overrides::ControllerOverride,
};
use self::{
    handle::Additions,
    need::Need,
    worker::{WithKeys, WithObjects},
};
use crate::{
    Action, Context, Reconciler, Result, Watch,
    handler::{self, Owners},
    layer::Layer,
    manager::{Group, Runnable, Running},
    source::{Informed, Source},
};

/// Reconciles objects of type `K` with a reconciler of type `R`.
///
/// Built like a sentence, and run by a [`Manager`](crate::Manager):
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
/// Without a reconciler it cannot be added:
///
/// ```compile_fail
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_runtime::{Controller, Manager};
/// # fn add(manager: &mut Manager) {
/// manager.add(Controller::<ConfigMap>::new());
/// # }
/// ```
///
/// and what is given to `reconcile` must take the controller's kind:
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
/// # What happens
///
/// Events of the watched objects become keys in a queue: of the object itself, of its owner, or what a function says.
/// Workers take keys, look up the newest state in the cache and call the reconciler. It is called once for many events
/// in a row, never twice at once for the same key, and not before every cache of the controller is complete. After a
/// success the key rests until something changes or the asked time has passed; after a failure it comes back with
/// back-off, unless [`Reconciler::retry`] says otherwise.
#[must_use = "a controller does nothing until it is added to a `Manager`"]
pub struct Controller<K, R = NoReconciler> {
    /// `None`: the kind, in lower case.
    name: Option<String>,
    root: ApiResource,
    /// The root's comes first.
    sources: Vec<Box<dyn Source<K>>>,
    /// Sources that come later.
    additions: Additions<K>,
    limiter: Option<Box<dyn RateLimiter<ObjectRef<K>>>>,
    choices: Choices,
    /// Keys that come from elsewhere than caches.
    triggers: Vec<BoxStream<'static, ObjectRef<K>>>,
    /// The outermost comes last.
    layers: Vec<Box<dyn Layer>>,
    leadership: Need,
    reconciler: R,
}

/// What a controller has chosen of what the manager's [`ControllerDefaults`] say otherwise.
#[derive(Clone, Copy, Debug, Default)]
struct Choices {
    concurrency: Option<NonZeroUsize>,
    sync_timeout: Option<Duration>,
    reconcile_timeout: Option<Duration>,
    order: Option<Order>,
}

/// Which key a worker takes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The one that has been ready for longest.
    Arrival,
    /// One that has changed, before those that were listed or resynced.
    Priority,
}

/// In place of a reconciler that has not been given yet.
#[derive(Debug)]
pub struct NoReconciler(());

/// A controller whose reconciler gets keys, see [`Controller::reconcile_keys`].
///
/// A type of its own, because any type could be a [`Reconciler`] of some user's kind.
#[must_use = "a controller does nothing until it is added to a `Manager`"]
#[derive(Debug)]
pub struct KeyController<K, F>(Controller<K, F>);

// === impl Controller ===

// The bound is the function's, so that who forgets a derive reads our words for it.
impl<K> Controller<K> {
    /// A controller of all objects of the type. The same as `Controller::watching(Watch::all())`.
    #[allow(clippy::new_without_default, reason = "there is no default controller: it would have no reconciler")]
    pub fn new() -> Self
    where
        K: Resource,
    {
        Self::watching(Watch::all())
    }
}

impl Controller<PartialObject> {
    /// A controller of all objects of a type that sees their metadata alone: no more is sent by the server, and no more is
    /// cached. The same as `Controller::watching(Watch::metadata_of::<K>())`.
    pub fn for_metadata<K: Resource>() -> Self {
        Self::watching(Watch::metadata_of::<K>())
    }
}

impl<K: Object> Controller<K> {
    /// A controller of the objects that `root` selects.
    pub fn watching(root: Watch<K>) -> Self {
        let resource = root.resource.clone();
        Self {
            name: None,
            root: resource,
            sources: vec![Box::new(Informed { watch: root, mapper: Some(handler::enqueue_self()) })],
            additions: Additions::new(),
            limiter: None,
            choices: Choices::default(),
            triggers: Vec::new(),
            layers: Vec::new(),
            leadership: Need::Lead,
            reconciler: NoReconciler(()),
        }
    }

    /// Completes the controller.
    pub fn reconcile<R: Reconciler<K>>(self, reconciler: R) -> Controller<K, R> {
        self.with(reconciler)
    }

    /// Completes the controller with a function of keys, which is also called when the object is gone.
    ///
    /// For the rare controllers that must act on a deletion without a finalizer, such as those that track expectations.
    /// The object, if there is one, is in [`Context::store`]. Every error is retried with back-off.
    pub fn reconcile_keys<F, Fut, E>(self, reconcile: F) -> KeyController<K, F>
    where
        F: Fn(ObjectRef<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send,
        E: std::error::Error + Send + Sync + 'static,
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
            choices: self.choices,
            triggers: self.triggers,
            layers: self.layers,
            leadership: self.leadership,
            reconciler,
        }
    }
}

impl<K: Object, R> Controller<K, R> {
    /// The name in logs, metrics and field ownership; by default the kind in lower case. Unique within a manager.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Objects of type `T` trigger the `K` that is their controller owner. The same as `owns_with(Watch::all())`.
    pub fn owns<T: Resource>(self) -> Self {
        self.owns_with(Watch::<T>::all())
    }

    /// The objects that `watch` selects trigger the `K` that is their controller owner. The same as
    /// `owns_by(watch, Owners::Controller)`.
    pub fn owns_with<T: Object>(self, watch: Watch<T>) -> Self {
        self.owns_by(watch, Owners::Controller)
    }

    /// Objects of type `T` trigger the `K` that is their controller owner, and are watched by their metadata alone. The
    /// same as `owns_with(Watch::metadata_of::<T>())`; `cx.client().metadata_of::<T>()` reads them.
    pub fn owns_metadata<T: Resource>(self) -> Self {
        self.owns_with(Watch::metadata_of::<T>())
    }

    /// The objects that `watch` selects trigger the `K`s among their owners that `owners` says.
    ///
    /// Only metadata is read: group and kind of an owner reference must match, its version need not.
    pub fn owns_by<T: Object>(self, watch: Watch<T>, owners: Owners) -> Self {
        let mapper = handler::enqueue_owners(&self.root, owners);
        self.source(watch, Some(mapper))
    }

    /// Objects of type `T` trigger the keys that `map` makes of them, before and after a change.
    ///
    /// The same as `watches_with(Watch::all(), map)`, except that `map` gets the decoded object. Where metadata is
    /// enough, `watches_with` saves the decoding of every event.
    pub fn watches<T, I>(self, map: impl Fn(&T) -> I + Send + Sync + 'static) -> Self
    where
        T: Resource,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.source(Watch::<T>::all(), Some(handler::enqueue_mapped_decoded(map)))
    }

    /// The objects that `watch` selects trigger the keys that `map` makes of them, before and after a change.
    pub fn watches_with<T, I>(self, watch: Watch<T>, map: impl Fn(&Cached<T>) -> I + Send + Sync + 'static) -> Self
    where
        T: Object,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.source(watch, Some(handler::enqueue_mapped(map)))
    }

    /// Objects of type `T` trigger the keys that `map` makes of their metadata, before and after a change; no more of them
    /// is watched. The same as `watches_with(Watch::metadata_of::<T>(), map)`.
    pub fn watches_metadata<T, I>(self, map: impl Fn(&Cached<PartialObject>) -> I + Send + Sync + 'static) -> Self
    where
        T: Resource,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.watches_with(Watch::metadata_of::<T>(), map)
    }

    /// Keeps a cache of `T` for [`Context::store`], without being triggered by it. The same as
    /// `reads_with(Watch::all())`.
    pub fn reads<T: Resource>(self) -> Self {
        self.reads_with(Watch::<T>::all())
    }

    /// Keeps a cache of what `watch` selects for [`Context::store`], without being triggered by it.
    pub fn reads_with<T: Object>(self, watch: Watch<T>) -> Self {
        self.source(watch, None)
    }

    /// A handle by which watches are added while the controller runs.
    pub fn handle(&self) -> ControllerHandle<K> {
        ControllerHandle::new(self.root.clone(), &self.additions)
    }

    /// How many keys may be reconciled at the same time; by default what the manager's [`ControllerDefaults`] say, or 1,
    /// which 0 means as well.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.choices.concurrency = Some(NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN));
        self
    }

    /// How long to wait for the caches at the start before the controller fails; by default what the manager's
    /// [`ControllerDefaults`] say, or 2 minutes.
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.choices.sync_timeout = Some(timeout);
        self
    }

    /// How long failed keys wait; by default [`DefaultRateLimiter`](windlass_queue::DefaultRateLimiter).
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<ObjectRef<K>>) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Takes keys of changes before those of initial lists and resyncs, which come in order by default: a controller that
    /// starts among many objects, or is resynced, goes on to answer what happens meanwhile. Keys that come back keep the
    /// priority they had. See [`Builder::by_priority`](windlass_queue::Builder::by_priority).
    pub fn by_priority(mut self) -> Self {
        self.choices.order = Some(Order::Priority);
        self
    }

    /// How long a reconcile may take; as long as it likes unless the manager's [`ControllerDefaults`] say otherwise. One that
    /// takes longer is dropped where it awaits something, and tried again with back-off.
    pub fn reconcile_timeout(mut self, limit: Duration) -> Self {
        self.choices.reconcile_timeout = Some(limit);
        self
    }

    /// Keys from a stream trigger reconciles as well: what webhooks, timers or other systems have to say. Its end ends
    /// nothing else. What it holds when the controller stops is dropped.
    pub fn triggered_by(mut self, keys: impl Stream<Item = ObjectRef<K>> + Send + 'static) -> Self {
        self.triggers.push(keys.boxed());
        self
    }

    /// Wraps each reconcile, outside of the layers given before, but within the timeout.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.push(Box::new(layer));
        self
    }

    /// Fills caches and queue in every process, so that the leader's successor can begin at once. Reconciles in the
    /// leader's only.
    pub fn warm_up(mut self) -> Self {
        self.leadership = Need::WarmUp;
        self
    }

    /// Reconciles in every process, whoever is the leader: for controllers of what belongs to the process itself.
    pub fn in_every_process(mut self) -> Self {
        self.leadership = Need::None;
        self
    }

    /// Reconciles in every process, each the objects of its [shard](crate::sharding), if the manager divides them; otherwise
    /// it [warms up](Self::warm_up).
    ///
    /// For controllers whose reconciles touch only what belongs to their object, and write with preconditions.
    pub fn sharded(mut self) -> Self {
        self.leadership = Need::Shard;
        self
    }

    fn source<T: Object>(mut self, watch: Watch<T>, mapper: Option<handler::Mapper<T, K>>) -> Self {
        self.sources.push(Box::new(Informed { watch, mapper }));
        self
    }

    fn display_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.root.kind.to_lowercase())
    }

    fn in_group(&self) -> Group {
        match self.leadership {
            Need::Lead => Group::Controllers,
            Need::WarmUp | Need::Shard => Group::WarmUps,
            Need::None => Group::Others,
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

    fn run(self: Box<Self>, running: Running) -> BoxFuture<'static, Result<()>> {
        life::run(*self, running, |informers, limit, reconciler| WithObjects {
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
    E: std::error::Error + Send + Sync + 'static,
{
    fn name(&self) -> String {
        self.0.display_name()
    }

    fn group(&self) -> Group {
        self.0.in_group()
    }

    fn run(self: Box<Self>, running: Running) -> BoxFuture<'static, Result<()>> {
        life::run(self.0, running, |_informers, _limit, reconcile| WithKeys(reconcile)).boxed()
    }
}

impl<K, R> Debug for Controller<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("root", &self.root)
            .field("choices", &self.choices)
            .finish_non_exhaustive()
    }
}
