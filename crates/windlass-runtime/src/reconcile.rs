//! Reconcilers, written by users, and the context that each call receives.

use std::{
    any::{Any, TypeId, type_name},
    fmt::{self, Debug},
    future::Future,
    sync::Arc,
    time::Duration,
};

use windlass_api::{ApiResource, BoxError, Clock, Entropy, Object};
use windlass_cache::{InformerSet, Lister};
use windlass_client::Client;

use crate::{CachedClient, error::Retry, events::Recorder};

/// The next step after a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    requeue_after: Option<Duration>,
    /// `None`: the key retains its priority.
    priority: Option<i32>,
}

impl Action {
    /// Waits for the next change.
    #[must_use]
    pub const fn await_change() -> Self {
        Self { requeue_after: None, priority: None }
    }

    /// Requests another reconcile after `delay`, or earlier if something changes. Zero means at once.
    #[must_use]
    pub const fn requeue_after(delay: Duration) -> Self {
        Self { requeue_after: Some(delay), priority: None }
    }

    /// Sets the priority with which the key is requeued, in place of its previous priority. It has an effect on
    /// controllers that take keys [by priority](crate::Controller::by_priority). Higher priorities are taken first.
    #[must_use]
    pub const fn at_priority(self, priority: i32) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// Returns the priority passed to [`Action::at_priority`].
    #[must_use]
    pub const fn priority(&self) -> Option<i32> {
        self.priority
    }

    /// Returns the delay passed to [`Action::requeue_after`].
    #[must_use]
    pub const fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }
}

/// Moves the observed state of an object toward its desired state. Async functions and closures with these arguments
/// are reconcilers.
///
/// A reconciler receives the newest cached state. It may be older than the server's, but not older than the manager's
/// own last write to the object. Reads through [`Context::client`] show the manager's own writes; reads from
/// [`Context::store`] may not show them yet.
///
/// A reconciler must be idempotent, and must not rely on seeing every intermediate state. It never runs twice at the
/// same time for one object. It is not called for objects that no longer exist. Use a finalizer for clean-up, or
/// [`Controller::reconcile_keys`](crate::Controller::reconcile_keys).
///
/// The error may be of any type that converts to a boxed error: a `std::error::Error`, `Box<dyn Error + Send + Sync>`,
/// `anyhow::Error`, or a text. Log and events show it with its causes. An error marked with
/// [`Error::terminal`](crate::Error::terminal) or [`Error::retry_after`](crate::Error::retry_after) determines the retry:
///
/// ```
/// # use windlass_api::{BoxError, k8s_openapi::api::core::v1::ConfigMap};
/// # use windlass_runtime::{Action, Context, Controller, Error};
/// # use std::sync::Arc;
/// async fn reconcile(config: Arc<ConfigMap>, _: Context) -> Result<Action, BoxError> {
///     let data = config.data.as_ref().ok_or_else(|| Error::terminal("no data"))?;
///     let _replicas: u32 = data.get("replicas").map_or("1", String::as_str).parse()?;
///     Ok(Action::await_change())
/// }
/// # let _ = Controller::<ConfigMap>::new().reconcile(reconcile);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reconciler for `{K}`",
    note = "give the controller one with `.reconcile(..)`: an `async fn(Arc<{K}>, Context) -> Result<Action, E>`, where `E` is an error, such as `windlass::Error`, `anyhow::Error` or `Box<dyn Error + Send + Sync>`; or a type implementing `Reconciler<{K}>`"
)]
pub trait Reconciler<K: Object>: Send + Sync + 'static {
    /// The error type.
    type Error: Into<BoxError> + Send + 'static;

    /// Reconciles one object. A panic is contained and counts as a failure.
    fn reconcile(&self, object: Arc<K>, cx: Context) -> impl Future<Output = Result<Action, Self::Error>> + Send;

    /// Returns the retry policy for `error`. Defaults to back-off. A [`RetryHint`](crate::RetryHint) in the error takes
    /// precedence.
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
    E: Into<BoxError> + Send + 'static,
{
    type Error = E;

    fn reconcile(&self, object: Arc<K>, cx: Context) -> impl Future<Output = Result<Action, E>> + Send {
        self(object, cx)
    }
}

