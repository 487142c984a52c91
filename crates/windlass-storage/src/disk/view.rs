//! The committed state without bodies, and the history, for readers.
//!
//! Only commits that are on disk get here. The bodies are read by revision, from the cache or from the database.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::{Bound, ControlFlow},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_server::storage::{KeyEntry, KeyMap, Lifetimes, Revision, StorageError, StorageEvent};

use super::{
    Retention,
    record::{Record, RecordKind},
    watcher::{Put, Watcher},
};

/// The state at the last commit on disk, and the retained history.
#[derive(Debug)]
pub(super) struct View {
    keys: KeyMap<Versions>,
    revision: Revision,
    /// The oldest revision that can be read. Older versions may exist until they are trimmed.
    oldest: Revision,
    /// The commits of consecutive revisions. The last one has the current revision.
    log: VecDeque<Commit>,
    /// The time and the revision of the first commit of each part of the retention period.
    ages: VecDeque<(Instant, Revision)>,
    /// The revisions of running reads and replays, with their number. Their versions and commits are not trimmed.
    /// Locked after the view.
    holds: Mutex<BTreeMap<Revision, Held>>,
    lists: Vec<PagedList>,
    lifetimes: Lifetimes,
    watchers: Vec<Arc<Watcher>>,
    retention: Retention,
}

/// The versions of a key. Most keys have only one, which needs no further allocation.
#[derive(Debug)]
struct Versions {
    key: Arc<str>,
    latest: Version,
    /// In the order of revisions.
    older: Vec<Version>,
}

/// A commit of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) revision: Revision,
    /// The revision of the put that created the key. `None` for a deletion.
    pub(super) created: Option<Revision>,
    /// The length of the body.
    pub(super) length: u32,
}

/// A commit in the log.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) key: Arc<str>,
    pub(super) version: Version,
    /// The value that the commit replaced.
    pub(super) previous: Option<Version>,
}

/// The limits of a part of the history that is read at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The maximum number of visited commits.
    pub(super) commits: usize,
    /// The size of the bodies at which the part ends.
    pub(super) bytes: u64,
}

/// The current time, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) time: Instant,
    /// Milliseconds since 1970.
    pub(super) millis: u64,
}

/// A list that has more pages. It can be continued at its revision even if that revision was compacted meanwhile.
#[derive(Debug)]
struct PagedList {
    revision: Revision,
    /// Postponed by each page.
    until: Instant,
    /// The end, regardless of further pages.
    at_most: Instant,
}

/// The running reads and replays of a revision.
#[derive(Debug)]
struct Held {
    count: usize,
    since: Instant,
}

/// A range of keys to visit or to count.
pub(super) struct Page<'p> {
    pub(super) from: Bound<&'p str>,
    pub(super) prefix: &'p str,
    pub(super) at: Revision,
    /// The maximum number of visited keys.
    pub(super) keys: usize,
}

/// The number of parts of the retention period. All commits of a part are compacted together.
const AGES: u32 = 30;

/// The maximum pause of a list between two pages, and the maximum duration of all pages. kube-apiserver loses the
/// revision of a page after five to ten minutes.
const BETWEEN_PAGES: Duration = Duration::from_mins(5);
const ALL_PAGES: Duration = Duration::from_mins(10);

/// The time for which a read or a part of a replay holds its revision.
const HELD: Duration = Duration::from_mins(5);

/// The history that reads and paged lists can hold, as a multiple of the maximum number of commits.
const HELD_COMMITS: u64 = 3;

/// The maximum number of paged lists. The oldest ones are forgotten.
const MAX_LISTS: usize = 256;

impl Now {
    #[allow(clippy::disallowed_methods, reason = "the ends of lifetimes are stored, so they need the time of day")]
    pub(super) fn read() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { time: Instant::now(), millis: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) }
    }

    /// Returns the time of a moment in milliseconds since 1970; now if it has passed.
    fn at(self, millis: u64) -> Instant {
        let left = Duration::from_millis(millis.saturating_sub(self.millis));
        self.time.checked_add(left).unwrap_or(self.time)
    }

    /// Returns a later moment in milliseconds since 1970.
    pub(super) fn millis_after(self, lifetime: Duration) -> u64 {
        self.millis.saturating_add(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX))
    }
}

