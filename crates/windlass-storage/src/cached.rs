//! A storage in another process, with a copy of its values in memory.
//!
//! The copy follows the storage by one watch of all keys. A read of the current state asks the storage only for its
//! revision, together with the other reads that arrive at that time, and waits until the copy has reached it. So it is
//! linearizable, and neither transfers nor decodes values. Older revisions are read from the copy as far as its history
//! goes, and otherwise from the storage. The same holds for watches, of which the storage serves a limited number.
//!
//! Guaranteed: everything that [`Storage`] guarantees, if the storage below does.
//!
//! Not guaranteed:
//! - That reads are served from memory. While the watch is interrupted or late, they wait for [`PATIENCE`], and then read
//!   from the storage.
//! - That the copy has a value that can be decoded again, for example because a KMS plugin runs again. The value is tried
//!   every 30 seconds. Until then, reads of it come from the storage, and watches that see it end. A value that was
//!   replaced while it was unreadable is not tried: its event and the next one of its key stay unreadable until the
//!   history is removed.
//!
//! All values are in memory, in the encoding of the server.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time,
};
use windlass_server::storage::{
    Change, CommitError, Committed, CompactRange, EventStream, Expect, Range, RangeQuery, Replica, Retention, Revision,
    Storage, StorageError, StoredValue,
};

use self::{probe::Probe, writes::Writes};
use crate::transform::{self, Transform};

mod feed;
mod probe;
mod repair;
#[cfg(test)]
mod tests;
mod writes;

/// The time that a read waits for the copy before it reads from the storage.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time without news after which the progress of the watch is requested, and the interval of further requests.
const PROGRESS_FIRST: Duration = Duration::from_millis(2);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The number of watches at a time that begin before the history of the copy. Further ones must list again.
const OLDER_WATCHES: usize = 16;

/// A storage whose values are encoded by `T`, with a copy of its values in memory.
pub struct CachedStorage<T> {
    shared: Arc<Shared<T>>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared<T> {
    below: Arc<dyn Storage>,
    transform: Arc<T>,
    replica: Replica,
    probe: Probe,
    writes: Writes,
    /// The watches of history that only the storage has.
    older: Arc<Semaphore>,
    /// Notified when the copy has new values that cannot be decoded.
    unreadable: Notify,
}

impl<T: Transform> CachedStorage<T> {
    /// Reads all values of `below`, and follows it until this storage is dropped. It must be called in a runtime.
    ///
    /// # Errors
    /// If the values cannot be read.
    pub async fn start(below: Arc<dyn Storage>, transform: T, retention: Retention) -> Result<Self, StorageError> {
        let (values, unreadable) = feed::read_all(&*below, &transform).await?;
        let replica = Replica::new(retention, values, unreadable);
        let events = below.watch_changes("", replica.revision()).await?;
        let transform = Arc::new(transform);
        let probe = Probe::new(Arc::clone(&below));
        let (writes, older) = (Writes::default(), Arc::new(Semaphore::new(OLDER_WATCHES)));
        let unreadable = Notify::new();
        let shared = Arc::new(Shared { below, transform, replica, probe, writes, older, unreadable });
        let mut tasks = JoinSet::new();
        tasks.spawn(feed::run(Arc::clone(&shared), events));
        tasks.spawn(repair::run(Arc::clone(&shared)));
        Ok(Self { shared, _tasks: tasks })
    }
}

impl<T: Transform> fmt::Debug for CachedStorage<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedStorage")
            .field("below", &self.shared.below)
            .field("replica", &self.shared.replica)
            .finish_non_exhaustive()
    }
}

impl<T: Transform> Shared<T> {
    /// Waits until the copy includes every commit that has returned before. Returns `false` if it takes too long.
    async fn catch_up(&self) -> Result<bool, StorageError> {
        let revision = self.probe.revision().await?;
        Ok(self.reach(revision).await)
    }

    /// Waits until the copy includes a revision. Returns `false` if it takes too long.
    async fn reach(&self, revision: Revision) -> bool {
        if self.replica.revision() >= revision {
            return true;
        }
        let reached = async {
            let mut reached = std::pin::pin!(self.replica.wait_for(revision));
            let mut interval = PROGRESS_FIRST;
            while time::timeout(interval, &mut reached).await.is_err() {
                // The revision may have changed other keys only.
                self.below.request_progress();
                interval = PROGRESS_INTERVAL;
            }
        };
        time::timeout(PATIENCE, reached).await.is_ok()
    }

    /// Decodes a value of the storage, unless it is in the copy, or this process has just written it.
    async fn decode(&self, value: StoredValue) -> Result<StoredValue, StorageError> {
        let (key, modified) = (&*value.key, value.modified);
        let written = self.writes.version(key, modified);
        match written.or_else(|| self.replica.version(key, modified)) {
            Some(known) => Ok(StoredValue { is_stale: value.is_stale || known.is_stale, ..known }),
            None => transform::decode(&*self.transform, value).await,
        }
    }

    async fn decode_some(&self, value: Option<StoredValue>) -> Result<Option<StoredValue>, StorageError> {
        match value {
            Some(value) => self.decode(value).await.map(Some),
            None => Ok(None),
        }
    }

    async fn get_below(
        &self,
        key: &str,
        at: Option<Revision>,
    ) -> Result<(Revision, Option<StoredValue>), StorageError> {
        let (revision, value) = self.below.get(key, at).await?;
        Ok((revision, self.decode_some(value).await?))
    }

