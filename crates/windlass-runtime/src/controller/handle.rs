//! Addition and removal of watches while a controller runs.

use std::{
    fmt::{self, Debug},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};
use windlass_api::{ApiResource, Object, ObjectRef};
use windlass_cache::Cached;

use crate::{
    Error, Result, RunnableContext, Watch,
    handler::{self, Mapper, Owners},
    reconcile::Stores,
    source::{self, AnyMapper, InformerSource, Source, Started, Target},
};

/// Adds watches to a running controller, for kinds that are discovered at run time. Clones are handles to the same
/// controller.
///
/// ```no_run
/// # use windlass_api::{ApiResource, DynamicObject, k8s_openapi::api::core::v1::ConfigMap};
/// # use windlass_runtime::{Action, Context, Controller, Manager, Result, Watch};
/// # use std::sync::Arc;
/// # async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> { Ok(Action::await_change()) }
/// # async fn add(manager: &mut Manager, found: ApiResource) -> Result<()> {
/// let controller = Controller::<ConfigMap>::new();
/// let handle = controller.handle();
/// manager.add(controller.reconcile(reconcile));
/// // Later, in a task or in a reconcile:
/// let watching = handle.owns_with(Watch::<DynamicObject>::dynamic(found)).await?;
/// // When the watch is no longer needed:
/// watching.remove().await;
/// # Ok(())
/// # }
/// ```
///
/// The manager holds the cache of an added watch and shares it with all users of the same watch. Reconcilers read it
/// through [`Context::client`](crate::Context::client). [`Context::store`](crate::Context::store) contains only
/// declared watches.
pub struct ControllerHandle<K> {
    root: ApiResource,
    additions: mpsc::UnboundedSender<Addition<K>>,
}

/// A watch added to a running controller. Dropping it does not end the watch.
#[must_use = "this handle is the only way to remove the watch"]
#[derive(Debug)]
pub struct WatchHandle {
    resource: ApiResource,
    /// Dropping the sender has no effect.
    remove: oneshot::Sender<oneshot::Sender<()>>,
}

/// A request of a handle to its controller.
struct Addition<K> {
    source: Box<dyn Source<K>>,
    /// The receiver of the reply. It is dropped if the caller stops waiting.
    reply: oneshot::Sender<Result<WatchHandle>>,
}

/// The controller's end of the channel.
pub(super) struct Additions<K> {
    sender: mpsc::UnboundedSender<Addition<K>>,
    receiver: mpsc::UnboundedReceiver<Addition<K>>,
}

// === impl ControllerHandle ===

impl<K: Object> ControllerHandle<K> {
    pub(super) fn new(root: ApiResource, additions: &Additions<K>) -> Self {
        Self { root, additions: additions.sender.clone() }
    }

    /// Like [`Controller::owns_with`](crate::Controller::owns_with). The same as `owns_by(watch, Owners::Controller)`.
    pub async fn owns_with<T: Object>(&self, watch: Watch<T>) -> Result<WatchHandle> {
        self.owns_by(watch, Owners::Controller).await
    }

    /// Like [`Controller::owns_by`](crate::Controller::owns_by): watches the objects that `watch` selects and
    /// reconciles their owners of kind `K`.
    ///
    /// Waits until the controller runs and the owners of the existing objects are queued. Returns an error if the cache
    /// does not sync within the controller's limit, or if the controller ends. Dropping the future removes the watch.
    pub async fn owns_by<T: Object>(&self, watch: Watch<T>, owners: Owners) -> Result<WatchHandle> {
        self.add(watch, handler::enqueue_owners(&self.root, owners)).await
    }

    /// Like [`Controller::watches_with`](crate::Controller::watches_with): watches the objects that `watch` selects and
    /// reconciles the keys that `map` returns. Waits and fails like [`owns_by`](Self::owns_by).
    pub async fn watches_with<T, I>(
        &self,
        watch: Watch<T>,
        map: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<WatchHandle>
    where
        T: Object,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.add(watch, handler::enqueue_mapped(map)).await
    }

