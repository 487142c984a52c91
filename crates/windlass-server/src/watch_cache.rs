//! A single watch of the storage, shared by all client watches.
//!
//! Every event of the storage is dispatched, in one [`Arc`], to the subscribers of its topics. Either the writer that
//! caused it ([`WatchCache::wait_for_delivery`]) or the pump task dispatches it, whichever comes first. Data that the
//! registry derives from an event (its rendered frame, its labels) is stored in the [`SharedEvent`], so it is computed
//! once for all subscribers.
//!
//! A subscriber can select one value of an indexed field ([`FieldValue`]), such as the pods of one node. The values of an
//! event are read once, and it is put only into the mailboxes of the subscribers to the old and the new value. The same
//! values keep an index of the keys, for lists ([`WatchCache::keys_with`]).
//!
//! Guaranteed:
//! - A subscriber gets every event of its topic and value after its revision: once, in revision order, without gaps,
//!   until it is closed.
//! - Fan-out never waits. A subscriber that is too slow is closed. It can subscribe again and continue at its last
//!   revision.
//! - A subscriber is notified of an event immediately. If its topic has very many subscribers and they were notified
//!   shortly before, it is notified later of several events together ([`Debounce`]).
//! - A writer can wait until the subscribers that are waiting for events have processed its event. A subscriber that is
//!   busy, or whose client does not read, delays a writer for at most [`PATIENCE`], and then no writer for some time.
//! - [`Subscription::progress`] is exact, and advances with every commit to the store, for any key.
//!
//! The pump starts with the first subscription, on the runtime of the subscriber. It ends with that runtime, with the
//! last [`WatchCache`], or if the storage compacts events that it has not read. Then all subscribers are closed, and
//! the next subscription starts a new pump. If the storage fails, the pump retries, and subscribers get no events in
//! the meantime.

use std::{
    future::poll_fn,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{self, Instant},
};

use self::{
    fan_out::{FanOut, Moment, Round, Topic, wake},
    field::EventValues,
    source::{PumpStep, Source},
};
pub(crate) use self::{
    field::{FieldValue, IndexedField},
    key_index::FoundKeys,
    subscription::Subscription,
};
use crate::storage::{
    EventStream, Revision, Storage, StorageError, StorageEvent, StoredValue,
    mailbox::{Capacity, Mailbox},
};

mod debounce;
mod delivery;
mod fan_out;
mod field;
mod key_index;
mod source;
mod subscription;
#[cfg(test)]
mod tests;

/// The capacity for pending events of one subscriber. It suffices for changes to half of a large cluster's pods at
/// once.
const SUBSCRIBER_CAPACITY: Capacity = Capacity { items: 1 << 14, bytes: 128 << 20 };

/// The cost of an event in a mailbox, in addition to its bodies.
const EVENT_BYTES: usize = 256;

/// The number of subscribers that are woken at a time. Other tasks, especially writers, run between two batches: a
/// thousand subscribers that all send would fill the run queue.
const WAKE_BATCH: usize = 40;

/// The interval at which a waiting reader requests the progress of the storage's watch, as in kube-apiserver.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Pauses between attempts to watch a failing storage.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(5);

/// An event and the data derived from it. `D` is defined by the registry: `OnceLock`s that the first watcher fills.
#[derive(Debug)]
pub(crate) struct SharedEvent<D> {
    pub(crate) event: StorageEvent,
    /// `false` if more events of the same revision follow.
    completes: bool,
    /// The values of the resource's indexed field.
    values: OnceLock<EventValues>,
    pub(crate) derived: D,
}

impl<D: Default> SharedEvent<D> {
    fn new(event: StorageEvent, completes: bool) -> Self {
        Self { event, completes, values: OnceLock::new(), derived: D::default() }
    }
}

impl<D> SharedEvent<D> {
    /// Returns the values of an indexed field. A resource has only one.
    fn values(&self, field: IndexedField) -> &EventValues {
        self.values.get_or_init(|| field.read_event(&self.event))
    }

    /// Returns the revision up to which all events were delivered, including this one.
    fn progress(&self) -> Revision {
        if self.completes { self.event.revision } else { self.event.revision.previous() }
    }
}

/// The fan-out of events. Share it in an `Arc`. Dropping it closes all subscriptions and ends the pump.
#[derive(Debug)]
pub(crate) struct WatchCache<D> {
    storage: Arc<dyn Storage>,
    shared: Arc<Shared<D>>,
    starting: tokio::sync::Mutex<()>, // held while the pump starts
    indexing: tokio::sync::Mutex<()>, // held while an index is built
}

