//! The processor: applies deltas to the store and notifies the handlers.

use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use windlass_api::ResourceVersion;

use super::listener::{Backlog, Listener, NewListener};
use crate::{
    cached::{Cached, Untyped},
    compressor::Compressor,
    error::AddIndexError,
    event_queue::{Delta, Order},
    handler::{Deleted, DeletedState, InitialList, Notification},
    indexer::Index,
    options::Reporter,
    pipe::{Pipe, QueuedDelta},
    progress::Progress,
    store::StoreWriter,
    synced::SyncSignal,
};

/// A command to a running informer.
pub(super) enum Command {
    Add(NewListener),
    Remove(u64),
    Index(Index<Untyped>, oneshot::Sender<Result<(), AddIndexError>>),
}

/// The store and everything that is updated with it.
pub(super) struct Stored {
    pub(super) writer: StoreWriter<Untyped>,
    /// The order of the queue: determines whether each delta advances the store's version.
    pub(super) order: Order,
    /// Compresses stored objects after their indices are computed.
    pub(super) compressor: Arc<Mutex<Compressor<Untyped>>>,
}

/// The maximum number of deltas applied in a row.
const BATCH: usize = 64;

pub(super) struct Processor<'i> {
    stored: Stored,
    /// Fires once the store holds the first list.
    synced: SyncSignal,
    progress: &'i Progress,
    commands: mpsc::UnboundedReceiver<Command>,
    /// The handlers that have not been removed, in the order in which they were added.
    listeners: Vec<Listener>,
    /// The tasks of the handlers; dropping it aborts them.
    tasks: JoinSet<()>,
    /// Empty. Kept for its memory.
    batch: Vec<QueuedDelta<Untyped>>,
    reporter: Reporter,
}

impl<'i> Processor<'i> {
    pub(super) fn new(
        stored: Stored,
        synced: SyncSignal,
        progress: &'i Progress,
        commands: mpsc::UnboundedReceiver<Command>,
        reporter: Reporter,
    ) -> Self {
        let (listeners, tasks) = (Vec::new(), JoinSet::new());
        Self { stored, synced, progress, commands, listeners, tasks, batch: Vec::new(), reporter }
    }

    /// Starts a handler with the current objects as its initial list. It receives later changes like the other
    /// handlers.
    pub(super) fn add(&mut self, listener: NewListener) {
        let (listener, task) = listener.start(self.reporter.clone());
        for object in self.stored.writer.store().list() {
            listener.notify(Notification::Added { object, initial: InitialList::Yes });
        }
        if self.synced.has_fired() {
            listener.synced();
        }
        self.listeners.push(listener);
        self.tasks.spawn(task.boxed());
    }

    /// Applies deltas and commands. Never returns. Dropping the future loses no popped delta: it does not wait between
    /// popping a delta and queueing its notifications.
    pub(super) async fn run(&mut self, pipe: &Pipe<Untyped>) {
        loop {
            let resync = self.listeners.iter().filter_map(Listener::next_resync).min();
            let full = self.listeners.iter().find_map(Listener::full_backlog).cloned();
            tokio::select! {
                biased;
                Some(command) = self.commands.recv() => self.execute(command),
                () = resync_time(resync), if full.is_none() => {
                    let now = Instant::now();
                    self.listeners.iter_mut().for_each(|listener| listener.begin_resync(now));
                    pipe.push_now(Delta::SyncAll);
                }
                () = wait_for_room(full.as_deref()), if full.is_some() => {}
                popped = pipe.pop(), if full.is_none() => self.apply_some(popped, pipe),
            }
        }
    }

