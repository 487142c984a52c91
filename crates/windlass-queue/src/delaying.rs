//! The second layer: delayed keys.
//!
//! A binary heap holds the delayed keys by time. Each entry knows its position, so a key is in the heap once and can be
//! moved to an earlier time. One timer task per queue sleeps until the first time in the heap. The task starts with the
//! first delay. It ends with the shutdown or when the last handle is dropped.

use std::{
    hash::{BuildHasher, Hash},
    sync::{Arc, Weak},
    time::Duration,
};

use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use crate::{
    DEFAULT_PRIORITY, WorkQueue,
    queue::{
        Inner,
        entries::{NOT_WAITING, Phase, Slot},
        state::{Dirtied, State},
    },
};

/// A binary heap by `(ready_at, seq)`, least first. `entries[slot].heap` is the index of the element with that slot.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    heap: Vec<Waiting>,
    next_seq: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    ready_at: Instant,
    /// The order of arrival, which is kept for equal times.
    seq: u64,
    slot: Slot,
}

/// The task that makes delayed keys ready.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    /// `None` before the first delay and after a drain. This lock is taken before the state's, never after it.
    task: Mutex<Option<JoinHandle<()>>>,
    /// Notified when the first time in the heap becomes earlier.
    changed: Arc<Notify>,
}

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
            inner.tell(raised, priority);
        }
        inner.timer.ensure_running(inner);
        if first {
            inner.timer.changed.notify_one();
        }
    }
}

// === impl Timer ===

impl Timer {
    #[track_caller]
    fn ensure_running<T: Clone + Eq + Hash + Send + Sync + 'static>(&self, inner: &Arc<Inner<T>>) {
        let mut task = self.task.lock();
        // If the task has finished, its runtime was shut down and this is a different one.
        if task.as_ref().is_none_or(JoinHandle::is_finished) && inner.lock().is_open() {
            *task = Some(tokio::spawn(run(Arc::downgrade(inner), Arc::clone(&self.changed))));
        }
    }

    /// Aborts the task, if there is one.
    pub(crate) fn stop(&self) {
        if let Some(task) = &*self.task.lock() {
            task.abort();
        }
    }

    /// Waits until the aborted task has ended. Of several concurrent callers only one waits.
    pub(crate) async fn ended(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            // Takes one more turn of the scheduler. The result can only be a cancellation.
            let _ = task.await;
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
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
        let mut told = Vec::new();
        let mut state = self.lock();
        while let Some(slot) = state.pop_due(now) {
            let priority = state.priority(slot);
            let dirtied = state.mark_dirty(slot, priority.unwrap_or(DEFAULT_PRIORITY), self.metrics().is_some());
            if dirtied == Dirtied::Queued {
                wakers.extend(state.next_waker());
            }
            if self.metrics().is_some() {
                told.push((dirtied, priority));
            }
        }
        let next = state.delayed.heap.first().map(|waiting| waiting.ready_at);
        drop(state);
        for waker in wakers {
            waker.wake();
        }
        for (dirtied, priority) in told {
            self.tell(dirtied, priority);
        }
        next
    }
}

// === impl State ===

impl<T: Clone + Eq + Hash> State<T> {
    /// Delays `slot` until `ready_at`, unless it already waits for an earlier time. Returns `true` if it is now the
    /// first in the heap at a new time, together with the change of its priority if it is dirty.
    fn wait_until(&mut self, slot: Slot, priority: i32, ready_at: Instant) -> (bool, Dirtied) {
        if let Some(priorities) = self.ready.priorities() {
            let raised = priorities.raise(slot, priority);
            if matches!(self.entries.get(slot).phase, Phase::Queued | Phase::Reprocess) {
                return (false, raised.map_or(Dirtied::Already, Dirtied::Raised));
            }
        }
        let index = self.entries.get(slot).heap as usize;
        let first = if self.entries.get(slot).heap == NOT_WAITING {
            let seq = self.delayed.next_seq;
            self.delayed.next_seq += 1;
            self.delayed.heap.push(Waiting { ready_at, seq, slot });
            self.sift_up(self.delayed.heap.len() - 1) == 0
        } else if ready_at < self.delayed.heap[index].ready_at {
            self.delayed.heap[index].ready_at = ready_at;
            self.sift_up(index) == 0
        } else {
            false
        };
        (first, Dirtied::Already)
    }

    /// Removes a slot from the heap before its time, if present.
    pub(crate) fn stop_delaying(&mut self, slot: Slot) {
        let place = self.entries.get(slot).heap;
        if place == NOT_WAITING {
            return;
        }
        self.entries.get_mut(slot).heap = NOT_WAITING;
        let index = place as usize;
        self.delayed.heap.swap_remove(index);
        if index < self.delayed.heap.len() {
            let index = self.sift_up(index);
            self.sift_down(index);
        }
    }

    /// Removes the first slot from the heap if its time has come.
    fn pop_due(&mut self, now: Instant) -> Option<Slot> {
        let first = *self.delayed.heap.first()?;
        if first.ready_at > now {
            return None;
        }
        self.stop_delaying(first.slot);
        Some(first.slot)
    }

    /// Removes all delays. Returns the items that are no longer stored, to be dropped after the lock is released.
    pub(crate) fn drop_delayed(&mut self, hasher: &DefaultHashBuilder) -> Vec<T> {
        let mut dropped = Vec::new();
        for waiting in std::mem::take(&mut self.delayed.heap) {
            let entry = self.entries.get_mut(waiting.slot);
            entry.heap = NOT_WAITING;
            if entry.phase == Phase::Idle {
                dropped.extend(self.entries.remove(waiting.slot, hasher));
            }
        }
        dropped
    }

    /// Moves the element towards the root until its parent is not later. Returns its new position.
    fn sift_up(&mut self, mut index: usize) -> usize {
        while index > 0 {
            let parent = (index - 1) / 2;
            if !self.delayed.before(index, parent) {
                break;
            }
            self.delayed.heap.swap(index, parent);
            self.note_place(index);
            index = parent;
        }
        self.note_place(index);
        index
    }

    /// Moves the element away from the root until no child is earlier.
    fn sift_down(&mut self, mut index: usize) {
        loop {
            let mut least = index;
            for child in [2 * index + 1, 2 * index + 2] {
                if child < self.delayed.heap.len() && self.delayed.before(child, least) {
                    least = child;
                }
            }
            if least == index {
                break;
            }
            self.delayed.heap.swap(index, least);
            self.note_place(index);
            index = least;
        }
        self.note_place(index);
    }

    fn note_place(&mut self, index: usize) {
        let slot = self.delayed.heap[index].slot;
        self.entries.get_mut(slot).heap = u32::try_from(index).expect("the heap is not larger than the slab");
    }
}

// === impl Delayed ===

impl Delayed {
    fn before(&self, a: usize, b: usize) -> bool {
        let key = |index: usize| (self.heap[index].ready_at, self.heap[index].seq);
        key(a) < key(b)
    }
}
