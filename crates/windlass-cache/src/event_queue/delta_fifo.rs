//! The queue that groups changes by object.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
};

use windlass_api::{ObjectKey, ResourceVersion};

use super::{Delta, EventQueue, Order};
use crate::{
    cached::Cached,
    handler::{Deleted, DeletedState},
    store::Store,
};

/// A queue of objects, each with all deltas since it was last popped: client-go's `DeltaFIFO`.
///
/// Objects are popped in the order of their first pending change. The changes of one object stay in order, and two
/// successive deletions are merged. The queue is plain data; an informer or [`Blocking`](crate::collections::Blocking) adds
/// the waiting.
///
/// # What is not guaranteed
///
/// - Changes of different objects may be popped in another order than they were pushed. So the store may show mixtures
///   of states, and its version advances only when the queue is empty.
///
/// ```
/// use windlass_cache::{Cached, Deleted, Delta, collections::{DeltaFifo, ThreadSafeMap}};
/// # use windlass_api::k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
/// # fn pod(name: &str) -> Pod {
/// #     Pod { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Pod::default() }
/// # }
///
/// let known = ThreadSafeMap::new();
/// let mut queue = DeltaFifo::new(known.reader());
/// queue.push_delta(Delta::Added(Cached::of(&pod("a"))?));
/// queue.push_delta(Delta::Added(Cached::of(&pod("b"))?));
/// queue.push_delta(Delta::Deleted(Deleted::final_state(Cached::of(&pod("a"))?)));
///
/// let (key, deltas) = queue.pop_deltas().unwrap();
/// assert_eq!(key.to_string(), "a");
/// assert!(matches!(deltas[..], [Delta::Added(_), Delta::Deleted(_)]));
/// assert_eq!(queue.pop_deltas().unwrap().0.to_string(), "b");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct DeltaFifo<K> {
    /// The objects that the consumer has. Deletions of other objects are ignored.
    known: Store<K>,
    /// The keys of `deltas`, in the order of their first delta.
    keys: VecDeque<ObjectKey>,
    /// The deltas of each queued object. No list is empty.
    deltas: HashMap<ObjectKey, VecDeque<Delta<K>>>,
    /// The number of deltas.
    len: usize,
    /// The last pushed version that has not been popped yet.
    version: Option<ResourceVersion>,
    initial: Initial,
}

/// The number of objects of the initial list that are still queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initial {
    /// No change has been pushed yet.
    Awaited,
    /// This many objects remain.
    Queued(usize),
}

impl<K> DeltaFifo<K> {
    /// Creates an empty queue for a consumer that has the objects in `known`.
    #[must_use]
    pub fn new(known: &Store<K>) -> Self {
        Self {
            known: known.clone(),
            keys: VecDeque::new(),
            deltas: HashMap::new(),
            len: 0,
            version: None,
            initial: Initial::Awaited,
        }
    }

    /// Adds a delta.
    pub fn push_delta(&mut self, delta: Delta<K>) {
        match delta {
            Delta::Added(_) | Delta::Updated(_) => {
                self.version = delta.version().cloned();
                self.populated(0);
                self.queue(delta);
            }
            Delta::Deleted(deleted) => {
                let Deleted { object, state } = &deleted;
                if *state == DeletedState::Final {
                    self.version = Some(object.meta().resource_version().clone());
                }
                self.populated(0);
                if self.deltas.contains_key(object.key()) || self.known.get(object.key()).is_some() {
                    self.queue(Delta::Deleted(deleted));
                }
            }
            Delta::Replaced(_) | Delta::Sync(_) => {
                self.populated(0);
                self.queue(delta);
            }
            Delta::ReplacedAll { objects, version } => {
                self.version = Some(version);
                self.replace(objects);
            }
            Delta::SyncAll => {
                for object in self.known.list() {
                    if !self.deltas.contains_key(object.key()) {
                        self.queue(Delta::Sync(object));
                    }
                }
            }
            Delta::Bookmark(version) => self.version = Some(version),
        }
    }

    /// Removes and returns the object that has waited longest, with its changes, oldest first.
    pub fn pop_deltas(&mut self) -> Option<(ObjectKey, Vec<Delta<K>>)> {
        let key = self.keys.pop_front()?;
        let deltas = self.deltas.remove(&key)?;
        self.len -= deltas.len();
        self.initial = self.initial.less_one();
        Some((key, deltas.into()))
    }

    /// Returns the queued changes of an object, oldest first.
    pub fn deltas_of(&self, key: &ObjectKey) -> impl Iterator<Item = &Delta<K>> {
        self.deltas.get(key).into_iter().flatten()
    }

