//! Where objects live: one trait after etcd's MVCC, and the memory backend.
//!
//! Keys are strings ordered by their bytes, bodies are opaque [`Bytes`]. The store has one global [`Revision`].
//!
//! What every backend guarantees (and `suite` checks):
//! - A commit changes one key and consumes exactly one revision, deletions included. A commit that fails consumes none.
//!   An empty store is at revision 1, as etcd's is.
//! - Every revision after the oldest retained one, up to the current one, is the revision of exactly one event.
//! - Commits are linearizable: whoever has seen revision N reads a state at N or later.
//! - A range or get answers from one revision, whole, and names it; with `at` set, from that revision.
//! - A watch delivers every event under its prefix with a revision above `after`: once, in revision order, without gaps.
//!   It ends with an error rather than skip an event, and without an error only when the backend shuts down.
//! - Reading a range at revision N and watching after N misses nothing and repeats nothing.
//! - After compaction up to N, reads at N and watches after N still work; older ones answer
//!   [`StorageError::Compacted`]. Watches that are already running are not disturbed by it.
//!
//! What it does not do: leases and expiry (the registry's business), transactions over several keys, waiting for
//! a revision that has not happened ([`StorageError::Future`] at once), and remembering history for ever: a backend may
//! compact by itself.
//!
//! Futures may be dropped at any time; a commit that was dropped may or may not have happened.

use std::{error::Error as StdError, fmt, sync::Arc};

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};

pub use self::memory::{MemoryStorage, Retention};

pub(crate) mod mailbox;
mod memory;
#[cfg(any(test, feature = "testing"))]
pub mod suite;

/// A point in the store's history: the number of the commit that led there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision that the next commit will have.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The revision before this one; revision 0 has none and stays.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A value as it was at some revision. Clones share key and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The whole key.
    pub key: Arc<str>,
    /// What was put.
    pub body: Bytes,
    /// The revision of the put that brought the key into being (after its last deletion, if any).
    pub created: Revision,
    /// The revision of the put that wrote this body.
    pub modified: Revision,
}

/// What a commit requires of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no such key.
    Absent,
    /// The key exists and was last modified at this revision.
    Unchanged(Revision),
}

/// What a commit does to the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates the value or replaces it, even by an equal one.
    Put(Bytes),
    /// Removes the value. Of an absent key it is a conflict, whatever was expected.
    Delete,
}

/// A commit that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The revision that it consumed.
    pub revision: Revision,
    /// The value after it; none after a deletion.
    pub value: Option<StoredValue>,
    /// The value before it; none when the key was created.
    pub previous: Option<StoredValue>,
}

/// Why a commit did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The key was not as expected.
    #[error("the key is not as expected: {}", Found(current.as_ref()))]
    Conflict {
        /// The value as it is.
        current: Option<StoredValue>,
    },
    /// The backend failed; the commit may have happened when this is [`StorageError::Unavailable`].
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Words for the state in which a conflicting key was found.
struct Found<'a>(Option<&'a StoredValue>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, "{} was modified at revision {}", value.key, value.modified),
            None => f.write_str("it does not exist"),
        }
    }
}

/// Why storage could not answer.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The history that was asked for is gone.
    #[error("the revision has been compacted, the oldest one kept is {oldest}")]
    Compacted {
        /// The oldest revision that can be read, and watched after.
        oldest: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {requested} is in the future, the current one is {current}")]
    Future {
        /// The revision that was asked for.
        requested: Revision,
        /// The current one.
        current: Revision,
    },
    /// The watch was not read fast enough and has been ended. Events up to `after` were delivered.
    #[error("the watch was too slow, its events after revision {after} were dropped")]
    Lagged {
        /// Where another watch can take over, unless that has been compacted meanwhile.
        after: Revision,
    },
    /// The backend cannot be reached or failed; another attempt may succeed.
    #[error("the storage is unavailable")]
    Unavailable(#[source] Box<dyn StdError + Send + Sync>),
}

/// A question for the values whose keys start with a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeQuery {
    /// Keys start with this; empty: all keys.
    pub prefix: String,
    /// The first key, inclusive; it need not exist. Values outside of the prefix are never returned.
    pub start: Option<String>,
    /// At most so many values.
    pub limit: Option<usize>,
    /// The revision to read at; none: the current one.
    pub at: Option<Revision>,
}

impl RangeQuery {
    /// All values under `prefix`, now.
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Begins at `key`, inclusive.
    #[must_use]
    pub fn start(mut self, key: impl Into<String>) -> Self {
        self.start = Some(key.into());
        self
    }

    /// Returns at most `limit` values.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Reads at `revision`.
    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.at = Some(revision);
        self
    }
}

/// The answer to a [`RangeQuery`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The revision at which the values were read.
    pub revision: Revision,
    /// The values in key order.
    pub values: Vec<StoredValue>,
    /// How many more there are after the limit, at the same revision.
    pub remaining: u64,
}

/// One commit, as watchers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageEvent {
    /// The revision of the commit.
    pub revision: Revision,
    /// The key that it changed.
    pub key: Arc<str>,
    /// The value after it; none: deleted.
    pub current: Option<StoredValue>,
    /// The value before it; none: created.
    pub previous: Option<StoredValue>,
}

/// The events of one watch.
pub type EventStream = BoxStream<'static, Result<StorageEvent, StorageError>>;

/// A backend. The module's documentation says what it guarantees.
///
/// Object safe; the server holds an `Arc<dyn Storage>`.
pub trait Storage: fmt::Debug + Send + Sync + 'static {
    /// The current revision.
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>>;

    /// The value of `key` and the revision at which it was read: `at`, or the current one.
    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>>;

    /// The values under a prefix, in key order.
    ///
    /// A range that ended at its limit can usually be continued at its revision for some minutes, even if the backend has
    /// compacted that revision by itself meanwhile: lists are read in pages. [`Self::compact`] ends that.
    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>>;

    /// Compares and changes one key, atomically.
    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>>;

    /// The events under `prefix` (empty: all) after a revision: what history holds, then live ones.
    ///
    /// A revision in the future is no error: the watch is silent until then. A revision that has been compacted is
    /// answered with [`StorageError::Compacted`] by this call, not by the stream. How far a watch may fall behind before it ends
    /// with [`StorageError::Lagged`] is the backend's choice; a commit never waits for a watch.
    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>>;

    /// Forgets the history before `upto`. Compacting what has been compacted does nothing.
    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), StorageError>>;
}