#[derive(Debug)]
struct Shared<D> {
    fan_out: Mutex<FanOut<D>>,
    /// The source of events. Locked before `fan_out`. Writers only try to lock it.
    source: Mutex<Source<D>>,
    /// The revision up to which all events have been dispatched. Written under `fan_out`, after the event was put into
    /// the mailboxes.
    position: watch::Sender<Revision>,
    capacity: Capacity,
}

/// The pump's view of a subscription.
#[derive(Debug)]
struct Subscriber<D> {
    topic: Box<str>,
    /// Only the events of objects with this value; `None` for all.
    selected: Option<FieldValue>,
    after: Revision,
    mailbox: Mailbox<Arc<SharedEvent<D>>>,
}

impl<D> Subscriber<D> {
    /// Reports whether an event of its topic concerns the subscriber.
    fn selects(&self, event: &SharedEvent<D>) -> bool {
        self.selected.as_ref().is_none_or(|selected| event.values(selected.field).include(&selected.value))
    }
}

impl<D: Default + Send + Sync + 'static> WatchCache<D> {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Self {
        Self::with_capacity(storage, SUBSCRIBER_CAPACITY)
    }

    fn with_capacity(storage: Arc<dyn Storage>, capacity: Capacity) -> Self {
        let fan_out = Mutex::new(FanOut::new());
        let (position, _) = watch::channel(Revision(0));
        let shared = Shared { fan_out, source: Mutex::new(Source::default()), position, capacity };
        let (starting, indexing) = (tokio::sync::Mutex::new(()), tokio::sync::Mutex::new(()));
        Self { storage, shared: Arc::new(shared), starting, indexing }
    }

    /// Subscribes to the events of one topic after a revision, which may be in the future. A topic that is empty or
    /// ends in `/` covers all keys below it. Any other topic is a single key.
    ///
    /// With `selected`, the subscriber gets only the events of objects that have the value before or after the event. The
    /// topic must then be a resource or a namespace of it.
    ///
    /// Returns [`StorageError::Compacted`] if the storage no longer has those events.
    pub(crate) async fn subscribe_to(
        &self,
        topic: &str,
        selected: Option<FieldValue>,
        after: Revision,
    ) -> Result<Subscription<D>, StorageError> {
        let mailbox = Mailbox::new(self.shared.capacity);
        let subscriber = Arc::new(Subscriber { topic: topic.into(), selected, after, mailbox });
        let position = loop {
            self.ensure_running().await?;
            // `None` if the pump has just ended again.
            if let Some(position) = self.shared.register(&subscriber) {
                break position;
            }
        };
        // From here on, dropping it unregisters the subscriber.
        let mut subscription = Subscription::new(Arc::clone(&self.shared), subscriber);
        if after < position {
            subscription.replay(self.storage.watch("", after).await?, position);
        }
        Ok(subscription)
    }

    /// Subscribes to all events of a topic.
    #[cfg(test)]
    pub(crate) async fn subscribe(&self, topic: &str, after: Revision) -> Result<Subscription<D>, StorageError> {
        self.subscribe_to(topic, None, after).await
    }

    /// Waits until all events up to a revision have been dispatched. Waits forever if the storage does not reach it.
    pub(crate) async fn wait_for_revision(&self, revision: Revision) -> Result<(), StorageError> {
        self.ensure_running().await?;
        let mut position = self.shared.position.subscribe();
        let mut reached = std::pin::pin!(position.wait_for(|position| *position >= revision));
        loop {
            if *self.shared.position.borrow() < revision {
                self.storage.request_progress();
            }
            // Waiting cannot fail, because `self` holds the sender.
            if time::timeout(PROGRESS_INTERVAL, &mut reached).await.is_ok() {
                return Ok(());
            }
        }
    }

    /// Closes every subscription, as if all connections were lost. The cache stays usable.
    pub(crate) fn drop_all(&self) {
        let closed = self.shared.fan_out.lock().close_all();
        wake(closed);
    }

    /// Closes the subscriptions to a topic and to the topics below it. The cache stays usable.
    pub(crate) fn drop_topic(&self, topic: &str) {
        let closed = self.shared.fan_out.lock().close_topics(topic);
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
        // The guard is created outside of the task, so it works even if the task is never polled.
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
    /// Registers a subscriber if the pump runs. The subscriber gets all events after the returned revision.
    fn register(&self, subscriber: &Arc<Subscriber<D>>) -> Option<Revision> {
        let mut fan_out = self.fan_out.lock();
        if !fan_out.running {
            return None;
        }
        fan_out.add(subscriber);
        Some(*self.position.borrow())
    }

    fn unregister(&self, subscriber: &Arc<Subscriber<D>>) {
        self.fan_out.lock().remove(subscriber);
    }

    /// Puts the events of a revision into the mailboxes. They complete the revisions up to `progress`.
    fn dispatch(&self, events: &[Arc<SharedEvent<D>>], progress: Revision, round: &mut Round<D>) {
        let moment = Moment { now: Instant::now(), is_delivering: !round.pending.is_empty() };
        self.read_values(events);
        {
            let mut fan_out = self.fan_out.lock();
            for event in events {
                fan_out.put(event, moment, round);
            }
            self.position.send_if_modified(|position| {
                let advances = progress > *position;
                *position = progress.max(*position);
                advances
            });
        }
        for subscriber in round.ready.drain(..) {
            subscriber.mailbox.wake();
        }
        wake(round.closed.drain(..));
    }

    /// Reads the values of indexed fields before the lock is held.
    fn read_values(&self, events: &[Arc<SharedEvent<D>>]) {
        for event in events {
            let field = self.fan_out.lock().field_of(&event.event.key);
            if let Some(field) = field {
                event.values(field);
            }
        }
    }

    /// Closes the subscribers to a key.
    fn close_topics_of(&self, key: &str, round: &mut Round<D>) {
        self.fan_out.lock().close_topics_of(key, round);
    }

    /// Schedules the subscribers of topics whose notification is due.
    fn notify_due(&self, now: Instant, round: &mut Round<D>) {
        round.due = None;
        let mut fan_out = self.fan_out.lock();
        for group in fan_out.topics.values_mut().flat_map(Topic::groups_mut) {
            group.notify_due(now, round);
        }
    }
}

