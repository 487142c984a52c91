//! The queue that splits a list into single objects.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
};

use windlass_api::{ObjectKey, ResourceVersion};

use super::{Delta, EventQueue};
use crate::{cached::Cached, handler::Deleted, store::Store};

/// A queue in the order of arrival, like [`InOrder`](super::InOrder), but a list is delivered object by object: first
/// the deleted objects, then the existing ones. client-go's `RealFIFO` without atomic events.
///
/// No single step takes long, even with a long list. In exchange, readers see mixtures of the state before the list and
/// after it. Deletions that are queued when a list arrives are kept, so that a recreated object is delivered as a
/// deletion and an addition.
pub struct OneByOne<K> {
    /// The objects that the consumer has.
    known: Store<K>,
    deltas: VecDeque<Delta<K>>,
    /// The number of remaining deltas of the initial list; `None` before the first replacement.
    initial: Option<usize>,
}

impl<K> OneByOne<K> {
    /// Creates an empty queue for a consumer that has the objects in `known`.
    #[must_use]
    pub fn new(known: &Store<K>) -> Self {
        Self { known: known.clone(), deltas: VecDeque::new(), initial: None }
    }

    fn replace(&mut self, objects: Vec<Cached<K>>, version: ResourceVersion) {
        let listed: HashSet<_> = objects.iter().map(|object| object.key().clone()).collect();
        let mut gone: Vec<_> = self.last_queued().into_values().collect();
        gone.retain(|(_, delta)| !matches!(delta, Delta::Deleted(_)));
        gone.sort_unstable_by_key(|(at, _)| *at);
        let mut gone: Vec<_> = gone.into_iter().filter_map(|(_, delta)| delta.object().cloned()).collect();
        let queued = self.last_queued();
        gone.extend(self.known.list().into_iter().filter(|known| !queued.contains_key(known.key())));
        gone.retain(|object| !listed.contains(object.key()));
        self.deltas.extend(gone.into_iter().map(|object| Delta::Deleted(Deleted::missed(object))));
        self.deltas.extend(objects.into_iter().map(Delta::Replaced));
        self.deltas.push_back(Delta::Bookmark(version));
        self.initial.get_or_insert(self.deltas.len());
    }

    /// Returns the last delta of each queued object, with its position.
    fn last_queued(&self) -> HashMap<&ObjectKey, (usize, &Delta<K>)> {
        let queued = self.deltas.iter().enumerate();
        queued.filter_map(|(at, delta)| Some((delta.object()?.key(), (at, delta)))).collect()
    }
}

impl<K: Send + Sync + 'static> EventQueue<K> for OneByOne<K> {
    fn push(&mut self, delta: Delta<K>) {
        match delta {
            Delta::ReplacedAll { objects, version } => self.replace(objects, version),
            Delta::SyncAll => {
                let mut known = self.known.list();
                let queued = self.last_queued();
                known.retain(|object| !queued.contains_key(object.key()));
                self.deltas.extend(known.into_iter().map(Delta::Sync));
            }
            single => self.deltas.push_back(single),
        }
    }

    fn pop(&mut self) -> Option<Delta<K>> {
        let delta = self.deltas.pop_front()?;
        self.initial = self.initial.map(|left| left.saturating_sub(1));
        Some(delta)
    }

    fn len(&self) -> usize {
        self.deltas.len()
    }

    fn has_synced(&self) -> bool {
        self.initial == Some(0)
    }
}

impl<K> fmt::Debug for OneByOne<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneByOne")
            .field("len", &self.deltas.len())
            .field("initial", &self.initial)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_queue::tests::{Map, entry, shapes};
    use crate::store::StoreWriter;

    fn queue(known: &[Map]) -> OneByOne<()> {
        let mut writer = StoreWriter::new(|_, _, _| ());
        for object in known {
            writer.insert(object.clone(), None);
        }
        OneByOne::new(writer.store())
    }

    fn popped(mut queue: OneByOne<()>) -> Vec<String> {
        shapes(&std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>())
    }

    #[test]
    fn deltas_are_popped_one_by_one_in_order() {
        let mut queue = queue(&[]);
        queue.push(Delta::Added(entry("a", 1)));
        queue.push(Delta::Added(entry("b", 2)));
        queue.push(Delta::Updated(entry("a", 3)));
        queue.push(Delta::Deleted(Deleted::final_state(entry("unknown", 4))));
        assert_eq!(popped(queue), ["added a@1", "added b@2", "updated a@3", "deleted unknown@4"]);
    }

    #[test]
    fn list_delivers_queued_deletions_known_deletions_then_objects() {
        let mut queue = queue(&[entry("known", 1), entry("listed", 1), entry("queued", 1)]);
        queue.push(Delta::Updated(entry("queued", 2)));
        queue.push(Delta::Added(entry("ended", 3)));
        queue.push(Delta::Deleted(Deleted::final_state(entry("ended", 4))));
        queue.push(Delta::Deleted(Deleted::final_state(entry("again", 5))));
        queue.push(Delta::ReplacedAll { objects: vec![entry("listed", 1), entry("again", 6)], version: 9.into() });
        assert_eq!(
            popped(queue)[4..],
            ["missed queued@2", "missed known@1", "replaced listed@1", "replaced again@6", "at 9"]
        );
    }

    #[test]
    fn a_resync_shows_nothing_that_has_a_newer_state_queued() {
        let mut queue = queue(&[entry("a", 1), entry("b", 1)]);
        queue.push(Delta::Updated(entry("a", 2)));
        queue.push(Delta::SyncAll);
        assert_eq!(popped(queue), ["updated a@2", "sync b@1"]);
    }

    #[test]
    fn deltas_of_another_queue_pass_unchanged() {
        let mut queue = queue(&[]);
        queue.push(Delta::Replaced(entry("a", 1)));
        queue.push(Delta::Sync(entry("b", 2)));
        queue.push(Delta::Deleted(Deleted::missed(entry("c", 3))));
        assert_eq!(popped(queue), ["replaced a@1", "sync b@2", "missed c@3"]);
    }

    #[test]
    fn queue_has_synced_after_the_first_list_is_popped() {
        let mut queue = queue(&[]);
        queue.push(Delta::ReplacedAll { objects: vec![entry("a", 1)], version: 1.into() });
        queue.push(Delta::Added(entry("b", 2)));
        let synced: Vec<_> = std::iter::from_fn(|| queue.pop().map(|_| queue.has_synced())).collect();
        assert_eq!(synced, [false, true, true]);
    }
}
