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

#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use windlass_api::{ApiResource, ListWatch, Object, ObjectKey, Resource, ResourceVersion};

use self::{
    listener::NewListener,
    processor::{Command, Processor, Stored},
};
use crate::{
    error::{AddIndexError, InformerError},
    event_queue::{EventQueue, InOrder, Order},
    handler::{Events, Handler, HandlerOptions, Notification, Registration, RegistrationHandle, Resync},
    indexer::Index,
    journal_reader::{JournalReader, Reads},
    lister::Lister,
    memory::Memory,
    metrics::CacheMetrics,
    options::{InformerOptions, Reporter, Selectors},
    pipe::{Feed, Pipe},
    progress::{Progress, WaitError},
    reflector::Reflector,
    status::{InformerPhase, InformerStatus, Tally},
    store::{Store, StoreWriter},
    synced::{HasSynced, Stopped, SyncSignal},
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
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    resource: Arc<ApiResource>,
    list_watch: Arc<dyn ListWatch>,
    options: InformerOptions,
    memory: Arc<Memory<K>>,
    tally: Arc<Tally>,
    store: Store<K>,
    has_synced: HasSynced,
    progress: Progress,
    /// `None` if the program's own writes are not recorded.
    own_writes: Option<JournalReader>,
    next_id: AtomicU64,
    phase: Mutex<Phase<K>>,
}

/// The phase of an informer.
enum Phase<K> {
    /// Not running yet.
    New(Box<Unstarted<K>>),
    /// Running, with the channel for commands and the pipe to the processor.
    Running(mpsc::UnboundedSender<Command<K>>, Arc<Pipe<K>>),
    /// Stopped permanently.
    Stopped,
}

/// The parts that the processor takes over when the informer starts.
struct Unstarted<K> {
    writer: StoreWriter<K>,
    queue: Box<dyn EventQueue<K>>,
    listeners: Vec<NewListener<K>>,
    synced: SyncSignal,
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
        let tally = Arc::new(Tally::new(Arc::clone(&options.metrics)));
        options.metrics = Arc::clone(&tally) as Arc<dyn CacheMetrics>;
        let resource = Arc::new(resource);
        let memory = Arc::new(Memory::new(Arc::clone(&resource), &options));
        let reporter = Reporter::new(&options);
        let names = resource.gvr().group_resource();
        let writer = StoreWriter::new(move |index, key, source| {
            let (resource, index, key) = (names.clone(), Arc::clone(index), key.clone());
            reporter.report(&InformerError::Index { resource, index, key, source });
        });
        let (synced, has_synced) = SyncSignal::new();
        let store = writer.store().clone();
        let unstarted = Unstarted { writer, queue: Box::new(InOrder::new()), listeners: Vec::new(), synced };
        let own_writes = options.own_writes.as_ref().map(|journals| {
            let journal = journals.of(&resource.group_resource());
            JournalReader::new(journal, options.namespace.as_deref(), options.selectors())
        });
        let shared = Shared {
            resource,
            list_watch,
            options,
            memory,
            tally,
            store,
            has_synced,
            progress: Progress::new(),
            own_writes,
            next_id: AtomicU64::new(0),
            phase: Mutex::new(Phase::New(Box::new(unstarted))),
        };
        Self { shared: Arc::new(shared) }
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
        let queue = Box::new(make(&self.shared.store));
        match &mut *self.shared.phase.lock() {
            Phase::New(unstarted) => unstarted.queue = queue,
            Phase::Running(..) | Phase::Stopped => panic!("the queue of an informer must be set before it is started"),
        }
        self
    }

    /// Adds a handler, before or after the start. It first receives every existing object as added.
    ///
    /// If the informer has stopped, this does nothing, and the registration never becomes synced.
    pub fn add_handler(&self, handler: impl Handler<K>) -> Registration {
        self.add_handler_with(handler, HandlerOptions::default())
    }

    /// Like [`Self::add_handler`], with options.
    pub fn add_handler_with(&self, handler: impl Handler<K>, options: HandlerOptions) -> Registration {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let removed = Arc::new(AtomicBool::new(false));
        let (synced, has_synced) = SyncSignal::new();
        let (ended_sender, ended) = watch::channel(());
        let listener = NewListener {
            id,
            handler: Box::new(handler),
            resync: match options.resync {
                Resync::Inherited => self.shared.options.resync,
                Resync::Never => None,
                Resync::Every(period) => Some(period),
            },
            buffer: options.buffer,
            pace: options.pace,
            removed: Arc::clone(&removed),
            synced,
            ended: ended_sender,
        };
        // A handler that cannot be added is dropped after the lock is released, because dropping it runs user code.
        let refused = match &mut *self.shared.phase.lock() {
            Phase::New(unstarted) => {
                unstarted.listeners.push(listener);
                None
            }
            Phase::Running(commands, _) => commands.send(Command::Add(listener)).err().map(|error| error.0),
            Phase::Stopped => Some(Command::Add(listener)),
        };
        drop(refused);
        let informer = Arc::downgrade(&self.shared);
        let forget = move || {
            if let Some(informer) = informer.upgrade() {
                informer.forget(id);
            }
        };
        let handle = RegistrationHandle { removed, ended, forget: Box::new(forget) };
        Registration { has_synced, handle: Arc::new(handle) }
    }

    /// Adds an index, before or after the start. Listers can use it once this has returned. Adding a clone of an index
    /// again does nothing.
    pub async fn add_index(&self, index: Index<K>) -> Result<(), AddIndexError> {
        let (reply, answer) = oneshot::channel();
        match &mut *self.shared.phase.lock() {
            // The store is still empty, so no user code runs here.
            Phase::New(unstarted) => return unstarted.writer.add_index(index),
            Phase::Running(commands, _) => {
                commands.send(Command::Index(index, reply)).map_err(|_| AddIndexError::Stopped(Stopped))?;
            }
            Phase::Stopped => return Err(AddIndexError::Stopped(Stopped)),
        }
        answer.await.unwrap_or(Err(AddIndexError::Stopped(Stopped)))
    }

    /// Follows the server until `shutdown` is ready or this future is dropped. After that, no task of the informer is
    /// left, and the store can still be read.
    ///
    /// A second run of the same informer returns immediately.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        let Some(Started { writer, listeners, synced, pipe, order, commands }) = self.shared.start() else {
            tracing::warn!(resource = %self.shared.resource.gvr(), "the informer has been started before");
            return;
        };
        let _end = End(&self.shared);
        let options = &self.shared.options;
        let feed = Feed { pipe: Arc::clone(&pipe), store: self.shared.store.clone() };
        let (memory, list_watch) = (Arc::clone(&self.shared.memory), Arc::clone(&self.shared.list_watch));
        let reflector = Reflector::within(memory, list_watch, feed, options);
        let (reflector, compressor) = reflector.leaving_compression();
        let stored = Stored { writer, order, compressor };
        let mut processor = Processor::new(stored, synced, &self.shared.progress, commands, Reporter::new(options));
        for listener in listeners {
            processor.add(listener);
        }
        tokio::select! {
            biased;
            () = shutdown => {}
            () = reflector.run() => {}
            () = processor.run(&pipe) => {}
        }
        processor.finish().await;
    }

    /// Returns a lister of the informer's objects.
    #[must_use]
    pub fn store(&self) -> Lister<K> {
        Lister::new(self.shared.store.clone(), Arc::clone(&self.shared.resource))
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
        self.shared.progress.reach(version, &self.shared.store).await
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
            Some(journal) => self.follow(journal, reads).await,
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
        for (write, is_selected) in journal.pending(&self.shared.store, reads) {
            let store = self.shared.store.clone();
            self.until(move || write.is_shown(&store, is_selected)).await?;
        }
        Ok(())
    }

    /// Returns the informer's selectors.
    pub(crate) fn selectors(&self) -> Selectors<'_> {
        self.shared.options.selectors()
    }

    /// Waits until a condition of the store holds.
    async fn until(&self, is_over: impl Fn() -> bool + Send + 'static) -> Result<(), Stopped> {
        self.shared.progress.until(is_over).await
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
        let Shared { resource, options, memory, tally, store, has_synced, .. } = &*self.shared;
        let (phase, queued) = match &*self.shared.phase.lock() {
            Phase::New(_) => (InformerPhase::New, 0),
            Phase::Stopped => (InformerPhase::Stopped, 0),
            Phase::Running(_, pipe) if has_synced.is_synced() => (InformerPhase::Synced, pipe.len()),
            Phase::Running(_, pipe) => (InformerPhase::Syncing, pipe.len()),
        };
        InformerStatus {
            resource: Arc::clone(resource),
            type_name: std::any::type_name::<K>(),
            namespace: None,
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            phase,
            objects: store.len(),
            version: store.version(),
            queued,
            memory: memory.in_use(),
            activity: tally.read(),
        }
    }

    /// Reports whether the informer ran and ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(*self.shared.phase.lock(), Phase::Stopped)
    }
}

