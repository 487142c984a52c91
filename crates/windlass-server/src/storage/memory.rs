//! The memory backend: an ordered map with every version of each key, which counts the keys of a range, and a log with
//! the events of the retained history.
//!
//! It has no background task: commits trigger compaction and the deletion of expired values, and an idle store does
//! nothing. Concurrent reads share a lock. A commit holds the lock for one map operation. Long ranges and compactions
//! take it repeatedly for short periods. Starting a watch takes the log's lock only, while it copies references to the
//! events to replay.

use std::{
    fmt, mem,
    ops::Bound,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, future::BoxFuture};
use parking_lot::{Mutex, RwLock};
use tokio::{task::coop, time::Instant};

pub use self::replica::Replica;
use self::{
    index::{Index, Page, Version},
    log::{Log, Watcher},
    packing::{Cold, Dictionaries, Packing, Value},
};
use super::{
    Change, CommitError, Committed, CompactBody, CompactRange, CompactValue, CompressedBody, Decompress, Delivery,
    EventStream, Expect, KeyEntry, KeyMap, Lifetimes, Range, RangeQuery, Revision, Storage, StorageError, StorageEvent,
    StoredValue,
    mailbox::{Capacity, Closed, Discarded},
};

mod index;
mod log;
mod packing;
mod pins;
mod replica;
mod unreadable;
#[cfg(test)]
mod tests;

/// The history that the memory backend retains. When a limit is exceeded, the oldest events are removed.
///
/// History for the next pages of a list is retained beyond these limits, see [`Self::pages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The maximum age of events. Defaults to 5 minutes, the interval at which kube-apiserver compacts etcd.
    pub age: Duration,
    /// The maximum number of events. Defaults to 100,000.
    pub events: usize,
    /// The maximum size of bodies that only history holds, plus a fixed cost per event, in bytes. Defaults to 64 MiB.
    pub bytes: usize,
    /// The size of history that is allowed regardless of `bytes`, in percent of all live bodies. It keeps busy large
    /// stores from losing their history too soon. Defaults to 100.
    pub percent_of_live: usize,
    /// The maximum size of bodies that are kept only for the next pages of lists, in bytes. A range that ended at its
    /// limit can be continued at its revision for five minutes. If this limit is exceeded, the oldest lists can only be
    /// continued within the normal history. Defaults to 64 MiB.
    pub pages: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_mins(5), events: 100_000, bytes: 64 << 20, percent_of_live: 100, pages: 64 << 20 }
    }
}

impl Retention {
    fn max_bytes(self, live_bytes: usize) -> usize {
        self.bytes.max(live_bytes / 100 * self.percent_of_live)
    }
}

/// The capacity for one slow watch. Waiting events share their bodies with the store and its history.
const WATCH_CAPACITY: Capacity = Capacity { items: 1 << 16, bytes: 256 << 20 };

/// The number of keys that a range or a compaction visits before it releases the lock.
const KEYS_PER_LOCK: usize = 1024;

/// The number of expired values that a commit deletes at most.
const EXPIRED_PER_COMMIT: usize = 16;

/// Storage in the memory of this process. Clones share the store. It is dropped with the last clone, which also ends
/// its watches.
///
/// With the feature `compression`, values beyond 128 MiB are compressed when their last change leaves the history.
#[derive(Clone)]
pub struct MemoryStorage {
    store: Arc<Store>,
}

/// Lock order: `index`, then `log`. Only commits and compactions hold both.
struct Store {
    index: RwLock<Index>,
    log: Mutex<Log>,
    packing: Packing,
    retention: Retention,
    watch_capacity: Capacity,
    plain_budget: usize,
}

/// The size of uncompressed bodies beyond which values are compressed.
const PLAIN_BYTES: usize = 128 << 20;

impl MemoryStorage {
    /// Creates an empty store with the default [`Retention`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_retention(Retention::default())
    }

    /// Creates an empty store.
    #[must_use]
    pub fn with_retention(retention: Retention) -> Self {
        Self::build(retention, WATCH_CAPACITY)
    }

    fn build(retention: Retention, watch_capacity: Capacity) -> Self {
        Self { store: Arc::new(Store::new(retention, watch_capacity)) }
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (revision, oldest) = {
            let index = self.store.index.read();
            (index.revision(), index.oldest())
        };
        f.debug_struct("MemoryStorage").field("revision", &revision).field("oldest", &oldest).finish_non_exhaustive()
    }
}

