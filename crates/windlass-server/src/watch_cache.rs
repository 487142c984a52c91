//! One watch on the storage, shared by all watches of clients.
//!
//! Every event of the store is handed, in one [`Arc`], to the subscribers whose topic it is under: by the writer who caused it
//! ([`WatchCache::delivered`]) or by the pump task, whichever comes first. What the registry derives from an event (its rendered frame, its labels) lives in the [`SharedEvent`], so it is computed once
//! for all of them.
//!
//! Guaranteed:
//! - A subscriber gets every event of its topic after its revision: once, in revision order, without gaps, until it is closed.
//! - Fan-out never waits. A subscriber that falls too far behind is closed; it can subscribe again where it was.
//! - A subscriber is told of an event at once, unless its topic has very many, who were told of another just before:
//!   then it is told of what has come meanwhile together ([`Gap`]).
//! - A writer can wait until the subscribers that are waiting for events have dealt with its event. A subscriber that is busy,
//!   or whose client does not read, delays no writer for longer than [`PATIENCE`], and not again soon.
//! - [`Subscription::progress`] is exact, and advances with every commit to the store, whatever its key.
//!
//! The pump starts with the first subscription, on the runtime of the subscriber. When it ends (with that runtime, with the last
//! [`WatchCache`], or because the storage has compacted away what it had yet to read) all subscribers are closed, and the next
//! subscription starts another. It outlives failures of the storage: subscribers see nothing until it is back.

use std::{collections::HashMap, future::poll_fn, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{self, Instant},
};

pub(crate) use self::subscription::Subscription;
use self::{
    gap::{Gap, Telling},
    source::{PumpStep, Source},
};
use crate::storage::{
    EventStream, Revision, Storage, StorageError, StorageEvent, StoredValue,
    mailbox::{Capacity, Discarded, Mailbox},
};

mod delivery;
mod gap;
mod source;
mod subscription;
#[cfg(test)]
mod tests;

/// What may wait for one subscriber. Half of a large cluster's pods, say, changed in a moment.
const SUBSCRIBER_CAPACITY: Capacity = Capacity { items: 1 << 14, bytes: 128 << 20 };

/// What an event costs a mailbox beside its bodies.
const EVENT_BYTES: usize = 256;

/// How many are woken at a time. Between any two portions others have their turn, those who write above all: a thousand tasks that all
/// have something to send are a long queue.
const TOLD_AT_ONCE: usize = 40;

/// Pauses between attempts to watch a storage that fails.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(5);

/// An event, and what has been derived from it so far. `D` is the registry's: `OnceLock`s that the first watcher fills.
#[derive(Debug)]
pub(crate) struct SharedEvent<D> {
    pub(crate) event: StorageEvent,
    pub(crate) derived: D,
}

impl<D: Default> SharedEvent<D> {
    fn new(event: StorageEvent) -> Self {
        Self { event, derived: D::default() }
    }
}

/// The fan-out. Share it in an `Arc`; dropping it closes all subscriptions and ends the pump.
#[derive(Debug)]
pub(crate) struct WatchCache<D> {
    storage: Arc<dyn Storage>,
    shared: Arc<Shared<D>>,
    starting: tokio::sync::Mutex<()>, // held while the pump is being started
}

#[derive(Debug)]
struct Shared<D> {
    fan_out: Mutex<FanOut<D>>,
    /// Where events come from. Locked before `fan_out`, and by writers only if it is free.
    source: Mutex<Source<D>>,
    /// All events up to it have been handed out. Written under `fan_out`, after the event has been put into the mailboxes.
    position: watch::Sender<Revision>,
    capacity: Capacity,
}

#[derive(Debug)]
struct FanOut<D> {
    topics: HashMap<Box<str>, Topic<D>>, // none without subscribers
    running: bool,                       // no subscribers unless it is
    pump: Option<AbortHandle>,
}

/// Who wants to be told of the same keys.
#[derive(Debug)]
struct Topic<D> {
    subscribers: Vec<Arc<Subscriber<D>>>,
    gap: Gap,
}