impl<K> Clone for SharedInformer<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
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

// === impl Shared ===

/// The parts needed to run an informer.
struct Started<K> {
    writer: StoreWriter<K>,
    listeners: Vec<NewListener<K>>,
    synced: SyncSignal,
    pipe: Arc<Pipe<K>>,
    order: Order,
    commands: mpsc::UnboundedReceiver<Command<K>>,
}

impl<K: 'static> Shared<K> {
    /// Marks the informer as running and returns its parts; `None` if it was started before.
    fn start(&self) -> Option<Started<K>> {
        // Unbounded: commands are few, and their callers cannot wait.
        let (sender, commands) = mpsc::unbounded_channel();
        let mut phase = self.phase.lock();
        let unstarted = match std::mem::replace(&mut *phase, Phase::Stopped) {
            Phase::New(unstarted) => *unstarted,
            begun => {
                *phase = begun;
                return None;
            }
        };
        let Unstarted { writer, queue, listeners, synced } = unstarted;
        let order = queue.order();
        let pipe = Arc::new(Pipe::new(queue, self.options.queue_capacity));
        *phase = Phase::Running(sender, Arc::clone(&pipe));
        Some(Started { writer, listeners, synced, pipe, order, commands })
    }

    fn forget(&self, id: u64) {
        let forgotten = match &mut *self.phase.lock() {
            Phase::New(unstarted) => {
                let at = unstarted.listeners.iter().position(|listener| listener.id == id);
                at.map(|at| unstarted.listeners.remove(at))
            }
            Phase::Running(commands, _) => {
                // Sending fails only if the informer has stopped. Then there is nothing to remove.
                let _ = commands.send(Command::Remove(id));
                None
            }
            Phase::Stopped => None,
        };
        drop(forgotten); // After the lock is released: dropping a handler runs user code.
    }
}

/// Marks the informer as stopped when it is dropped, however the run ends.
struct End<'i, K>(&'i Shared<K>);

impl<K> Drop for End<'_, K> {
    fn drop(&mut self) {
        *self.0.phase.lock() = Phase::Stopped;
        self.0.progress.stop();
    }
}
