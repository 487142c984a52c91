//! The order in which ready keys are handed out.

mod by_priority;

use std::{collections::VecDeque, fmt::Debug, hash::Hash};

pub(crate) use self::by_priority::ByPriority;
use crate::entries::{Entries, Slot};

/// The priority of keys added without a priority.
pub const DEFAULT_PRIORITY: i32 = 0;

/// The priority of less urgent keys: objects of an initial list, and resyncs.
pub const LOW_PRIORITY: i32 = -100;

/// A custom order, for [`Builder::order`](crate::Builder::order). It runs under the queue's lock.
///
/// It receives each item once, when the item becomes ready, and must return it once. Returned items that it does not
/// hold, or has already returned, are not handed out. Items that it never returns are lost.
pub trait Order<T>: Debug + Send {
    /// Adds an item that has become ready.
    fn push(&mut self, item: T);

    /// Called when an item that the order holds is added again. The order may move it. Does nothing by default.
    fn touch(&mut self, item: &T) {
        let _ = item;
    }

    /// Removes and returns the next item.
    fn pop(&mut self) -> Option<T>;

    /// Returns the number of items.
    fn len(&self) -> usize;

    /// Reports whether there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The slots in `Phase::Queued`.
#[derive(Debug)]
pub(crate) enum Ready<T> {
    /// In order of arrival.
    InOrder(VecDeque<Slot>),
    ByPriority(ByPriority),
    Custom(Box<dyn Order<T>>),
}

// === impl Ready ===

impl<T: Clone + Eq + Hash> Ready<T> {
    /// Adds a slot that has become ready.
    pub(crate) fn push(&mut self, slot: Slot, entries: &Entries<T>) {
        match self {
            Self::InOrder(slots) => slots.push_back(slot),
            Self::ByPriority(slots) => slots.push(slot),
            Self::Custom(order) => order.push(entries.get(slot).item().clone()),
        }
    }

    /// Removes and returns the next slot. `find` returns the slot of a queued item.
    pub(crate) fn pop(&mut self, find: impl Fn(&T) -> Option<Slot>) -> Option<(Slot, i32)> {
        match self {
            Self::InOrder(slots) => slots.pop_front().map(|slot| (slot, DEFAULT_PRIORITY)),
            Self::ByPriority(slots) => slots.pop(),
            Self::Custom(order) => loop {
                if let Some(slot) = find(&order.pop()?) {
                    return Some((slot, DEFAULT_PRIORITY));
                }
            },
        }
    }

    /// Notes that a ready slot was added again.
    pub(crate) fn touch(&mut self, slot: Slot, entries: &Entries<T>) {
        if let Self::Custom(order) = self {
            order.touch(entries.get(slot).item());
        }
    }
}

impl<T> Ready<T> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::InOrder(slots) => slots.len(),
            Self::ByPriority(slots) => slots.len(),
            Self::Custom(order) => order.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the priorities, in a queue by priority.
    pub(crate) fn priorities(&mut self) -> Option<&mut ByPriority> {
        match self {
            Self::ByPriority(slots) => Some(slots),
            Self::InOrder(_) | Self::Custom(_) => None,
        }
    }
}