impl View {
    /// Returns an empty view at revision 1, like an empty etcd.
    pub(super) fn new(retention: Retention, oldest: Revision) -> Self {
        Self {
            keys: KeyMap::new(),
            revision: oldest.max(Revision(1)),
            oldest: oldest.max(Revision(1)),
            log: VecDeque::new(),
            ages: VecDeque::new(),
            holds: Mutex::default(),
            lists: Vec::new(),
            lifetimes: Lifetimes::default(),
            watchers: Vec::new(),
            retention,
        }
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn oldest(&self) -> Revision {
        self.oldest
    }

    /// Returns the revision to read at, which is the current one by default.
    pub(super) fn readable(&self, at: Option<Revision>) -> Result<Revision, StorageError> {
        match at {
            None => Ok(self.revision),
            Some(at) if at > self.revision => Err(StorageError::Future { requested: at, current: self.revision }),
            Some(at) if at < self.oldest && !self.lists.iter().any(|list| list.revision == at) => {
                Err(StorageError::Compacted { oldest: self.oldest })
            }
            Some(at) => Ok(at),
        }
    }

    /// Returns the index's allocation of a key, or a new one.
    pub(super) fn shared_key(&self, key: &str) -> Arc<str> {
        self.keys.get(key).map_or_else(|| Arc::from(key), |versions| Arc::clone(&versions.key))
    }

    /// Returns the value of a key that is visible at a revision.
    pub(super) fn get(&self, key: &str, at: Revision) -> Option<Version> {
        self.keys.get(key)?.at(at)
    }

    /// Adds the values of a page to `values`, in key order, until there are `limit`. Returns the last visited key if there
    /// may be more.
    pub(super) fn visit(
        &self,
        page: &Page<'_>,
        limit: usize,
        values: &mut Vec<(Arc<str>, Version)>,
    ) -> Option<Arc<str>> {
        let (mut visits, mut last) = (page.keys, None);
        self.keys.visit(page.from, |versions| {
            if !versions.key.starts_with(page.prefix) {
                last = None;
                return ControlFlow::Break(());
            }
            visits -= 1;
            values.extend(versions.at(page.at).map(|version| (Arc::clone(&versions.key), version)));
            if visits > 0 && values.len() < limit {
                return ControlFlow::Continue(());
            }
            last = Some(&versions.key);
            ControlFlow::Break(())
        });
        last.cloned()
    }

    /// Counts the values of a page. Returns the last visited key if there may be more.
    pub(super) fn count(&self, page: &Page<'_>, count: &mut u64) -> Option<Arc<str>> {
        let counted = self.keys.count(page.from, page.prefix, page.at, page.keys);
        *count += counted.count;
        counted.last
    }

    /// Reports whether no key, not even a deleted one with history, has the prefix.
    pub(super) fn is_empty_below(&self, prefix: &str) -> bool {
        self.keys.is_empty_below(prefix)
    }

    /// Sets the current revision after the stored commits are loaded: the last ones may have been removed.
    pub(super) fn set_revision(&mut self, revision: Revision) {
        self.revision = revision;
    }

    /// Returns the time at which the lifetime of the next value ends.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.lifetimes.next()
    }