/// A subscription as the pump sees it.
#[derive(Debug)]
struct Subscriber<D> {
    topic: Box<str>,
    after: Revision,
    mailbox: Mailbox<Arc<SharedEvent<D>>>,
}

impl<D: Default + Send + Sync + 'static> WatchCache<D> {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Self {
        Self::with_capacity(storage, SUBSCRIBER_CAPACITY)
    }

    fn with_capacity(storage: Arc<dyn Storage>, capacity: Capacity) -> Self {
        let fan_out = FanOut { topics: HashMap::new(), running: false, pump: None };
        let (position, _) = watch::channel(Revision(0));
        let shared = Shared { fan_out: Mutex::new(fan_out), source: Mutex::new(Source::default()), position, capacity };
        Self { storage, shared: Arc::new(shared), starting: tokio::sync::Mutex::new(()) }
    }

    /// Subscribes to the events after a revision, which may be in the future, of one topic: all keys under it when it
    /// ends in `/` or is empty, the one key that it names otherwise.
    ///
    /// [`StorageError::Compacted`] when the storage no longer has those events.
    pub(crate) async fn subscribe(&self, topic: &str, after: Revision) -> Result<Subscription<D>, StorageError> {
        let subscriber =
            Arc::new(Subscriber { topic: topic.into(), after, mailbox: Mailbox::new(self.shared.capacity) });
        let position = loop {
            self.ensure_running().await?;
            // None: the pump has just ended again.
            if let Some(position) = self.shared.register(&subscriber) {
                break position;
            }
        };
        // From here on dropping it unregisters.
        let mut subscription = Subscription::new(Arc::clone(&self.shared), subscriber);
        if after < position {
            subscription.replay(self.storage.watch("", after).await?, position);
        }
        Ok(subscription)
    }

    /// Waits until all events up to a revision have been handed out; for ever if there are none to come.
    pub(crate) async fn reached(&self, revision: Revision) -> Result<(), StorageError> {
        self.ensure_running().await?;
        let mut position = self.shared.position.subscribe();
        // It cannot fail: `self` holds the sender.
        let _ = position.wait_for(|position| *position >= revision).await;
        Ok(())
    }

    /// Closes every subscription, as the loss of all connections would. The cache stays usable.
    pub(crate) fn drop_all(&self) {
        let closed = self.shared.fan_out.lock().close_all();
        wake(closed);
    }

    /// Closes the subscriptions to a topic and to those below it. The cache stays usable.
    pub(crate) fn drop_topic(&self, topic: &str) {
        let closed = self.shared.fan_out.lock().close_below(topic);
        wake(closed);
    }

    async fn ensure_running(&self) -> Result<(), StorageError> {
        if self.shared.fan_out.lock().running {
            return Ok(());
        }
        let _starting = self.starting.lock().await;
        if self.shared.fan_out.lock().running {
            return Ok(());
        }
        let (position, events) = watch_from_now(&*self.storage).await?;
        {
            let mut source = self.shared.source.lock();
            *source = Source::new(events);
            let mut fan_out = self.shared.fan_out.lock();
            self.shared.position.send_replace(position);
            fan_out.running = true;
        }
        // The guard is made outside of the task: it also works when the task is never polled.
        let running = Running(Arc::clone(&self.shared));
        let pump = tokio::spawn(pump(Arc::clone(&self.storage), running));
        self.shared.fan_out.lock().pump = Some(pump.abort_handle());
        Ok(())
    }
}

impl<D> Drop for WatchCache<D> {
    fn drop(&mut self) {
        let (closed, pump) = {
            let mut fan_out = self.shared.fan_out.lock();
            (fan_out.close_all(), fan_out.pump.take())
        };
        if let Some(pump) = pump {
            pump.abort();
        }
        wake(closed);
    }
}

impl<D> Shared<D> {
    /// Registers a subscriber if the pump runs. It will get all events after the returned revision.
    fn register(&self, subscriber: &Arc<Subscriber<D>>) -> Option<Revision> {
        let mut fan_out = self.fan_out.lock();
        if !fan_out.running {
            return None;
        }
        let topic = fan_out.topics.entry(subscriber.topic.clone());
        topic.or_insert_with(Topic::new).subscribers.push(Arc::clone(subscriber));
        Some(*self.position.borrow())
    }

