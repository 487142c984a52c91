//! The second layer: additions after a delay.
//!
//! One timer task per queue sleeps until the first delay ends. The task starts with the first delay. It ends with the
//! shutdown or when the last handle is dropped.

use std::{
    hash::{BuildHasher, Hash},
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{DEFAULT_PRIORITY, WorkQueue, queue::Inner, state::Dirtied};

// === impl WorkQueue ===

impl<T: Clone + Eq + Hash + Send + Sync + 'static> WorkQueue<T> {
    /// Adds `item` after `delay`, or at once if the delay is zero. Ignored after a shutdown.
    ///
    /// If the item is already delayed, it becomes ready once, at the earlier of the two times. [`add`](Self::add)
    /// queues a delayed item at once, and does not cancel its delay. In a queue [by
    /// priority](crate::Builder::by_priority) it does cancel the delay.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with time enabled.
    #[track_caller]
    pub fn add_after(&self, item: T, delay: Duration) {
        self.add_at(item, delay, DEFAULT_PRIORITY);
    }

    #[track_caller]
    pub(crate) fn add_at(&self, item: T, delay: Duration, priority: i32) {
        if delay.is_zero() {
            self.add_now(item, priority);
            return;
        }
        let inner = self.inner();
        let now = Instant::now();
        // Clamped like in tokio: about thirty years stand for "never" on every platform.
        let ready_at = now.checked_add(delay).unwrap_or_else(|| now + Duration::from_hours(24 * 365 * 30));
        let hash = inner.hasher.hash_one(&item);
        let mut state = inner.lock();
        if !state.is_open() {
            return;
        }
        let slot = if let Some(slot) = state.entries.find(hash, &item) {
            slot
        } else {
            state.entries.insert(hash, item, &inner.hasher)
        };
        let (first, raised) = state.wait_until(slot, priority, ready_at);
        let priority = state.priority(slot);
        drop(state);
        if let Some(metrics) = inner.metrics() {
            metrics.retried();
            inner.report(raised, priority);
        }
        inner.timer.ensure_running(|| inner.lock().is_open(), |changed| run(Arc::downgrade(inner), changed));
        if first {
            inner.timer.wake();
        }
    }
}

/// Wakes at each time in the heap. Holds a handle to the queue only while it works, not while it sleeps.
async fn run<T: Clone + Eq + Hash + Send + Sync + 'static>(queue: Weak<Inner<T>>, changed: Arc<Notify>) {
    loop {
        let next = match queue.upgrade() {
            Some(inner) => inner.promote(Instant::now()),
            None => return,
        };
        match next {
            Some(moment) => tokio::select! {
                () = sleep_until(moment) => {}
                () = changed.notified() => {}
            },
            None => changed.notified().await,
        }
    }
}

// === impl Inner ===

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Inner<T> {
    /// Queues all keys whose time has come. Returns the next time.
    fn promote(&self, now: Instant) -> Option<Instant> {
        let mut wakers = Vec::new();
        let mut changes = Vec::new();
        let mut state = self.lock();
        while let Some(slot) = state.pop_due(now) {
            let priority = state.priority(slot);
            let dirtied = state.mark_dirty(slot, priority.unwrap_or(DEFAULT_PRIORITY), self.metrics().is_some());
            if dirtied == Dirtied::Queued {
                wakers.extend(state.next_waker());
            }
            if self.metrics().is_some() {
                changes.push((dirtied, priority));
            }
        }
        let next = state.next_due();
        drop(state);
        for waker in wakers {
            waker.wake();
        }
        for (dirtied, priority) in changes {
            self.report(dirtied, priority);
        }
        next
    }
}