    async fn range_below(&self, query: RangeQuery) -> Result<Range, StorageError> {
        let mut range = self.below.range(query).await?;
        let mut decoded = Vec::with_capacity(range.values.len());
        for value in range.values {
            decoded.push(self.decode(value).await?);
        }
        range.values = decoded;
        Ok(range)
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<(Revision, Option<StoredValue>), StorageError> {
        if (at.is_some() || self.catch_up().await?)
            && let Ok(found) = self.replica.get(key, at)
        {
            return Ok(found);
        }
        self.get_below(key, at).await
    }

    async fn range(&self, query: RangeQuery) -> Result<Range, StorageError> {
        if (query.at.is_some() || self.catch_up().await?)
            && let Ok(found) = self.replica.range(&query)
        {
            return Ok(found);
        }
        self.range_below(query).await
    }

    async fn range_compact(&self, query: RangeQuery) -> Result<CompactRange, StorageError> {
        if (query.at.is_some() || self.catch_up().await?)
            && let Ok(found) = self.replica.range_compact(&query)
        {
            return Ok(found);
        }
        Ok(self.range_below(query).await?.into())
    }

    async fn get_recent(&self, key: &str) -> Result<Option<StoredValue>, StorageError> {
        // Before the copy, which may get the event in between.
        let written = self.writes.last(key);
        match self.replica.get(key, None) {
            Ok((revision, found)) => match written {
                Some((at, value)) if at > revision => Ok(value),
                _ => Ok(found),
            },
            Err(_) => self.get_below(key, None).await.map(|(_, value)| value),
        }
    }

    async fn range_recent(&self, prefix: &str) -> Result<Range, StorageError> {
        let query = RangeQuery::prefix(prefix);
        if self.reach(self.writes.last_below(prefix)).await
            && let Ok(found) = self.replica.range(&query)
        {
            return Ok(found);
        }
        self.range_below(query).await
    }

    async fn commit(&self, key: &str, expect: Expect, change: Change) -> Result<Committed, CommitError> {
        let encode = |body: &Bytes| {
            let encoded = self.transform.encode(key, body.clone());
            encoded.map_err(|source| StorageError::Unreadable { key: key.to_owned(), source })
        };
        let (change, body) = match change {
            Change::Put(body) => (Change::Put(encode(&body)?), Some(body)),
            Change::PutFor(body, lifetime) => (Change::PutFor(encode(&body)?, lifetime), Some(body)),
            Change::Delete => (Change::Delete, None),
        };
        let writing = match (&change, &body) {
            (Change::Put(encoded) | Change::PutFor(encoded, _), Some(body)) => {
                self.writes.begin(key, Some((encoded.clone(), body.clone())))
            }
            _ => self.writes.begin(key, None),
        };
        match self.below.commit(key, expect, change).await {
            Ok(committed) => {
                let value = committed.value.zip(body).map(|(value, body)| StoredValue { body, ..value });
                let revision = committed.revision;
                writing.commit(revision, value.clone(), &self.replica);
                // The commit has happened, whatever the previous value is.
                let previous = self.decode_some(committed.previous).await.unwrap_or_default();
                Ok(Committed { revision, value, previous })
            }
            Err(CommitError::Conflict { current }) => {
                Err(CommitError::Conflict { current: self.decode_some(current).await? })
            }
            Err(error) => Err(error),
        }
    }
}

impl<T: Transform> Storage for CachedStorage<T> {
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.shared.probe.revision().boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        self.shared.below.check()
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        self.shared.get(key, at).boxed()
    }

    fn get_stored<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<StoredValue>, StorageError>> {
        async move { self.shared.get_below(key, None).await.map(|(_, value)| value) }.boxed()
    }

    fn get_recent<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<StoredValue>, StorageError>> {
        self.shared.get_recent(key).boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        self.shared.range(query).boxed()
    }

    fn range_compact(&self, query: RangeQuery) -> BoxFuture<'_, Result<CompactRange, StorageError>> {
        self.shared.range_compact(query).boxed()
    }

    fn range_recent<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Range, StorageError>> {
        self.shared.range_recent(prefix).boxed()
    }

    fn is_known_to_be_empty(&self, prefix: &str) -> bool {
        let Shared { replica, writes, .. } = &*self.shared;
        replica.revision() >= writes.last_below(prefix) && replica.is_empty_below(prefix)
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        self.shared.commit(key, expect, change).boxed()
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            // The first report of the watch must include the revision that is current now.
            self.shared.catch_up().await?;
            if let Ok(events) = self.shared.replica.watch(prefix, after) {
                return Ok(events);
            }
            // These watches share nothing, and each can have many events waiting.
            let Ok(permit) = Arc::clone(&self.shared.older).try_acquire_owned() else {
                return Err(StorageError::Compacted { oldest: self.shared.replica.oldest() });
            };
            let events = self.shared.below.watch(prefix, after).await?;
            let events = transform::decoded(Arc::clone(&self.shared.transform), events);
            Ok(events.inspect(move |_| _ = &permit).boxed())
        }
        .boxed()
    }

    fn is_shared(&self) -> bool {
        true
    }

    /// Values are those of the copy. The exceptions are rare: values before its history, and reads while it is behind.
    fn shares_values(&self) -> bool {
        true
    }

    fn request_progress(&self) {
        self.shared.replica.report_progress();
        self.shared.below.request_progress();
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        async move {
            self.shared.below.compact(upto).await?;
            self.shared.reach(upto).await;
            self.shared.replica.compact(upto);
            Ok(())
        }
        .boxed()
    }
}