// Every operation first consumes tokio's cooperative budget. None of them ever waits, so a busy caller would otherwise
// starve the watches on its thread.
impl Storage for MemoryStorage {
    fn shares_values(&self) -> bool {
        true
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        async {
            coop::consume_budget().await;
            Ok(self.store.index.read().revision())
        }
        .boxed()
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        async move {
            coop::consume_budget().await;
            let index = self.store.index.read();
            let revision = index.readable(at)?;
            let value = index.get(key, revision).cloned();
            let dictionaries = index.dictionaries().clone();
            drop(index);
            Ok((revision, value.map(|value| value.stored(&dictionaries))))
        }
        .boxed()
    }

    fn is_known_to_be_empty(&self, prefix: &str) -> bool {
        self.store.index.read().is_empty_below(prefix)
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        async move {
            coop::consume_budget().await;
            Ok(self.store.range(&query, |_| Ok(()))?.into_stored())
        }
        .boxed()
    }

    fn range_compact(&self, query: RangeQuery) -> BoxFuture<'_, Result<CompactRange, StorageError>> {
        async move {
            coop::consume_budget().await;
            Ok(self.store.range(&query, |_| Ok(()))?.into_compact())
        }
        .boxed()
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        async move {
            coop::consume_budget().await;
            self.store.commit(key, expect, change)
        }
        .boxed()
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            coop::consume_budget().await;
            Ok(self.store.watch(prefix, after)?.boxed())
        }
        .boxed()
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        async move {
            coop::consume_budget().await;
            self.store.compact(upto)
        }
        .boxed()
    }
}

impl Store {
    fn new(retention: Retention, watch_capacity: Capacity) -> Self {
        Self {
            index: RwLock::new(Index::new()),
            log: Mutex::new(Log::new(retention)),
            packing: Packing::default(),
            retention,
            watch_capacity,
            plain_budget: PLAIN_BYTES,
        }
    }

    /// Reads a range. `check` is called with its revision, while that cannot change.
    fn range(
        &self,
        query: &RangeQuery,
        check: impl Fn(Revision) -> Result<(), StorageError>,
    ) -> Result<Found, StorageError> {
        match self.range_in_pieces(query, KEYS_PER_LOCK, &check) {
            // The current revision was compacted between two pieces, so read it under one lock.
            Err(StorageError::Compacted { .. }) if query.at.is_none() => {
                self.range_in_pieces(query, usize::MAX, &check)
            }
            answer => answer,
        }
    }

    fn range_in_pieces(
        &self,
        query: &RangeQuery,
        keys_per_lock: usize,
        check: &impl Fn(Revision) -> Result<(), StorageError>,
    ) -> Result<Found, StorageError> {
        let first = query.start.as_deref().map_or(query.prefix.as_str(), |start| start.max(query.prefix.as_str()));
        let limit = query.limit.unwrap_or(usize::MAX);
        let (mut values, mut remaining) = (Vec::new(), 0);
        let (mut at, mut last) = (query.at, None::<Arc<str>>);
        let (mut is_first, mut known) = (true, None);
        loop {
            let index = self.index.read();
            let revision = index.readable_below(&query.prefix, at)?;
            if mem::take(&mut is_first) {
                check(revision)?;
                at = Some(revision);
                if query.at.is_some() && query.limit.is_some() {
                    known = index.pins().count_from(revision, &query.prefix, first);
                }
            }
            let mut is_complete = false;
            if values.len() < limit {
                let page = page_from(last.as_deref(), first, &query.prefix, revision, keys_per_lock);
                let visited = index.visit(&page, limit, &mut values);
                is_complete = visited.is_none();
                last = visited;
            }
            if !is_complete && values.len() >= limit {
                if let Some(known) = known {
                    remaining = known.saturating_sub(values.len() as u64);
                    is_complete = true;
                } else {
                    let page = page_from(last.as_deref(), first, &query.prefix, revision, keys_per_lock);
                    let counted = index.count(&page, &mut remaining);
                    is_complete = counted.is_none();
                    last = counted;
                }
            }
            if !is_complete {
                continue;
            }
            if remaining > 0 {
                let mut pins = index.pins();
                pins.pin_list(revision, &query.prefix, query.at.is_none(), Instant::now());
                if let Some(value) = values.last() {
                    pins.record_count(revision, &query.prefix, &value.key, remaining);
                }
            } else if query.at.is_some() && query.limit.is_some() {
                index.pins().shorten_pin(revision, &query.prefix, Instant::now());
            }
            let dictionaries = index.dictionaries().clone();
            drop(index);
            return Ok(Found { revision, values, remaining, dictionaries });
        }
    }

    fn commit(&self, key: &str, expect: Expect, change: Change) -> Result<Committed, CommitError> {
        let mut effects = Effects::default();
        let result = {
            let mut index = self.index.write();
            let now = Instant::now();
            self.delete_expired(&mut index, now, &mut effects);
            let result = self.checked_commit(&mut index, key, expect, change, now, &mut effects);
            index.unpin_excess(self.retention.pages, now, &mut effects.freed.versions);
            effects.packs = index.plain_bytes() > self.plain_budget;
            result
        };
        for watcher in &effects.woken {
            watcher.mailbox.wake();
        }
        self.pack_cold(&effects);
        result
    }

