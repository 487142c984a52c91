//! The informer: one reflector, one store, many handlers.
//!
//! ```text
//! reflector ─▶ pipe (event queue) ─▶ processor ─▶ store
//!                                        ├─▶ queue ─▶ handler task
//!                                        └─▶ queue ─▶ handler task
//! ```
//!
//! The reflector and the processor run on the task that runs the informer. The pipe between them is bounded, so that
//! the watch waits if the store cannot keep up. Each handler has its own task and queue.
//!
//! The processor executes commands (add a handler, remove a handler, add an index) between two deltas. So each handler
//! sees a snapshot and every later change, and no change twice.

mod listener;
mod processor;
mod untyped;

#[cfg(test)]
mod tests;

use std::{fmt, marker::PhantomData, sync::Arc};

use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use windlass_api::{ApiResource, ListWatch, Object, ObjectKey, Resource, ResourceVersion};

use self::untyped::UntypedInformer;
use crate::{
    cached::{Cached, Untyped},
    error::AddIndexError,
    event_queue::{EventQueue, TypedQueue},
    handler::{Events, Handler, HandlerOptions, Notification, Registration},
    indexer::Index,
    journal_reader::{JournalReader, Reads},
    lister::Lister,
    options::{InformerOptions, Selectors},
    progress::WaitError,
    status::InformerStatus,
    store::Store,
    synced::{HasSynced, Stopped},
};

/// A cache of the objects of one resource that follows the server and notifies handlers of changes.
///
/// Clones are handles of one informer. It works while [`run`](Self::run) is awaited, and can only be run once.
///
/// # What is guaranteed
///
/// - The store shows a state that the server had. Only a queue other than the default one can show a mixture of states
///   during the first list. The store follows the server while it is reachable, and waits while it is not.
/// - Handlers are notified of a change after the store and all indices show it; see [`Handler`] for more guarantees.
/// - The informer reports unreadable objects, an unreachable server, and panics of handlers, index functions and hooks,
///   and continues.
///
/// # What is not guaranteed
///
/// - Handlers don't see every state of an object. A handler must compare the current state with the desired state and
///   not count events.
/// - Objects that a relist did not change are not delivered, except by a resync.
/// - A replacement of the server's storage may go unnoticed until the next relist. The informer detects it earlier if
///   it notices an outage (a refused watch, or one that ended early) or receives an older version.
pub struct SharedInformer<K> {
    shared: Arc<UntypedInformer>,
    kind: PhantomData<fn() -> K>,
}

// === impl SharedInformer ===

impl<K: Resource> SharedInformer<K> {
    /// Creates an informer of a kind that is known at compile time. `list_watch` must list and watch that kind.
    pub fn new(list_watch: Arc<dyn ListWatch>, options: InformerOptions) -> Self {
        Self::for_resource(K::api_resource(), list_watch, options)
    }
}

impl<K: Object> SharedInformer<K> {
    /// Creates an informer of a kind that is known only at run time. `K` is usually `DynamicObject` or `PartialObject`.
    pub fn for_resource(resource: ApiResource, list_watch: Arc<dyn ListWatch>, mut options: InformerOptions) -> Self {
        options.content = K::CONTENT;
        let decode = |object: &Cached<Untyped>| drop(object.get_as::<K>());
        let shared = UntypedInformer::new(resource, std::any::type_name::<K>(), decode, list_watch, options);
        Self { shared: Arc::new(shared), kind: PhantomData }
    }

    /// Replaces the queue between reflector and store. `make` receives the store, for queues that compare changes with
    /// the stored objects.
    ///
    /// ```
    /// # use windlass_api::k8s_openapi::api::core::v1::Pod;
    /// # use windlass_cache::SharedInformer;
    /// use windlass_cache::collections::OneByOne;
    ///
    /// # fn example(informer: SharedInformer<Pod>) -> SharedInformer<Pod> {
    /// informer.with_queue(OneByOne::new)
    /// # }
    /// ```
    ///
    /// # Panics
    /// Panics if the informer has been started.
    #[must_use]
    #[track_caller]
    pub fn with_queue<Q: EventQueue<K>>(self, make: impl FnOnce(&Store<K>) -> Q) -> Self {
        let queue = make(&self.shared.store.clone().cast());
        self.shared.set_queue(Box::new(TypedQueue::new(queue)));
        self
    }

    /// Adds a handler, before or after the start. It first receives every existing object as added.
    ///
    /// If the informer has stopped, this does nothing, and the registration never becomes synced.
    pub fn add_handler(&self, handler: impl Handler<K>) -> Registration {
        self.add_handler_with(handler, HandlerOptions::default())
    }

    /// Like [`Self::add_handler`], with options.
    pub fn add_handler_with(&self, mut handler: impl Handler<K>, options: HandlerOptions) -> Registration {
        let handler = move |notification: Notification<Untyped>| handler.handle(notification.cast());
        self.shared.add_handler(Box::new(handler), options)
    }

