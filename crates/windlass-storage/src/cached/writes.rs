//! The writes of this process whose events the copy does not have yet.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use windlass_server::storage::{Replica, Revision, StoredValue};

/// The writes in progress, and those that have returned before their event has arrived.
#[derive(Debug, Default)]
pub(super) struct Writes {
    keys: Mutex<Keys>,
}

#[derive(Debug, Default)]
struct Keys {
    writes: BTreeMap<Arc<str>, Vec<Write>>,
    next: u64,
}

#[derive(Debug)]
struct Write {
    id: u64,
    /// The body as it is stored, and as the server has it. `None` for a deletion.
    bodies: Option<(Bytes, Bytes)>,
    /// The result, once the write has returned.
    committed: Option<(Revision, Option<StoredValue>)>,
}

/// A write in progress. It is forgotten when this is dropped, except after [`commit`](Self::commit).
#[derive(Debug)]
pub(super) struct Writing<'a> {
    writes: &'a Writes,
    key: Arc<str>,
    id: u64,
}

impl Writes {
    /// Records a write before it is sent. `bodies` are the new body as it is stored, and as the server has it.
    pub(super) fn begin(&self, key: &str, bodies: Option<(Bytes, Bytes)>) -> Writing<'_> {
        let key: Arc<str> = key.into();
        let mut keys = self.keys.lock();
        let id = keys.next;
        keys.next += 1;
        keys.writes.entry(Arc::clone(&key)).or_default().push(Write { id, bodies, committed: None });
        Writing { writes: self, key, id }
    }

    /// Returns the server's form of a stored body, if it was written by this process.
    pub(super) fn body_of(&self, key: &str, stored: &Bytes) -> Option<Bytes> {
        let keys = self.keys.lock();
        let mut bodies = keys.writes.get(key)?.iter().filter_map(|write| write.bodies.as_ref());
        bodies.find(|(encoded, _)| encoded == stored).map(|(_, body)| body.clone())
    }

    /// Returns the last write of a key that has returned, with the new value.
    pub(super) fn last(&self, key: &str) -> Option<(Revision, Option<StoredValue>)> {
        let keys = self.keys.lock();
        let committed = keys.writes.get(key)?.iter().filter_map(|write| write.committed.as_ref());
        committed.max_by_key(|(revision, _)| *revision).cloned()
    }

    /// Returns the value that was written to a key at a revision, if its write has returned.
    pub(super) fn version(&self, key: &str, modified: Revision) -> Option<StoredValue> {
        let keys = self.keys.lock();
        let committed = keys.writes.get(key)?.iter().filter_map(|write| write.committed.as_ref());
        let mut values = committed.filter_map(|(_, value)| value.as_ref());
        values.find(|value| value.modified == modified).cloned()
    }

    /// Returns the revision of the last write under a prefix that has returned, or 0.
    pub(super) fn last_below(&self, prefix: &str) -> Revision {
        let keys = self.keys.lock();
        let writes = keys.writes.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let writes = writes.take_while(|(key, _)| key.starts_with(prefix)).flat_map(|(_, writes)| writes);
        let revisions = writes.filter_map(|write| write.committed.as_ref().map(|(revision, _)| *revision));
        revisions.max().unwrap_or_default()
    }

    /// Forgets the writes of a key up to a revision, which the copy has now.
    pub(super) fn forget(&self, key: &str, revision: Revision) {
        self.keys.lock().retain(key, |write| write.committed.as_ref().is_none_or(|(at, _)| *at > revision));
    }

    /// Forgets all writes that have returned up to a revision, whose values the copy has now.
    pub(super) fn forget_all(&self, revision: Revision) {
        let mut keys = self.keys.lock();
        keys.writes.retain(|_, writes| {
            writes.retain(|write| write.committed.as_ref().is_none_or(|(at, _)| *at > revision));
            !writes.is_empty()
        });
    }
}

impl Keys {
    fn retain(&mut self, key: &str, keep: impl FnMut(&Write) -> bool) {
        if let Some(writes) = self.writes.get_mut(key) {
            writes.retain(keep);
            if writes.is_empty() {
                self.writes.remove(key);
            }
        }
    }
}

impl Writing<'_> {
    /// Records that the write has returned.
    pub(super) fn commit(self, revision: Revision, value: Option<StoredValue>, replica: &Replica) {
        {
            let mut keys = self.writes.keys.lock();
            let writes = keys.writes.get_mut(&self.key);
            if let Some(write) = writes.and_then(|writes| writes.iter_mut().find(|write| write.id == self.id)) {
                write.committed = Some((revision, value));
            }
        }
        // The copy forgets the writes of an event after it has applied it. If that was before, nobody else does.
        if replica.revision() >= revision {
            self.writes.forget(&self.key, revision);
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.writes.keys.lock().retain(&self.key, |write| write.id != self.id || write.committed.is_some());
    }
}
