//! Storage in a directory: an embedded database with group commit.
//!
//! In addition to the guarantees of [`Storage`]:
//! - An acknowledged commit is on disk. Nothing of an unacknowledged commit is visible, before or after a crash, unless
//!   the crash hit between the write and the acknowledgement; then all of it is there.
//! - After a restart, watches continue from every retained revision.
//! - Each record has a checksum. A damaged record is never served: at the start it prevents the start, and later it
//!   makes the read fail. Commits that were acknowledged but are missing prevent the start, too.
//! - One process at a time uses a directory.
//!
//! The keys and the history of all retained revisions are in memory, without bodies. The bodies are in memory up to
//! [`Options::budget`].
//!
//! Not guaranteed: service after a failed write, for example because the disk is full. Reads continue; commits fail
//! until the storage is opened again.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use parking_lot::{Mutex, RwLock};
use tempfile::TempDir;
use tokio::{
    sync::{Semaphore, oneshot},
    task::yield_now,
    time::Instant,
};
use windlass_server::storage::{
    Change, CommitError, Committed, EventStream, Expect, Range, RangeQuery, Revision, Storage, StorageError,
    StoredValue,
};

use self::{
    bodies::Bodies,
    database::Database,
    view::{Now, Page, Version, View},
    writer::{Failure, Queue, Waiting},
};

mod acknowledged;
mod bodies;
mod database;
mod files;
pub mod import;
mod record;
pub mod snapshot;
mod tally;
#[cfg(test)]
mod tests;
mod view;
mod watch;
mod watcher;
mod writer;

/// The settings of a [`DiskStorage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The history that can be read and watched.
    pub retention: Retention,
    /// The memory for bodies, in bytes. Defaults to 256 MiB. The caches of SQLite need up to half as much in addition.
    pub budget: u64,
}

/// The history that the storage retains. When a limit is exceeded, the oldest commits are compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The maximum age. Defaults to 5 minutes, the interval at which kube-apiserver compacts etcd. Commits of an earlier
    /// process count from the start of this one, and a storage without writes keeps its history.
    pub age: Duration,
    /// The maximum number of commits. Defaults to 1,000,000.
    pub commits: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { retention: Retention::default(), budget: 256 << 20 }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_mins(5), commits: 1_000_000 }
    }
}

/// The error for a directory that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or a file in it cannot be used.
    #[error("cannot use the directory {}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Another process uses the directory.
    #[error("another process uses the directory {}", directory.display())]
    Locked {
        /// The directory.
        directory: PathBuf,
    },
    /// The database in the directory cannot be opened.
    #[error("cannot open the database in {}", directory.display())]
    Database {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database is missing, although the directory had one with commits.
    #[error(
        "the database in {} is missing, although it had commits; restore a snapshot, or remove the directory",
        directory.display()
    )]
    Vanished {
        /// The directory.
        directory: PathBuf,
    },
    /// The data have a format that this version does not know.
    #[error(
        "the data in {} have {}, and this version supports up to {supported}",
        directory.display(),
        found.map_or_else(|| "no format".to_owned(), |found| format!("format {found}"))
    )]
    Format {
        /// The directory.
        directory: PathBuf,
        /// The format of the data.
        found: Option<u32>,
        /// The newest supported format.
        supported: u32,
    },
    /// A record is damaged.
    #[error("the data in {} are damaged: the commit of revision {revision} cannot be read", directory.display())]
    Damaged {
        /// The directory.
        directory: PathBuf,
        /// The revision of the record.
        revision: Revision,
    },
    /// Records are missing, or removed ones are there again.
    #[error("the data in {} are damaged: the records are incomplete", directory.display())]
    Incomplete {
        /// The directory.
        directory: PathBuf,
    },
    /// The file with the last acknowledged revision cannot be read.
    #[error("{} is missing or damaged, so it is unknown whether commits are missing", path.display())]
    Unacknowledged {
        /// The file.
        path: PathBuf,
    },
    /// Commits are missing.
    #[error(
        "the data in {} are damaged: the commits after revision {after} up to {upto} are missing",
        directory.display()
    )]
    Missing {
        /// The directory.
        directory: PathBuf,
        /// The last commit before the gap.
        after: Revision,
        /// The last missing commit.
        upto: Revision,
    },
}

/// Storage in a directory. Dropping it waits until the running commits are on disk, and ends its watches.
pub struct DiskStorage {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// The directory of a temporary storage. The last field, so it is removed after the database is closed.
    temporary: Option<TempDir>,
}

/// The state that readers and the writer share.
struct Shared {
    database: Arc<Database>,
    view: RwLock<View>,
    bodies: Bodies,
    queue: Queue,
    /// One for each hash of a key: commits of one key are checked one after the other.
    turns: Vec<Arc<tokio::sync::Mutex<()>>>,
    /// Random, so that clients cannot choose keys with the same turn.
    hasher: RandomState,
    /// The memory for bodies that lists read from disk at the same time, in KiB.
    reading: Semaphore,
}

/// The number of turns. Different keys with the same turn wait for each other needlessly.
const TURNS: usize = 1024;

