//! The order by priority. Keys with the same priority are in the order in which they got it.

use std::{cmp::Reverse, collections::BTreeMap};

use super::DEFAULT_PRIORITY;
use crate::entries::Slot;

/// The ready slots, and the priorities of all ready, delayed and reprocessed slots.
#[derive(Debug, Default)]
pub(crate) struct ByPriority {
    slots: BTreeMap<(Reverse<i32>, u64), Slot>,
    ranks: Vec<Rank>,
    next_number: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    /// The highest priority with which the slot was added since it was last taken.
    priority: Option<i32>,
    /// The position among slots of the same priority. `Some` if and only if the slot is in `slots`.
    number: Option<u64>,
}

// === impl ByPriority ===

impl ByPriority {
    /// Raises the priority of a slot to at least `priority`. The slot need not be ready. A raised slot is placed behind
    /// the slots that already have the new priority. Returns the previous priority if it was lower.
    pub(crate) fn raise(&mut self, slot: Slot, priority: i32) -> Option<i32> {
        if self.ranks.len() <= slot as usize {
            self.ranks.resize(slot as usize + 1, Rank::default());
        }
        let rank = &mut self.ranks[slot as usize];
        let before = rank.priority;
        if before.is_some_and(|before| before >= priority) {
            return None;
        }
        rank.priority = Some(priority);
        if let (Some(before), Some(number)) = (before, rank.number) {
            self.slots.remove(&(Reverse(before), number));
            self.push(slot);
        }
        before
    }

    /// Returns the priority of a ready, delayed or reprocessed slot.
    pub(crate) fn of(&self, slot: Slot) -> i32 {
        self.ranks.get(slot as usize).and_then(|rank| rank.priority).unwrap_or(DEFAULT_PRIORITY)
    }

    pub(super) fn push(&mut self, slot: Slot) {
        let number = self.next_number;
        self.next_number += 1;
        let priority = self.of(slot);
        if let Some(rank) = self.ranks.get_mut(slot as usize) {
            rank.number = Some(number);
        }
        self.slots.insert((Reverse(priority), number), slot);
    }

    pub(super) fn pop(&mut self) -> Option<(Slot, i32)> {
        let ((Reverse(priority), _), slot) = self.slots.pop_first()?;
        self.forget(slot);
        Some((slot, priority))
    }

    /// Removes the priority of a slot.
    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(rank) = self.ranks.get_mut(slot as usize) {
            *rank = Rank::default();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}