    /// Adds an index, before or after the start. Listers can use it once this has returned. Adding a clone of an index
    /// again does nothing.
    pub async fn add_index(&self, index: Index<K>) -> Result<(), AddIndexError> {
        self.shared.add_index(index.cast()).await
    }

    /// Follows the server until `shutdown` is ready or this future is dropped. After that, no task of the informer is
    /// left, and the store can still be read.
    ///
    /// A second run of the same informer returns immediately.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        self.shared.run(shutdown.boxed()).await;
    }

    /// Returns a lister of the informer's objects.
    #[must_use]
    pub fn store(&self) -> Lister<K> {
        Lister::new(self.shared.store.clone().cast(), Arc::clone(&self.shared.resource))
    }

    /// Returns a future that is ready once the store holds the first list. It returns an error if the informer stops
    /// before.
    pub fn has_synced(&self) -> HasSynced {
        self.shared.has_synced.clone()
    }

    /// Waits until the store shows everything up to `version`. That is usually the version of an object that the
    /// program has just written: later reads return this write or a newer state.
    ///
    /// A write to an object that the informer does not select causes no event. Then this waits for a bookmark, which
    /// servers send about once a minute. A server that lost its storage may never reach the version. Set a timeout.
    ///
    /// ```
    /// # use windlass_api::{ObjectExt, ResourceVersion, k8s_openapi::api::core::v1::ConfigMap};
    /// # use windlass_cache::SharedInformer;
    /// # async fn example(settings: SharedInformer<ConfigMap>, written: ConfigMap) -> Result<(), Box<dyn std::error::Error>> {
    /// let version = ResourceVersion::from(written.resource_version().unwrap_or_default());
    /// settings.wait_for(&version).await?;
    /// assert!(settings.store().get(&written.object_ref()).is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_for(&self, version: &ResourceVersion) -> Result<(), WaitError> {
        self.shared.wait_for(version).await
    }

    /// Waits until the store shows the program's own writes to the objects that are about to be read, or newer states.
    /// A deleted object is then absent or terminating. Returns immediately if no write is pending or
    /// [`InformerOptions::own_writes`] is not set.
    ///
    /// Does not wait for an object that the store does not have and the informer may not select. That is unknown for a
    /// field selector on fields other than name and namespace. Set a timeout; [`Self::unseen_own_write`] names the
    /// missing object.
    pub async fn show_own_writes(&self, reads: Reads<'_>) -> Result<(), Stopped> {
        match &self.shared.own_writes {
            Some(journal) => self.shared.follow(journal, reads).await,
            None => Ok(()),
        }
    }

    /// Returns the first object of a read whose last own write the store does not show.
    #[must_use]
    pub fn unseen_own_write(&self, reads: Reads<'_>) -> Option<ObjectKey> {
        let pending = self.shared.own_writes.as_ref()?.pending(&self.shared.store, reads);
        pending.first().map(|(write, _)| write.key().clone())
    }

    pub(crate) async fn follow(&self, journal: &JournalReader, reads: Reads<'_>) -> Result<(), Stopped> {
        self.shared.follow(journal, reads).await
    }

    /// Returns the informer's selectors.
    pub(crate) fn selectors(&self) -> Selectors<'_> {
        self.shared.options.selectors()
    }

    /// Returns all notifications as a stream.
    pub fn events(&self) -> Events<K> {
        let (sender, notifications) = mpsc::unbounded_channel();
        // Sending fails only if the stream was dropped; the handler is then removed soon.
        let registration = self.add_handler(move |notification| _ = sender.send(notification));
        Events { notifications, registration }
    }

    /// Waits for a notification that matches `done`. Every existing object is delivered first, as added. Go's
    /// `UntilWithSync`.
    ///
    /// ```
    /// # use windlass_api::k8s_openapi::api::core::v1::Pod;
    /// # use windlass_cache::{Notification, SharedInformer};
    /// # async fn example(pods: SharedInformer<Pod>) -> Result<(), windlass_cache::Stopped> {
    /// let gone = pods.wait_until(|news| matches!(news, Notification::Deleted(_)) && &*news.key().name == "web-0");
    /// gone.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_until(&self, mut done: impl FnMut(&Notification<K>) -> bool) -> Result<Notification<K>, Stopped> {
        let mut events = self.events();
        while let Some(notification) = events.next().await {
            if done(&notification) {
                return Ok(notification);
            }
        }
        Err(Stopped)
    }

    /// Returns the resource of the objects.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.shared.resource
    }

    /// Returns the informer's current content, memory use and activity. Cheap enough to be called every second.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        self.shared.status()
    }

    /// Reports whether the informer ran and ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.is_stopped()
    }
}

impl<K> Clone for SharedInformer<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), kind: PhantomData }
    }
}

impl<K> fmt::Debug for SharedInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer")
            .field("resource", &self.shared.resource)
            .field("store", &self.shared.store)
            .field("has_synced", &self.shared.has_synced)
            .finish_non_exhaustive()
    }
}
