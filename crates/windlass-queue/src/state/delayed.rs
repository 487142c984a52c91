//! Delayed keys.
//!
//! A binary heap holds the delayed keys by time. Each entry knows its position, so a key is in the heap once and can be
//! moved to an earlier time.

use std::hash::Hash;

use hashbrown::DefaultHashBuilder;
use tokio::time::Instant;

use super::{Dirtied, State};
use crate::entries::{NOT_WAITING, Phase, Slot};

/// A binary heap by `(ready_at, seq)`, least first. `entries[slot].heap` is the index of the element with that slot.
#[derive(Debug, Default)]
pub(super) struct Delayed {
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

// === impl State ===

impl<T: Clone + Eq + Hash> State<T> {
    /// Delays `slot` until `ready_at`, unless it already waits for an earlier time. Returns `true` if it is now the
    /// first in the heap at a new time, together with the change of its priority if it is dirty.
    pub(crate) fn wait_until(&mut self, slot: Slot, priority: i32, ready_at: Instant) -> (bool, Dirtied) {
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
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Slot> {
        let first = *self.delayed.heap.first()?;
        if first.ready_at > now {
            return None;
        }
        self.stop_delaying(first.slot);
        Some(first.slot)
    }

    /// Returns the first time in the heap.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.delayed.heap.first().map(|waiting| waiting.ready_at)
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
