//! The recorded writes of a program, by resource, and the part that an informer has seen.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::{FieldSelector, GroupResource, LabelSelector, ObjectKey, ResourceVersion, Uid};

use crate::{Selectors, store::Store};

/// The number of recorded writes of one resource. Later writes imply earlier ones, because a store applies versions in
/// order.
const CAPACITY: usize = 1024;

/// The time for which a write is recorded. A server that lost its storage never shows it.
const MEMORY: Duration = Duration::from_mins(5);

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
    number: u64,
    key: ObjectKey,
    at: Instant,
    effect: Effect,
}

#[derive(Clone, Debug)]
enum Effect {
    /// The object was stored in this version. `labels` is `None` if they are unknown.
    Stored { version: ResourceVersion, labels: Option<BTreeMap<String, String>> },
    /// The object with this UID was deleted or is terminating.
    Removed { uid: Uid },
}

/// The objects that are about to be read.
#[derive(Clone, Copy, Debug)]
pub enum Reads<'r> {
    /// One object.
    Object(&'r ObjectKey),
    /// The objects of a namespace.
    Namespace(&'r str),
    /// All objects.
    All,
}

/// The part of a journal that one informer has seen.
pub(crate) struct Follower {
    journal: WriteJournal,
    /// The number of the last write up to which the informer shows all writes.
    seen: AtomicU64,
    selected: Selected,
}

/// The objects that an informer holds.
#[derive(Clone, Debug, Default)]
struct Selected {
    namespace: Option<String>,
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
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
            self.push(key, Effect::Stored { version, labels });
        }
    }

    /// Records that an object was deleted. Records nothing without a UID, because it could not be distinguished from a
    /// recreated object.
    pub fn removed(&self, key: ObjectKey, uid: Uid) {
        if !uid.is_empty() {
            self.push(key, Effect::Removed { uid });
        }
    }

    fn push(&self, key: ObjectKey, effect: Effect) {
        let at = Instant::now();
        let mut writes = self.0.writes.lock();
        let is_old = |write: &Write| at.duration_since(write.at) > MEMORY;
        while writes.len() >= CAPACITY || writes.front().is_some_and(is_old) {
            writes.pop_front();
        }
        let number = self.0.last.load(Ordering::Relaxed) + 1;
        writes.push_back(Write { number, key, at, effect });
        self.0.last.store(number, Ordering::Release);
    }

    fn last(&self) -> u64 {
        self.0.last.load(Ordering::Acquire)
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

    /// Reports whether a store shows this write or a newer state.
    pub(crate) fn is_shown<K>(&self, store: &Store<K>, is_selected: bool) -> bool {
        let found = store.get(&self.key);
        match &self.effect {
            Effect::Stored { version, .. } => {
                let reached = |other: &ResourceVersion| other.compare(version).is_ok_and(std::cmp::Ordering::is_ge);
                match found {
                    Some(found) => reached(found.meta().resource_version()) || reached(&store.version()),
                    None => !is_selected || reached(&store.version()),
                }
            }
            Effect::Removed { uid } => {
                found.is_none_or(|found| found.meta().uid() != uid || found.meta().is_deleting())
            }
        }
    }

    /// Reports whether all reads of a store at version `reached` are certain to show this write.
    fn is_before(&self, reached: &ResourceVersion) -> bool {
        match &self.effect {
            Effect::Stored { version, .. } => reached.compare(version).is_ok_and(std::cmp::Ordering::is_ge),
            Effect::Removed { .. } => false,
        }
    }
}

// === impl Reads ===

impl Reads<'_> {
    fn concern(&self, key: &ObjectKey) -> bool {
        match *self {
            Self::Object(read) => read == key,
            Self::Namespace(namespace) => key.namespace.as_deref() == Some(namespace),
            Self::All => true,
        }
    }
}

// === impl Follower ===

impl Follower {
    /// Creates a follower that has seen none of the journal's writes.
    pub(crate) fn new(journal: WriteJournal, namespace: Option<&str>, selectors: Selectors<'_>) -> Self {
        // The server rejects an invalid selector; the informer never syncs then.
        let labels = selectors.labels.and_then(|labels| labels.parse().ok());
        let fields = selectors.fields.and_then(|fields| fields.parse().ok());
        let namespace = namespace.map(str::to_owned);
        Self { journal, seen: AtomicU64::new(0), selected: Selected { namespace, labels, fields } }
    }

    /// Returns the journal.
    pub(crate) fn journal(&self) -> &WriteJournal {
        &self.journal
    }

    /// Returns the writes of a read that the store does not show yet, each with whether the informer selects the
    /// object. Returns an empty list without locking if nothing was written since the last call.
    pub(crate) fn pending<K>(&self, store: &Store<K>, reads: Reads<'_>) -> Vec<(Write, bool)> {
        let seen = self.seen.load(Ordering::Acquire);
        if self.journal.last() <= seen {
            return Vec::new();
        }
        let version = store.version();
        let writes = self.journal.0.writes.lock();
        let unseen = writes.partition_point(|write| write.number <= seen);
        // Dropped records are implied by later ones, whatever objects they belong to.
        let is_gap = writes.front().is_some_and(|first| first.number > seen + 1);
        let (mut pending, mut all_until) = (Vec::new(), None);
        for write in writes.range(unseen..) {
            let is_selected = self.selected.holds(write);
            let is_shown = is_selected.is_none()
                || write.at.elapsed() > MEMORY
                || write.is_before(&version)
                || write.is_shown(store, is_selected == Some(true));
            if is_shown {
                continue;
            }
            all_until.get_or_insert(write.number - 1);
            if is_gap || reads.concern(&write.key) {
                pending.push((write.clone(), is_selected == Some(true)));
            }
        }
        self.seen.fetch_max(all_until.unwrap_or_else(|| self.journal.last()), Ordering::Release);
        pending
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.seen.load(Ordering::Relaxed);
        f.debug_struct("Follower").field("seen", &seen).field("journal", &self.journal).finish_non_exhaustive()
    }
}

// === impl Selected ===

impl Selected {
    /// Reports whether the informer selects the object of a write: `None` if it is in another namespace, `Some(false)`
    /// if it is not selected or this is unknown.
    fn holds(&self, write: &Write) -> Option<bool> {
        let namespace = write.key.namespace.as_deref().unwrap_or_default();
        if self.namespace.as_deref().is_some_and(|own| own != namespace) {
            return None;
        }
        let mut is_selected = true;
        for requirement in self.fields.iter().flat_map(FieldSelector::requirements) {
            let value = match &*requirement.field {
                "metadata.name" => &*write.key.name,
                "metadata.namespace" => namespace,
                _ => {
                    is_selected = false;
                    continue;
                }
            };
            if (value == requirement.value) != requirement.equal {
                return None;
            }
        }
        if let (Some(selector), Effect::Stored { labels, .. }) = (&self.labels, &write.effect) {
            is_selected &= labels.as_ref().is_some_and(|labels| selector.matches_map(labels));
        }
        Some(is_selected)
    }
}