    /// Commits a change if the key is in the expected state.
    fn checked_commit(
        &self,
        index: &mut Index,
        key: &str,
        expect: Expect,
        change: Change,
        now: Instant,
        effects: &mut Effects,
    ) -> Result<Committed, CommitError> {
        let latest = index.latest(key);
        let as_expected = match (&expect, latest) {
            (Expect::Absent, None) => change != Change::Delete,
            (Expect::Unchanged(at), Some(latest)) => latest.modified == *at,
            _ => false,
        };
        if !as_expected {
            return Err(CommitError::Conflict { current: latest.map(|latest| index.stored(latest)) });
        }
        let key = index.shared_key(key);
        let (body, lifetime) = change.into_parts();
        index.lifetimes.set(&key, lifetime.and_then(|lifetime| now.checked_add(lifetime)));
        Ok(self.apply(index, key, body, now, effects))
    }

    /// Applies a change that was checked: a put, or without a body a deletion.
    fn apply(
        &self,
        index: &mut Index,
        key: Arc<str>,
        body: Option<Bytes>,
        now: Instant,
        effects: &mut Effects,
    ) -> Committed {
        let revision = index.revision().next();
        let previous = index.latest(&key).map(|previous| index.stored(previous));
        let value = body.map(|body| {
            let created = previous.as_ref().map_or(revision, |previous| previous.created);
            StoredValue { key: Arc::clone(&key), body, created, modified: revision, is_stale: false }
        });
        index.put(Version::of(&key, value.clone(), revision));
        let committed = Committed { revision, value: value.clone(), previous: previous.clone() };
        let mut log = self.log.lock();
        let event = Delivery::complete(StorageEvent { revision, key, current: value, previous });
        effects.woken.extend(log.append(Arc::new(event), now, &mut effects.freed.backlogs));
        effects.freed.trim_excess(index, &mut log, now);
        committed
    }

    /// Compresses some values whose events have left the history, if there are enough and too many are uncompressed.
    fn pack_cold(&self, effects: &Effects) {
        if !effects.packs || effects.freed.events.is_empty() {
            return;
        }
        let Some(mut batch) = self.packing.add_cold(&effects.freed.events) else { return };
        let values: Vec<(Cold, Bytes)> = {
            let index = self.index.read();
            let plain = |cold: Cold| {
                let latest = index.latest(&cold.key).filter(|latest| latest.modified == cold.modified)?;
                Some((cold, latest.plain()?.clone()))
            };
            mem::take(&mut batch.cold).into_iter().filter_map(plain).collect()
        };
        let (packed, dictionaries) = batch.pack(values);
        let replaced = self.index.write().pack(packed, dictionaries);
        drop(replaced);
    }

    /// Deletes some values whose lifetime has ended.
    fn delete_expired(&self, index: &mut Index, now: Instant, effects: &mut Effects) {
        for _ in 0..EXPIRED_PER_COMMIT {
            let Some(key) = index.lifetimes.take_expired(now) else { return };
            if index.latest(&key).is_some() {
                self.apply(index, key, None, now, effects);
            }
        }
    }

    fn watch(self: &Arc<Self>, prefix: &str, after: Revision) -> Result<Watch, StorageError> {
        let watcher = Arc::new(Watcher::new(prefix, after, self.watch_capacity));
        let replay = self.log.lock().register(&watcher)?;
        let (store, replay) = (Arc::downgrade(self), replay.into_iter());
        Ok(Watch { store, watcher, replay, progress: None, delivered: after, over: false })
    }

    /// Watches like [`Self::watch`], and reports the progress after the history: not each revision has an event.
    fn watch_reporting(self: &Arc<Self>, prefix: &str, after: Revision) -> Result<Watch, StorageError> {
        let watcher = Arc::new(Watcher::new(prefix, after, self.watch_capacity));
        let (replay, progress) = {
            let mut log = self.log.lock();
            (log.register(&watcher)?, log.progress())
        };
        let (store, replay, progress) = (Arc::downgrade(self), replay.into_iter(), Some(progress));
        Ok(Watch { store, watcher, replay, progress: progress.filter(|at| *at > after), delivered: after, over: false })
    }

