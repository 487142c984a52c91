//! What stands between the reflector, which learns of changes, and the store, which shows them.
//!
//! The reflector says what it learned ([`Change`]); the queue decides in which shape and order the store and the
//! handlers get it ([`Delta`]). [`InOrder`] is the queue of every informer that is given no other. The queue itself is
//! plain data; waiting, locking and bounds are around it.

mod delta_fifo;
mod one_by_one;

use std::{collections::VecDeque, fmt};

use windlass_api::ResourceVersion;

pub use self::{delta_fifo::DeltaFifo, one_by_one::OneByOne};
use crate::{cached::Cached, handler::Deleted};

/// What the reflector has learned.
#[derive(Debug)]
pub enum Change<K> {
    /// The server says ADDED.
    Added(Cached<K>),
    /// The server says MODIFIED.
    Updated(Cached<K>),
    /// The server says DELETED; this is the last state.
    Deleted(Cached<K>),
    /// These are all objects that there are. Each key occurs once.
    Replace {
        /// In the order of the server.
        objects: Vec<Cached<K>>,
        /// The version of the list.
        version: ResourceVersion,
    },
    /// The handlers are to be shown again what there is.
    Resync,
    /// Nothing has changed up to this version.
    Bookmark(ResourceVersion),
}

/// What is done to the store, and then told to the handlers.
#[derive(Debug)]
pub enum Delta<K> {
    /// Put it into the store.
    Added(Cached<K>),
    /// Put it into the store.
    Updated(Cached<K>),
    /// Put it into the store; it comes from a list.
    Replaced(Cached<K>),
    /// Take it out of the store.
    Deleted(Deleted<K>),
    /// Put all of these into the store and take all others out, in one step.
    ReplacedAll {
        /// Each key occurs once.
        objects: Vec<Cached<K>>,
        /// The version of the list.
        version: ResourceVersion,
    },
    /// Show it to the handlers whose resync is due.
    Sync(Cached<K>),
    /// Show everything to the handlers whose resync is due.
    SyncAll,
    /// The store is at this version.
    Bookmark(ResourceVersion),
}

/// A queue that an informer can be given. Implementations neither wait nor lock: the informer does both around them.
///
/// For each object, deltas must come out in the order in which their changes went in.
pub trait EventQueue<K>: Send + 'static {
    /// Takes a change in.
    fn push(&mut self, change: Change<K>);

    /// Gives the next delta; `None` when there is none.
    fn pop(&mut self) -> Option<Delta<K>>;

    /// How many deltas are there to pop. The reflector waits while they are too many.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether everything has been popped that was there when the first [`Change::Replace`] had been pushed. Once true,
    /// always true.
    fn has_synced(&self) -> bool;

    /// In which order the deltas of different objects come out.
    fn order(&self) -> Order {
        Order::Arrival
    }
}

/// In which order a queue gives its deltas. Those of one object always come in the order of its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As their changes went in: each delta brings the store to its object's version.
    Arrival,
    /// Object by object: the store's version is what [`Delta::Bookmark`] says, and that alone.
    PerObject,
}

/// The queue of informers: every change, in the order of arrival, none merged. A replacement is one delta, so that the
/// store goes from one state of the server to another without showing what never was.
pub struct InOrder<K> {
    deltas: VecDeque<Delta<K>>,
    initial: Initial,
}

/// How much of the initial population is still to be popped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initial {
    /// Nothing has been replaced yet.
    Awaited,
    /// So many deltas, and it is done.
    Queued(usize),
}

impl<K> Delta<K> {
    /// The object that this is about; `None` when it is about all.
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
}

impl<K> InOrder<K> {
    /// An empty queue.
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
    fn push(&mut self, change: Change<K>) {
        let is_replacement = matches!(change, Change::Replace { .. });
        self.deltas.push_back(match change {
            Change::Added(object) => Delta::Added(object),
            Change::Updated(object) => Delta::Updated(object),
            Change::Deleted(object) => Delta::Deleted(Deleted::last_known(object)),
            Change::Replace { objects, version } => Delta::ReplacedAll { objects, version },
            Change::Resync => Delta::SyncAll,
            Change::Bookmark(version) => Delta::Bookmark(version),
        });
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
    use crate::{ManagedFields, handler::DeletedState, ingest::Ingest};

    /// Queues do not care what they hold.
    pub(crate) type Map = Cached<()>;

    pub(crate) fn entry(name: &str, version: u64) -> Map {
        let body = json!({"metadata": {"name": name, "resourceVersion": version.to_string(), "uid": name}});
        Ingest::alone(ConfigMap::api_resource(), ManagedFields::Drop).read(body.to_string().as_bytes()).unwrap()
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
    fn changes_come_out_in_the_order_in_which_they_came_none_merged() {
        let mut queue = InOrder::<()>::new();
        queue.push(Change::Added(entry("a", 1)));
        queue.push(Change::Added(entry("b", 2)));
        queue.push(Change::Updated(entry("a", 3)));
        queue.push(Change::Deleted(entry("a", 4)));
        queue.push(Change::Deleted(entry("unknown", 5)));
        assert_eq!(drain(&mut queue), ["added a@1", "added b@2", "updated a@3", "deleted a@4", "deleted unknown@5"]);
    }

    #[test]
    fn a_list_a_resync_and_a_bookmark_are_one_delta_each() {
        let mut queue = InOrder::<()>::new();
        queue.push(Change::Bookmark(1.into()));
        queue.push(Change::Replace { objects: vec![entry("a", 1), entry("b", 2)], version: 2.into() });
        queue.push(Change::Resync);
        queue.push(Change::Bookmark(3.into()));
        assert_eq!(drain(&mut queue), ["at 1", "all 2 @2", "sync", "at 3"]);
    }

    #[test]
    fn the_initial_population_is_what_was_queued_up_to_the_first_replacement() {
        let mut queue = InOrder::<()>::new();
        queue.push(Change::Bookmark(1.into()));
        assert!(!queue.has_synced());
        queue.push(Change::Replace { objects: Vec::new(), version: 2.into() });
        queue.push(Change::Resync);
        let synced: Vec<_> = std::iter::from_fn(|| queue.pop().map(|_| queue.has_synced())).collect();
        assert_eq!(synced, [false, true, true]);
        queue.push(Change::Replace { objects: Vec::new(), version: 4.into() });
        assert!(queue.has_synced());
    }
}
