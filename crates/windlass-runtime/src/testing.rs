//! Contexts for unit tests of reconcilers and mappers: the test calls the function itself, without a manager.
//!
//! ```
//! # use std::{convert::Infallible, sync::Arc};
//! # use windlass_api::{BoxError, k8s_openapi::api::core::v1::{ConfigMap, Secret}};
//! # use windlass_client::Client;
//! # use windlass_runtime::{Action, Context, events::Note};
//! async fn reconcile(config: Arc<ConfigMap>, cx: Context) -> Result<Action, BoxError> {
//!     if cx.client().get_opt::<Secret>("token").await?.is_none() {
//!         cx.recorder().record(&*config, Note::warning("NoToken", "waiting for the token"));
//!     }
//!     Ok(Action::await_change())
//! }
//!
//! # async fn test(client: Client) -> Result<(), BoxError> {
//! let mut test = Context::for_test(client).holding::<Secret>([]).start().await?;
//! let action = reconcile(Arc::new(ConfigMap::default()), test.context()).await?;
//! assert_eq!(action, Action::await_change());
//! assert_eq!(test.events().lines(), ["Warning NoToken waiting for the token"]);
//! # Ok(())
//! # }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # let nothing = tower::service_fn(|_| async {
//! #     Ok::<_, Infallible>(http::Response::new(http_body_util::Empty::<bytes::Bytes>::new()))
//! # });
//! # runtime.block_on(async { test(Client::from_service(nothing, "default")).await.unwrap() });
//! ```
//!
//! # Guarantees
//!
//! - [`Context::client`] reads from caches and writes to the client, as in a manager. The first read of a kind starts
//!   its cache. Reads show the context's own writes.
//! - [`Context::store`] has the kinds of [`TestContextBuilder::reads`] and [`TestContextBuilder::holding`], after they
//!   have synced.
//! - Events are captured, not written.
//!
//! # Not provided
//!
//! - A queue: nothing is retried or requeued, and a watch triggers nothing. The test checks the returned
//!   [`Action`](crate::Action) or error.
//! - A worker: time limits, layers, metrics, observers and leadership do not apply, and a panic fails the test.
//! - The object: the test passes it. A worker would read it from the cache.
//! - With [`TestContextBuilder::holding`], the effect of writes on these kinds. Reads of such a context do not wait for
//!   its own writes.

use std::{
    fmt::{self, Debug},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use windlass_api::{
    ApiResource, Clock, Entropy, EventType, InitialEvents, ListItem, ListMeta, ListOptions, ListWatch, ListWatchError,
    Object, RawEvent, Resource, WatchOptions,
};
use windlass_client::Client;

use crate::{
    CachedClient, Cluster, Context, Error, Result, Watch,
    caches::Caches,
    cluster::ListWatches,
    events::{EventSender, RecordedEvents},
    read_your_writes,
    reconcile::{Shared, Stores},
    source,
};

/// How long [`TestContextBuilder::start`] waits for the caches.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds a [`TestContext`].
#[must_use = "a builder does nothing until `start` is called"]
pub struct TestContextBuilder {
    client: Client,
    controller: Arc<str>,
    clock: Clock,
    entropy: Entropy,
    declared: Vec<Declared>,
    /// Returned as an error by `start` if they cannot be encoded.
    fixed: Vec<(ApiResource, serde_json::Result<Vec<Value>>)>,
}

/// A context for a test, and the events that it recorded. Dropping it stops its caches.
pub struct TestContext {
    shared: Arc<Shared>,
    cluster: Cluster,
    events: RecordedEvents,
}

/// Starts a declared cache. The future resolves when it has synced.
type Declared = Box<dyn FnOnce(&Cluster, &mut Stores) -> (ApiResource, BoxFuture<'static, Result<()>>) + Send>;

/// The unchanging objects of a resource, as JSON.
#[derive(Clone, Debug)]
struct FixedObjects {
    objects: Arc<[Value]>,
    namespace: Option<String>,
}

// === impl Context ===

impl Context {
    /// Returns a builder of a context for a unit test, see the module [`testing`](crate::testing). The client may be
    /// that of a test environment, or one of a `tower::Service` ([`Client::from_service`]).
    pub fn for_test(client: Client) -> TestContextBuilder {
        TestContextBuilder {
            client: client.without_default_rate_limit(),
            controller: "test".into(),
            clock: Clock::system(),
            entropy: Entropy::os(),
            declared: Vec::new(),
            fixed: Vec::new(),
        }
    }
}

// === impl TestContextBuilder ===

impl TestContextBuilder {
    /// Keeps a cache of `T` for [`Context::store`], filled by the client. The same as `reads_with(Watch::all())`.
    pub fn reads<T: Resource>(self) -> Self {
        self.reads_with(Watch::<T>::all())
    }

    /// Keeps a cache of the objects that `watch` selects for [`Context::store`], filled by the client.
    pub fn reads_with<T: Object>(mut self, watch: Watch<T>) -> Self {
        self.declared.push(Box::new(move |cluster, stores| {
            let (informers, indexed) = source::open(cluster, &watch, stores);
            let synced = async move { informers.has_synced().await }.boxed();
            let resource = watch.resource.clone();
            let ready = {
                let resource = resource.clone();
                async move { source::ready(&resource, indexed, synced).await }
            };
            (resource, ready.boxed())
        }));
        self
    }

    /// Fills the caches of `T` with these objects instead of the client's, for tests without a server. A second call
    /// for a type replaces the objects.
    pub fn holding<T: Resource>(self, objects: impl IntoIterator<Item = T>) -> Self {
        self.holding_with(Watch::all(), objects)
    }

    /// Like [`Self::holding`], with a watch, for its indices. Its selectors are not applied.
    pub fn holding_with<T: Resource>(mut self, watch: Watch<T>, objects: impl IntoIterator<Item = T>) -> Self {
        let objects = objects.into_iter().map(|object| serde_json::to_value(object).map(versioned)).collect();
        self.fixed.retain(|(resource, _)| *resource != watch.resource);
        self.fixed.push((watch.resource.clone(), objects));
        self.reads_with(watch)
    }

    /// Sets the name of the controller: the source of events and the field manager of writes. Defaults to `test`.
    pub fn named(mut self, controller: impl Into<Arc<str>>) -> Self {
        self.controller = controller.into();
        self
    }

    /// Sets the wall clock. Defaults to the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the randomness. Defaults to the operating system's.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Starts the declared caches and waits until they have synced, for at most 30 s.
    pub async fn start(self) -> Result<TestContext> {
        let Self { client, controller, clock, entropy, declared, fixed } = self;
        let is_fixed = !fixed.is_empty();
        let fixed = fixed.into_iter().map(|(resource, objects)| Ok((resource, objects?.into())));
        let fixed: Vec<(_, Arc<[Value]>)> = fixed.collect::<Result<_>>()?;
        let list_watches = is_fixed.then(|| list_watches(client.clone(), fixed));
        let (sender, queue) = EventSender::new(clock.clone(), entropy.clone());
        let recorder = sender.recorder(Arc::clone(&controller));
        let cluster = Cluster::new(
            client,
            read_your_writes::TIMEOUT,
            list_watches,
            Caches::default(),
            clock.clone(),
            entropy.clone(),
            sender,
        );
        let mut stores = Stores::default();
        let started: Vec<_> = declared.into_iter().map(|declared| declared(&cluster, &mut stores)).collect();
        let client = CachedClient::new(cluster.client_for(&controller), cluster.clone());
        let client = if is_fixed { client.stale() } else { client };
        let shared = Arc::new(Shared { controller, client, clock, entropy, recorder, stores });
        // From here on, dropping it stops the caches.
        let test = TestContext { shared, cluster, events: RecordedEvents::new(queue) };
        let deadline = Instant::now() + SYNC_TIMEOUT;
        for (resource, ready) in started {
            let late = |_elapsed| Error::SyncTimeout { resource: Box::new(resource), timeout: SYNC_TIMEOUT };
            timeout_at(deadline, ready).await.map_err(late)??;
        }
        Ok(test)
    }
}

impl Debug for TestContextBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestContextBuilder").field("controller", &self.controller).finish_non_exhaustive()
    }
}