    async fn add<T: Object>(&self, watch: Watch<T>, mapper: Mapper<T, K>) -> Result<WatchHandle> {
        let resource = watch.resource.clone();
        let (reply, answer) = oneshot::channel();
        let source = Box::new(InformerSource { cluster: None, watch, mapper: Some(AnyMapper::Direct(mapper)) });
        // If the request is rejected or dropped, the reply channel closes.
        let _ = self.additions.send(Addition { source, reply });
        answer.await.unwrap_or_else(|_ended| Err(Error::ControllerStopped { resource: Box::new(resource) }))
    }
}

impl<K> Clone for ControllerHandle<K> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), additions: self.additions.clone() }
    }
}

impl<K> Debug for ControllerHandle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle").field("root", &self.root).finish_non_exhaustive()
    }
}

// === impl WatchHandle ===

impl WatchHandle {
    /// Returns the watched resource.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Removes the watch. When this method returns, no further event of it leads to a key. Keys that are already queued
    /// remain.
    ///
    /// The cache continues to run for other users; see [`Cluster::forget`](crate::Cluster::forget).
    pub async fn remove(self) {
        let (done, removed) = oneshot::channel();
        // If the request is not received, the controller has ended, and its watches have ended before it.
        let _ = self.remove.send(done);
        let _ = removed.await;
    }
}

// === impl Additions ===

impl<K: Object> Additions<K> {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver }
    }

    /// Starts requested watches until the controller stops. No watch remains afterwards.
    pub(super) async fn serve(self, target: Target<K>, limit: Duration, context: RunnableContext) {
        let Self { sender, mut receiver } = self;
        drop(sender); // When the last handle is gone, nothing more is asked for.
        let mut watches = JoinSet::new();
        loop {
            let addition = tokio::select! {
                biased;
                () = context.stop().requested() => break,
                addition = receiver.recv() => addition,
                Some(_ended) = watches.join_next() => continue,
            };
            let Some(Addition { source, reply }) = addition else { break };
            // Not added to `Context::store`, which is the same for all calls.
            let started = source.start(&target, &mut Stores::default());
            watches.spawn(watch(started, reply, limit, context.clone()));
        }
        receiver.close();
        while watches.join_next().await.is_some() {}
    }
}

/// Runs an added watch until its removal or the controller's stop.
async fn watch(
    started: Started,
    mut reply: oneshot::Sender<Result<WatchHandle>>,
    limit: Duration,
    context: RunnableContext,
) {
    // Added watches have no asynchronous mappers.
    let Started { resource, indexed, synced, registrations, mapping: _ } = started;
    let ready = timeout(limit, source::ready(&resource, indexed, synced));
    let synced = tokio::select! {
        biased;
        () = context.stop().requested() => None,
        () = reply.closed() => None,
        synced = ready => Some(synced),
    };
    let mut removed = None;
    match synced {
        None => {}
        Some(Ok(Ok(()))) => {
            let (remove, removal) = oneshot::channel();
            if reply.send(Ok(WatchHandle { resource, remove })).is_ok() {
                removed = until_removed(removal, &context).await;
            }
        }
        Some(Ok(Err(error))) => _ = reply.send(Err(error)),
        Some(Err(_elapsed)) => {
            let error = Error::SyncTimeout { resource: Box::new(resource), timeout: limit };
            let _ = reply.send(Err(error));
        }
    }
    if let Some(registrations) = registrations {
        registrations.shut_down().await;
    }
    // Sent last; dropping the sender also notifies the caller.
    drop(removed);
}

/// Returns the sender of the removal confirmation when the watch is removed, or `None` when the controller stops.
async fn until_removed(
    removal: oneshot::Receiver<oneshot::Sender<()>>,
    context: &RunnableContext,
) -> Option<oneshot::Sender<()>> {
    let removal = async {
        match removal.await {
            Ok(done) => done,
            // The handle was dropped; the watch continues.
            Err(_dropped) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = context.stop().requested() => None,
        done = removal => Some(done),
    }
}
