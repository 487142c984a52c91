//! What a user writes: a reconciler, and what it is given.

use std::{
    any::{Any, TypeId, type_name},
    fmt::{self, Debug},
    future::Future,
    sync::Arc,
    time::Duration,
};

use windlass_api::{ApiResource, Clock, Entropy, Object};
use windlass_cache::{Informers, Lister};
use windlass_client::Client;

use crate::{CachedClient, events::Recorder};

/// What is to happen after a reconcile that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    requeue_after: Option<Duration>,
    /// `None`: that which the key had.
    priority: Option<i32>,
}

impl Action {
    /// Nothing, until something changes.
    #[must_use]
    pub const fn await_change() -> Self {
        Self { requeue_after: None, priority: None }
    }

    /// Another reconcile after `delay`, or earlier if something changes; at once if it is zero.
    #[must_use]
    pub const fn requeue_after(delay: Duration) -> Self {
        Self { requeue_after: Some(delay), priority: None }
    }

    /// The same, the key coming back with this priority in place of that which it had. It counts for controllers that take
    /// keys [by priority](crate::Controller::by_priority); higher ones are taken first.
    #[must_use]
    pub const fn at_priority(self, priority: i32) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// The priority given to [`Action::at_priority`].
    #[must_use]
    pub const fn priority(&self) -> Option<i32> {
        self.priority
    }

    /// The delay given to [`Action::requeue_after`].
    #[must_use]
    pub const fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }
}

/// What is to happen after a reconcile that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// Another reconcile, after a delay that grows with each failure in a row.
    Backoff,
    /// Nothing, until something changes: trying again cannot help.
    Never,
}

/// Brings the world closer to what an object asks for. Async functions and closures with these arguments are reconcilers.
///
/// A reconciler is called with the newest state that the cache knows of, which may be older than the server's, but not older
/// than the manager's own last write to the object. It must be idempotent, and must not rely on having seen every
/// intermediate state. Reads by [`Context::client`] show the manager's own writes; [`Context::store`] may not show them yet. It is never called for one object twice at the same time. For an object that is gone it is not called; what has
/// to be cleaned up then needs a finalizer, or [`Controller::reconcile_keys`](crate::Controller::reconcile_keys).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reconciler for `{K}`",
    note = "give the controller one with `.reconcile(..)`: an `async fn(Arc<{K}>, Context) -> Result<Action, E>`, where `E` is a `std::error::Error`, such as `windlass::Error`; or a type implementing `Reconciler<{K}>`"
)]
pub trait Reconciler<K: Object>: Send + Sync + 'static {
    /// Why it can fail.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Reconciles one object. A panic is contained and counts as a failure.
    fn reconcile(&self, object: Arc<K>, cx: Context) -> impl Future<Output = Result<Action, Self::Error>> + Send;

    /// Whether to try again after `error`. With back-off unless overridden.
    fn retry(&self, error: &Self::Error) -> Retry {
        let _ = error;
        Retry::Backoff
    }
}

#[diagnostic::do_not_recommend]
impl<K, F, Fut, E> Reconciler<K> for F
where
    K: Object,
    F: Fn(Arc<K>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: std::error::Error + Send + Sync + 'static,
{
    type Error = E;

    fn reconcile(&self, object: Arc<K>, cx: Context) -> impl Future<Output = Result<Action, E>> + Send {
        self(object, cx)
    }
}

/// What the runtime owns and lends to a reconciler for one call. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Context {
    shared: Arc<Shared>,
    reconcile_id: Arc<str>,
}

/// The part of the contexts that is the same for all calls of one controller.
pub(crate) struct Shared {
    pub(crate) controller: Arc<str>,
    pub(crate) client: CachedClient,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) recorder: Recorder,
    pub(crate) stores: Stores,
}

/// The caches that a controller has declared, complete from before its first reconcile.
#[derive(Default)]
pub(crate) struct Stores(Vec<Store>);

struct Store {
    /// Of the object type.
    type_id: TypeId,
    resource: ApiResource,
    /// `Informers` of that type.
    informers: Box<dyn Any + Send + Sync>,
}

// === impl Context ===

impl Context {
    pub(crate) fn new(shared: Arc<Shared>, reconcile_id: Arc<str>) -> Self {
        Self { shared, reconcile_id }
    }

    /// The client of the manager: `get` and `list` read from its caches, everything else goes to the server. It writes in
    /// the controller's name where the caller chose none.
    #[must_use]
    pub fn client(&self) -> &CachedClient {
        &self.shared.client
    }

    /// The same client without caches: it asks the server each time.
    #[must_use]
    pub fn live(&self) -> &Client {
        self.shared.client.live()
    }

    /// The cache of a kind that the controller reconciles, owns, watches or [reads](crate::Controller::reads).
    ///
    /// Of several watches on one type it is that of the first declared.
    ///
    /// # Panics
    /// When the controller has not declared the kind: an empty cache would look like a cluster without such objects.
    #[must_use]
    #[track_caller]
    pub fn store<T: Object>(&self) -> Lister<T> {
        match self.shared.stores.find(|_| true) {
            Some(informers) => informers.store(),
            None => self.undeclared::<T>(),
        }
    }

    /// As [`Context::store`], for types that stand for several kinds, such as
    /// [`DynamicObject`](windlass_api::DynamicObject).
    ///
    /// # Panics
    /// When the controller has not declared the kind with this type.
    #[must_use]
    #[track_caller]
    pub fn store_of<T: Object>(&self, resource: &ApiResource) -> Lister<T> {
        match self.shared.stores.of(resource) {
            Some(lister) => lister,
            None => self.undeclared::<T>(),
        }
    }

    /// The wall clock, for what the API writes down. Durations belong to `tokio::time`.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The source of randomness.
    #[must_use]
    pub fn entropy(&self) -> &Entropy {
        &self.shared.entropy
    }

    /// Tells people what the controller does, in its name.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// The name of the controller.
    #[must_use]
    pub fn controller(&self) -> &str {
        &self.shared.controller
    }

    /// Unique for this call; the log lines of the call carry it.
    #[must_use]
    pub fn reconcile_id(&self) -> &str {
        &self.reconcile_id
    }

    #[track_caller]
    fn undeclared<T>(&self) -> ! {
        panic!(
            "controller {} has no cache of `{}`: declare it with `.owns`, `.watches` or `.reads`",
            self.shared.controller,
            type_name::<T>()
        )
    }
}

// === impl Shared ===

impl Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("controller", &self.controller).finish_non_exhaustive()
    }
}

// === impl Stores ===

impl Stores {
    pub(crate) fn insert<T: Object>(&mut self, resource: ApiResource, informers: Informers<T>) {
        self.0.push(Store { type_id: TypeId::of::<T>(), resource, informers: Box::new(informers) });
    }

    /// The store of a resource as `T`.
    pub(crate) fn of<T: Object>(&self, resource: &ApiResource) -> Option<Lister<T>> {
        self.informers(resource).map(Informers::store)
    }

    /// The informers of a resource as `T`.
    pub(crate) fn informers<T: Object>(&self, resource: &ApiResource) -> Option<&Informers<T>> {
        self.find(|other| other == resource)
    }

    fn find<T: Object>(&self, matches: impl Fn(&ApiResource) -> bool) -> Option<&Informers<T>> {
        let of_type = self.0.iter().filter(|store| store.type_id == TypeId::of::<T>());
        of_type
            .filter(|store| matches(&store.resource))
            .find_map(|store| store.informers.downcast_ref::<Informers<T>>())
    }
}
