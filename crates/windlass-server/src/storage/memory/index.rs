//! The keys and their versions.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    ops::Bound,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{Lifetimes, Revision, StorageError, StoredValue, pins::Pins};

/// Every key with its readable versions.
#[derive(Debug)]
pub(super) struct Index {
    keys: BTreeMap<Arc<str>, Versions>,
    revision: Revision, // the revision of the last commit
    oldest: Revision,   // the oldest readable revision; older versions may exist until they are trimmed
    live_bytes: usize,  // the total size of the latest versions' bodies
    pub(super) lifetimes: Lifetimes,
    pins: Mutex<Pins>, // older revisions that paged lists can read; locked after the index
}

/// The result of a commit for one key.
#[derive(Debug)]
pub(super) enum Version {
    Live(StoredValue),
    Deleted(Revision),
}

/// The versions of a key. Most keys have a single version, which needs no extra allocation.
#[derive(Debug)]
struct Versions {
    latest: Version,
    older: VecDeque<Version>, // oldest first, all older than `latest`
}

/// A range of keys to visit.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) from: Bound<&'a str>,
    pub(super) prefix: &'a str,
    pub(super) at: Revision,
    pub(super) keys: usize, // the maximum number of keys, at least one
}

impl Index {
    pub(super) fn new() -> Self {
        let (revision, oldest) = (Revision(1), Revision(1));
        Self {
            keys: BTreeMap::new(),
            revision,
            oldest,
            live_bytes: 0,
            lifetimes: Lifetimes::default(),
            pins: Mutex::default(),
        }
    }

