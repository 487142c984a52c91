//! What the lock protects, and its steps.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hash},
    task::Waker,
    time::Duration,
};

use hashbrown::DefaultHashBuilder;
use tokio::time::Instant;

use super::entries::{Entries, NOT_WAITING, Phase, Slot};
use crate::{delaying::Delayed, order::Ready};

pub(crate) struct State<T> {
    pub(super) lifecycle: Lifecycle,
    pub(crate) entries: Entries<T>,
    /// Exactly the slots in `Phase::Queued`.
    pub(crate) ready: Ready<T>,
    /// The number of slots in `Processing` or `Reprocess`.
    pub(super) processing: usize,
    /// Workers that found nothing and were not woken since. Non-empty only while each key in `ready` has a woken worker
    /// on its way.
    pub(super) waiters: VecDeque<Waiter>,
    next_waiter: u64,
    pub(crate) delayed: Delayed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifecycle {
    /// Takes new keys.
    Open,
    /// Takes no new keys; hands out what it has.
    Draining,
    /// As `Draining`, but nobody may wait for the end.
    Closed,
}

pub(super) struct Waiter {
    id: u64,
    pub(super) waker: Waker,
}

/// What `mark_dirty` changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dirtied {
    /// It was dirty before.
    Already,
    /// It was dirty before, with this priority, which was lower.
    Raised(i32),
    /// It is ready now: a worker should be woken.
    Queued,
    /// A worker has it: it will be queued when that one is done.
    Deferred,
}

/// What a worker gets.
#[derive(Debug)]
pub(super) struct Taken<T> {
    pub(super) item: T,
    pub(super) priority: i32,
    /// For how long it was dirty, if that is recorded.
    pub(super) waited: Option<Duration>,
}

// === impl State ===

impl<T: Clone + Eq + Hash> State<T> {
    pub(super) fn new(ready: Ready<T>, timed: bool) -> Self {
        Self {
            lifecycle: Lifecycle::Open,
            entries: Entries::new(timed),
            ready,
            processing: 0,
            waiters: VecDeque::new(),
            next_waiter: 0,
            delayed: Delayed::default(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lifecycle == Lifecycle::Open
    }

    #[inline]
    pub(crate) fn mark_dirty(&mut self, slot: Slot, priority: i32, timed: bool) -> Dirtied {
        let mut raised = None;
        if let Some(priorities) = self.ready.priorities() {
            raised = priorities.raise(slot, priority);
            // By priority, a key is in the queue once: what is ready does not wait as well.
            self.stop_delaying(slot);
        }
        let entry = self.entries.get_mut(slot);
        let dirtied = match entry.phase {
            Phase::Queued => {
                self.ready.touch(slot, &self.entries);
                return raised.map_or(Dirtied::Already, Dirtied::Raised);
            }
            Phase::Reprocess => return raised.map_or(Dirtied::Already, Dirtied::Raised),
            Phase::Idle => {
                entry.phase = Phase::Queued;
                self.ready.push(slot, &self.entries);
                Dirtied::Queued
            }
            Phase::Processing => {
                entry.phase = Phase::Reprocess;
                Dirtied::Deferred
            }
        };
        if timed && let Some(times) = self.entries.times_mut(slot) {
            times.added = Some(Instant::now());
        }
        dirtied
    }

    /// The priority of a slot, where priorities count.
    pub(crate) fn priority(&mut self, slot: Slot) -> Option<i32> {
        self.ready.priorities().map(|priorities| priorities.of(slot))
    }

    /// Queues what a worker has brought back dirty.
    pub(super) fn requeue(&mut self, slot: Slot) {
        self.entries.get_mut(slot).phase = Phase::Queued;
        self.ready.push(slot, &self.entries);
    }

    /// Whether a slot waits for a moment.
    pub(super) fn is_delayed(&self, slot: Slot) -> bool {
        self.entries.get(slot).heap != NOT_WAITING
    }

    /// The worker to wake for one more queued item. To be woken after the lock is released.
    pub(crate) fn next_waker(&mut self) -> Option<Waker> {
        self.waiters.pop_front().map(|waiter| waiter.waker)
    }

    /// Nothing queued, nothing in the hands of workers.
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.processing == 0
    }

    /// Takes the next item for a worker.
    pub(super) fn take(&mut self, hasher: &DefaultHashBuilder, timed: bool) -> Option<Taken<T>> {
        let entries = &self.entries;
        let (slot, priority) = self.ready.pop(|item| {
            let slot = entries.find(hasher.hash_one(item), item)?;
            (entries.get(slot).phase == Phase::Queued).then_some(slot)
        })?;
        let mut waited = None;
        if timed && let Some(times) = self.entries.times_mut(slot) {
            let now = Instant::now();
            waited = times.added.take().map(|added| now.duration_since(added));
            times.started = Some(now);
        }
        self.processing += 1;
        let entry = self.entries.get_mut(slot);
        entry.phase = Phase::Processing;
        Some(Taken { item: entry.item().clone(), priority, waited })
    }

    /// Enters a waiting worker, or renews its waker.
    pub(super) fn wait(&mut self, waiter: &mut Option<u64>, waker: &Waker) {
        if let Some(id) = *waiter
            && let Some(waiting) = self.waiters.iter_mut().find(|waiting| waiting.id == id)
        {
            waiting.waker.clone_from(waker);
            return;
        }
        let id = self.next_waiter;
        self.next_waiter += 1;
        *waiter = Some(id);
        self.waiters.push_back(Waiter { id, waker: waker.clone() });
    }

    /// Removes a waiting worker; false if it had been woken.
    pub(super) fn stop_waiting(&mut self, id: u64) -> bool {
        let position = self.waiters.iter().position(|waiter| waiter.id == id);
        position.is_some_and(|position| self.waiters.remove(position).is_some())
    }
}