    /// Returns a value whose lifetime has ended, with the end of its lifetime removed.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<(Arc<str>, Version)> {
        loop {
            let key = self.lifetimes.take_expired(now)?;
            if let Some(version) = self.get(&key, self.revision) {
                return Some((key, version));
            }
        }
    }

    /// Sets another end of the lifetime of a value that [`take_expired`](Self::take_expired) has returned, unless it was
    /// written since.
    pub(super) fn expire_later(&mut self, key: &Arc<str>, version: Version, at: Instant) {
        if self.get(key, self.revision) == Some(version) {
            self.lifetimes.set(key, Some(at));
        }
    }

    /// Adds a stored commit, at the start.
    pub(super) fn load(&mut self, record: &Record, now: Now) {
        let commit = self.apply(record, now);
        if record.revision > self.oldest {
            self.append(commit, now.time);
        }
    }

    /// Adds a commit that is on disk, and passes it to the watchers. Returns the watchers to wake.
    pub(super) fn publish(&mut self, record: &Record, event: &StorageEvent, now: Now) -> Vec<Arc<Watcher>> {
        let commit = self.apply(record, now);
        self.append(commit, now.time);
        let mut woken = Vec::new();
        self.watchers.retain(|watcher| {
            if !watcher.matches(event) {
                return true;
            }
            let put = watcher.put(event.clone());
            if put != Put::Later {
                woken.push(Arc::clone(watcher));
            }
            put != Put::Ended
        });
        woken
    }

    fn apply(&mut self, record: &Record, now: Now) -> Commit {
        let (created, expires, length) = match record.kind {
            RecordKind::Put { created, expires, length } => (Some(created), expires, length),
            RecordKind::Delete => (None, None, 0),
        };
        let version = Version { revision: record.revision, created, length };
        self.revision = record.revision;
        let (mut key, mut previous) = (Arc::clone(&record.key), None);
        let versions = Versions { key: Arc::clone(&key), latest: version, older: Vec::new() };
        self.keys.put(versions, record.revision, |versions, new| {
            let replaced = std::mem::replace(&mut versions.latest, new.latest);
            versions.older.push(replaced);
            key = Arc::clone(&versions.key);
            previous = Some(replaced).filter(|replaced| replaced.created.is_some());
        });
        self.lifetimes.set(&key, expires.map(|expires| now.at(expires)));
        Commit { key, version, previous }
    }

    fn append(&mut self, commit: Commit, now: Instant) {
        if self.ages.back().is_none_or(|(at, _)| now.duration_since(*at) >= self.retention.age / AGES) {
            self.ages.push_back((now, commit.version.revision));
        }
        self.log.push_back(commit);
    }

    /// Adds a watcher. Commits up to the current revision must be replayed to it.
    pub(super) fn register(&mut self, watcher: &Arc<Watcher>) -> Result<Revision, StorageError> {
        if watcher.after() < self.oldest {
            return Err(StorageError::Compacted { oldest: self.oldest });
        }
        self.watchers.push(Arc::clone(watcher));
        Ok(self.revision)
    }

    pub(super) fn unregister(&mut self, watcher: &Arc<Watcher>) {
        self.watchers.retain(|other| !Arc::ptr_eq(other, watcher));
    }

    pub(super) fn take_watchers(&mut self) -> Vec<Arc<Watcher>> {
        std::mem::take(&mut self.watchers)
    }

    /// Returns the commits of keys with a prefix after a revision, up to another one, and the revision of the last
    /// visited commit. Ends earlier at the limits of a part. The caller holds `after`.
    pub(super) fn replay(&self, prefix: &str, after: Revision, upto: Revision, part: Part) -> (Vec<Commit>, Revision) {
        let start = self.log.partition_point(|commit| commit.version.revision <= after);
        let commits = self.log.range(start..).take_while(|commit| commit.version.revision <= upto);
        let (mut found, mut bytes) = (Vec::new(), 0);
        for (visited, commit) in commits.enumerate() {
            if commit.key.starts_with(prefix) {
                bytes += commit.bytes();
                found.push(commit.clone());
            }
            if visited + 1 >= part.commits || bytes >= part.bytes {
                return (found, commit.version.revision);
            }
        }
        (found, upto)
    }

    /// Protects what is visible at a revision, and the commits after it, from being trimmed.
    /// Not for longer than [`HELD`]: a slow client must not keep the history from being trimmed.
    pub(super) fn hold(&self, revision: Revision) {
        let mut holds = self.holds.lock();
        holds.entry(revision).or_insert_with(|| Held { count: 0, since: Instant::now() }).count += 1;
    }

    /// Returns an error if a commit after a revision was trimmed, although the caller held it.
    pub(super) fn check_hold(&self, revision: Revision) -> Result<(), StorageError> {
        let first = self.log.front().map_or(self.revision, |commit| commit.version.revision.previous());
        if first > revision { Err(StorageError::Compacted { oldest: self.oldest }) } else { Ok(()) }
    }

    /// Ends a hold.
    pub(super) fn release(&self, revision: Revision) {
        let mut holds = self.holds.lock();
        if let Some(held) = holds.get_mut(&revision) {
            held.count -= 1;
            if held.count == 0 {
                holds.remove(&revision);
            }
        }
    }

    /// Remembers a list that has more pages.
    pub(super) fn continue_list(&mut self, revision: Revision, now: Instant) {
        if let Some(list) = self.lists.iter_mut().find(|list| list.revision == revision) {
            list.until = list.at_most.min(now + BETWEEN_PAGES);
            return;
        }
        // The list may have ended, or the revision may have been compacted, while its page was read.
        if revision < self.oldest {
            return;
        }
        if self.lists.len() >= MAX_LISTS {
            self.lists.remove(0);
        }
        self.lists.push(PagedList { revision, until: now + BETWEEN_PAGES, at_most: now + ALL_PAGES });
    }

    /// Makes the revisions unreadable that are too old, or that exceed the maximum number of commits.
    pub(super) fn expire(&mut self, now: Instant) {
        let held = self.oldest_held();
        self.lists.retain(|list| list.until > now && list.revision >= held);
        let (age, max) = (self.retention.age, self.retention.commits as u64);
        while let (Some((began, _)), Some((_, next))) = (self.ages.front(), self.ages.get(1)) {
            if now.duration_since(*began) <= age.saturating_add(age / AGES) {
                break;
            }
            self.oldest = self.oldest.max(next.previous());
            self.ages.pop_front();
        }
        self.oldest = self.oldest.max(Revision(self.revision.0.saturating_sub(max)));
    }

    /// Returns the oldest revision that a read or a paged list can hold. Their history is in memory, too.
    fn oldest_held(&self) -> Revision {
        let commits = (self.retention.commits as u64).saturating_mul(HELD_COMMITS);
        Revision(self.revision.0.saturating_sub(commits))
    }

    /// Makes older revisions unreadable, also for paged lists.
    pub(super) fn compact(&mut self, upto: Revision) -> Result<(), StorageError> {
        if upto > self.revision {
            return Err(StorageError::Future { requested: upto, current: self.revision });
        }
        self.oldest = self.oldest.max(upto);
        self.lists.retain(|list| list.revision >= upto);
        Ok(())
    }

    /// Removes up to `max` compacted commits from the log, and the versions that nobody can read any more. Adds the
    /// revisions of these versions to `garbage`. Returns `false` if some are left.
    pub(super) fn trim(&mut self, max: usize, now: Instant, garbage: &mut Vec<Revision>) -> bool {
        let lists = self.lists.iter().map(|list| list.revision).min();
        let oldest = self.oldest_held();
        let is_valid = |revision: Revision, held: &Held| revision >= oldest && now.duration_since(held.since) < HELD;
        let holds = self.holds.lock();
        let held = holds.iter().find(|(revision, held)| is_valid(**revision, held)).map(|(revision, _)| *revision);
        drop(holds);
        let upto = [Some(self.oldest), lists, held].into_iter().flatten().min().unwrap_or_default();
        for _ in 0..max {
            let Some(commit) = self.log.pop_front_if(|commit| commit.version.revision <= upto) else { return true };
            self.trim_key(&commit.key, upto, garbage);
        }
        false
    }

    /// Removes what the last process did not remove any more.
    pub(super) fn trim_all(&mut self, garbage: &mut Vec<Revision>) {
        let (mut keys, oldest) = (Vec::new(), self.oldest);
        self.keys.visit(Bound::Unbounded, |versions| {
            if !versions.older.is_empty() || versions.latest.created.is_none() && versions.latest.revision <= oldest {
                keys.push(Arc::clone(&versions.key));
            }
            ControlFlow::Continue(())
        });
        for key in keys {
            self.trim_key(&key, self.oldest, garbage);
        }
    }

    fn trim_key(&mut self, key: &str, upto: Revision, garbage: &mut Vec<Revision>) {
        // This never removes a value, only history.
        let is_removed = self.keys.update(key, upto, |versions| {
            // A version is visible until the revision of its successor.
            let successors = versions.older.iter().skip(1).chain([&versions.latest]).take(versions.older.len());
            let mut invisible = successors.take_while(|successor| successor.revision <= upto).count();
            // A deletion without an older version is equivalent to no version.
            let first = versions.older.get(invisible);
            if first.is_some_and(|version| version.created.is_none() && version.revision <= upto) {
                invisible += 1;
            }
            garbage.extend(versions.older.drain(..invisible).map(|version| version.revision));
            if !versions.older.is_empty() {
                return false;
            }
            versions.older = Vec::new();
            if versions.latest.created.is_some() || versions.latest.revision > upto {
                return false;
            }
            garbage.push(versions.latest.revision);
            true
        });
        if is_removed == Some(true) {
            self.keys.remove(key, upto);
        }
    }

    /// Makes all holds older.
    #[cfg(test)]
    pub(super) fn age_holds(&self, by: Duration) {
        self.holds.lock().values_mut().for_each(|held| held.since -= by);
    }

    #[cfg(test)]
    pub(super) fn versions(&self) -> usize {
        let mut count = 0;
        self.keys.visit(Bound::Unbounded, |versions| {
            count += versions.older.len() + 1;
            ControlFlow::Continue(())
        });
        count
    }
}

impl Commit {
    /// Returns the size of the bodies of an event.
    fn bytes(&self) -> u64 {
        u64::from(self.version.length) + self.previous.map_or(0, |previous| u64::from(previous.length))
    }
}

impl Versions {
    fn at(&self, revision: Revision) -> Option<Version> {
        let version = if self.latest.revision <= revision {
            self.latest
        } else {
            let newer = self.older.partition_point(|version| version.revision <= revision);
            *self.older.get(newer.checked_sub(1)?)?
        };
        version.created.is_some().then_some(version)
    }
}

impl KeyEntry for Versions {
    fn key(&self) -> &Arc<str> {
        &self.key
    }

    fn is_live(&self) -> bool {
        self.latest.created.is_some()
    }

    fn is_live_at(&self, revision: Revision) -> bool {
        self.at(revision).is_some()
    }
}
