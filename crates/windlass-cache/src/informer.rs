//! One reflector, one store, many handlers.
//!
//! ```text
//! reflector ─▶ pipe (event queue) ─▶ processor ─▶ store
//!                                        ├─▶ queue ─▶ handler task
//!                                        └─▶ queue ─▶ handler task
//! ```
//!
//! Reflector and processor run on the task that runs the informer; the pipe between them is bounded, so that the watch
//! waits when the store cannot keep up. Each handler has a task and a queue of its own. Commands (a new handler, a removed
//! one, a new index) reach the processor between two deltas, so that each handler sees a snapshot and every change after
//! it, and no change twice.

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
    lister::Lister,
    memory::Memory,
    metrics::CacheMetrics,
    options::{InformerOptions, Reporter, Selectors},
    own_writes::{Follower, Reads},
    pipe::{Feed, Pipe},
    progress::{Progress, WaitError},
    reflector::Reflector,
    status::{InformerPhase, InformerStatus, Tally},
    store::{Store, StoreWriter},
    synced::{HasSynced, Stopped, SyncSignal},
};

/// A cache of the objects of one resource that follows the server, and tells its handlers what changes.
///
/// Clones are handles on one informer. It works while [`run`](Self::run) is awaited, and once.
///
/// # What is guaranteed
///
/// - The store shows a state that the server had, or a mixture of such states during the first list only if the queue is
///   not the default one; it follows the server as long as the server can be reached, and waits for it otherwise.
/// - Handlers are told of a change after the store and all indices show it; see [`Handler`] for the rest.
/// - An object that cannot be read, a handler, an index function or a hook that panics, a server that is away: each is
///   reported, and the informer goes on.
///
/// # What is not
///
/// - Not every state of an object is seen. A handler must compare what is with what should be, and not count events.
/// - Objects that are equal before and after a list again are not told, except as a resync.
/// - A server whose storage was replaced is found out when the informer has noticed that it was away (a watch that was refused,
///   or cut before its time), or it tells an older version; otherwise not before something else leads to a list.
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
    /// `None`: nobody records the program's own writes.
    own_writes: Option<Follower>,
    next_id: AtomicU64,
    phase: Mutex<Phase<K>>,
}

/// Where an informer is in its life.
enum Phase<K> {
    /// Not run yet.
    New(Box<Fresh<K>>),
    /// Being run by somebody, who takes commands, and what came up the pipe.
    Running(mpsc::UnboundedSender<Command<K>>, Arc<Pipe<K>>),
    /// Run to its end. There is no way back.
    Stopped,
}

/// What is handed over to the processor.
struct Fresh<K> {
    writer: StoreWriter<K>,
    queue: Box<dyn EventQueue<K>>,
    listeners: Vec<NewListener<K>>,
    synced: SyncSignal,
}

// === impl SharedInformer ===

impl<K: Resource> SharedInformer<K> {
    /// An informer of a kind that is known at compile time. `list_watch` must list and watch that kind.
    pub fn new(list_watch: Arc<dyn ListWatch>, options: InformerOptions) -> Self {
        Self::for_resource(K::api_resource(), list_watch, options)
    }
}

