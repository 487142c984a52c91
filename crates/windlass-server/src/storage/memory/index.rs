//! The keys and their versions.

use std::{
    collections::VecDeque,
    mem,
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    KeyEntry, KeyMap, Lifetimes, Revision, StorageError, StoredValue,
    packing::{Dictionaries, PackedValue, Value},
    pins::Pins,
};

/// Every key with its readable versions.
#[derive(Debug)]
pub(super) struct Index {
    keys: KeyMap<Versions>,
    revision: Revision, // the revision of the last commit
    oldest: Revision,   // the oldest readable revision; older versions may exist until they are trimmed
    sizes: Sizes,
    dictionaries: Dictionaries,
    pub(super) lifetimes: Lifetimes,
    pins: Mutex<Pins>, // older revisions that paged lists can read; locked after the index
}

/// The total sizes of the latest versions' bodies in memory.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    live: usize,
    plain: usize, // of those that are not compressed
}

/// The result of a commit for one key.
#[derive(Debug)]
pub(super) enum Version {
    Live(Value),
    Deleted(Arc<str>, Revision),
}

/// The versions of a key. Most keys have a single version, which needs no extra allocation.
#[derive(Debug)]
#[allow(clippy::box_collection, reason = "most keys have no older versions, and the box saves a fifth of their entry")]
struct Versions {
    latest: Version,
    older: Option<Box<VecDeque<Version>>>, // oldest first, all older than `latest`; never empty
}

/// A range of keys to visit or to count.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) from: Bound<&'a str>, // not less than the prefix
    pub(super) prefix: &'a str,
    pub(super) at: Revision,
    pub(super) keys: usize, // the maximum number of visited keys, at least one
}

impl Index {
    pub(super) fn new() -> Self {
        let (revision, oldest) = (Revision(1), Revision(1));
        Self {
            keys: KeyMap::new(),
            revision,
            oldest,
            sizes: Sizes::default(),
            dictionaries: Dictionaries::default(),
            lifetimes: Lifetimes::default(),
            pins: Mutex::default(),
        }
    }

    /// Creates an index of values at one revision. They are in key order.
    pub(super) fn of(values: Vec<StoredValue>, revision: Revision) -> Self {
        let mut index = Self { revision, oldest: revision, ..Self::new() };
        for value in values {
            index.put(Version::Live(value.into()));
        }
        index.revision = revision;
        index
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
        self.sizes.live
    }

    /// Returns the total size of the latest bodies that are not compressed.
    pub(super) fn plain_bytes(&self) -> usize {
        self.sizes.plain
    }

    pub(super) fn dictionaries(&self) -> &Dictionaries {
        &self.dictionaries
    }

