//! Sources of keys: the informer of a watch, filtered by a predicate and mapped to keys for a controller's queue.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::mpsc;
use windlass_api::{ApiResource, Object, ObjectRef};
use windlass_cache::{AddIndexError, HandlerOptions, InformerSet, Notification, Registrations, Stopped};
use windlass_queue::WorkQueue;

use crate::{
    Error, Result, Watch,
    cluster::Cluster,
    handler::Mapper,
    key_sink::KeySink,
    mapping::{AsyncMapper, MapperContext},
    predicate::Predicate,
    reconcile::Stores,
    reporter::Reporter,
    trigger_notes::TriggerNotes,
};

/// A source with its object type erased.
pub(crate) trait Source<K: Object>: Send {
    /// Subscribes to the informer and registers its store. Does not wait.
    fn start(self: Box<Self>, target: &Target<K>, stores: &mut Stores) -> Started;
}

/// The destination of keys.
pub(crate) struct Target<K> {
    pub(crate) cluster: Cluster,
    pub(crate) controller: Arc<str>,
    pub(crate) queue: WorkQueue<ObjectRef<K>>,
    pub(crate) reporter: Reporter,
    pub(crate) notes: TriggerNotes,
    /// The time from the first change of an object to its reconcile.
    pub(crate) debounce: Duration,
    /// The context of asynchronous mappers.
    pub(crate) mapper_context: MapperContext,
}

/// A started source.
pub(crate) struct Started {
    pub(crate) resource: ApiResource,
    /// Adds the indices of the watch.
    pub(crate) indexed: BoxFuture<'static, Result<(), AddIndexError>>,
    /// Resolves when the initial list is in the store, and its keys are in the queue or before an asynchronous mapper.
    pub(crate) synced: BoxFuture<'static, Result<(), Stopped>>,
    /// `None`: the source only fills the store.
    pub(crate) registrations: Option<Arc<Registrations>>,
    /// The calls of an asynchronous mapper. Ends when the registrations are shut down; `None` for other mappers.
    pub(crate) mapping: Option<BoxFuture<'static, ()>>,
}

/// The informer of a watch.
pub(crate) struct InformerSource<T: Object, K> {
    /// `None`: the manager's cluster.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) watch: Watch<T>,
    /// `None`: the source only fills the store.
    pub(crate) mapper: Option<AnyMapper<T, K>>,
}

/// A function from changes to keys.
pub(crate) enum AnyMapper<T: Object, K> {
    /// Called by the informer's task, for each state of the object.
    Direct(Mapper<T, K>),
    /// Called by a task of the controller, for each change.
    Async(AsyncMapper<T, K>),
}

/// Receives the notifications of an informer, in its task. With several informers, calls may run concurrently.
struct Receiver<T: Object, K> {
    predicate: Option<Arc<dyn Predicate<T>>>,
    next: Next<T, K>,
}

/// The destination of the notifications that match the predicate.
enum Next<T: Object, K> {
    Map(Mapper<T, K>, KeySink<K>),
    Queue(mpsc::UnboundedSender<Notification<T>>),
}

// === impl InformerSource ===

impl<T: Object, K: Object> Source<K> for InformerSource<T, K> {
    fn start(self: Box<Self>, target: &Target<K>, stores: &mut Stores) -> Started {
        let Self { cluster, watch, mapper } = *self;
        let resource = watch.resource.clone();
        let (informers, indexed) = match &cluster {
            None => open(&target.cluster, &watch, stores),
            // The stores of a context are those of the manager's cluster.
            Some(other) => {
                let informers = other.informer(&watch);
                (informers.clone(), indexed(informers, &watch))
            }
        };
        let Some(mapper) = mapper else {
            let synced = async move { informers.has_synced().await }.boxed();
            return Started { resource, indexed, synced, registrations: None, mapping: None };
        };
        let keys = KeySink {
            controller: Arc::clone(&target.controller),
            resource: resource.clone(),
            queue: target.queue.clone(),
            reporter: target.reporter.clone(),
            notes: target.notes.clone(),
            debounce: target.debounce,
        };
        let (next, mapping) = match mapper {
            AnyMapper::Direct(mapper) => (Next::Map(mapper, keys), None),
            AnyMapper::Async(mapper) => {
                let (sender, changes) = mpsc::unbounded_channel();
                let mapping = mapper.run(changes, target.mapper_context.clone(), keys);
                (Next::Queue(sender), Some(mapping))
            }
        };
        let receiver = Arc::new(Receiver { predicate: watch.predicate, next });
        let handler = || {
            let receiver = Arc::clone(&receiver);
            move |notification: Notification<T>| receiver.handle(notification)
        };
        let registrations = Arc::new(informers.add_handler_with(handler, HandlerOptions::default().quick()));
        let dealt_with = Arc::clone(&registrations);
        let synced = async move { dealt_with.has_synced().await }.boxed();
        Started { resource, indexed, synced, registrations: Some(registrations), mapping }
    }
}

/// Starts the informers of a watch and registers their store. Returns a future that adds the indices of the watch.
pub(crate) fn open<T: Object>(
    cluster: &Cluster,
    watch: &Watch<T>,
    stores: &mut Stores,
) -> (InformerSet<T>, BoxFuture<'static, Result<(), AddIndexError>>) {
    let informers = cluster.informer(watch);
    stores.insert(watch.resource.clone(), informers.clone());
    (informers.clone(), indexed(informers, watch))
}

/// Adds the indices of a watch to its informers.
fn indexed<T: Object>(informers: InformerSet<T>, watch: &Watch<T>) -> BoxFuture<'static, Result<(), AddIndexError>> {
    let indices = watch.indices.clone();
    async move {
        for index in indices {
            informers.add_index(index).await?;
        }
        Ok(())
    }
    .boxed()
}

/// Resolves when a source has added its indices and its initial list has been processed.
pub(crate) async fn ready(
    resource: &ApiResource,
    indexed: BoxFuture<'static, Result<(), AddIndexError>>,
    synced: BoxFuture<'static, Result<(), Stopped>>,
) -> Result<()> {
    indexed.await.map_err(|source| Error::Index { resource: Box::new(resource.clone()), source })?;
    synced.await.map_err(|_stopped| Error::CacheStopped { resource: Box::new(resource.clone()) })
}

// === impl Receiver ===

impl<T: Object, K: Object> Receiver<T, K> {
    /// The informer contains a panic of a predicate or a mapper; that event leads to no keys.
    fn handle(&self, notification: Notification<T>) {
        if !self.matches(&notification) {
            return;
        }
        match &self.next {
            Next::Map(mapper, sink) => {
                let mut keys = Vec::new();
                match &notification {
                    Notification::Added { object, .. } => mapper(object, &mut keys),
                    // Both states are mapped, because keys of the old state may lose the object.
                    Notification::Updated { old, new } => {
                        mapper(old, &mut keys);
                        mapper(new, &mut keys);
                    }
                    Notification::Deleted(deleted) => mapper(&deleted.object, &mut keys),
                }
                sink.add(&notification, keys);
            }
            // If the receiver is gone, the controller has stopped.
            Next::Queue(sender) => _ = sender.send(notification),
        }
    }

    fn matches(&self, notification: &Notification<T>) -> bool {
        let Some(predicate) = &self.predicate else { return true };
        match notification {
            Notification::Added { object, .. } => predicate.added(object),
            Notification::Updated { old, new } => predicate.updated(old, new),
            Notification::Deleted(deleted) => predicate.deleted(&deleted.object),
        }
    }
}
