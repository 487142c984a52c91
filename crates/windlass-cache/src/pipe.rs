//! The event queue with its lock, bound and wake-ups, for one producer and one consumer.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

use windlass_api::ObjectKey;

use crate::{
    cached::Cached,
    event_queue::{Delta, EventQueue},
    reflector::Sink,
    store::Store,
};

pub(crate) struct Pipe<K> {
    queue: Mutex<Box<dyn EventQueue<K>>>,
    /// The producer waits while this many deltas are queued.
    capacity: usize,
    filled: Notify,
    drained: Notify,
}

/// The reflector's end of the pipe.
#[derive(Debug)]
pub(crate) struct Feed<K: 'static> {
    pub(crate) pipe: Arc<Pipe<K>>,
    /// The source of unchanged states, so that a relist does not duplicate them in memory.
    pub(crate) store: Store<K>,
}

impl<K: Send + Sync + 'static> Sink<K> for Feed<K> {
    async fn accept(&mut self, delta: Delta<K>) {
        self.pipe.push(delta).await;
    }

    fn known(&self, key: &ObjectKey) -> Option<Cached<K>> {
        self.store.get(key)
    }
}

/// A delta, and whether the initial list was complete before and after it.
pub(crate) struct QueuedDelta<K> {
    pub(crate) delta: Delta<K>,
    pub(crate) synced_before: bool,
    pub(crate) synced_after: bool,
}

impl<K: 'static> Pipe<K> {
    pub(crate) fn new(queue: Box<dyn EventQueue<K>>, capacity: usize) -> Self {
        Self { queue: Mutex::new(queue), capacity: capacity.max(1), filled: Notify::new(), drained: Notify::new() }
    }

    /// Waits until the queue has room, then adds a delta.
    pub(crate) async fn push(&self, delta: Delta<K>) {
        loop {
            {
                let mut queue = self.queue.lock();
                if queue.len() < self.capacity {
                    queue.push(delta);
                    break;
                }
            }
            self.drained.notified().await;
        }
        self.filled.notify_one();
    }

    /// Returns the number of queued deltas.
    pub(crate) fn len(&self) -> usize {
        self.queue.lock().len()
    }

    /// Adds a delta without waiting for room and without waking the consumer. For the consumer itself, which would
    /// deadlock otherwise.
    pub(crate) fn push_now(&self, delta: Delta<K>) {
        self.queue.lock().push(delta);
    }

    pub(crate) async fn pop(&self) -> QueuedDelta<K> {
        loop {
            if let Some(popped) = self.try_pop() {
                return popped;
            }
            self.filled.notified().await;
        }
    }

    /// Removes and returns the next delta, or `None` if the queue is empty.
    pub(crate) fn try_pop(&self) -> Option<QueuedDelta<K>> {
        let mut queue = self.queue.lock();
        let (synced_before, len) = (queue.has_synced(), queue.len());
        let delta = queue.pop()?;
        let synced_after = queue.has_synced();
        if len >= self.capacity {
            self.drained.notify_one();
        }
        Some(QueuedDelta { delta, synced_before, synced_after })
    }
}

impl<K: 'static> fmt::Debug for Pipe<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("len", &self.len()).field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::join};

    use super::*;
    use crate::{event_queue::InOrder, testing::soon};

    #[tokio::test(start_paused = true)]
    async fn the_producer_waits_while_the_queue_is_full() {
        let pipe = Pipe::<()>::new(Box::new(InOrder::new()), 2);
        for version in 1..=2_u64 {
            pipe.push(Delta::Bookmark(version.into())).now_or_never().expect("the queue has room");
        }
        let third = pipe.push(Delta::Bookmark(3.into()));
        futures::pin_mut!(third);
        assert!(third.as_mut().now_or_never().is_none());
        let (popped, ()) = soon(join(pipe.pop(), third)).await;
        assert!(matches!(popped.delta, Delta::Bookmark(version) if version.as_u64() == Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_consumer_waits_while_it_is_empty() {
        let pipe = Pipe::<()>::new(Box::new(InOrder::new()), 1);
        let push = pipe.push(Delta::ReplacedAll { objects: Vec::new(), version: 1.into() });
        let (popped, ()) = soon(join(pipe.pop(), push)).await;
        assert!(!popped.synced_before && popped.synced_after);
    }
}
