//! The queue between the reflector and the store.
//!
//! The reflector pushes a [`Delta`] for each event and each list. The queue returns them to the store, and may reorder,
//! merge or split them. [`InOrder`], the default queue of informers, does neither. The queue itself is plain data; the
//! informer adds waiting, locking and bounds.

mod delta_fifo;
mod one_by_one;

use std::{collections::VecDeque, fmt, marker::PhantomData};

use windlass_api::ResourceVersion;

pub use self::{delta_fifo::DeltaFifo, one_by_one::OneByOne};
use crate::{
    cached::{Cached, Untyped},
    handler::Deleted,
};

/// A change on its way from the server to the store.
///
/// A reflector emits [`Added`](Self::Added), [`Updated`](Self::Updated), [`Deleted`](Self::Deleted),
/// [`ReplacedAll`](Self::ReplacedAll) and [`Bookmark`](Self::Bookmark); an informer adds [`SyncAll`](Self::SyncAll) when
/// a resync is due. A queue may split a change of all objects into [`Replaced`](Self::Replaced),
/// [`Deleted`](Self::Deleted) and [`Sync`](Self::Sync) changes of single objects.
#[derive(Debug)]
pub enum Delta<K> {
    /// The server sent an ADDED event: stores the object.
    Added(Cached<K>),
    /// The server sent a MODIFIED event: stores the object.
    Updated(Cached<K>),
    /// The object is in a list: stores it.
    Replaced(Cached<K>),
    /// The server sent a DELETED event, or a list lacks the object: removes it from the store.
    Deleted(Deleted<K>),
    /// The complete set of objects, from a list: replaces the content of the store in one step.
    ReplacedAll {
        /// The objects, in the server's order. Each key occurs once.
        objects: Vec<Cached<K>>,
        /// The version of the list.
        version: ResourceVersion,
    },
    /// Delivers the object to the handlers whose resync is due.
    Sync(Cached<K>),
    /// Delivers every object to the handlers whose resync is due.
    SyncAll,
    /// No change up to this version is missing: sets the version of the store.
    Bookmark(ResourceVersion),
}

/// A queue that an informer can use. Implementations neither wait nor lock: the informer does both.
///
/// For each object, deltas must be popped in the order in which they were pushed.
pub trait EventQueue<K>: Send + 'static {
    /// Adds a delta.
    fn push(&mut self, delta: Delta<K>);

    /// Removes and returns the next delta, or `None` if the queue is empty.
    fn pop(&mut self) -> Option<Delta<K>>;

    /// Returns the number of queued deltas. The reflector waits while it exceeds the capacity.
    fn len(&self) -> usize;

    /// Reports whether no delta is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reports whether all deltas of the first [`Delta::ReplacedAll`], and those queued before it, have been popped. Once
    /// `true`, it stays `true`.
    fn has_synced(&self) -> bool;

    /// Returns the order in which deltas of different objects are popped.
    fn order(&self) -> Order {
        Order::Arrival
    }
}

/// The order in which a queue returns the deltas of different objects. The deltas of one object always stay in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// In the order of arrival: after each delta, the store is at the version of its object.
    Arrival,
    /// Object by object: only [`Delta::Bookmark`] sets the store's version.
    PerObject,
}

/// The default queue of informers: every delta in the order of arrival, none merged. A replacement is one delta, so
/// that readers of the store never see a mixture of two states.
pub struct InOrder<K> {
    deltas: VecDeque<Delta<K>>,
    initial: Initial,
}

/// The number of deltas of the initial list that are still queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initial {
    /// No list has been pushed yet.
    Awaited,
    /// This many deltas remain.
    Queued(usize),
}

impl<K> Delta<K> {
    /// Returns the object of this delta, or `None` if the delta concerns all objects.
    #[must_use]
    pub fn object(&self) -> Option<&Cached<K>> {
        match self {
            Self::Added(object)
            | Self::Updated(object)
            | Self::Replaced(object)
            | Self::Sync(object)
            | Self::Deleted(Deleted { object, .. }) => Some(object),
            Self::ReplacedAll { .. } | Self::SyncAll | Self::Bookmark(_) => None,
        }
    }

    /// Returns the resource version of the object or the objects, or `None` for [`SyncAll`](Self::SyncAll).
    #[must_use]
    pub fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Self::ReplacedAll { version, .. } | Self::Bookmark(version) => Some(version),
            _ => self.object().map(|object| object.meta().resource_version()),
        }
    }

    /// Changes the type parameter, as [`Cached::cast`] does.
    pub(crate) fn cast<T>(self) -> Delta<T> {
        match self {
            Self::Added(object) => Delta::Added(object.cast()),
            Self::Updated(object) => Delta::Updated(object.cast()),
            Self::Replaced(object) => Delta::Replaced(object.cast()),
            Self::Deleted(deleted) => Delta::Deleted(deleted.cast()),
            Self::ReplacedAll { objects, version } => {
                Delta::ReplacedAll { objects: objects.into_iter().map(Cached::cast).collect(), version }
            }
            Self::Sync(object) => Delta::Sync(object.cast()),
            Self::SyncAll => Delta::SyncAll,
            Self::Bookmark(version) => Delta::Bookmark(version),
        }
    }
}