    /// Creates an index of values at one revision. They are in key order.
    pub(super) fn of(values: Vec<StoredValue>, revision: Revision) -> Self {
        let live_bytes = values.iter().map(|value| value.body.len()).sum();
        let versions = |value: StoredValue| {
            let key = Arc::clone(&value.key);
            (key, Versions { latest: Version::Live(value), older: VecDeque::new() })
        };
        let keys = values.into_iter().map(versions).collect();
        Self { keys, revision, oldest: revision, live_bytes, ..Self::new() }
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// Makes a later revision the current one. It has the values of the last one.
    pub(super) fn advance(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    pub(super) fn oldest(&self) -> Revision {
        self.oldest
    }

    pub(super) fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// Returns the revision to read at, or an error if it cannot be read.
    pub(super) fn readable(&self, at: Option<Revision>) -> Result<Revision, StorageError> {
        let requested = at.unwrap_or(self.revision);
        if requested > self.revision {
            Err(StorageError::Future { requested, current: self.revision })
        } else if requested < self.oldest {
            Err(StorageError::Compacted { oldest: self.oldest })
        } else {
            Ok(requested)
        }
    }

    /// Returns the revision to read keys under `prefix` at. Returns an error if it is neither in the history nor pinned
    /// by a paged list.
    pub(super) fn readable_below(&self, prefix: &str, at: Option<Revision>) -> Result<Revision, StorageError> {
        match (self.readable(at), at) {
            (Err(StorageError::Compacted { .. }), Some(at)) if self.pins.lock().contains_list(at, prefix) => Ok(at),
            (answer, _) => answer,
        }
    }

    /// Returns the paged lists in progress.
    pub(super) fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock()
    }

    pub(super) fn latest(&self, key: &str) -> Option<&StoredValue> {
        self.keys.get(key)?.latest.live()
    }

    /// Returns the value of `key` at a readable revision.
    pub(super) fn get(&self, key: &str, at: Revision) -> Option<&StoredValue> {
        self.keys.get(key)?.at(at)
    }

    /// Calls `receive` with each value of the page, in key order. Returns the last visited key unless the prefix ends
    /// within the page.
    pub(super) fn visit<'a>(&'a self, page: &Page<'_>, mut receive: impl FnMut(&'a StoredValue)) -> Option<Arc<str>> {
        let mut keys = self.keys.range::<str, _>((page.from, Bound::Unbounded));
        let mut visited = None;
        for _ in 0..page.keys {
            let (key, versions) = keys.next().filter(|(key, _)| key.starts_with(page.prefix))?;
            visited = Some(key);
            if let Some(value) = versions.at(page.at) {
                receive(value);
            }
        }
        visited.cloned()
    }

    /// Reports whether no key, not even a deleted one with history, has the prefix.
    pub(super) fn is_empty_below(&self, prefix: &str) -> bool {
        let mut keys = self.keys.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        keys.next().is_none_or(|(key, _)| !key.starts_with(prefix))
    }

    /// Returns the index's allocation of `key`, or a new one.
    pub(super) fn shared_key(&self, key: &str) -> Arc<str> {
        self.keys.get_key_value(key).map_or_else(|| Arc::from(key), |(key, _)| Arc::clone(key))
    }

    /// Commits `version`. Its revision becomes the current one.
    pub(super) fn put(&mut self, key: &Arc<str>, version: Version) {
        self.revision = version.revision();
        self.live_bytes += version.bytes();
        match self.keys.get_mut(key) {
            Some(versions) => {
                self.live_bytes -= versions.latest.bytes();
                versions.older.push_back(mem::replace(&mut versions.latest, version));
            }
            None => {
                self.keys.insert(Arc::clone(key), Versions { latest: version, older: VecDeque::new() });
            }
        }
    }

    /// Replaces the latest version of a key by the value of the same revision, or adds the value of a key that has no
    /// version. No revision changes.
    pub(super) fn restore(&mut self, key: &Arc<str>, value: StoredValue) {
        let version = Version::Live(value);
        self.live_bytes += version.bytes();
        match self.keys.get_mut(key) {
            Some(versions) => {
                self.live_bytes -= versions.latest.bytes();
                versions.latest = version;
            }
            None => {
                self.keys.insert(Arc::clone(key), Versions { latest: version, older: VecDeque::new() });
            }
        }
    }

    /// Makes older revisions unreadable. [`trim`](Self::trim) removes their versions.
    pub(super) fn forget_before(&mut self, oldest: Revision) {
        self.oldest = self.oldest.max(oldest);
    }

    /// Removes the versions of `key` that are visible at no readable revision.
    pub(super) fn trim(&mut self, key: &Arc<str>, freed: &mut Vec<Version>) {
        let Some(versions) = self.keys.get_mut(key) else { return };
        let pins = self.pins.get_mut();
        let mut kept = 0;
        // A version is visible until the revision of its successor.
        while let Some(version) = versions.older.get(kept) {
            let successor = versions.older.get(kept + 1).unwrap_or(&versions.latest).revision();
            // A deletion without an older version is equivalent to no version.
            let is_removed = kept == 0 && matches!(version, Version::Deleted(at) if *at <= self.oldest);
            if successor > self.oldest && !is_removed {
                break;
            }
            if pins.must_keep(key, version.revision()..successor, version.bytes()) {
                kept += 1;
            } else {
                freed.extend(versions.older.remove(kept));
            }
        }
        if versions.older.is_empty() {
            if matches!(versions.latest, Version::Deleted(at) if at <= self.oldest) {
                self.keys.remove(key);
            } else {
                versions.older = VecDeque::new();
            }
        }
    }

    /// Releases lists that have expired, and the oldest ones if all together hold more than `max_bytes` bytes.
    pub(super) fn unpin_excess(&mut self, max_bytes: usize, now: Instant, freed: &mut Vec<Version>) {
        while let Some(keys) = self.pins.get_mut().remove_excess(max_bytes, now) {
            self.trim_all(keys, freed);
        }
    }

    /// Releases the lists at revisions before this one.
    pub(super) fn unpin_before(&mut self, oldest: Revision, freed: &mut Vec<Version>) {
        while let Some(keys) = self.pins.get_mut().remove_before(oldest) {
            self.trim_all(keys, freed);
        }
    }

    fn trim_all(&mut self, keys: impl IntoIterator<Item = Arc<str>>, freed: &mut Vec<Version>) {
        for key in keys {
            self.trim(&key, freed);
        }
    }

    #[cfg(test)]
    pub(super) fn versions(&self) -> usize {
        self.keys.values().map(|versions| versions.older.len() + 1).sum()
    }
}

impl Version {
    fn revision(&self) -> Revision {
        match self {
            Self::Live(value) => value.modified,
            Self::Deleted(revision) => *revision,
        }
    }

    fn live(&self) -> Option<&StoredValue> {
        match self {
            Self::Live(value) => Some(value),
            Self::Deleted(_) => None,
        }
    }

    fn bytes(&self) -> usize {
        self.live().map_or(0, |value| value.body.len())
    }
}

impl Versions {
    fn at(&self, revision: Revision) -> Option<&StoredValue> {
        if self.latest.revision() <= revision {
            return self.latest.live();
        }
        let newer = self.older.partition_point(|version| version.revision() <= revision);
        self.older.get(newer.checked_sub(1)?)?.live()
    }
}
