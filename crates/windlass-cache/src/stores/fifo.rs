//! The newest state of each object, in the order of arrival.

use std::collections::{HashMap, VecDeque};

use super::Keyed;

/// A queue of objects that holds one state of each, the newest, and gives them in the order in which they came first.
///
/// What is removed before it is popped is never popped. It has no idea what anybody knows: who must learn of deletions
/// takes a [`DeltaFifo`](super::DeltaFifo).
///
/// ```
/// use windlass_cache::stores::Fifo;
/// # use windlass_cache::stores::Keyed;
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
/// assert_eq!(queue.pop(), Some(Job("a", 2)), "its place is the first one's, its state the last one's");
/// assert_eq!(queue.pop(), Some(Job("c", 1)), "b was removed");
/// assert_eq!(queue.pop(), None);
/// ```
#[derive(Debug)]
pub struct Fifo<T: Keyed> {
    /// Every key of `items` is here; keys that are not in `items` are passed over.
    order: VecDeque<T::Key>,
    items: HashMap<T::Key, T>,
    /// How many objects of the first replacement are left; `None` before anything was put in.
    initial: Option<usize>,
}

impl<T: Keyed> Fifo<T> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self { order: VecDeque::new(), items: HashMap::new(), initial: None }
    }

    /// Puts an object in the place of the one with its key, or at the end.
    pub fn insert(&mut self, object: T) {
        self.initial.get_or_insert(0);
        self.put(object);
    }

    /// Puts an object at the end unless one with its key is there.
    pub fn insert_if_absent(&mut self, object: T) {
        if !self.items.contains_key(&object.key()) {
            self.insert(object);
        }
    }

    /// Takes an object out; it will not be popped.
    pub fn remove(&mut self, key: &T::Key) -> Option<T> {
        self.initial.get_or_insert(0);
        self.items.remove(key)
    }

    /// These objects are there, and no others, in this order.
    pub fn replace(&mut self, objects: Vec<T>) {
        self.order.clear();
        self.items.clear();
        for object in objects {
            self.put(object);
        }
        self.initial.get_or_insert(self.items.len());
    }

    /// The object that has waited longest.
    pub fn pop(&mut self) -> Option<T> {
        loop {
            let key = self.order.pop_front()?;
            self.initial = self.initial.map(|left| left.saturating_sub(1));
            if let Some(item) = self.items.remove(&key) {
                return Some(item);
            }
        }
    }

    /// Whether no object of the first replacement is still to be popped.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.initial == Some(0)
    }

    /// The object with this key.
    #[must_use]
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.items.get(key)
    }

    /// Every object, in the order in which they will be popped.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        // A key that was removed and came again stands here twice; the first place counts.
        let mut seen = std::collections::HashSet::new();
        self.order.iter().filter(move |key| seen.insert(*key)).filter_map(|key| self.items.get(key))
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
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
    use crate::stores::tests::Item;

    type Items = Fifo<Item>;

    #[test]
    fn it_holds_the_newest_state_of_each_object_in_the_order_of_the_first() {
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
    fn it_has_synced_when_the_first_replacement_has_been_popped() {
        let mut fifo = Items::new();
        assert!(!fifo.has_synced());
        fifo.replace(vec![Item("a", 1), Item("b", 1)]);
        fifo.remove(&"a");
        assert!(!fifo.has_synced());
        assert_eq!(fifo.pop(), Some(Item("b", 1)));
        assert!(fifo.has_synced());
        fifo.replace(vec![Item("c", 1)]);
        assert!(fifo.has_synced(), "once and for all");

        let mut fifo = Items::new();
        fifo.insert(Item("a", 1));
        assert!(fifo.has_synced(), "nothing to wait for");
    }
}