/// A queue of typed objects in an informer, which does not know their type.
pub(crate) struct TypedQueue<K, Q> {
    queue: Q,
    kind: PhantomData<fn() -> K>,
}

impl<K, Q> TypedQueue<K, Q> {
    pub(crate) fn new(queue: Q) -> Self {
        Self { queue, kind: PhantomData }
    }
}

impl<K: 'static, Q: EventQueue<K>> EventQueue<Untyped> for TypedQueue<K, Q> {
    fn push(&mut self, delta: Delta<Untyped>) {
        self.queue.push(delta.cast());
    }

    fn pop(&mut self) -> Option<Delta<Untyped>> {
        self.queue.pop().map(Delta::cast)
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn has_synced(&self) -> bool {
        self.queue.has_synced()
    }

    fn order(&self) -> Order {
        self.queue.order()
    }
}

impl<K> InOrder<K> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self { deltas: VecDeque::new(), initial: Initial::Awaited }
    }
}

impl<K> Default for InOrder<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Send + Sync + 'static> EventQueue<K> for InOrder<K> {
    fn push(&mut self, delta: Delta<K>) {
        let is_replacement = matches!(delta, Delta::ReplacedAll { .. });
        self.deltas.push_back(delta);
        if is_replacement && self.initial == Initial::Awaited {
            self.initial = Initial::Queued(self.deltas.len());
        }
    }

    fn pop(&mut self) -> Option<Delta<K>> {
        let delta = self.deltas.pop_front()?;
        if let Initial::Queued(left @ 1..) = &mut self.initial {
            *left -= 1;
        }
        Some(delta)
    }

    fn len(&self) -> usize {
        self.deltas.len()
    }

    fn has_synced(&self) -> bool {
        self.initial == Initial::Queued(0)
    }
}

impl<K> fmt::Debug for InOrder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InOrder").field("len", &self.deltas.len()).field("initial", &self.initial).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use windlass_api::Resource;

    use super::*;
    use crate::{ManagedFieldsMode, handler::DeletedState, ingest::Ingest};

    /// The queues don't depend on the object type.
    pub(crate) type Map = Cached<()>;

    pub(crate) fn entry(name: &str, version: u64) -> Map {
        let body = json!({"metadata": {"name": name, "resourceVersion": version.to_string(), "uid": name}});
        Ingest::alone(ConfigMap::api_resource(), ManagedFieldsMode::Drop).read(body.to_string().as_bytes()).unwrap()
    }

    pub(crate) fn shapes(deltas: &[Delta<()>]) -> Vec<String> {
        let name = |object: &Map| format!("{}@{}", object.key(), object.meta().resource_version());
        let shape = |delta: &Delta<()>| match delta {
            Delta::Added(object) => format!("added {}", name(object)),
            Delta::Updated(object) => format!("updated {}", name(object)),
            Delta::Replaced(object) => format!("replaced {}", name(object)),
            Delta::Deleted(Deleted { object, state: DeletedState::Final }) => format!("deleted {}", name(object)),
            Delta::Deleted(Deleted { object, state: DeletedState::Unknown }) => format!("missed {}", name(object)),
            Delta::ReplacedAll { objects, version } => format!("all {} @{version}", objects.len()),
            Delta::Sync(object) => format!("sync {}", name(object)),
            Delta::SyncAll => "sync".to_owned(),
            Delta::Bookmark(version) => format!("at {version}"),
        };
        deltas.iter().map(shape).collect()
    }

    fn drain(queue: &mut InOrder<()>) -> Vec<String> {
        shapes(&std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>())
    }

    #[test]
    fn ordered_queue_keeps_all_changes_in_order() {
        let mut queue = InOrder::<()>::new();
        queue.push(Delta::Added(entry("a", 1)));
        queue.push(Delta::Added(entry("b", 2)));
        queue.push(Delta::Updated(entry("a", 3)));
        queue.push(Delta::Deleted(Deleted::final_state(entry("a", 4))));
        queue.push(Delta::Deleted(Deleted::final_state(entry("unknown", 5))));
        assert_eq!(drain(&mut queue), ["added a@1", "added b@2", "updated a@3", "deleted a@4", "deleted unknown@5"]);
    }

    #[test]
    fn a_list_a_resync_and_a_bookmark_are_one_delta_each() {
        let mut queue = InOrder::<()>::new();
        queue.push(Delta::Bookmark(1.into()));
        queue.push(Delta::ReplacedAll { objects: vec![entry("a", 1), entry("b", 2)], version: 2.into() });
        queue.push(Delta::SyncAll);
        queue.push(Delta::Bookmark(3.into()));
        assert_eq!(drain(&mut queue), ["at 1", "all 2 @2", "sync", "at 3"]);
    }

    #[test]
    fn initial_items_end_with_the_first_replacement() {
        let mut queue = InOrder::<()>::new();
        queue.push(Delta::Bookmark(1.into()));
        assert!(!queue.has_synced());
        queue.push(Delta::ReplacedAll { objects: Vec::new(), version: 2.into() });
        queue.push(Delta::SyncAll);
        let synced: Vec<_> = std::iter::from_fn(|| queue.pop().map(|_| queue.has_synced())).collect();
        assert_eq!(synced, [false, true, true]);
        queue.push(Delta::ReplacedAll { objects: Vec::new(), version: 4.into() });
        assert!(queue.has_synced());
    }
}