// === impl TestContext ===

impl TestContext {
    /// Returns a context with a new [reconcile ID](Context::reconcile_id).
    #[must_use]
    pub fn context(&self) -> Context {
        Context::new(Arc::clone(&self.shared), self.shared.entropy.uuid().into())
    }

    /// Returns the captured events.
    pub fn events(&mut self) -> &mut RecordedEvents {
        &mut self.events
    }
}

impl Drop for TestContext {
    /// Contexts may outlive the test context and hold the caches, so they are stopped explicitly.
    fn drop(&mut self) {
        self.cluster.abort();
    }
}

impl Debug for TestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestContext").field("controller", &self.shared.controller).finish_non_exhaustive()
    }
}

// === impl FixedObjects ===

/// Returns the sources of the caches: fixed objects, and the client for other resources.
fn list_watches(client: Client, fixed: Vec<(ApiResource, Arc<[Value]>)>) -> ListWatches {
    Arc::new(move |resource: &ApiResource, namespace: Option<&str>| match fixed.iter().find(|(of, _)| of == resource) {
        Some((_, objects)) => {
            Arc::new(FixedObjects { objects: Arc::clone(objects), namespace: namespace.map(str::to_owned) })
        }
        None => Arc::new(client.list_watch(resource, namespace)) as Arc<dyn ListWatch>,
    })
}

/// Caches ignore objects without a version.
fn versioned(mut object: Value) -> Value {
    if object["metadata"]["resourceVersion"].is_null() {
        object["metadata"]["resourceVersion"] = json!("1");
    }
    object
}

impl FixedObjects {
    fn selected(&self) -> Vec<Bytes> {
        let is_selected = |object: &&Value| {
            self.namespace.as_deref().is_none_or(|namespace| object["metadata"]["namespace"] == namespace)
        };
        self.objects.iter().filter(is_selected).map(|object| object.to_string().into()).collect()
    }
}

impl ListWatch for FixedObjects {
    fn list(
        &self,
        _: ListOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<ListItem, ListWatchError>>, ListWatchError>> {
        let end = ListItem::End(ListMeta { resource_version: 1.into(), ..ListMeta::default() });
        let items: Vec<_> = self.selected().into_iter().map(ListItem::Object).chain([end]).map(Ok).collect();
        async move { Ok(stream::iter(items).boxed()) }.boxed()
    }

    fn watch(
        &self,
        options: WatchOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<RawEvent, ListWatchError>>, ListWatchError>> {
        let mut events = Vec::new();
        if options.initial_events == InitialEvents::Send {
            events.extend(self.selected().into_iter().map(|body| RawEvent { event_type: EventType::Added, body }));
            let end =
                json!({"metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}});
            events.push(RawEvent { event_type: EventType::Bookmark, body: end.to_string().into() });
        }
        async move { Ok(stream::iter(events.into_iter().map(Ok)).chain(stream::pending()).boxed()) }.boxed()
    }
}
