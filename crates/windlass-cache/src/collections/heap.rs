//! A queue of the newest state of each object, in the order of a priority.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use super::Keyed;

/// A priority queue that holds one state of each object. Objects with equal priorities are popped in the order of
/// arrival.
///
/// It is plain data. Shared as a [`Blocking`](super::Blocking) heap, it is an [`ObjectStore`](super::ObjectStore) whose
/// objects can be popped.
///
/// ```
/// use windlass_cache::collections::Heap;
/// # use windlass_cache::collections::Keyed;
/// # #[derive(Debug, PartialEq)]
/// # struct Task { name: &'static str, due: u32 }
/// # impl Keyed for Task {
/// #     type Key = &'static str;
/// #     fn key(&self) -> &'static str { self.name }
/// # }
///
/// let mut heap = Heap::by(|task: &Task| task.due);
/// for (name, due) in [("write", 30), ("read", 10), ("rest", 20)] {
///     heap.insert(Task { name, due });
/// }
/// heap.insert(Task { name: "write", due: 5 }); // a new state moves to its new position
/// let order: Vec<_> = std::iter::from_fn(|| heap.pop()).map(|task| task.name).collect();
/// assert_eq!(order, ["write", "read", "rest"]);
/// ```
pub struct Heap<T: Keyed, P> {
    priority: Box<dyn Fn(&T) -> P + Send + Sync>,
    /// The priority of each object when it was inserted, and a sequence number for equal priorities.
    places: HashMap<T::Key, (P, u64)>,
    items: BTreeMap<(P, u64), T>,
    next: u64,
}

impl<T: Keyed, P: Ord + Clone> Heap<T, P> {
    /// Creates an empty heap. The lowest priority is popped first.
    pub fn by(priority: impl Fn(&T) -> P + Send + Sync + 'static) -> Self {
        Self { priority: Box::new(priority), places: HashMap::new(), items: BTreeMap::new(), next: 0 }
    }

    /// Adds an object, or replaces the one with the same key. Go's `Add` and `Update`; for `BulkAdd`, use [`Extend`].
    pub fn insert(&mut self, object: T) {
        let (key, priority) = (object.key(), (self.priority)(&object));
        let number = self.take(&key).map(|((_, number), _)| number);
        let number = number.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        self.items.insert((priority.clone(), number), object);
        self.places.insert(key, (priority, number));
    }

    /// Adds an object, unless the heap has one with the same key.
    pub fn insert_if_absent(&mut self, object: T) {
        if !self.places.contains_key(&object.key()) {
            self.insert(object);
        }
    }

    /// Replaces the content. If a key occurs twice, the last object is stored.
    pub fn replace(&mut self, objects: Vec<T>) {
        self.places.clear();
        self.items.clear();
        self.extend(objects);
    }

    /// Removes an object; `None` if it does not exist.
    pub fn remove(&mut self, key: &T::Key) -> Option<T> {
        self.take(key).map(|(_, object)| object)
    }

    /// Removes and returns the first object.
    pub fn pop(&mut self) -> Option<T> {
        let (_, object) = self.items.pop_first()?;
        self.places.remove(&object.key());
        Some(object)
    }

    /// Returns the first object without removing it.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.items.values().next()
    }

    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.items.get(self.places.get(key)?)
    }

    /// Iterates over the objects in the order in which they will be popped.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.values()
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Reports whether the heap is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn take(&mut self, key: &T::Key) -> Option<((P, u64), T)> {
        let place = self.places.remove(key)?;
        self.items.remove_entry(&place)
    }
}

impl<T: Keyed, P: Ord + Clone> Extend<T> for Heap<T, P> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, objects: I) {
        objects.into_iter().for_each(|object| self.insert(object));
    }
}

impl<T: Keyed, P> fmt::Debug for Heap<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("len", &self.items.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::tests::Item;

    fn heap(items: &[Item]) -> Heap<Item, u64> {
        let mut heap = Heap::by(|item: &Item| item.1);
        heap.extend(items.iter().copied());
        heap
    }

    fn names(mut heap: Heap<Item, u64>) -> Vec<&'static str> {
        std::iter::from_fn(|| heap.pop()).map(|item| item.0).collect()
    }

    #[test]
    fn a_new_state_moves_to_its_place_and_equals_stay_in_order() {
        let mut all = heap(&[Item("a", 3), Item("b", 1), Item("c", 2), Item("d", 2)]);
        assert_eq!((all.peek(), all.len()), (Some(&Item("b", 1)), 4));
        all.insert(Item("a", 0));
        all.insert(Item("b", 9));
        assert_eq!(all.iter().map(|item| item.0).collect::<String>(), "acdb");
        assert_eq!(names(all), ["a", "c", "d", "b"]);
    }

    #[test]
    fn insert_if_absent_keeps_the_existing_object() {
        let mut all = heap(&[Item("a", 3)]);
        all.insert_if_absent(Item("a", 1));
        all.insert_if_absent(Item("b", 2));
        assert_eq!((all.get(&"a"), all.get(&"c")), (Some(&Item("a", 3)), None));
        assert_eq!(names(all), ["b", "a"]);
    }

    #[test]
    fn replaced_heap_holds_the_new_objects_alone() {
        let mut all = heap(&[Item("a", 3), Item("b", 1)]);
        all.replace(vec![Item("c", 2), Item("a", 1), Item("c", 0)]);
        assert_eq!((all.len(), all.get(&"b"), all.get(&"c")), (2, None, Some(&Item("c", 0))));
        assert_eq!(names(all), ["c", "a"]);
    }

    #[test]
    fn removing_a_missing_object_returns_none() {
        let mut all = heap(&[Item("a", 3), Item("b", 1)]);
        assert_eq!((all.remove(&"b"), all.remove(&"b")), (Some(Item("b", 1)), None));
        assert_eq!(names(all), ["a"]);
    }
}
