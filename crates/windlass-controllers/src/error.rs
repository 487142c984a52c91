//! The errors of the built-in controllers' reconciles.

use std::time::Duration;

use thiserror::Error;
use windlass_api::SelectorError;
use windlass_cache::{DecodeError, UnknownIndex};
use windlass_client::Verb;
use windlass_runtime::Action;

use crate::nodes::StagesError;

/// An error of a built-in controller's reconcile. Each of them is retried with back-off.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// The API server rejected a request or could not be reached.
    #[error(transparent)]
    Client(#[from] windlass_client::Error),
    /// An object in the cache cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A cache lacks the requested index.
    #[error(transparent)]
    Index(#[from] UnknownIndex),
    /// A watch cannot be started.
    #[error(transparent)]
    Watch(#[from] windlass_runtime::Error),
    /// The token of a service account cannot be signed.
    #[error("the token of a service account cannot be signed")]
    Token(#[source] windlass_api::BoxError),
    /// A certificate request cannot be approved or signed.
    #[error("the certificate request cannot be handled")]
    Certificate(#[source] windlass_api::BoxError),
    /// A stage of the simulated nodes cannot be played.
    #[error("a stage cannot be played")]
    Stage(#[from] StagesError),
    /// The object's selector is invalid.
    #[error("the object's selector is invalid")]
    Selector(#[from] SelectorError),
    /// A conflict on an object other than the reconciled one: the event of its change may not trigger this reconcile
    /// again.
    #[error("{what} has changed in the meantime")]
    Conflict {
        /// The object, such as `volume disk`.
        what: String,
    },
    /// The server has an object that the cache does not show yet.
    #[error("the cache is stale: it does not show {what} yet")]
    StaleCache {
        /// The missing object, such as `replica set default/web-5d`.
        what: String,
    },
}

impl ReconcileError {
    /// Reports whether the cache is stale: it lacks an object, or a write failed because the object has changed or is
    /// gone.
    fn is_outdated(&self) -> bool {
        let error = match self {
            Self::StaleCache { .. } => return true,
            Self::Client(error) => error,
            Self::Decode(_)
            | Self::Index(_)
            | Self::Watch(_)
            | Self::Token(_)
            | Self::Certificate(_)
            | Self::Stage(_)
            | Self::Selector(_)
            | Self::Conflict { .. } => {
                return false;
            }
        };
        let verb = error.operation().map(|operation| operation.verb);
        error.is_conflict() || (error.is_not_found() && verb != Some(Verb::Create))
    }
}

/// The time after which a reconcile is repeated that found the cache stale, if no event does it earlier. The server may
/// refuse a write with a conflict although nothing has changed, for example for an admission webhook. Then no event comes.
/// A shorter time would repeat the write too often while a cache is stale.
const RETRY: Duration = Duration::from_secs(10);

/// A write on an outdated state is not an error: the event that outdated it queues the key again, and the next
/// reconcile finds the newer state. An immediate retry would fail again.
pub(crate) fn await_newer_state(outcome: Result<Action, ReconcileError>) -> Result<Action, ReconcileError> {
    match outcome {
        Err(error) if error.is_outdated() => {
            tracing::debug!(%error, "the cache is stale; waiting for an event");
            Ok(Action::requeue_after(RETRY))
        }
        other => other,
    }
}
