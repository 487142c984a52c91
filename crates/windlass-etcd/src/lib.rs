//! etcd as the storage of [`windlass_server`].
//!
//! The modules, from the entry point down:
//!
//! ```text
//! testing     real etcd processes for tests, with the feature of this name
//! store       the storage backend: commits, and what the other modules do
//! compactor   one of several servers compacts the history
//! watch       streams of events, resumed on other members
//! revisions   which revisions of a watch are complete
//! queue       from a watch to a slow consumer
//! leases      lifetimes of values
//! reads       keys and ranges at a revision
//! keys        the prefix
//! cluster     requests, repeated on other members if that is safe
//! connection  HTTP/2 and TLS to one member
//! messages    etcd's API
//! errors      etcd's errors
//! options     settings
//! ```
//!
//! # Guarantees
//!
//! In addition to those of [`Storage`](windlass_server::storage::Storage), for a store that others write to:
//! - A commit is executed at most once. If its fate is unknown, it fails and is not repeated.
//! - A watch continues on another member if its own fails or loses its leader. It neither skips nor repeats events.
//! - Reads are linearizable.
//! - While one member of the majority works, other members that are down or paused delay a request by less than a
//!   second, if it is not being executed by one of them. Such a read is repeated after 3 seconds.
//! - Keys, leases and compaction are those of kube-apiserver. Values are stored as they are passed.
//!   `windlass_storage::CachedStorage` encodes them as kube-apiserver does, and keeps a copy of them in memory: `windlass up`
//!   uses etcd through it.
//!
//! # Not guaranteed
//!
//! - The health check does not notice that etcd has no space left. As with kube-apiserver, commits fail then.
//! - Without a [`Compactor`], here or in a kube-apiserver, etcd keeps all history.
//! - Keys that are not UTF-8 cannot be read. The server does not write such keys.
//! - With etcd before 3.5.17, a watch that starts within a millisecond of the compaction of its first revision can miss a
//!   deletion at exactly that revision.

#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod store;
mod compactor;
mod watch;
mod revisions;
mod queue;
mod leases;
mod reads;
mod keys;
mod cluster;
mod connection;
mod messages;
mod errors;
mod options;

pub use self::{
    compactor::Compactor,
    errors::EtcdError,
    options::{Credentials, Endpoint, InvalidEndpoint, Options, Tls},
    store::{ConnectError, EtcdStorage},
};

/// The example of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
