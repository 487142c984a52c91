//! The state that the lock protects, and its transitions.

mod delayed;

use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hash},
    task::Waker,
    time::Duration,
};

use hashbrown::DefaultHashBuilder;
use tokio::time::Instant;

use self::delayed::Delayed;
use crate::{
    entries::{Entries, NOT_WAITING, Phase, Slot},
    order::Ready,
};

pub(crate) struct State<T> {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) entries: Entries<T>,
    /// The slots in `Phase::Queued`.
    pub(crate) ready: Ready<T>,
    /// The number of slots in `Processing` or `Reprocess`.
    pub(crate) processing: usize,
    /// Workers that found no item and have not been woken since. Non-empty only while each key in `ready` has a woken
    /// worker.
    pub(crate) waiters: VecDeque<Waiter>,
    next_waiter: u64,
    delayed: Delayed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// Accepts new keys.
    Open,
    /// Accepts no new keys, and hands out the queued ones.
    Draining,
    /// Like `Draining`, but no caller may wait for the end.
    Closed,
}

pub(crate) struct Waiter {
    id: u64,
    pub(crate) waker: Waker,
}

/// The effect of `mark_dirty`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dirtied {
    /// The key was dirty already.
    Already,
    /// The key was dirty already, with this lower priority.
    Raised(i32),
    /// The key is ready now: a worker should be woken.
    Queued,
    /// A worker has the key: it will be queued on `done`.
    Deferred,
}

/// The item that a worker gets.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    pub(crate) item: T,
    pub(crate) priority: i32,
    /// How long the item was dirty, if recorded.
    pub(crate) waited: Option<Duration>,
}

// === impl State ===

impl<T: Clone + Eq + Hash> State<T> {
    pub(crate) fn new(ready: Ready<T>, timed: bool) -> Self {
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
            // In a queue by priority, a key is ready or delayed, but not both.
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

    /// Returns the priority of a slot, in a queue by priority.
    pub(crate) fn priority(&mut self, slot: Slot) -> Option<i32> {
        self.ready.priorities().map(|priorities| priorities.of(slot))
    }

    /// Queues a reprocessed slot after `done`.
    pub(crate) fn requeue(&mut self, slot: Slot) {
        self.entries.get_mut(slot).phase = Phase::Queued;
        self.ready.push(slot, &self.entries);
    }

    /// Reports whether a slot is delayed.
    pub(crate) fn is_delayed(&self, slot: Slot) -> bool {
        self.entries.get(slot).heap != NOT_WAITING
    }

    /// Returns the worker to wake for a newly queued item. Wake it after the lock is released.
    pub(crate) fn next_waker(&mut self) -> Option<Waker> {
        self.waiters.pop_front().map(|waiter| waiter.waker)
    }

    /// Reports whether no item is queued or being processed.
    pub(crate) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.processing == 0
    }

    /// Takes the next item for a worker.
    pub(crate) fn take(&mut self, hasher: &DefaultHashBuilder, timed: bool) -> Option<Taken<T>> {
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

    /// Adds a waiting worker, or renews its waker.
    pub(crate) fn wait(&mut self, waiter: &mut Option<u64>, waker: &Waker) {
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

    /// Removes a waiting worker. Returns `false` if it had been woken.
    pub(crate) fn stop_waiting(&mut self, id: u64) -> bool {
        let position = self.waiters.iter().position(|waiter| waiter.id == id);
        position.is_some_and(|position| self.waiters.remove(position).is_some())
    }
}