    /// Returns the keys of the queued objects, in the order in which they will be popped.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.keys.iter()
    }

    /// Reports whether all objects of the first replacement have been popped. Always `true` for a queue that gets
    /// changes without a list.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.initial == Initial::Queued(0)
    }

    fn replace(&mut self, objects: Vec<Cached<K>>) {
        let listed: HashSet<_> = objects.iter().map(|object| object.key().clone()).collect();
        for object in objects {
            self.queue(Delta::Replaced(object));
        }
        let newest = |deltas: &VecDeque<Delta<K>>| deltas.back().and_then(Delta::object).cloned();
        let queued = self.keys.iter().filter(|key| !listed.contains(key));
        let mut gone: Vec<_> = queued.filter_map(|key| self.deltas.get(key).and_then(newest)).collect();
        let known = self.known.list().into_iter();
        gone.extend(known.filter(|known| !listed.contains(known.key()) && !self.deltas.contains_key(known.key())));
        self.populated(listed.len() + gone.len());
        for object in gone {
            self.queue(Delta::Deleted(Deleted::missed(object)));
        }
    }

    fn populated(&mut self, objects: usize) {
        if self.initial == Initial::Awaited {
            self.initial = Initial::Queued(objects);
        }
    }

    fn queue(&mut self, delta: Delta<K>) {
        let Some(key) = delta.object().map(|object| object.key().clone()) else { return };
        let deltas = self.deltas.entry(key.clone()).or_default();
        if deltas.is_empty() {
            self.keys.push_back(key);
        }
        // Two successive deletions are merged: the first is kept, unless only the second has the final state.
        match (deltas.back_mut(), delta) {
            (Some(Delta::Deleted(older)), Delta::Deleted(newer)) => {
                if older.state == DeletedState::Unknown {
                    *older = newer;
                }
            }
            (_, delta) => {
                deltas.push_back(delta);
                self.len += 1;
            }
        }
    }
}

impl Initial {
    fn less_one(self) -> Self {
        match self {
            Self::Queued(left @ 1..) => Self::Queued(left - 1),
            other => other,
        }
    }
}

impl<K: Send + Sync + 'static> EventQueue<K> for DeltaFifo<K> {
    fn push(&mut self, delta: Delta<K>) {
        self.push_delta(delta);
    }

    fn pop(&mut self) -> Option<Delta<K>> {
        let Some(key) = self.keys.front() else {
            return self.version.take().map(Delta::Bookmark);
        };
        let deltas = self.deltas.get_mut(key)?;
        let delta = deltas.pop_front();
        self.len -= usize::from(delta.is_some());
        if deltas.is_empty() {
            self.deltas.remove(key);
            self.keys.pop_front();
            self.initial = self.initial.less_one();
        }
        delta
    }

    fn len(&self) -> usize {
        self.len + usize::from(self.version.is_some())
    }

    fn has_synced(&self) -> bool {
        self.is_synced()
    }

    fn order(&self) -> Order {
        Order::PerObject
    }
}

