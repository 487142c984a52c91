//! The order in which ready keys are handed out.

mod by_priority;

use std::{collections::VecDeque, fmt::Debug, hash::Hash};

pub(crate) use self::by_priority::ByPriority;
use crate::queue::entries::{Entries, Slot};

/// The priority of what is added without one.
pub const DEFAULT_PRIORITY: i32 = 0;

/// The priority of what need not be looked at before anything else: the objects of an initial list, resyncs.
pub const LOW_PRIORITY: i32 = -100;

/// An order of a program's own, for [`Builder::order`](crate::Builder::order). It runs under the queue's lock.
///
/// It is given each item once, when that becomes ready, and has to give it back once. What it gives back without having
/// it, or twice, is not handed out; what it never gives back is lost.
pub trait Order<T>: Debug + Send {
    /// Takes in an item that has become ready.
    fn push(&mut self, item: T);

    /// Notes that an item which it has was added once more: it may move. Does nothing by default.
    fn touch(&mut self, item: &T) {
        let _ = item;
    }

    /// Gives out the item that is next.
    fn pop(&mut self) -> Option<T>;

    /// How many items it has.
    fn len(&self) -> usize;

    /// Whether it has no item.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Exactly the slots in `Phase::Queued`.
#[derive(Debug)]
pub(crate) enum Ready<T> {
    /// In the order in which they became so.
    InOrder(VecDeque<Slot>),
    ByPriority(ByPriority),
    Custom(Box<dyn Order<T>>),
}

// === impl Ready ===

impl<T: Clone + Eq + Hash> Ready<T> {
    /// Takes in a slot that has become ready.
    pub(crate) fn push(&mut self, slot: Slot, entries: &Entries<T>) {
        match self {
            Self::InOrder(slots) => slots.push_back(slot),
            Self::ByPriority(slots) => slots.push(slot),
            Self::Custom(order) => order.push(entries.get(slot).item().clone()),
        }
    }

    /// Gives out the slot that is next. `find` finds the slot of an item that is queued.
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

    /// A slot that is there was added once more.
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

    /// The priorities, where they count.
    pub(crate) fn priorities(&mut self) -> Option<&mut ByPriority> {
        match self {
            Self::ByPriority(slots) => Some(slots),
            Self::InOrder(_) | Self::Custom(_) => None,
        }
    }
}