    /// Stops the handlers, each after its running notification.
    pub(super) async fn finish(mut self) {
        self.listeners.into_iter().for_each(Listener::stop);
        while self.tasks.join_next().await.is_some() {}
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Add(listener) => self.add(listener),
            Command::Remove(id) => {
                if let Some(at) = self.listeners.iter().position(|listener| listener.id == id) {
                    self.listeners.remove(at).stop();
                }
            }
            Command::Index(index, reply) => {
                // An error means that the caller no longer waits; the index is added anyway.
                let _ = reply.send(self.stored.writer.add_index(index));
            }
        }
        while self.tasks.try_join_next().is_some() {}
    }

    /// Applies a delta, and the following ones while the handlers have room. Commands wait for at most [`BATCH`]
    /// deltas.
    fn apply_some(&mut self, first: QueuedDelta<Untyped>, pipe: &Pipe<Untyped>) {
        let room = self.listeners.iter().map(Listener::room).fold(BATCH, usize::min);
        let mut batch = std::mem::take(&mut self.batch);
        batch.push(first);
        // A delta about all objects may cause more notifications than there is room for.
        while batch.len() < room && batch.last().is_some_and(|last| last.delta.object().is_some()) {
            let Some(next) = pipe.try_pop() else { break };
            batch.push(next);
        }
        if batch.len() > 1 {
            let objects = batch.iter().filter_map(|popped| popped.delta.object());
            self.stored.writer.prefetch(objects.map(Cached::key));
        }
        for popped in batch.drain(..) {
            self.apply(popped);
        }
        self.batch = batch;
    }

    fn apply(&mut self, popped: QueuedDelta<Untyped>) {
        let initial = if popped.synced_before { InitialList::No } else { InitialList::Yes };
        match popped.delta {
            Delta::Added(object) | Delta::Updated(object) => {
                let old = self.stored.insert(&object, self.version_at(&object));
                self.notify_handlers(old, object, initial);
            }
            Delta::Replaced(object) => {
                let old = self.stored.insert(&object, None);
                self.notify_handlers(old, object, initial);
            }
            Delta::Deleted(deleted) => {
                let version = match deleted.state {
                    DeletedState::Final => self.version_at(&deleted.object),
                    DeletedState::Unknown => None,
                };
                let known = self.stored.writer.remove(deleted.object.key(), version);
                if known.is_some() {
                    self.broadcast(Notification::Deleted(deleted));
                }
            }
            Delta::ReplacedAll { objects, version } => {
                let replaced = self.stored.writer.replace(objects, version);
                for object in replaced.vanished {
                    self.broadcast(Notification::Deleted(Deleted::missed(object)));
                }
                for (old, new) in replaced.present {
                    self.notify_handlers(old, new, initial);
                }
            }
            Delta::Sync(object) => {
                self.resync(&object);
            }
            Delta::SyncAll => {
                for object in self.stored.writer.store().list() {
                    self.resync(&object);
                }
            }
            Delta::Bookmark(version) => self.stored.writer.advance(version),
        }
        self.progress.changed();
        self.reporter.metrics().stored(self.stored.writer.store().len());
        if popped.synced_after && !self.synced.has_fired() {
            self.synced.fire();
            self.listeners.iter().for_each(Listener::synced);
        }
    }

    /// Returns the version of the store once it shows this state.
    fn version_at(&self, object: &Cached<Untyped>) -> Option<ResourceVersion> {
        (self.stored.order == Order::Arrival).then(|| object.meta().resource_version().clone())
    }

    /// Notifies the handlers of a stored state. An unchanged state is only delivered to handlers whose resync is due.
    fn notify_handlers(&self, old: Option<Cached<Untyped>>, new: Cached<Untyped>, initial: InitialList) {
        match old {
            None => self.broadcast(Notification::Added { object: new, initial }),
            Some(old) if old.is_same_state(&new) => self.resync(&new),
            Some(old) => self.broadcast(Notification::Updated { old, new }),
        }
    }

    fn resync(&self, object: &Cached<Untyped>) {
        for listener in self.listeners.iter().filter(|listener| listener.takes_resync()) {
            listener.notify(Notification::Updated { old: object.clone(), new: object.clone() });
        }
    }

    fn broadcast(&self, notification: Notification<Untyped>) {
        let Some((last, others)) = self.listeners.split_last() else { return };
        for listener in others {
            listener.notify(notification.clone());
        }
        last.notify(notification);
    }
}

impl Stored {
    fn insert(&mut self, object: &Cached<Untyped>, version: Option<ResourceVersion>) -> Option<Cached<Untyped>> {
        let old = self.writer.insert(object.clone(), version);
        self.compressor.lock().compress(object);
        old
    }
}

/// Waits for the next resync; forever if there is none. Without a resync, it does not create a timer.
async fn resync_time(next: Option<Instant>) {
    match next {
        Some(next) => sleep_until(next).await,
        None => std::future::pending().await,
    }
}

async fn wait_for_room(backlog: Option<&Backlog>) {
    if let Some(backlog) = backlog {
        backlog.wait_for_room().await;
    }
}
