//! The recorded writes of a program, by resource.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use windlass_api::{GroupResource, ObjectKey, ResourceVersion, Uid};

/// The number of recorded writes of one resource. Later writes imply earlier ones, because a store applies versions in
/// order.
const CAPACITY: usize = 1024;

/// The time for which a write is recorded. A server that lost its storage never shows it.
pub(crate) const RETENTION: Duration = Duration::from_mins(5);

/// The writes of one program, by resource. Clones share the records.
///
/// A client records its writes here. Informers with [`InformerOptions::own_writes`](crate::InformerOptions::own_writes)
/// wait for them in [`SharedInformer::show_own_writes`](crate::SharedInformer::show_own_writes). The last 1,024 writes
/// of each resource are retained for 5 minutes.
#[derive(Clone, Default)]
pub struct WriteJournals(Arc<Mutex<HashMap<GroupResource, WriteJournal>>>);

/// The writes of one program to one resource. Clones share the records.
#[derive(Clone, Default)]
pub struct WriteJournal(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The number of the last write. Numbers start at 1.
    last: AtomicU64,
    /// The writes, with consecutive numbers.
    writes: Mutex<VecDeque<Write>>,
}

/// One write that a server has executed.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) number: u64,
    pub(crate) key: ObjectKey,
    pub(crate) at: Instant,
    pub(crate) effect: WriteEffect,
}

/// The result of a write.
#[derive(Clone, Debug)]
pub(crate) enum WriteEffect {
    /// The object was stored in this version. `labels` is `None` if they are unknown.
    Stored { version: ResourceVersion, labels: Option<BTreeMap<String, String>> },
    /// The object with this UID was deleted or is terminating.
    Removed { uid: Uid },
}

// === impl WriteJournals ===

impl WriteJournals {
    /// Returns the journal of a resource.
    #[must_use]
    pub fn of(&self, resource: &GroupResource) -> WriteJournal {
        let mut journals = self.0.lock();
        if let Some(journal) = journals.get(resource) {
            return journal.clone();
        }
        journals.entry(resource.clone()).or_default().clone()
    }
}

impl fmt::Debug for WriteJournals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys().map(ToString::to_string)).finish()
    }
}

// === impl WriteJournal ===

impl WriteJournal {
    /// Records that an object was stored in this version. Ignores a version that is not a number, because it cannot be
    /// waited for.
    pub fn stored(&self, key: ObjectKey, version: ResourceVersion, labels: Option<BTreeMap<String, String>>) {
        if version.as_u64().is_some() {
            self.push(key, WriteEffect::Stored { version, labels });
        }
    }

    /// Records that an object was deleted. Records nothing without a UID, because it could not be distinguished from a
    /// recreated object.
    pub fn removed(&self, key: ObjectKey, uid: Uid) {
        if !uid.is_empty() {
            self.push(key, WriteEffect::Removed { uid });
        }
    }

    fn push(&self, key: ObjectKey, effect: WriteEffect) {
        let at = Instant::now();
        let mut writes = self.0.writes.lock();
        let is_old = |write: &Write| at.duration_since(write.at) > RETENTION;
        while writes.len() >= CAPACITY || writes.front().is_some_and(is_old) {
            writes.pop_front();
        }
        let number = self.0.last.load(Ordering::Relaxed) + 1;
        writes.push_back(Write { number, key, at, effect });
        self.0.last.store(number, Ordering::Release);
    }

    /// Returns the number of the last write.
    pub(crate) fn last(&self) -> u64 {
        self.0.last.load(Ordering::Acquire)
    }

    /// Returns the recorded writes, with consecutive numbers. No write can be recorded until the result is dropped.
    pub(crate) fn writes(&self) -> MutexGuard<'_, VecDeque<Write>> {
        self.0.writes.lock()
    }
}

impl fmt::Debug for WriteJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteJournal").field("last", &self.last()).finish_non_exhaustive()
    }
}

// === impl Write ===

impl Write {
    /// Returns the object's key.
    pub(crate) fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Reports whether all reads of a store at version `reached` are certain to show this write.
    pub(crate) fn is_before(&self, reached: &ResourceVersion) -> bool {
        match &self.effect {
            WriteEffect::Stored { version, .. } => reached.compare(version).is_ok_and(std::cmp::Ordering::is_ge),
            WriteEffect::Removed { .. } => false,
        }
    }
}