impl<K: Object> SharedInformer<K> {
    /// An informer of a kind that is known only now; `K` is usually `DynamicObject` or `PartialObject`.
    pub fn for_resource(resource: ApiResource, list_watch: Arc<dyn ListWatch>, mut options: InformerOptions) -> Self {
        options.content = K::CONTENT;
        let tally = Arc::new(Tally::new(Arc::clone(&options.metrics)));
        options.metrics = Arc::clone(&tally) as Arc<dyn CacheMetrics>;
        let resource = Arc::new(resource);
        let memory = Arc::new(Memory::new(Arc::clone(&resource), &options, |object| drop(object.get())));
        let reporter = Reporter::new(&options);
        let names = resource.gvr().group_resource();
        let writer = StoreWriter::new(move |index, key, source| {
            let (resource, index, key) = (names.clone(), Arc::clone(index), key.clone());
            reporter.report(&InformerError::Index { resource, index, key, source });
        });
        let (synced, has_synced) = SyncSignal::new();
        let store = writer.store().clone();
        let fresh = Fresh { writer, queue: Box::new(InOrder::new()), listeners: Vec::new(), synced };
        let own_writes = options.own_writes.as_ref().map(|journals| {
            let journal = journals.of(&resource.group_resource());
            Follower::new(journal, options.namespace.as_deref(), options.selectors())
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
            phase: Mutex::new(Phase::New(Box::new(fresh))),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Puts another queue between reflector and store; `make` gets the store, for queues that compare with what is known.
    ///
    /// ```
    /// # use windlass_api::k8s_openapi::api::core::v1::Pod;
    /// # use windlass_cache::SharedInformer;
    /// use windlass_cache::stores::OneByOne;
    ///
    /// # fn example(informer: SharedInformer<Pod>) -> SharedInformer<Pod> {
    /// informer.with_queue(OneByOne::new)
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the informer has been started.
    #[must_use]
    #[track_caller]
    pub fn with_queue<Q: EventQueue<K>>(self, make: impl FnOnce(&Store<K>) -> Q) -> Self {
        let queue = Box::new(make(&self.shared.store));
        match &mut *self.shared.phase.lock() {
            Phase::New(fresh) => fresh.queue = queue,
            Phase::Running(..) | Phase::Stopped => panic!("the queue of an informer is chosen before it is started"),
        }
        self
    }

    /// Adds a handler, before or after the start. It is first told every object that is there, as added.
    ///
    /// On an informer that has stopped this does nothing, and the registration never becomes synced.
    pub fn add_handler(&self, handler: impl Handler<K>) -> Registration {
        self.add_handler_with(handler, HandlerOptions::default())
    }

    /// As [`Self::add_handler`], with options.
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
        // What cannot be taken in is dropped after the lock: dropping a handler is user code.
        let refused = match &mut *self.shared.phase.lock() {
            Phase::New(fresh) => {
                fresh.listeners.push(listener);
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

    /// Adds an index, before or after the start. Listers can be asked for it once this has returned. Adding a clone of an
    /// index again does nothing.
    pub async fn add_index(&self, index: Index<K>) -> Result<(), AddIndexError> {
        let (reply, answer) = oneshot::channel();
        match &mut *self.shared.phase.lock() {
            // Nothing is stored yet, so that no user code runs here.
            Phase::New(fresh) => return fresh.writer.add_index(index),
            Phase::Running(commands, _) => {
                commands.send(Command::Index(index, reply)).map_err(|_| AddIndexError::Stopped(Stopped))?;
            }
            Phase::Stopped => return Err(AddIndexError::Stopped(Stopped)),
        }
        answer.await.unwrap_or(Err(AddIndexError::Stopped(Stopped)))
    }

    /// Follows the server until `shutdown` is ready, or this future is dropped; then no task of the informer is left.
    /// The store can still be read.
    ///
    /// A second run of the same informer returns at once.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        let Some(Begun { writer, listeners, synced, pipe, order, commands }) = self.shared.begin() else {
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

    /// Reads what the informer holds.
    #[must_use]
    pub fn store(&self) -> Lister<K> {
        Lister::new(self.shared.store.clone(), Arc::clone(&self.shared.resource))
    }

    /// Ready once the store holds the first list. Fails if the informer stops before.
    pub fn has_synced(&self) -> HasSynced {
        self.shared.has_synced.clone()
    }

    /// Waits until the store shows everything up to `version`, usually that of an object that the program has just
    /// written: what it reads then is its own write or later.
    ///
    /// A write that the informer's selectors leave out has no event; then a bookmark must come first, about once a minute. A
    /// server that lost its storage may never get there. Set a timeout.
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

    /// Waits until the store shows the program's own writes to the objects that are about to be read, or something newer; a
    /// deleted object is gone or terminating then. At once if nothing is pending, or without
    /// [`InformerOptions::own_writes`].
    ///
    /// An object that the informer does not select is not waited for, nor is one that it may not select: by fields other than
    /// name and namespace. Set a timeout; [`Self::unseen_own_write`] names the object that is missing.
    pub async fn show_own_writes(&self, reads: Reads<'_>) -> Result<(), Stopped> {
        match &self.shared.own_writes {
            Some(follower) => self.follow(follower, reads).await,
            None => Ok(()),
        }
    }

    /// Returns the first object among those of a read whose last own write the store does not show.
    #[must_use]
    pub fn unseen_own_write(&self, reads: Reads<'_>) -> Option<ObjectKey> {
        let pending = self.shared.own_writes.as_ref()?.pending(&self.shared.store, reads);
        pending.first().map(|(write, _)| write.key().clone())
    }

    pub(crate) async fn follow(&self, follower: &Follower, reads: Reads<'_>) -> Result<(), Stopped> {
        for (write, is_selected) in follower.pending(&self.shared.store, reads) {
            let store = self.shared.store.clone();
            self.until(move || write.is_shown(&store, is_selected)).await?;
        }
        Ok(())
    }

    /// Returns what the informer selects.
    pub(crate) fn selectors(&self) -> Selectors<'_> {
        self.shared.options.selectors()
    }

    /// Waits until a condition of the store holds.
    async fn until(&self, is_over: impl Fn() -> bool + Send + 'static) -> Result<(), Stopped> {
        self.shared.progress.until(is_over).await
    }

    /// Everything that happens, as a stream.
    pub fn events(&self) -> Events<K> {
        let (sender, notifications) = mpsc::unbounded_channel();
        // When the stream has been dropped, its handler is about to be.
        let registration = self.add_handler(move |notification| _ = sender.send(notification));
        Events { notifications, registration }
    }

    /// Waits for a notification that says what is waited for; it begins with every object that is there, as added. Go's
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

    /// What the objects are.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.shared.resource
    }

    /// How it is, at this moment: what it holds, what that costs, and what happened so far. Cheap enough to be asked every
    /// second.
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

    /// Whether it ran and ended.
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

/// What is needed to run an informer.
struct Begun<K> {
    writer: StoreWriter<K>,
    listeners: Vec<NewListener<K>>,
    synced: SyncSignal,
    pipe: Arc<Pipe<K>>,
    order: Order,
    commands: mpsc::UnboundedReceiver<Command<K>>,
}

impl<K: 'static> Shared<K> {
    /// Takes what is needed to run; `None` when somebody has before.
    fn begin(&self) -> Option<Begun<K>> {
        // Unbounded: commands are few, and come from callers who cannot wait.
        let (sender, commands) = mpsc::unbounded_channel();
        let mut phase = self.phase.lock();
        let fresh = match std::mem::replace(&mut *phase, Phase::Stopped) {
            Phase::New(fresh) => *fresh,
            begun => {
                *phase = begun;
                return None;
            }
        };
        let Fresh { writer, queue, listeners, synced } = fresh;
        let order = queue.order();
        let pipe = Arc::new(Pipe::new(queue, self.options.queue_capacity));
        *phase = Phase::Running(sender, Arc::clone(&pipe));
        Some(Begun { writer, listeners, synced, pipe, order, commands })
    }

    fn forget(&self, id: u64) {
        let forgotten = match &mut *self.phase.lock() {
            Phase::New(fresh) => {
                let at = fresh.listeners.iter().position(|listener| listener.id == id);
                at.map(|at| fresh.listeners.remove(at))
            }
            Phase::Running(commands, _) => {
                // If nobody takes it any more, there is nothing left to forget.
                let _ = commands.send(Command::Remove(id));
                None
            }
            Phase::Stopped => None,
        };
        drop(forgotten); // … without the lock: dropping a handler is user code.
    }
}

/// Marks the informer as stopped, however its run ends.
struct End<'i, K>(&'i Shared<K>);

impl<K> Drop for End<'_, K> {
    fn drop(&mut self) {
        *self.0.phase.lock() = Phase::Stopped;
        self.0.progress.stop();
    }
}
