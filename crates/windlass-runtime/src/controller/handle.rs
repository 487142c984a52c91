//! Watches that are added to a controller, and removed, while it runs.

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

use super::life;
use crate::{
    Error, Result, Running, Watch,
    handler::{self, Mapper, Owners},
    reconcile::Stores,
    source::{Informed, Source, Started, Target},
};

/// Adds watches to a controller while it runs: for kinds that are known only then. Clones are handles on the same.
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
/// // … and later, in a task or in a reconcile:
/// let watching = handle.owns_with(Watch::<DynamicObject>::dynamic(found)).await?;
/// // … until it is not needed any more:
/// watching.remove().await;
/// # Ok(())
/// # }
/// ```
///
/// What is added has its cache in the manager, shared with whoever watches or reads the same; reconcilers read it through
/// [`Context::client`](crate::Context::client), not [`Context::store`](crate::Context::store), which has what was declared.
pub struct ControllerHandle<K> {
    root: ApiResource,
    additions: mpsc::UnboundedSender<Addition<K>>,
}

/// A watch that was added to a running controller. Dropped, the watch goes on.
#[must_use = "a watch is removed by this alone"]
#[derive(Debug)]
pub struct Watching {
    resource: ApiResource,
    /// Dropped unsent, nothing happens.
    remove: oneshot::Sender<oneshot::Sender<()>>,
}

/// What a handle asks its controller for.
struct Addition<K> {
    source: Box<dyn Source<K>>,
    /// Who asked; gone when it has no patience any more.
    reply: oneshot::Sender<Result<Watching>>,
}

/// The controller's end.
pub(super) struct Additions<K> {
    sender: mpsc::UnboundedSender<Addition<K>>,
    receiver: mpsc::UnboundedReceiver<Addition<K>>,
}

// === impl ControllerHandle ===

impl<K: Object> ControllerHandle<K> {
    pub(super) fn new(root: ApiResource, additions: &Additions<K>) -> Self {
        Self { root, additions: additions.sender.clone() }
    }

    /// As [`Controller::owns_with`](crate::Controller::owns_with). The same as `owns_by(watch, Owners::Controller)`.
    pub async fn owns_with<T: Object>(&self, watch: Watch<T>) -> Result<Watching> {
        self.owns_by(watch, Owners::Controller).await
    }

    /// As [`Controller::owns_by`](crate::Controller::owns_by): from now on the objects that `watch` selects trigger the
    /// `K`s among their owners.
    ///
    /// Waits until the controller runs, and the objects that are there have triggered theirs. Fails when the cache does not
    /// come within the controller's limit for caches, and when the controller ends before. A future that is dropped
    /// takes the watch back.
    pub async fn owns_by<T: Object>(&self, watch: Watch<T>, owners: Owners) -> Result<Watching> {
        self.add(watch, handler::enqueue_owners(&self.root, owners)).await
    }

    /// As [`Controller::watches_with`](crate::Controller::watches_with): from now on the objects that `watch` selects
    /// trigger the keys that `map` makes of them. Waits, and fails, as [`owns_by`](Self::owns_by) does.
    pub async fn watches_with<T, I>(
        &self,
        watch: Watch<T>,
        map: impl Fn(&Cached<T>) -> I + Send + Sync + 'static,
    ) -> Result<Watching>
    where
        T: Object,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.add(watch, handler::enqueue_mapped(map)).await
    }

    async fn add<T: Object>(&self, watch: Watch<T>, mapper: Mapper<T, K>) -> Result<Watching> {
        let resource = watch.resource.clone();
        let (reply, answer) = oneshot::channel();
        // Refused or dropped, the reply ends.
        let _ = self.additions.send(Addition { source: Box::new(Informed { watch, mapper: Some(mapper) }), reply });
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

// === impl Watching ===

impl Watching {
    /// What is watched.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Removes the watch: when this has returned, no event of it becomes a key any more. Keys that it has made stay.
    ///
    /// Its cache goes on for others who use it; see [`Cluster::forget`](crate::Cluster::forget).
    pub async fn remove(self) {
        let (done, removed) = oneshot::channel();
        // Not taken: the controller has ended, and its watches before it.
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

    /// Starts what is asked for, until the controller is to stop. No watch is left then.
    pub(super) async fn serve(self, target: Target<K>, limit: Duration, running: Running) {
        let Self { sender, mut receiver } = self;
        drop(sender); // When the last handle is gone, nothing more is asked for.
        let mut watches = JoinSet::new();
        loop {
            let addition = tokio::select! {
                biased;
                () = running.stop().requested() => break,
                addition = receiver.recv() => addition,
                Some(_ended) = watches.join_next() => continue,
            };
            let Some(Addition { source, reply }) = addition else { break };
            // Not for `Context::store`, which is the same in all calls.
            let started = source.start(&target, &mut Stores::default());
            watches.spawn(watch(started, reply, limit, running.clone()));
        }
        receiver.close();
        while watches.join_next().await.is_some() {}
    }
}

/// The life of a watch that was added.
async fn watch(started: Started, mut reply: oneshot::Sender<Result<Watching>>, limit: Duration, running: Running) {
    let Started { resource, indexed, synced, registrations } = started;
    let ready = timeout(limit, life::ready(&resource, indexed, synced));
    let synced = tokio::select! {
        biased;
        () = running.stop().requested() => None,
        () = reply.closed() => None,
        synced = ready => Some(synced),
    };
    let mut removed = None;
    match synced {
        None => {}
        Some(Ok(Ok(()))) => {
            let (remove, removal) = oneshot::channel();
            if reply.send(Ok(Watching { resource, remove })).is_ok() {
                removed = until_removed(removal, &running).await;
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
    // Told last: dropped, it has been told as well.
    drop(removed);
}

/// Whoever removes the watch, to be told when it is done; `None` when the controller is to stop.
async fn until_removed(
    removal: oneshot::Receiver<oneshot::Sender<()>>,
    running: &Running,
) -> Option<oneshot::Sender<()>> {
    let removal = async {
        match removal.await {
            Ok(done) => done,
            // The handle was dropped; the watch goes on.
            Err(_dropped) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = running.stop().requested() => None,
        done = removal => Some(done),
    }
}
