//! Storage for objects: a trait modeled on etcd's MVCC, and the memory backend.
//!
//! To add a backend: implement [`Storage`], test it with `storage_suite!`, and pass it to
//! [`ServerBuilder::storage`](crate::ServerBuilder::storage).
//!
//! Keys are strings ordered by their bytes, bodies are opaque [`Bytes`]. The store has one global [`Revision`].
//!
//! Every backend guarantees the following, and `suite` checks it:
//! - A commit changes one key and consumes exactly one revision, deletions included. A failed commit consumes none. An
//!   empty store is at revision 1, as in etcd.
//! - If only this trait writes to the store, it is *exclusive*: every revision after the oldest retained one, up to the
//!   current one, is the revision of exactly one event. In a *shared* store, such as etcd, other writers can cause
//!   revisions with several events, or with none.
//! - Commits are linearizable: a reader that has seen revision N reads a state at N or later.
//! - A range or get reads a single revision and returns its number. With `at`, it reads that revision.
//! - A watch delivers every event under its prefix with a revision above `after`: once, in revision order, without
//!   gaps. Events of one revision follow each other in any order. It never skips an event: it ends with an error instead.
//!   It ends without an error only when the backend shuts down.
//! - A watch reports exactly up to which revision it is complete, see [`Delivery::progress`]. A watch of all keys reports
//!   at least the revision that was current at the call, without a request. [`Storage::request_progress`] requests a
//!   later one.
//! - Reading a range at revision N and watching after N misses nothing and repeats nothing.
//! - After compaction up to N, reads at N and watches after N still work; older ones return
//!   [`StorageError::Compacted`]. Running watches are not affected, except watches of a shared store that are still
//!   reading history or reconnecting: they can end with that error.
//! - A value with a lifetime is not deleted before it has passed since the last put. Then it is deleted by a commit of its
//!   own, which watches deliver like any other. In a shared store, one revision can delete several of them.
//!
//! Not included: transactions over several keys, and waiting for a future revision ([`StorageError::Future`] is returned
//! immediately). History is not kept forever: a backend may compact at any time. Values with a lifetime may be deleted
//! later than necessary, for example together with the next commit.
//!
//! Futures may be dropped at any time. After that, the commit may or may not have happened.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::BoxStream};

pub use self::{
    compact::{CompactBody, CompactRange, CompactValue, CompressedBody, Decompress},
    key_map::{KeyCount, KeyEntry, KeyMap},
    lifetimes::Lifetimes,
    memory::{MemoryStorage, Replica, Retention},
};

mod compact;
mod key_map;
pub(crate) mod last_commits;
mod lifetimes;
pub(crate) mod mailbox;
mod memory;
#[cfg(any(test, feature = "testing"))]
pub mod suite;

/// A point in the store's history: the number of the last commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Returns the revision of the next commit.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the revision before this one. Returns revision 0 for itself.
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

/// A value at some revision. Clones share key and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The complete key.
    pub key: Arc<str>,
    /// The stored bytes.
    pub body: Bytes,
    /// The revision of the put that created the key (after its last deletion, if any).
    pub created: Revision,
    /// The revision of the put that wrote this body.
    pub modified: Revision,
    /// `true` if the backend would now store the body in another form, for example encrypted with another key. The next
    /// update then writes it, even if it is unchanged.
    pub is_stale: bool,
}

/// The condition of a commit on the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last modified at this revision.
    Unchanged(Revision),
}

/// The change that a commit makes to the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates or replaces the value, even by an equal one.
    Put(Bytes),
    /// Like [`Put`](Self::Put), for this long. A later put replaces the lifetime.
    PutFor(Bytes, Duration),
    /// Deletes the value. A missing key is a conflict, regardless of the expectation.
    Delete,
}

impl Change {
    /// Returns the new body and its lifetime. A deletion has no body.
    #[must_use]
    pub fn into_parts(self) -> (Option<Bytes>, Option<Duration>) {
        match self {
            Self::Put(body) => (Some(body), None),
            Self::PutFor(body, lifetime) => (Some(body), Some(lifetime)),
            Self::Delete => (None, None),
        }
    }
}

/// A successful commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The revision of the commit.
    pub revision: Revision,
    /// The new value. `None` after a deletion.
    pub value: Option<StoredValue>,
    /// The previous value. `None` if the commit created the key, or if the previous value cannot be decoded.
    pub previous: Option<StoredValue>,
}

/// The error for a failed commit.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The key was not in the expected state.
    #[error("the key is not in the expected state: {}", Found(current.as_ref()))]
    Conflict {
        /// The current value.
        current: Option<StoredValue>,
    },
    /// The backend failed. After [`StorageError::Unavailable`] and [`StorageError::Backend`] the commit may have happened.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Describes the current state of a key in a conflict.