    fn unregister(&self, subscriber: &Arc<Subscriber<D>>) {
        let mut fan_out = self.fan_out.lock();
        if let Some(topic) = fan_out.topics.get_mut(&subscriber.topic) {
            topic.subscribers.retain(|other| !Arc::ptr_eq(other, subscriber));
            if topic.subscribers.is_empty() {
                fan_out.topics.remove(&subscriber.topic);
            }
        }
    }

    fn hand_out(&self, event: &Arc<SharedEvent<D>>, round: &mut Round<D>) {
        let StorageEvent { revision, key, current, previous } = &event.event;
        let cost = body_bytes(current.as_ref()) + body_bytes(previous.as_ref()) + EVENT_BYTES;
        let now = Instant::now();
        let telling_others = !round.untold.is_empty();
        {
            let mut fan_out = self.fan_out.lock();
            for name in topics_of(key) {
                let Some(topic) = fan_out.topics.get_mut(name) else { continue };
                let few = topic.subscribers.len() <= TOLD_AT_ONCE;
                let telling = topic.gap.event(topic.subscribers.len(), now, telling_others);
                topic.subscribers.retain(|subscriber| {
                    if *revision <= subscriber.after {
                        return true;
                    }
                    let put = subscriber.mailbox.put(Arc::clone(event), cost);
                    if telling == Telling::Now && put.is_ok() {
                        let told = if few { &mut round.told } else { &mut round.untold };
                        told.push(Arc::clone(subscriber));
                    }
                    put.map_err(|gone| round.closed.push((gone, Arc::clone(subscriber)))).is_ok()
                });
                if let Telling::At(due) = telling {
                    round.due = Some(round.due.map_or(due, |other| other.min(due)));
                }
                if topic.subscribers.is_empty() {
                    fan_out.topics.remove(name);
                }
            }
            self.position.send_replace(*revision);
        }
        for subscriber in round.told.drain(..) {
            subscriber.mailbox.wake();
        }
        wake(round.closed.drain(..));
    }

    /// Those of the topics whose time has come are to be told.
    fn tell_due(&self, now: Instant, round: &mut Round<D>) {
        round.due = None;
        for topic in self.fan_out.lock().topics.values_mut() {
            match topic.gap.passed(now) {
                Telling::Now => round.untold.extend(topic.subscribers.iter().cloned()),
                Telling::At(due) => round.due = Some(round.due.map_or(due, |other| other.min(due))),
                Telling::Nothing => {}
            }
        }
    }
}

impl<D> FanOut<D> {
    /// Removes and closes all subscribers. Closed under the lock, so that none of them takes a later position for its progress.
    fn close_all(&mut self) -> Vec<ClosedSubscriber<D>> {
        let subscribers = self.topics.drain().flat_map(|(_, topic)| topic.subscribers);
        subscribers.map(|subscriber| (subscriber.mailbox.close(), subscriber)).collect()
    }

    /// The same for the subscribers of topics that begin so.
    fn close_below(&mut self, prefix: &str) -> Vec<ClosedSubscriber<D>> {
        let subscribers = self.topics.extract_if(|topic, _| topic.starts_with(prefix));
        let subscribers = subscribers.flat_map(|(_, topic)| topic.subscribers);
        subscribers.map(|subscriber| (subscriber.mailbox.close(), subscriber)).collect()
    }
}

/// What handing out events leaves to be done without the lock; kept for its allocations.
#[derive(Debug)]
struct Round<D> {
    /// To be woken as soon as the lock is free.
    told: Vec<Arc<Subscriber<D>>>,
    /// To be woken portion by portion.
    untold: Vec<Arc<Subscriber<D>>>,
    closed: Vec<ClosedSubscriber<D>>,
    /// When subscribers are to be told next of what they have not been told of.
    due: Option<Instant>,
}

