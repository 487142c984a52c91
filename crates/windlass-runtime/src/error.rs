//! What ends a manager, and what reconcilers may pass on with `?`.

use std::time::Duration;

use thiserror::Error;
use windlass_api::{ApiResource, BoxError};

/// An error of the runtime, or of the layers below it on its way through a reconciler.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server refused a request, or it could not be sent.
    #[error(transparent)]
    Client(#[from] windlass_client::Error),

    /// An object in the cache is not what its type says.
    #[error(transparent)]
    Decode(#[from] windlass_cache::DecodeError),

    /// What whoever runs the program has chosen makes no sense.
    #[cfg(feature = "config")]
    #[error(transparent)]
    Configuration(#[from] crate::config::ConfigurationError),

    /// Two runnables of one manager have the same name: their logs and metrics could not be told apart.
    #[error("two runnables are named {name:?}: name one of them with `.named(..)`")]
    DuplicateName {
        /// The name in question.
        name: String,
    },

    /// Something is said of a controller by name, and no runnable has that name.
    #[error("no controller is named {name:?}, of which something is said: there are {}", .there.join(", "))]
    NoSuchController {
        /// The name in question.
        name: String,
        /// The names that there are.
        there: Vec<String>,
    },

    /// A server of the manager cannot listen.
    #[error("cannot listen")]
    Listen {
        /// Why not.
        source: std::io::Error,
    },

    /// The object of a reconcile is older in the cache than the manager's own write to it.
    #[error("the cache does not show an own write to {object} after {limit:?}")]
    Stale {
        /// The object.
        object: windlass_api::ObjectKey,
        /// How long the reconcile has waited.
        limit: std::time::Duration,
    },

    /// A cache did not become complete in time; the log says what the server answered.
    #[error("the cache of {} ({}) did not sync within {timeout:?}", .resource.plural, .resource.api_version())]
    SyncTimeout {
        /// What it waited for.
        resource: Box<ApiResource>,
        /// For how long.
        timeout: Duration,
    },

    /// A reconcile took too long, and was dropped.
    #[error("the reconcile took longer than {limit:?}")]
    ReconcileTimeout {
        /// How long it may take.
        limit: Duration,
    },

    /// An index could not be added to a cache.
    #[error("cannot add an index to the cache of {} ({})", .resource.plural, .resource.api_version())]
    Index {
        /// Which cache.
        resource: Box<ApiResource>,
        /// Why not.
        source: windlass_cache::AddIndexError,
    },

    /// The informer of a cache ended while it was needed, which only a bug can cause.
    #[error("the cache of {} ({}) stopped", .resource.plural, .resource.api_version())]
    CacheStopped {
        /// Which one.
        resource: Box<ApiResource>,
    },

    /// A watch was to be added to a controller that has ended, or ended meanwhile.
    #[error("cannot watch {} ({}): the controller has stopped", .resource.plural, .resource.api_version())]
    ControllerStopped {
        /// What was to be watched.
        resource: Box<ApiResource>,
    },

    /// A runnable was to be added to a manager that has been stopped.
    #[error("cannot start {name}: the manager has stopped")]
    ManagerStopped {
        /// Which one.
        name: String,
    },

    /// A runnable failed, which stopped the manager.
    #[error("{name} failed")]
    Runnable {
        /// Which one.
        name: String,
        /// Why.
        #[source]
        source: Box<Self>,
    },

    /// A runnable panicked, which stopped the manager. Panics of reconcilers are contained and never get here.
    #[error("{name} panicked: {message}")]
    Panicked {
        /// Which one.
        name: String,
        /// What it said.
        message: String,
    },

    /// A runnable was aborted from outside: the asynchronous runtime shuts down while the manager runs.
    #[error("{name} was aborted with its runtime")]
    Aborted {
        /// Which one.
        name: String,
    },

    /// The leader election of the manager cannot be held like this.
    #[error("invalid leader election")]
    Election(#[from] crate::leader_election::InvalidElection),

    /// The manager cannot share its keys like this.
    #[error("invalid sharding")]
    Sharding(#[from] crate::sharding::InvalidSharding),

    /// A manager shares its keys, and something needs to be the only one of its kind.
    #[error("{name} would run in every replica: shard it with `.sharded()`, or hold a leader election as well")]
    NotSharded {
        /// What it is.
        name: String,
    },

    /// The key of a reconcile became another replica's, or might have.
    #[error("the reconcile was dropped: its key is another replica's, or the lease could not be renewed in time")]
    ShardLost,

    /// This process led and does not any more. What needed leadership has been aborted.
    #[error("leader election lost")]
    LeadershipLost,

    /// Some runnables had to be aborted.
    #[error("still running after the grace period of {grace:?}, and aborted: {}", .names.join(", "))]
    GraceExceeded {
        /// Which ones.
        names: Vec<String>,
        /// The time they had.
        grace: Duration,
    },

    /// Anything else that a reconciler wants to pass on, see [`Error::other`].
    #[error(transparent)]
    Other(BoxError),
}

/// The result of most things in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of whatever type, or a text: `Err(Error::other("no image given"))`.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(error.into())
    }
}

/// What a panic said, as far as it said it in words.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(no message)").to_owned()
}