/// A guard for the running pump. When the pump ends for any reason, it closes all subscribers.
struct Running<D>(Arc<Shared<D>>);

impl<D> Drop for Running<D> {
    fn drop(&mut self) {
        let (closed, source) = {
            let mut source = self.0.source.lock();
            let mut fan_out = self.0.fan_out.lock();
            fan_out.running = false;
            fan_out.indexes.clear();
            (fan_out.close_all(), std::mem::take(&mut *source))
        };
        drop(source);
        wake(closed);
    }
}

/// Reads the storage's events and dispatches them, until the storage shuts down or has compacted the next event.
async fn pump<D: Default>(storage: Arc<dyn Storage>, running: Running<D>) {
    let shared = &*running.0;
    let mut pause = RETRY_FIRST;
    loop {
        let (all_delivered, due) = shared.notify_some();
        let step = tokio::select! {
            biased;
            step = poll_fn(|cx| shared.poll_pump(cx)) => step,
            () = tokio::task::yield_now(), if !all_delivered => continue,
            () = time::sleep_until(due.unwrap_or_else(Instant::now)), if all_delivered && due.is_some() => continue,
        };
        let mut failure = match step {
            PumpStep::Dispatched => {
                pause = RETRY_FIRST;
                continue;
            }
            PumpStep::Failed(error) => error,
            PumpStep::Ended => return,
        };
        // Delivers all delayed notifications before waiting for the storage.
        shared.notify_all();
        // Continues at the revision where the last watch ended.
        loop {
            match failure {
                StorageError::Compacted { oldest } => {
                    tracing::warn!(%oldest, "the storage compacted events that were not read yet, closing all watches");
                    return;
                }
                StorageError::Lagged { .. } => {}
                StorageError::Future { .. }
                | StorageError::Unreadable { .. }
                | StorageError::Backend { .. }
                | StorageError::Unavailable(_) => {
                    tracing::warn!(error = &failure as &dyn std::error::Error, "the watch of the storage failed");
                    time::sleep(pause).await;
                    pause = RETRY_LAST.min(pause * 2);
                }
            }
            let position = *shared.position.borrow();
            match storage.watch("", position).await {
                Ok(again) => {
                    shared.source.lock().resume(again);
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
            // The revision was compacted between the two calls.
            Err(StorageError::Compacted { .. }) => {}
            answer => return Ok((now, answer?)),
        }
    }
}

/// Returns the topics that contain a key, widest first.
fn topics_of(key: &str) -> impl Iterator<Item = &str> {
    std::iter::once("").chain(key.split_inclusive('/').scan(0, |end, part| {
        *end += part.len();
        Some(&key[..*end])
    }))
}

/// Reports whether a topic contains a key, that is, whether it is one of its [`topics_of`].
fn is_under(key: &str, topic: &str) -> bool {
    if topic.is_empty() || topic.ends_with('/') { key.starts_with(topic) } else { key == topic }
}

fn body_bytes(value: Option<&StoredValue>) -> usize {
    value.map_or(0, |value| value.body.len())
}