    /// Returns a value of this index as it was stored.
    pub(super) fn stored(&self, value: &Value) -> StoredValue {
        value.clone().stored(&self.dictionaries)
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

    pub(super) fn latest(&self, key: &str) -> Option<&Value> {
        self.keys.get(key)?.latest.live()
    }

    /// Returns the value of `key` at a readable revision.
    pub(super) fn get(&self, key: &str, at: Revision) -> Option<&Value> {
        self.keys.get(key)?.at(at)
    }

    /// Adds the values of a page to `values`, in key order, until there are `limit`. Returns the last visited key unless
    /// the prefix ends within the page.
    pub(super) fn visit(&self, page: &Page<'_>, limit: usize, values: &mut Vec<Value>) -> Option<Arc<str>> {
        let (mut visits, mut last) = (page.keys, None);
        self.keys.visit(page.from, |versions| {
            if !versions.key().starts_with(page.prefix) {
                last = None;
                return ControlFlow::Break(());
            }
            visits -= 1;
            values.extend(versions.at(page.at).cloned());
            if visits > 0 && values.len() < limit {
                return ControlFlow::Continue(());
            }
            last = Some(versions.key());
            ControlFlow::Break(())
        });
        last.cloned()
    }

    /// Counts the values of a page. Returns the last visited key unless the prefix ends within the page.
    pub(super) fn count(&self, page: &Page<'_>, count: &mut u64) -> Option<Arc<str>> {
        let counted = self.keys.count(page.from, page.prefix, page.at, page.keys);
        *count += counted.count;
        counted.last
    }

    /// Reports whether no key, not even a deleted one with history, has the prefix.
    pub(super) fn is_empty_below(&self, prefix: &str) -> bool {
        self.keys.is_empty_below(prefix)
    }

    /// Returns the index's allocation of `key`, or a new one.
    pub(super) fn shared_key(&self, key: &str) -> Arc<str> {
        self.keys.get(key).map_or_else(|| Arc::from(key), |versions| Arc::clone(versions.key()))
    }

    /// Commits `version`. Its revision becomes the current one.
    pub(super) fn put(&mut self, version: Version) {
        self.revision = version.revision();
        self.sizes.add(&version);
        let sizes = &mut self.sizes;
        self.keys.put(Versions::of(version), self.revision, |versions, new| {
            sizes.remove(&versions.latest);
            versions.replace(new);
        });
    }

    /// Replaces the latest version of a key by the value of the same revision, or adds the value of a key that has no
    /// version. No revision changes.
    pub(super) fn restore(&mut self, value: StoredValue) {
        let version = Version::Live(value.into());
        self.sizes.add(&version);
        let (sizes, revision) = (&mut self.sizes, version.revision());
        self.keys.put(Versions::of(version), revision, |versions, new| {
            sizes.remove(&versions.latest);
            versions.latest = new.latest;
        });
        self.pins.get_mut().forget_counts();
    }

    /// Replaces the bodies of latest versions by the same ones, compressed with these dictionaries.
    /// Returns the replaced ones, to be dropped without a lock.
    pub(super) fn pack(&mut self, values: Vec<PackedValue>, dictionaries: Dictionaries) -> Vec<Value> {
        self.dictionaries = dictionaries;
        let mut replaced = Vec::new();
        for packed in values {
            let (key, sizes, oldest) = (Arc::clone(&packed.cold.key), &mut self.sizes, self.oldest);
            // No value is added or removed.
            self.keys.update(&key, oldest, |versions| match &mut versions.latest {
                Version::Live(value) if value.modified == packed.cold.modified && value.plain().is_some() => {
                    sizes.live -= value.bytes();
                    sizes.plain -= value.bytes();
                    replaced.push(value.clone());
                    value.pack(packed);
                    sizes.live += value.bytes();
                }
                Version::Live(_) | Version::Deleted(..) => {}
            });
        }
        replaced
    }

    /// Makes older revisions unreadable. [`trim`](Self::trim) removes their versions.
    pub(super) fn forget_before(&mut self, oldest: Revision) {
        self.oldest = self.oldest.max(oldest);
    }

    /// Removes the versions of `key` that are visible at no readable revision.
    pub(super) fn trim(&mut self, key: &Arc<str>, freed: &mut Vec<Version>) {
        let (pins, oldest) = (self.pins.get_mut(), self.oldest);
        // This never removes a value, only history.
        let is_removed = self.keys.update(key, oldest, |versions| {
            if let Some(older) = &mut versions.older {
                trim_older(key, older, versions.latest.revision(), oldest, pins, freed);
            }
            versions.older.take_if(|older| older.is_empty());
            versions.older.is_none() && matches!(versions.latest, Version::Deleted(_, at) if at <= oldest)
        });
        if is_removed == Some(true) {
            self.keys.remove(key, oldest);
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
        let mut count = 0;
        self.keys.visit(Bound::Unbounded, |versions| {
            count += versions.older.as_ref().map_or(0, |older| older.len()) + 1;
            ControlFlow::Continue(())
        });
        count
    }
}

/// Removes the older versions of `key` that are visible at no readable revision. `latest` is the revision of its latest
/// version.
fn trim_older(
    key: &Arc<str>,
    older: &mut VecDeque<Version>,
    latest: Revision,
    oldest: Revision,
    pins: &mut Pins,
    freed: &mut Vec<Version>,
) {
    let mut kept = 0;
    // A version is visible until the revision of its successor.
    while let Some(version) = older.get(kept) {
        let successor = older.get(kept + 1).map_or(latest, Version::revision);
        // A deletion without an older version is equivalent to no version.
        let is_removed = kept == 0 && matches!(version, Version::Deleted(_, at) if *at <= oldest);
        if successor > oldest && !is_removed {
            break;
        }
        if pins.must_keep(key, version.revision()..successor, version.bytes()) {
            kept += 1;
        } else {
            freed.extend(older.remove(kept));
        }
    }
}

impl Sizes {
    fn add(&mut self, version: &Version) {
        self.live += version.bytes();
        self.plain += version.plain_bytes();
    }

    fn remove(&mut self, version: &Version) {
        self.live -= version.bytes();
        self.plain -= version.plain_bytes();
    }
}

impl Version {
    /// Creates the version that a commit has stored. Without a value, it is a deletion.
    pub(super) fn of(key: &Arc<str>, value: Option<StoredValue>, revision: Revision) -> Self {
        value.map_or_else(|| Self::Deleted(Arc::clone(key), revision), |value| Self::Live(value.into()))
    }

    fn key(&self) -> &Arc<str> {
        match self {
            Self::Live(value) => &value.key,
            Self::Deleted(key, _) => key,
        }
    }

    fn revision(&self) -> Revision {
        match self {
            Self::Live(value) => value.modified,
            Self::Deleted(_, revision) => *revision,
        }
    }

    fn live(&self) -> Option<&Value> {
        match self {
            Self::Live(value) => Some(value),
            Self::Deleted(..) => None,
        }
    }

    fn bytes(&self) -> usize {
        self.live().map_or(0, Value::bytes)
    }

    fn plain_bytes(&self) -> usize {
        self.live().and_then(Value::plain).map_or(0, Bytes::len)
    }
}

impl Versions {
    fn of(latest: Version) -> Self {
        Self { latest, older: None }
    }

    /// Adds a later version.
    fn replace(&mut self, new: Self) {
        let replaced = mem::replace(&mut self.latest, new.latest);
        self.older.get_or_insert_default().push_back(replaced);
    }

    fn at(&self, revision: Revision) -> Option<&Value> {
        if self.latest.revision() <= revision {
            return self.latest.live();
        }
        let older = self.older.as_ref()?;
        let newer = older.partition_point(|version| version.revision() <= revision);
        older.get(newer.checked_sub(1)?)?.live()
    }
}

impl KeyEntry for Versions {
    fn key(&self) -> &Arc<str> {
        self.latest.key()
    }

    fn is_live(&self) -> bool {
        self.latest.live().is_some()
    }

    fn is_live_at(&self, revision: Revision) -> bool {
        self.at(revision).is_some()
    }
}
