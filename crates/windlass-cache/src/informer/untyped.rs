//! An informer that does not know the type of its objects, so that it is compiled once for all kinds of a program.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use windlass_api::{ApiResource, ListWatch, ResourceVersion};

use super::{
    listener::NewListener,
    processor::{Command, Processor, Stored},
};
use crate::{
    cached::{Cached, Untyped},
    error::{AddIndexError, InformerError},
    event_queue::{EventQueue, InOrder, Order},
    handler::{Handler, HandlerOptions, Registration, RegistrationHandle, Resync},
    indexer::Index,
    journal_reader::{JournalReader, Reads},
    memory::Memory,
    metrics::CacheMetrics,
    options::{InformerOptions, Reporter},
    pipe::{Feed, Pipe},
    progress::{Progress, WaitError},
    reflector::Reflector,
    status::{InformerPhase, InformerStatus, Tally},
    store::{Store, StoreWriter},
    synced::{HasSynced, Stopped, SyncSignal},
};

/// The state of an informer, shared by its handles. The methods that take long return boxed futures: those are compiled
/// in this crate and not in each program.
pub(super) struct UntypedInformer {
    pub(super) resource: Arc<ApiResource>,
    /// The type of the objects for their users. Informers don't know it, see [`Untyped`].
    type_name: &'static str,
    /// Decodes an object as that type.
    decode: fn(&Cached<Untyped>),
    list_watch: Arc<dyn ListWatch>,
    pub(super) options: InformerOptions,
    memory: Arc<Memory>,
    tally: Arc<Tally>,
    pub(super) store: Store<Untyped>,
    pub(super) has_synced: HasSynced,
    progress: Progress,
    /// `None` if the program's own writes are not recorded.
    pub(super) own_writes: Option<JournalReader>,
    next_id: AtomicU64,
    phase: Mutex<Phase>,
}

/// The phase of an informer.
enum Phase {
    /// Not running yet.
    New(Box<Unstarted>),
    /// Running, with the channel for commands and the pipe to the processor.
    Running(mpsc::UnboundedSender<Command>, Arc<Pipe<Untyped>>),
    /// Stopped permanently.
    Stopped,
}

/// The parts that the processor takes over when the informer starts.
struct Unstarted {
    writer: StoreWriter<Untyped>,
    queue: Box<dyn EventQueue<Untyped>>,
    listeners: Vec<NewListener>,
    synced: SyncSignal,
}

/// The parts needed to run an informer.
struct Started {
    writer: StoreWriter<Untyped>,
    listeners: Vec<NewListener>,
    synced: SyncSignal,
    pipe: Arc<Pipe<Untyped>>,
    order: Order,
    commands: mpsc::UnboundedReceiver<Command>,
}

// === impl UntypedInformer ===

impl UntypedInformer {
    /// Creates an informer. `type_name` is the type of the objects for their users, and `decode` decodes one as that type.
    pub(super) fn new(
        resource: ApiResource,
        type_name: &'static str,
        decode: fn(&Cached<Untyped>),
        list_watch: Arc<dyn ListWatch>,
        mut options: InformerOptions,
    ) -> Self {
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
        Self {
            resource,
            type_name,
            decode,
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
        }
    }

    /// Replaces the queue between reflector and store.
    ///
    /// # Panics
    /// Panics if the informer has been started.
    #[track_caller]
    pub(super) fn set_queue(&self, queue: Box<dyn EventQueue<Untyped>>) {
        match &mut *self.phase.lock() {
            Phase::New(unstarted) => unstarted.queue = queue,
            Phase::Running(..) | Phase::Stopped => panic!("the queue of an informer must be set before it is started"),
        }
    }

