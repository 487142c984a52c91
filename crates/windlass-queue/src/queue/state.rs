//! What the lock protects, and its steps.

use std::{collections::VecDeque, hash::Hash, task::Waker, time::Duration};

use tokio::time::Instant;

use super::entries::{Entries, Phase, Slot};
use crate::delaying::Delayed;

pub(crate) struct State<T> {
    pub(super) lifecycle: Lifecycle,
    pub(crate) entries: Entries<T>,
    /// Exactly the slots in `Phase::Queued`, in the order in which they became so.
    pub(super) fifo: VecDeque<Slot>,
    /// The number of slots in `Processing` or `Reprocess`.
    pub(super) processing: usize,
    /// Workers that found nothing and were not woken since. Non-empty only while each key in `fifo` has a woken worker
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
    /// It is in the FIFO now: a worker should be woken.
    Queued,
    /// A worker has it: it will be queued when that one is done.
    Deferred,
}

// === impl State ===

impl<T: Clone + Eq + Hash> State<T> {
    pub(super) fn new(timed: bool) -> Self {
        Self {
            lifecycle: Lifecycle::Open,
            entries: Entries::new(timed),
            fifo: VecDeque::new(),
            processing: 0,
            waiters: VecDeque::new(),
            next_waiter: 0,
            delayed: Delayed::default(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lifecycle == Lifecycle::Open
    }

    pub(crate) fn mark_dirty(&mut self, slot: Slot, timed: bool) -> Dirtied {
        let entry = self.entries.get_mut(slot);
        let dirtied = match entry.phase {
            Phase::Queued | Phase::Reprocess => return Dirtied::Already,
            Phase::Idle => {
                entry.phase = Phase::Queued;
                self.fifo.push_back(slot);
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

    /// The worker to wake for one more queued item. To be woken after the lock is released.
    pub(crate) fn next_waker(&mut self) -> Option<Waker> {
        self.waiters.pop_front().map(|waiter| waiter.waker)
    }

    /// Nothing queued, nothing in the hands of workers.
    pub(super) fn is_idle(&self) -> bool {
        self.fifo.is_empty() && self.processing == 0
    }

    /// Takes the first queued item for a worker, with the time for which it was dirty if that is recorded.
    pub(super) fn take(&mut self, timed: bool) -> Option<(T, Option<Duration>)> {
        let slot = self.fifo.pop_front()?;
        let mut waited = None;
        if timed && let Some(times) = self.entries.times_mut(slot) {
            let now = Instant::now();
            waited = times.added.take().map(|added| now.duration_since(added));
            times.started = Some(now);
        }
        self.processing += 1;
        let entry = self.entries.get_mut(slot);
        entry.phase = Phase::Processing;
        Some((entry.item(), waited))
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