/// The memory for bodies that lists read from disk at the same time, in KiB. A larger list reads alone.
const READING: u32 = 256 << 10;

/// The number of keys that a range visits before it releases the lock.
const KEYS_PER_LOCK: usize = 1024;

impl DiskStorage {
    /// Opens a directory, or creates it.
    ///
    /// # Errors
    /// If the directory cannot be used, is used by another process, or if its data are damaged.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(directory, Options::default())
    }

    /// Opens a directory with other options than the default ones, or creates it.
    ///
    /// # Errors
    /// Like [`open`](Self::open).
    pub fn open_with(directory: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        Self::open_in(directory.as_ref(), None, options)
    }

    /// Creates a storage in a new directory, which is removed when the storage is dropped. For tests.
    ///
    /// # Errors
    /// If no directory can be created.
    pub fn temporary(options: Options) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Directory { directory: std::env::temp_dir(), source };
        let directory = tempfile::Builder::new().prefix("windlass-storage-").tempdir().map_err(failed)?;
        let path = directory.path().to_owned();
        Self::open_in(&path, Some(directory), options)
    }

    fn open_in(directory: &Path, temporary: Option<TempDir>, options: Options) -> Result<Self, OpenError> {
        let database = Database::open(directory, options.budget / 4)?;
        Self::open_database(directory, database, temporary, options)
    }

    fn open_database(
        directory: &Path,
        database: Database,
        temporary: Option<TempDir>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let database = Arc::new(database);
        let mut garbage = Vec::new();
        let view = load(directory, &database, options.retention, &mut garbage)?;
        let bodies = Bodies::new(Arc::clone(&database), options.budget);
        let turns = (0..TURNS).map(|_| Arc::default()).collect();
        let shared = Arc::new(Shared {
            database,
            view: RwLock::new(view),
            bodies,
            queue: Queue::default(),
            turns,
            hasher: RandomState::new(),
            reading: Semaphore::new(READING as usize),
        });
        let started = writer::start(Arc::clone(&shared), garbage);
        let writer = started.map_err(|source| OpenError::Directory { directory: directory.to_owned(), source })?;
        Ok(Self { shared, writer: Mutex::new(Some(writer)), temporary })
    }
}

/// Removes the storage of a directory, unless another process uses it.
///
/// # Errors
/// If the storage is in use, or cannot be removed.
pub fn remove(directory: impl AsRef<Path>) -> Result<(), OpenError> {
    database::remove_all(directory.as_ref())
}

/// Reads the records, and checks that none is missing.
fn load(
    directory: &Path,
    database: &Database,
    retention: Retention,
    garbage: &mut Vec<Revision>,
) -> Result<View, OpenError> {
    let failed = |error| database::load_error(directory, error);
    let oldest = database.oldest();
    let mut view = View::new(retention, oldest);
    let (mut last, now) = (oldest, Now::read());
    let mut missing = None;
    let loaded = database.records(|record| {
        // Compacted revisions have gaps. Each later revision has a record.
        if record.revision > oldest {
            if record.revision != last.next() && missing.is_none() {
                missing = Some((last, record.revision.previous()));
            }
            last = record.revision;
        }
        view.load(&record, now);
    });
    loaded.map_err(failed)?;
    let acknowledged = database.acknowledged();
    if acknowledged > last && missing.is_none() {
        missing = Some((last, acknowledged));
    }
    if let Some((after, upto)) = missing {
        return Err(OpenError::Missing { directory: directory.to_owned(), after, upto });
    }
    view.set_revision(last);
    view.trim_all(garbage);
    Ok(view)
}

impl Drop for DiskStorage {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(writer) = self.writer.get_mut().take() {
            // The writer logs its errors itself.
            let _ = writer.join();
        }
        for watcher in self.shared.view.write().take_watchers() {
            watcher.close();
        }
    }
}

impl fmt::Debug for DiskStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (revision, oldest) = {
            let view = self.shared.view.read();
            (view.revision(), view.oldest())
        };
        f.debug_struct("DiskStorage")
            .field("revision", &revision)
            .field("oldest", &oldest)
            .field("temporary", &self.temporary)
            .finish_non_exhaustive()
    }
}

/// A revision whose versions and later commits are not trimmed. Released on drop. It does not keep the storage open.
struct Hold {
    shared: Weak<Shared>,
    revision: Revision,
}

impl Hold {
    /// Returns the hold that the caller has taken from the view.
    fn taken(shared: &Arc<Shared>, revision: Revision) -> Self {
        Self { shared: Arc::downgrade(shared), revision }
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    /// Moves the hold to a later revision.
    fn advance(mut self, revision: Revision) -> Self {
        if let Some(shared) = self.shared.upgrade() {
            let view = shared.view.read();
            view.hold(revision);
            view.release(self.revision);
        }
        self.revision = revision;
        self
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.view.read().release(self.revision);
        }
    }
}