struct Found<'a>(Option<&'a StoredValue>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, "{} was modified at revision {}", value.key, value.modified),
            None => f.write_str("it does not exist"),
        }
    }
}

/// The error for a failed storage operation.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The requested history was compacted.
    #[error("the revision has been compacted, the oldest available one is {oldest}")]
    Compacted {
        /// The oldest revision that can be read, or watched from.
        oldest: Revision,
    },
    /// The requested revision does not exist yet.
    #[error("revision {requested} is in the future, the current one is {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The current revision.
        current: Revision,
    },
    /// The watch was too slow and has ended. Events up to `after` were delivered.
    #[error("the watch was too slow, its events after revision {after} were dropped")]
    Lagged {
        /// The revision after which a new watch can continue, unless it is compacted by then.
        after: Revision,
    },
    /// A value cannot be decoded, for example because its encryption key is not configured. The message is that of
    /// kube-apiserver.
    #[error("unable to transform key {key:?}: {source}")]
    Unreadable {
        /// The key of the value.
        key: String,
        /// The cause.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The backend failed or rejected the request with a message that clients of kube-apiserver see, too.
    #[error("{message}")]
    Backend {
        /// The message, for example `etcdserver: request is too large`.
        message: String,
        /// The operation that failed, and the cause.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The backend is unreachable or failed. A retry may succeed.
    #[error("the storage is unavailable")]
    Unavailable(#[source] Box<dyn StdError + Send + Sync>),
}

/// A query for the values whose keys start with a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeQuery {
    /// The prefix of the keys. Empty for all keys.
    pub prefix: String,
    /// The first key, inclusive. It need not exist. Values outside of the prefix are never returned.
    pub start: Option<String>,
    /// The maximum number of values.
    pub limit: Option<usize>,
    /// The revision to read at. `None` for the current one.
    pub at: Option<Revision>,
}

impl RangeQuery {
    /// Creates a query for all current values under `prefix`.
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Starts at `key`, inclusive.
    #[must_use]
    pub fn start(mut self, key: impl Into<String>) -> Self {
        self.start = Some(key.into());
        self
    }

    /// Limits the number of values to `limit`.
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

/// The result of a [`RangeQuery`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The revision at which the values were read.
    pub revision: Revision,
    /// The values in key order.
    pub values: Vec<StoredValue>,
    /// The number of further values after the limit, at the same revision.
    pub remaining: u64,
}

/// A commit as watchers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageEvent {
    /// The revision of the commit.
    pub revision: Revision,
    /// The changed key.
    pub key: Arc<str>,
    /// The new value. `None` after a deletion.
    pub current: Option<StoredValue>,
    /// The previous value. `None` if the commit created the key, or if the previous value cannot be decoded.
    pub previous: Option<StoredValue>,
}

/// An item of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// An event.
    Event {
        /// The event.
        event: StorageEvent,
        /// `true` if all events of its revision under the prefix have been delivered. If `false`, more can follow, and a
        /// later item completes the revision.
        completes: bool,
    },
    /// All events up to this revision have been delivered.
    Progress(Revision),
    /// An event whose value cannot be decoded, see [`StorageError::Unreadable`]. The watch continues after it, because
    /// other keys are not affected.
    Unreadable {
        /// The changed key.
        key: Arc<str>,
        /// The revision of the commit.
        revision: Revision,
        /// As for an event.
        completes: bool,
        /// The reason.
        reason: String,
    },
}

impl Delivery {
    /// Creates the delivery of an event that completes its revision.
    #[must_use]
    pub fn complete(event: StorageEvent) -> Self {
        Self::Event { event, completes: true }
    }

    /// Returns the revision up to which all events under the prefix have been delivered, including this one. A new watch
    /// after this revision continues where this one ends.
    #[must_use]
    pub fn progress(&self) -> Revision {
        match self {
            Self::Event { event, completes: true } => event.revision,
            Self::Event { event, completes: false } => event.revision.previous(),
            Self::Progress(revision) | Self::Unreadable { revision, completes: true, .. } => *revision,
            Self::Unreadable { revision, completes: false, .. } => revision.previous(),
        }
    }

    /// Returns the revision of the event, or that of the progress.
    #[must_use]
    pub fn revision(&self) -> Revision {
        match self {
            Self::Event { event, .. } => event.revision,
            Self::Progress(revision) | Self::Unreadable { revision, .. } => *revision,
        }
    }

    /// Returns the changed key. Progress has none.
    #[must_use]
    pub fn key(&self) -> Option<&Arc<str>> {
        match self {
            Self::Event { event, .. } => Some(&event.key),
            Self::Progress(_) => None,
            Self::Unreadable { key, .. } => Some(key),
        }
    }