impl<K> fmt::Debug for DeltaFifo<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo")
            .field("objects", &self.keys.len())
            .field("initial", &self.initial)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_queue::tests::{Map, entry, shapes};
    use crate::store::StoreWriter;

    fn queue(known: &[Map]) -> (DeltaFifo<()>, StoreWriter<()>) {
        let mut writer = StoreWriter::new(|_, _, _| ());
        for object in known {
            writer.insert(object.clone(), None);
        }
        (DeltaFifo::new(writer.store()), writer)
    }

    fn replace(objects: Vec<Map>) -> Delta<()> {
        Delta::ReplacedAll { objects, version: 9.into() }
    }

    fn popped(queue: &mut DeltaFifo<()>) -> Vec<String> {
        std::iter::from_fn(|| queue.pop_deltas())
            .map(|(key, deltas)| format!("{key}: {}", shapes(&deltas).join(", ")))
            .collect()
    }

    #[test]
    fn delta_fifo_pops_all_deltas_in_order_of_first_change() {
        let (mut queue, _) = queue(&[]);
        queue.push_delta(Delta::Added(entry("a", 1)));
        queue.push_delta(Delta::Added(entry("b", 2)));
        queue.push_delta(Delta::Updated(entry("a", 3)));
        assert_eq!(queue.keys().map(ToString::to_string).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(queue.deltas_of(&"a".parse().unwrap()).count(), 2);
        assert_eq!(popped(&mut queue), ["a: added a@1, updated a@3", "b: added b@2"]);
    }

    #[test]
    fn deletion_of_an_unknown_object_is_not_queued() {
        let (mut queue, _) = queue(&[entry("known", 1)]);
        queue.push_delta(Delta::Added(entry("queued", 2)));
        for name in ["known", "queued", "neither"] {
            queue.push_delta(Delta::Deleted(Deleted::final_state(entry(name, 3))));
        }
        assert_eq!(popped(&mut queue), ["queued: added queued@2, deleted queued@3", "known: deleted known@3"]);
    }

    #[test]
    fn second_deletion_keeps_the_final_state() {
        let (mut queue, _) = queue(&[entry("a", 1), entry("b", 1)]);
        queue.push_delta(Delta::Deleted(Deleted::final_state(entry("a", 2))));
        queue.push_delta(Delta::Deleted(Deleted::final_state(entry("a", 3))));
        queue.push_delta(replace(Vec::new()));
        queue.push_delta(Delta::Deleted(Deleted::final_state(entry("b", 4))));
        assert_eq!(popped(&mut queue), ["a: deleted a@2", "b: deleted b@4"]);
    }

    #[test]
    fn replacement_delivers_listed_then_queued_then_known() {
        let (mut queue, _) = queue(&[entry("known", 1), entry("both", 1), entry("listed", 1)]);
        queue.push_delta(Delta::Added(entry("queued", 2)));
        queue.push_delta(Delta::Updated(entry("both", 3)));
        queue.push_delta(replace(vec![entry("listed", 4), entry("new", 5)]));
        assert_eq!(
            popped(&mut queue),
            [
                "queued: added queued@2, missed queued@2",
                "both: updated both@3, missed both@3",
                "listed: replaced listed@4",
                "new: replaced new@5",
                "known: missed known@1"
            ]
        );
    }

    #[test]
    fn queue_has_synced_after_first_replacement_is_popped() {
        let (mut queue, _) = queue(&[entry("gone", 1)]);
        assert!(!queue.is_synced());
        queue.push_delta(replace(vec![entry("a", 1)]));
        queue.push_delta(Delta::Added(entry("later", 2)));
        let synced: Vec<_> = std::iter::from_fn(|| queue.pop_deltas().map(|_| queue.is_synced())).collect();
        assert_eq!(synced, [false, true, true], "a, gone, later");
        queue.push_delta(replace(vec![entry("a", 1)]));
        assert!(queue.is_synced(), "it stays synced");
    }

    #[test]
    fn a_change_before_any_replacement_leaves_nothing_to_wait_for() {
        for change in [
            Delta::Added(entry("a", 1)),
            Delta::Updated(entry("a", 1)),
            Delta::Deleted(Deleted::final_state(entry("a", 1))),
        ] {
            let (mut queue, _) = queue(&[]);
            queue.push_delta(change);
            assert!(queue.is_synced());
        }
    }

    #[test]
    fn resync_skips_keys_with_queued_deltas() {
        let (mut queue, _) = queue(&[entry("a", 1), entry("b", 1)]);
        queue.push_delta(Delta::Updated(entry("a", 2)));
        queue.push_delta(Delta::SyncAll);
        assert_eq!(popped(&mut queue), ["a: updated a@2", "b: sync b@1"]);
    }

    #[test]
    fn deltas_of_another_queue_are_grouped() {
        let (mut queue, _) = queue(&[entry("a", 1)]);
        queue.push_delta(Delta::Replaced(entry("b", 2)));
        queue.push_delta(Delta::Deleted(Deleted::missed(entry("a", 1))));
        queue.push_delta(Delta::Sync(entry("b", 2)));
        assert!(queue.is_synced());
        let deltas: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(shapes(&deltas), ["replaced b@2", "sync b@2", "missed a@1"], "no bookmark follows");
    }

    #[test]
    fn version_is_reported_after_all_earlier_deltas() {
        let (mut queue, _) = queue(&[]);
        queue.push(replace(vec![entry("a", 1), entry("b", 2)]));
        queue.push(Delta::Updated(entry("a", 10)));
        queue.push(Delta::Bookmark(12.into()));
        assert_eq!(EventQueue::len(&queue), 4);
        let mut told = Vec::new();
        while let Some(delta) = queue.pop() {
            told.push((shapes(&[delta]).remove(0), queue.has_synced()));
        }
        let expected = [("replaced a@1", false), ("updated a@10", false), ("replaced b@2", true), ("at 12", true)];
        assert_eq!(told, expected.map(|(shape, synced)| (shape.to_owned(), synced)));
        assert!(queue.is_empty());
    }
}
