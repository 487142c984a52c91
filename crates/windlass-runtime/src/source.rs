//! Sources of keys: the informer of a watch, filtered by a predicate and mapped to keys for a controller's queue.

use std::{collections::HashSet, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use windlass_api::{ApiResource, Object, ObjectKey, ObjectRef};
use windlass_cache::{AddIndexError, Cached, HandlerOptions, InitialList, Notification, Registrations, Stopped};
use windlass_queue::{AddOptions, DEFAULT_PRIORITY, LOW_PRIORITY, WorkQueue};

use crate::{
    Watch,
    cluster::Cluster,
    handler::Mapper,
    observer::{Change, ReconcileEvent, Trigger},
    predicate::Predicate,
    reconcile::Stores,
    reporter::Reporter,
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
}

/// A started source.
pub(crate) struct Started {
    pub(crate) resource: ApiResource,
    /// Adds the indices of the watch.
    pub(crate) indexed: BoxFuture<'static, Result<(), AddIndexError>>,
    /// Resolves when the initial list is in the store and its keys are in the queue.
    pub(crate) synced: BoxFuture<'static, Result<(), Stopped>>,
    /// `None`: the source only fills the store.
    pub(crate) registrations: Option<Arc<Registrations>>,
}

/// The informer of a watch.
pub(crate) struct InformerSource<T: Object, K> {
    pub(crate) watch: Watch<T>,
    /// `None`: the source only fills the store.
    pub(crate) mapper: Option<Mapper<T, K>>,
}

/// Converts notifications to keys. Runs in the informer's task for this handler. With several informers, calls may run
/// concurrently.
struct Enqueue<T: Object, K> {
    controller: Arc<str>,
    resource: ApiResource,
    predicate: Option<Arc<dyn Predicate<T>>>,
    mapper: Mapper<T, K>,
    queue: WorkQueue<ObjectRef<K>>,
    reporter: Reporter,
}

// === impl InformerSource ===

impl<T: Object, K: Object> Source<K> for InformerSource<T, K> {
    fn start(self: Box<Self>, target: &Target<K>, stores: &mut Stores) -> Started {
        let Self { mut watch, mapper } = *self;
        let indices = std::mem::take(&mut watch.indices);
        let resource = watch.resource.clone();
        let informers = target.cluster.informer(&watch);
        stores.insert(resource.clone(), informers.clone());
        let handle = informers.clone();
        let indexed = async move {
            for index in indices {
                handle.add_index(index).await?;
            }
            Ok(())
        }
        .boxed();
        let Some(mapper) = mapper else {
            let synced = async move { informers.has_synced().await }.boxed();
            return Started { resource, indexed, synced, registrations: None };
        };
        let enqueue = Arc::new(Enqueue {
            controller: Arc::clone(&target.controller),
            resource: resource.clone(),
            predicate: watch.predicate,
            mapper,
            queue: target.queue.clone(),
            reporter: target.reporter.clone(),
        });
        let handler = || {
            let enqueue = Arc::clone(&enqueue);
            move |notification: Notification<T>| enqueue.handle(&notification)
        };
        let registrations = Arc::new(informers.add_handler_with(handler, HandlerOptions::default().quick()));
        let dealt_with = Arc::clone(&registrations);
        let synced = async move { dealt_with.has_synced().await }.boxed();
        Started { resource, indexed, synced, registrations: Some(registrations) }
    }
}

// === impl Enqueue ===

impl<T: Object, K: Object> Enqueue<T, K> {
    /// The informer contains a panic of a predicate or a mapper; that event leads to no keys.
    fn handle(&self, notification: &Notification<T>) {
        let mut keys = Vec::new();
        let (object, change) = match notification {
            Notification::Added { object, .. } => {
                if self.predicate.as_ref().is_none_or(|predicate| predicate.added(object)) {
                    (self.mapper)(object, &mut keys);
                }
                (object, Change::Added)
            }
            Notification::Updated { old, new } => {
                if self.predicate.as_ref().is_none_or(|predicate| predicate.updated(old, new)) {
                    // Both states are mapped, because keys of the old state may lose the object.
                    (self.mapper)(old, &mut keys);
                    (self.mapper)(new, &mut keys);
                }
                (new, Change::Updated)
            }
            Notification::Deleted(deleted) => {
                let object = &deleted.object;
                if self.predicate.as_ref().is_none_or(|predicate| predicate.deleted(object)) {
                    (self.mapper)(object, &mut keys);
                }
                (object, Change::Deleted)
            }
        };
        let priority = priority(notification);
        if keys.len() > 1 {
            let mut seen = HashSet::new();
            keys.retain(|key| seen.insert(key.clone()));
        }
        for key in keys {
            self.trigger(object, change, key.key());
            self.queue.add_with(key, AddOptions::new().priority(priority));
        }
    }

    fn trigger(&self, object: &Cached<T>, change: Change, key: &ObjectKey) {
        let (controller, resource) = (&*self.controller, &self.resource);
        self.reporter.observe(&ReconcileEvent::Triggered(Trigger {
            controller,
            resource,
            object: object.key(),
            change,
            key,
        }));
    }
}

/// Returns the priority of a notification: objects from initial lists and resyncs get a lower priority than changed
/// objects.
fn priority<T: Object>(notification: &Notification<T>) -> i32 {
    match notification {
        Notification::Added { initial: InitialList::Yes, .. } => LOW_PRIORITY,
        Notification::Updated { old, new } if old.meta().resource_version() == new.meta().resource_version() => {
            LOW_PRIORITY
        }
        _ => DEFAULT_PRIORITY,
    }
}