/// The context of one reconcile: clients, caches, clock and event recorder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Context {
    shared: Arc<Shared>,
    reconcile_id: Arc<str>,
}

/// The part of a context that is the same for all calls of a controller.
pub(crate) struct Shared {
    pub(crate) controller: Arc<str>,
    pub(crate) client: CachedClient,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) recorder: Recorder,
    pub(crate) stores: Stores,
}

/// The caches declared by a controller. They have synced before its first reconcile.
#[derive(Default)]
pub(crate) struct Stores(Vec<Store>);

struct Store {
    /// The ID of the object type.
    type_id: TypeId,
    resource: ApiResource,
    /// The `InformerSet` of that type.
    informers: Box<dyn Any + Send + Sync>,
}

// === impl Context ===

impl Context {
    pub(crate) fn new(shared: Arc<Shared>, reconcile_id: Arc<str>) -> Self {
        Self { shared, reconcile_id }
    }

    /// Returns the manager's client: reads come from its caches, writes are sent to the server. The field manager of its
    /// writes is `program/controller`, unless the manager's client has [another](Client::with_field_owner).
    #[must_use]
    pub fn client(&self) -> &CachedClient {
        &self.shared.client
    }

    /// Returns the client without caches, which sends each read to the server and has all verbs. Short for
    /// [`CachedClient::live`].
    #[must_use]
    pub fn live(&self) -> &Client {
        self.shared.client.live()
    }

    /// Returns the cache of a kind that the controller reconciles, owns, watches or [reads](crate::Controller::reads).
    ///
    /// If the controller has several watches of one type, this is the cache of the first one.
    ///
    /// # Panics
    /// Panics if the controller has not declared the kind. An empty cache would look like a cluster without such
    /// objects.
    #[must_use]
    #[track_caller]
    pub fn store<T: Object>(&self) -> Lister<T> {
        match self.shared.stores.find(|_| true) {
            Some(informers) => informers.store(),
            None => self.undeclared::<T>(),
        }
    }

    /// Like [`Context::store`], for types that represent several kinds, such as
    /// [`DynamicObject`](windlass_api::DynamicObject).
    ///
    /// # Panics
    /// Panics if the controller has not declared the kind with this type.
    #[must_use]
    #[track_caller]
    pub fn store_of<T: Object>(&self, resource: &ApiResource) -> Lister<T> {
        match self.shared.stores.of(resource) {
            Some(lister) => lister,
            None => self.undeclared::<T>(),
        }
    }

    /// Returns the wall clock, for timestamps in objects. Use `tokio::time` for durations.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Returns the source of randomness.
    #[must_use]
    pub fn entropy(&self) -> &Entropy {
        &self.shared.entropy
    }

    /// Returns a recorder of events, with the controller as their source.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// Returns the name of the controller.
    #[must_use]
    pub fn controller(&self) -> &str {
        &self.shared.controller
    }

    /// Returns the unique ID of this reconcile. The log lines of the reconcile contain it.
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
    pub(crate) fn insert<T: Object>(&mut self, resource: ApiResource, informers: InformerSet<T>) {
        self.0.push(Store { type_id: TypeId::of::<T>(), resource, informers: Box::new(informers) });
    }

    /// Returns the store of a resource as `T`.
    pub(crate) fn of<T: Object>(&self, resource: &ApiResource) -> Option<Lister<T>> {
        self.informers(resource).map(InformerSet::store)
    }

    /// Returns the informers of a resource as `T`.
    pub(crate) fn informers<T: Object>(&self, resource: &ApiResource) -> Option<&InformerSet<T>> {
        self.find(|other| other == resource)
    }

    fn find<T: Object>(&self, matches: impl Fn(&ApiResource) -> bool) -> Option<&InformerSet<T>> {
        let of_type = self.0.iter().filter(|store| store.type_id == TypeId::of::<T>());
        of_type
            .filter(|store| matches(&store.resource))
            .find_map(|store| store.informers.downcast_ref::<InformerSet<T>>())
    }
}