    /// Returns the event, if it is one.
    #[must_use]
    pub fn into_event(self) -> Option<StorageEvent> {
        match self {
            Self::Event { event, .. } => Some(event),
            Self::Progress(_) | Self::Unreadable { .. } => None,
        }
    }
}

/// The events of one watch, and its progress.
pub type EventStream = BoxStream<'static, Result<Delivery, StorageError>>;

/// Returns the next event of a watch, for callers that need no progress. Cancel-safe.
pub async fn next_event(events: &mut EventStream) -> Option<Result<StorageEvent, StorageError>> {
    loop {
        match events.next().await? {
            Ok(Delivery::Event { event, .. }) => return Some(Ok(event)),
            Ok(Delivery::Progress(_)) => {}
            Ok(Delivery::Unreadable { key, reason, .. }) => {
                return Some(Err(StorageError::Unreadable { key: key.to_string(), source: reason.into() }));
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

/// A storage backend. The module documentation states its guarantees.
///
/// Object safe; the server holds an `Arc<dyn Storage>`.
pub trait Storage: fmt::Debug + Send + Sync + 'static {
    /// Returns the current revision.
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>>;

    /// Returns an error if the storage takes no reads or no writes. The health checks of the server call it.
    fn check(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move { self.revision().await.map(drop) })
    }

    /// Returns the value of `key`, and the revision at which it was read: `at` or the current one.
    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>>;

    /// Returns the current value of `key`, whose [`is_stale`](StoredValue::is_stale) is current, too. A backend with a copy
    /// of the values in memory does not know when the keys of encryption change.
    fn get_stored<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<StoredValue>, StorageError>> {
        Box::pin(async move { self.get(key, None).await.map(|(_, value)| value) })
    }

    /// Returns a value that `key` has, or had a short time ago. It includes the commits of this storage that have
    /// returned. A backend that reads the current value from another process can return the one that it has in memory.
    fn get_recent<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<StoredValue>, StorageError>> {
        Box::pin(async move { self.get(key, None).await.map(|(_, value)| value) })
    }

    /// Returns all values under a prefix like [`get_recent`](Self::get_recent).
    fn range_recent<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Range, StorageError>> {
        self.range(RangeQuery::prefix(prefix))
    }

    /// Reports whether there is no value under a prefix, in a state as recent as that of [`range_recent`](Self::range_recent).
    /// The check must be cheap and cannot wait, so the answer is also `false` if the backend does not know it. That is the
    /// default. The server asks for the configuration of admission before each write, and most clusters have none.
    fn is_known_to_be_empty(&self, _prefix: &str) -> bool {
        false
    }

    /// Returns the values under a prefix, in key order.
    ///
    /// A range that ended at its limit can usually be continued at its revision for some minutes, because lists are
    /// read in pages. This holds even if the backend has compacted that revision itself. [`Self::compact`] ends it.
    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>>;

    /// Returns the values like [`range`](Self::range), in the form in which the backend keeps them. A long list then needs
    /// little memory of its own, and is decompressed while it is sent. By default no value is compressed.
    fn range_compact(&self, query: RangeQuery) -> BoxFuture<'_, Result<CompactRange, StorageError>> {
        async move { Ok(self.range(query).await?.into()) }.boxed()
    }

    /// Compares and changes one key atomically.
    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>>;

    /// Watches the events under `prefix` (empty for all) after a revision: first from history, then live.
    ///
    /// A future revision is not an error: the watch is silent until then. For a compacted revision this call, not the
    /// stream, returns [`StorageError::Compacted`]. The backend decides how slow a watch may be before it ends with
    /// [`StorageError::Lagged`]. A commit never waits for a watch.
    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>>;

    /// Watches like [`watch`](Self::watch), for a caller that knows the previous values. The backend can omit them.
    fn watch_changes<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        self.watch(prefix, after)
    }

    /// Reports whether [`range_compact`](Self::range_compact) returns bytes that the storage keeps in memory anyway. The
    /// server charges other bytes to the connection of the client that lists them.
    fn shares_values(&self) -> bool {
        false
    }

    /// Reports whether other writers may use the store.
    fn is_shared(&self) -> bool {
        false
    }

    /// Requests all running watches to deliver their progress, up to at least the revision that is current now.
    ///
    /// A watch that is behind ignores the request, so a caller that waits for a revision repeats it, as kube-apiserver
    /// does. The default does nothing, which suffices for exclusive stores: there, a watch of all keys gets an event for
    /// each revision.
    fn request_progress(&self) {}

    /// Removes the history before `upto`. Compacting a compacted revision has no effect.
    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), StorageError>>;
}