    fn compact(&self, upto: Revision) -> Result<(), StorageError> {
        let mut freed = Freed::default();
        {
            let mut index = self.index.write();
            if upto > index.revision() {
                return Err(StorageError::Future { requested: upto, current: index.revision() });
            }
            index.forget_before(upto);
            index.unpin_before(upto, &mut freed.versions);
            self.log.lock().forget_before(upto);
        }
        drop(freed);
        loop {
            let mut effects = Effects::default();
            let mut index = self.index.write();
            let done = effects.freed.trim(&mut index, &mut self.log.lock(), KEYS_PER_LOCK);
            effects.packs = index.plain_bytes() > self.plain_budget;
            drop(index);
            self.pack_cold(&effects);
            if done {
                return Ok(());
            }
        }
    }
}

/// The values of a range as the index has them.
struct Found {
    revision: Revision,
    values: Vec<Value>,
    remaining: u64,
    dictionaries: Dictionaries,
}

impl Found {
    fn into_stored(self) -> Range {
        let Self { revision, values, remaining, dictionaries } = self;
        let values = values.into_iter().map(|value| value.stored(&dictionaries)).collect();
        Range { revision, values, remaining }
    }

    fn into_compact(self) -> CompactRange {
        let Self { revision, values, remaining, dictionaries } = self;
        let values = values.into_iter().map(|value| value.compact(&dictionaries)).collect();
        CompactRange { revision, values, remaining }
    }
}

/// Returns the page after the last visited key, or from the first key.
fn page_from<'a>(last: Option<&'a str>, first: &'a str, prefix: &'a str, at: Revision, keys: usize) -> Page<'a> {
    Page { from: last.map_or(Bound::Included(first), Bound::Excluded), prefix, at, keys }
}

impl Drop for Store {
    fn drop(&mut self) {
        for watcher in self.log.get_mut().take_watchers() {
            drop(watcher.mailbox.close());
            watcher.mailbox.wake();
        }
    }
}

/// The effects of a commit that take place after the locks are released.
#[derive(Default)]
struct Effects {
    freed: Freed,
    woken: Vec<Arc<Watcher>>,
    packs: bool, // more bodies are uncompressed than the budget allows
}

/// Removed versions and events. They are dropped after the locks are released, because freeing many bodies takes time.
#[derive(Default)]
struct Freed {
    events: Vec<Arc<Delivery>>,
    versions: Vec<Version>,
    backlogs: Vec<Discarded<Arc<Delivery>>>,
}

impl Freed {
    /// Removes up to `max` compacted events from the log, and the versions that they replaced from the index. Returns
    /// `true` if none are left.
    fn trim(&mut self, index: &mut Index, log: &mut Log, max: usize) -> bool {
        for _ in 0..max {
            let Some(event) = log.pop_compacted() else { return true };
            if let Some(key) = event.key() {
                index.trim(key, &mut self.versions);
            }
            self.events.push(event);
        }
        false
    }

    /// Removes some of the history that exceeds its retention.
    fn trim_excess(&mut self, index: &mut Index, log: &mut Log, now: Instant) {
        if log.is_over_budget(index.live_bytes(), now) {
            let oldest = log.oldest_within_budget(index.live_bytes(), now);
            index.forget_before(oldest);
            log.forget_before(oldest);
            self.trim(index, log, KEYS_PER_LOCK);
        }
    }
}

/// A watch: first history, then the mailbox.
struct Watch {
    store: Weak<Store>,
    watcher: Arc<Watcher>,
    replay: std::vec::IntoIter<Arc<Delivery>>,
    progress: Option<Revision>, // delivered after the replay
    delivered: Revision,        // the revision of the last returned event
    over: bool,                 // the end or an error has been returned
}

impl Stream for Watch {
    type Item = Result<Delivery, StorageError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        let coop = ready!(coop::poll_proceed(cx));
        let event = if let Some(event) = self.replay.next() {
            Ok(event)
        } else {
            // The replay is complete, so its memory can be freed.
            drop(mem::take(&mut self.replay));
            if let Some(progress) = self.progress.take() {
                coop.made_progress();
                return Poll::Ready(Some(Ok(Delivery::Progress(progress))));
            }
            ready!(self.watcher.mailbox.poll_take(cx))
        };
        coop.made_progress();
        Poll::Ready(match event {
            Ok(event) => {
                self.delivered = event.progress().max(self.delivered);
                Some(Ok(Arc::unwrap_or_clone(event)))
            }
            Err(closed) => {
                self.over = true;
                match closed {
                    Closed::Overflowed => Some(Err(StorageError::Lagged { after: self.delivered })),
                    // The history was replaced.
                    Closed::Ended if self.store.strong_count() > 0 => {
                        Some(Err(StorageError::Lagged { after: self.delivered }))
                    }
                    Closed::Ended => None,
                }
            }
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(store) = self.store.upgrade() {
            store.log.lock().unregister(&self.watcher);
        }
        drop(self.watcher.mailbox.close());
    }
}