    pub(super) fn add_handler(
        self: &Arc<Self>,
        handler: Box<dyn Handler<Untyped>>,
        options: HandlerOptions,
    ) -> Registration {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let removed = Arc::new(AtomicBool::new(false));
        let (synced, has_synced) = SyncSignal::new();
        let (ended_sender, ended) = watch::channel(());
        let listener = NewListener {
            id,
            handler,
            resync: match options.resync {
                Resync::Inherited => self.options.resync,
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
        let refused = match &mut *self.phase.lock() {
            Phase::New(unstarted) => {
                unstarted.listeners.push(listener);
                None
            }
            Phase::Running(commands, _) => commands.send(Command::Add(listener)).err().map(|error| error.0),
            Phase::Stopped => Some(Command::Add(listener)),
        };
        drop(refused);
        let informer = Arc::downgrade(self);
        let forget = move || {
            if let Some(informer) = informer.upgrade() {
                informer.forget(id);
            }
        };
        let handle = RegistrationHandle { removed, ended, forget: Box::new(forget) };
        Registration { has_synced, handle: Arc::new(handle) }
    }

    pub(super) fn add_index(&self, index: Index<Untyped>) -> BoxFuture<'_, Result<(), AddIndexError>> {
        async {
            let (reply, answer) = oneshot::channel();
            match &mut *self.phase.lock() {
                // The store is still empty, so no user code runs here.
                Phase::New(unstarted) => return unstarted.writer.add_index(index),
                Phase::Running(commands, _) => {
                    commands.send(Command::Index(index, reply)).map_err(|_| AddIndexError::Stopped(Stopped))?;
                }
                Phase::Stopped => return Err(AddIndexError::Stopped(Stopped)),
            }
            answer.await.unwrap_or(Err(AddIndexError::Stopped(Stopped)))
        }
        .boxed()
    }

    /// Follows the server until `shutdown` is ready.
    pub(super) fn run<'i>(&'i self, shutdown: BoxFuture<'i, ()>) -> BoxFuture<'i, ()> {
        self.run_until(shutdown).boxed()
    }

    async fn run_until(&self, shutdown: BoxFuture<'_, ()>) {
        let Some(Started { writer, listeners, synced, pipe, order, commands }) = self.start() else {
            tracing::warn!(resource = %self.resource.gvr(), "the informer has been started before");
            return;
        };
        let _end = End(self);
        let feed = Feed { pipe: Arc::clone(&pipe), store: self.store.clone() };
        let (memory, list_watch) = (Arc::clone(&self.memory), Arc::clone(&self.list_watch));
        let reflector = Reflector::within(memory, list_watch, feed, &self.options, self.decode);
        let (reflector, compressor) = reflector.leaving_compression();
        let stored = Stored { writer, order, compressor };
        let mut processor = Processor::new(stored, synced, &self.progress, commands, Reporter::new(&self.options));
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

    /// Waits until the store shows everything up to `version`.
    pub(super) fn wait_for<'i>(&'i self, version: &'i ResourceVersion) -> BoxFuture<'i, Result<(), WaitError>> {
        self.progress.reach(version, &self.store).boxed()
    }

    /// Waits until the store shows the writes of a journal to the objects that are about to be read.
    pub(super) async fn follow(&self, journal: &JournalReader, reads: Reads<'_>) -> Result<(), Stopped> {
        for (write, is_selected) in journal.pending(&self.store, reads) {
            let store = self.store.clone();
            self.progress.until(move || write.is_shown(&store, is_selected)).await?;
        }
        Ok(())
    }

    pub(super) fn status(&self) -> InformerStatus {
        let Self { resource, type_name, options, memory, tally, store, has_synced, .. } = self;
        let (phase, queued) = match &*self.phase.lock() {
            Phase::New(_) => (InformerPhase::New, 0),
            Phase::Stopped => (InformerPhase::Stopped, 0),
            Phase::Running(_, pipe) if has_synced.is_synced() => (InformerPhase::Synced, pipe.len()),
            Phase::Running(_, pipe) => (InformerPhase::Syncing, pipe.len()),
        };
        InformerStatus {
            resource: Arc::clone(resource),
            type_name,
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

    pub(super) fn is_stopped(&self) -> bool {
        matches!(*self.phase.lock(), Phase::Stopped)
    }

    /// Marks the informer as running and returns its parts; `None` if it was started before.
    fn start(&self) -> Option<Started> {
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
struct End<'i>(&'i UntypedInformer);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.phase.lock() = Phase::Stopped;
        self.0.progress.stop();
    }
}
