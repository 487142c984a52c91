//! Errors that end a manager, and that reconcilers return with `?`.

#[cfg(feature = "config")]
mod configuration;
mod conversions;
mod coordination;
mod retry_hint;

use std::time::Duration;

use thiserror::Error;
use windlass_api::{ApiResource, BoxError};

#[cfg(feature = "config")]
pub use self::configuration::{ConfigurationError, Place};
#[cfg(feature = "sharding")]
pub use self::coordination::InvalidSharding;
pub use self::{
    coordination::InvalidElection,
    retry_hint::{Retry, RetryHint},
};

/// An error of the runtime, or an error of a lower layer that a reconciler returned.
///
/// Reconcilers may return any other error type, too.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server refused a request, or it could not be sent.
    #[error(transparent)]
    Client(#[from] windlass_client::Error),

    /// A cached object cannot be decoded as its type.
    #[error(transparent)]
    Decode(#[from] windlass_cache::DecodeError),

    /// The configuration of the program is invalid.
    #[cfg(feature = "config")]
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),

    /// Two runnables of a manager have the same name, so their logs and metrics would be indistinguishable.
    #[error("two runnables have the name {name:?}: rename one of them with `.named(..)`")]
    DuplicateName {
        /// The duplicate name.
        name: String,
    },

    /// The configuration names a controller that does not exist.
    #[error("cannot override the settings of controller {name:?}: the controllers are {}", .existing.join(", "))]
    NoSuchController {
        /// The unknown name.
        name: String,
        /// The names of the existing controllers.
        existing: Vec<String>,
    },

    /// A server of the manager cannot listen.
    #[error("cannot listen")]
    Listen {
        /// The cause.
        source: std::io::Error,
    },

    /// The cached object is older than the manager's own write to it.
    #[error("the cache does not show the manager's own write to {object} after {limit:?}")]
    Stale {
        /// The object.
        object: windlass_api::ObjectKey,
        /// How long the reconcile waited.
        limit: std::time::Duration,
    },

    /// A cache did not sync in time. The log contains the server's responses.
    #[error("the cache of {} ({}) did not sync within {timeout:?}", .resource.plural, .resource.api_version())]
    SyncTimeout {
        /// The resource of the cache.
        resource: Box<ApiResource>,
        /// How long the controller waited.
        timeout: Duration,
    },

    /// A reconcile exceeded its time limit and was dropped.
    #[error("the reconcile took longer than {limit:?}")]
    ReconcileTimeout {
        /// The time limit.
        limit: Duration,
    },

    /// An index could not be added to a cache.
    #[error("cannot add an index to the cache of {} ({})", .resource.plural, .resource.api_version())]
    Index {
        /// The resource of the cache.
        resource: Box<ApiResource>,
        /// The cause.
        source: windlass_cache::AddIndexError,
    },

    /// The informer of a cache ended while it was in use. This is a bug.
    #[error("the cache of {} ({}) stopped", .resource.plural, .resource.api_version())]
    CacheStopped {
        /// The resource of the cache.
        resource: Box<ApiResource>,
    },

    /// A watch was added to a controller that has ended, or that ended before the cache synced.
    #[error("cannot watch {} ({}): the controller has stopped", .resource.plural, .resource.api_version())]
    ControllerStopped {
        /// The watched resource.
        resource: Box<ApiResource>,
    },

    /// A runnable was added to a manager that has stopped.
    #[error("cannot start {name}: the manager has stopped")]
    ManagerStopped {
        /// The runnable's name.
        name: String,
    },

    /// A runnable failed, which stopped the manager.
    #[error("{name} failed")]
    Runnable {
        /// The runnable's name.
        name: String,
        /// The cause.
        #[source]
        source: Box<Self>,
    },

    /// A runnable panicked, which stopped the manager. Panics of reconcilers are contained and do not lead to this
    /// error.
    #[error("{name} panicked: {message}")]
    Panicked {
        /// The runnable's name.
        name: String,
        /// The panic message.
        message: String,
    },

    /// A runnable was aborted from outside: the async runtime shut down while the manager ran.
    #[error("{name} was aborted because its runtime shut down")]
    Aborted {
        /// The runnable's name.
        name: String,
    },

    /// The leader election of the manager is invalid.
    #[error("invalid leader election")]
    Election(#[from] InvalidElection),

    /// The sharding of the manager is invalid.
    #[cfg(feature = "sharding")]
    #[error("invalid sharding")]
    Sharding(#[from] InvalidSharding),

    /// The manager uses sharding, and a runnable must run only once in the cluster.
    #[error("{name} would run in every replica: shard it with `.sharded()`, or use leader election as well")]
    NotSharded {
        /// The runnable's name.
        name: String,
    },

    /// The key of a reconcile moved to another replica, or may have moved.
    #[error("the reconcile was dropped: its key is another replica's, or the lease could not be renewed in time")]
    ShardLost,

    /// This process lost its leadership. All runnables that need leadership were aborted.
    #[error("leader election lost")]
    LeadershipLost,

    /// Some runnables had to be aborted.
    #[error("aborted after the grace period of {grace:?}: {}", .names.join(", "))]
    GraceExceeded {
        /// The names of the runnables.
        names: Vec<String>,
        /// The grace period.
        grace: Duration,
    },

    /// An error that determines how the reconcile is retried, see [`Error::terminal`] and [`Error::retry_after`].
    #[error("{}", .0.label())]
    Hinted(#[source] RetryHint),

    /// Any other error of a reconciler, see [`Error::other`]. `?` converts the usual errors of std, tokio, serde_json,
    /// http and of the other crates of Windlass, boxed errors, and texts.
    #[error(transparent)]
    Other(BoxError),
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps an error of any type, or a text: `Err(Error::other("no image given"))`.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(error.into())
    }
}

/// Returns a panic's message, if it is a string.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(no message)").to_owned()
}