impl<D> Default for Round<D> {
    fn default() -> Self {
        Self { told: Vec::new(), untold: Vec::new(), closed: Vec::new(), due: None }
    }
}

impl<D> Round<D> {
    /// Wakes some of those who are to be woken.
    fn tell_some(&mut self) {
        for subscriber in self.untold.drain(self.untold.len().saturating_sub(TOLD_AT_ONCE)..) {
            subscriber.mailbox.wake();
        }
    }
}

impl<D> Topic<D> {
    fn new() -> Self {
        Self { subscribers: Vec::new(), gap: Gap::default() }
    }
}

/// Exists while the pump does: whatever ends it, its subscribers learn of it.
struct Running<D>(Arc<Shared<D>>);

impl<D> Drop for Running<D> {
    fn drop(&mut self) {
        let (closed, source) = {
            let mut source = self.0.source.lock();
            let mut fan_out = self.0.fan_out.lock();
            fan_out.running = false;
            (fan_out.close_all(), std::mem::take(&mut *source))
        };
        drop(source);
        wake(closed);
    }
}

/// Reads the storage's events and hands them out, until the storage shuts down or has forgotten where we were.
async fn pump<D: Default>(storage: Arc<dyn Storage>, running: Running<D>) {
    let shared = &*running.0;
    let mut pause = RETRY_FIRST;
    loop {
        let (all_told, due) = shared.tell_some();
        let step = tokio::select! {
            biased;
            step = poll_fn(|cx| shared.poll_pump(cx)) => step,
            () = tokio::task::yield_now(), if !all_told => continue,
            () = time::sleep_until(due.unwrap_or_else(Instant::now)), if all_told && due.is_some() => continue,
        };
        let mut failure = match step {
            PumpStep::HandedOut => {
                pause = RETRY_FIRST;
                continue;
            }
            PumpStep::Failed(error) => error,
            PumpStep::Ended => return,
        };
        // Nobody is to wait for what has come until the storage is back.
        shared.tell_all();
        // Take over where the lost watch was.
        loop {
            match failure {
                StorageError::Compacted { oldest } => {
                    tracing::warn!(%oldest, "the watch of the storage fell behind its compaction, closing all watches");
                    return;
                }
                StorageError::Lagged { .. } => {}
                StorageError::Future { .. } | StorageError::Unavailable(_) => {
                    tracing::warn!(error = &failure as &dyn std::error::Error, "the watch of the storage failed");
                    time::sleep(pause).await;
                    pause = RETRY_LAST.min(pause * 2);
                }
            }
            let position = *shared.position.borrow();
            match storage.watch("", position).await {
                Ok(again) => {
                    shared.source.lock().renew(again);
                    break;
                }
                Err(error) => failure = error,
            }
        }
    }
}

async fn watch_from_now(storage: &dyn Storage) -> Result<(Revision, EventStream), StorageError> {
    loop {
        let now = storage.revision().await?;
        match storage.watch("", now).await {
            // Compacted between the two calls.
            Err(StorageError::Compacted { .. }) => {}
            answer => return Ok((now, answer?)),
        }
    }
}

/// A subscriber that was closed, with what it will not get: to be woken and dropped outside of the lock.
type ClosedSubscriber<D> = (Discarded<Arc<SharedEvent<D>>>, Arc<Subscriber<D>>);

fn wake<D>(closed: impl IntoIterator<Item = ClosedSubscriber<D>>) {
    for (backlog, subscriber) in closed {
        drop(backlog);
        subscriber.mailbox.wake();
    }
}

/// The topics that a key is under, widest first.
fn topics_of(key: &str) -> impl Iterator<Item = &str> {
    std::iter::once("").chain(key.split_inclusive('/').scan(0, |end, part| {
        *end += part.len();
        Some(&key[..*end])
    }))
}

/// Whether a key is under a topic: one of its [`topics_of`].
fn is_under(key: &str, topic: &str) -> bool {
    if topic.is_empty() || topic.ends_with('/') { key.starts_with(topic) } else { key == topic }
}

fn body_bytes(value: Option<&StoredValue>) -> usize {
    value.map_or(0, |value| value.body.len())
}