impl Storage for DiskStorage {
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        async { Ok(self.shared.view.read().revision()) }.boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        async { Ok(self.shared.queue.check()?) }.boxed()
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        async move {
            let (hold, found) = self.shared.find(key, at)?;
            let value = match found {
                Some((key, version)) => self.shared.value(key, version).await?,
                None => None,
            };
            Ok((hold.revision(), value))
        }
        .boxed()
    }

    fn is_known_to_be_empty(&self, prefix: &str) -> bool {
        self.shared.view.read().is_empty_below(prefix)
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        async move { self.shared.range(&query).await }.boxed()
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        async move { self.shared.commit(key, expect, change).await }.boxed()
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move { Ok(watch::start(&self.shared, prefix, after).await?.boxed()) }.boxed()
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        async move {
            self.shared.view.write().compact(upto)?;
            let done = self.shared.queue.compact()?;
            done.await.map_err(|_| Failure::Closed)?
        }
        .boxed()
    }
}

impl Shared {
    /// Returns the visible version of a key, with a hold of the revision.
    fn find(
        self: &Arc<Self>,
        key: &str,
        at: Option<Revision>,
    ) -> Result<(Hold, Option<(Arc<str>, Version)>), StorageError> {
        let view = self.view.read();
        let revision = view.readable(at)?;
        let found = view.get(key, revision).map(|version| (view.shared_key(key), version));
        view.hold(revision);
        Ok((Hold::taken(self, revision), found))
    }

    /// Returns the turn of a key.
    fn turn(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let turn = self.hasher.hash_one(key) % TURNS as u64;
        Arc::clone(&self.turns[usize::try_from(turn).unwrap_or_default()])
    }

    /// Reads the current value of a key whose turn the caller has. Waits for the disk.
    fn read_value(&self, key: &Arc<str>, version: Version) -> Option<StoredValue> {
        let body = self.bodies.get_blocking(version.revision).ok()?;
        Some(StoredValue {
            key: Arc::clone(key),
            body,
            created: version.created?,
            modified: version.revision,
            is_stale: false,
        })
    }

    /// Reads the body of a version that the caller holds.
    async fn value(&self, key: Arc<str>, version: Version) -> Result<Option<StoredValue>, StorageError> {
        let Some(created) = version.created else { return Ok(None) };
        let body = self.bodies.get(version.revision).await?;
        Ok(Some(StoredValue { key, body, created, modified: version.revision, is_stale: false }))
    }

    async fn range(self: &Arc<Self>, query: &RangeQuery) -> Result<Range, StorageError> {
        let hold = {
            let view = self.view.read();
            let revision = view.readable(query.at)?;
            view.hold(revision);
            Hold::taken(self, revision)
        };
        let revision = hold.revision();
        let first = query.start.as_deref().map_or(query.prefix.as_str(), |start| start.max(query.prefix.as_str()));
        let limit = query.limit.unwrap_or(usize::MAX);
        let mut found: Vec<(Arc<str>, Version)> = Vec::new();
        let mut remaining = 0;
        let mut next: Option<Arc<str>> = None;
        loop {
            let from = next.as_deref().map_or(Bound::Included(first), Bound::Excluded);
            let page = Page { from, prefix: &query.prefix, at: revision, keys: KEYS_PER_LOCK };
            let last = if found.len() < limit {
                self.view.read().visit(&page, limit, &mut found)
            } else {
                self.view.read().count(&page, &mut remaining)
            };
            let Some(last) = last else { break };
            next = Some(last);
            if found.len() < limit || remaining > 0 {
                yield_now().await;
            }
        }
        if remaining > 0 {
            self.view.write().continue_list(revision, Instant::now());
        }
        let bytes: u64 = found.iter().map(|(_, version)| u64::from(version.length)).sum();
        let kib = u32::try_from(bytes >> 10).map_or(READING, |kib| kib.min(READING));
        // The semaphore is never closed.
        let _reading = self.reading.acquire_many(kib).await;
        let revisions: Vec<Revision> = found.iter().map(|(_, version)| version.revision).collect();
        let bodies = self.bodies.get_all(&revisions).await?;
        let values = found.into_iter().zip(bodies).map(|((key, version), body)| StoredValue {
            key,
            body,
            created: version.created.unwrap_or_default(),
            modified: version.revision,
            is_stale: false,
        });
        Ok(Range { revision, values: values.collect(), remaining })
    }

    async fn commit(self: &Arc<Self>, key: &str, expect: Expect, change: Change) -> Result<Committed, CommitError> {
        let turn = self.turn(key).lock_owned().await;
        let (hold, latest) = self.find(key, None)?;
        let as_expected = match (&expect, &latest) {
            (Expect::Absent, None) => change != Change::Delete,
            (Expect::Unchanged(at), Some((_, latest))) => latest.revision == *at,
            _ => false,
        };
        let previous = match latest {
            Some((key, version)) => self.value(key, version).await?,
            None => None,
        };
        drop(hold);
        if !as_expected {
            return Err(CommitError::Conflict { current: previous });
        }
        let key = previous.as_ref().map_or_else(|| Arc::from(key), |previous| Arc::clone(&previous.key));
        let (body, lifetime) = change.into_parts();
        let (done, committed) = oneshot::channel();
        self.queue.commit(Waiting { key, body, lifetime, previous, done, turn })?;
        committed.await.map_err(|_| StorageError::from(Failure::Closed))?
    }
}
