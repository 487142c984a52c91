//! A queue of the newest state of each object, in the order of arrival.

use std::collections::{HashMap, VecDeque};

use super::Keyed;

/// A queue that holds only the newest state of each object, in the order of the objects' first arrival.
///
/// A removed object is never popped. If the consumer has to receive deletions, use [`DeltaFifo`](super::DeltaFifo).
///
/// ```
/// use windlass_cache::collections::Fifo;
/// # use windlass_cache::collections::Keyed;
/// # #[derive(Debug, PartialEq)]
/// # struct Job(&'static str, u32);
/// # impl Keyed for Job {
/// #     type Key = &'static str;
/// #     fn key(&self) -> &'static str { self.0 }
/// # }
///
/// let mut queue = Fifo::new();
/// for job in [Job("a", 1), Job("b", 1), Job("c", 1), Job("a", 2)] {
///     queue.insert(job);
/// }
/// queue.remove(&"b");
/// assert_eq!(queue.pop(), Some(Job("a", 2)), "the first position with the last state");
/// assert_eq!(queue.pop(), Some(Job("c", 1)), "b was removed");
/// assert_eq!(queue.pop(), None);
/// ```
#[derive(Debug)]
pub struct Fifo<T: Keyed> {
    /// Contains every key of `items`; other keys are ignored.
    order: VecDeque<T::Key>,
    items: HashMap<T::Key, T>,
    /// The number of remaining objects of the first replacement; `None` before the first change.
    initial: Option<usize>,
}

impl<T: Keyed> Fifo<T> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self { order: VecDeque::new(), items: HashMap::new(), initial: None }
    }

    /// Replaces the object with the same key, or adds the object at the end.
    pub fn insert(&mut self, object: T) {
        self.initial.get_or_insert(0);
        self.put(object);
    }

    /// Adds an object at the end, unless the queue has one with the same key.
    pub fn insert_if_absent(&mut self, object: T) {
        if !self.items.contains_key(&object.key()) {
            self.insert(object);
        }
    }

    /// Removes an object, so that it is not popped.
    pub fn remove(&mut self, key: &T::Key) -> Option<T> {
        self.initial.get_or_insert(0);
        self.items.remove(key)
    }

    /// Replaces the content with these objects, in this order.
    pub fn replace(&mut self, objects: Vec<T>) {
        self.order.clear();
        self.items.clear();
        for object in objects {
            self.put(object);
        }
        self.initial.get_or_insert(self.items.len());
    }

    /// Removes and returns the object that has waited longest.
    pub fn pop(&mut self) -> Option<T> {
        loop {
            let key = self.order.pop_front()?;
            self.initial = self.initial.map(|left| left.saturating_sub(1));
            if let Some(item) = self.items.remove(&key) {
                return Some(item);
            }
        }
    }

    /// Reports whether all objects of the first replacement have been popped.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.initial == Some(0)
    }

    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.items.get(key)
    }

    /// Iterates over the objects in the order in which they will be popped.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        // A key that was removed and added again occurs twice here; its first position counts.
        let mut seen = std::collections::HashSet::new();
        self.order.iter().filter(move |key| seen.insert(*key)).filter_map(|key| self.items.get(key))
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Reports whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn put(&mut self, object: T) {
        let key = object.key();
        if self.items.insert(key.clone(), object).is_none() {
            self.order.push_back(key);
        }
    }
}

impl<T: Keyed> Default for Fifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::tests::Item;

    type Items = Fifo<Item>;

    #[test]
    fn fifo_keeps_newest_states_in_order_of_first_insert() {
        let mut fifo = Items::new();
        for item in [Item("a", 1), Item("b", 1), Item("a", 2), Item("c", 1)] {
            fifo.insert(item);
        }
        fifo.insert_if_absent(Item("b", 9));
        fifo.remove(&"c");
        assert_eq!((fifo.len(), fifo.get(&"a")), (2, Some(&Item("a", 2))));
        assert_eq!(fifo.iter().copied().collect::<Vec<_>>(), [Item("a", 2), Item("b", 1)]);
        assert_eq!([fifo.pop(), fifo.pop(), fifo.pop()], [Some(Item("a", 2)), Some(Item("b", 1)), None]);
    }

    #[test]
    fn fifo_has_synced_after_first_replacement_is_popped() {
        let mut fifo = Items::new();
        assert!(!fifo.has_synced());
        fifo.replace(vec![Item("a", 1), Item("b", 1)]);
        fifo.remove(&"a");
        assert!(!fifo.has_synced());
        assert_eq!(fifo.pop(), Some(Item("b", 1)));
        assert!(fifo.has_synced());
        fifo.replace(vec![Item("c", 1)]);
        assert!(fifo.has_synced(), "it stays synced");

        let mut fifo = Items::new();
        fifo.insert(Item("a", 1));
        assert!(fifo.has_synced(), "there is no initial list");
    }
}
