//! Why a reconcile of a built-in controller fails.

use thiserror::Error;
use windlass_api::SelectorError;
use windlass_cache::{DecodeError, UnknownIndex};
use windlass_client::Verb;
use windlass_runtime::Action;

/// Every one of these is tried again with back-off.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// The API server did not do what was asked.
    #[error(transparent)]
    Client(#[from] windlass_client::Error),
    /// An object in the cache cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A cache has not the index by which it was asked.
    #[error(transparent)]
    Index(#[from] UnknownIndex),
    /// The object's selector makes no sense.
    #[error("the selector of the object cannot be used")]
    Selector(#[from] SelectorError),
    /// A conflict over an object that is not the reconciled one: the event of its change may not lead back to this.
    #[error("{what} has changed meanwhile")]
    Contended {
        /// The object, such as `volume disk`.
        what: String,
    },
    /// The server has something that the cache does not show yet.
    #[error("the cache is behind: it does not show {what} yet")]
    Behind {
        /// What is missing, such as `replica set default/web-5d`.
        what: String,
    },
}

impl ReconcileError {
    /// Whether the cache is behind the server: seen by what it lacks, or by a write that failed since the object has changed meanwhile, or is gone.
    fn is_outdated(&self) -> bool {
        let error = match self {
            Self::Behind { .. } => return true,
            Self::Client(error) => error,
            Self::Decode(_) | Self::Index(_) | Self::Selector(_) | Self::Contended { .. } => return false,
        };
        let verb = error.operation().map(|operation| operation.verb);
        error.is_conflict() || (error.is_not_found() && verb != Some(Verb::Create))
    }
}

/// A write on an outdated state is no failure: the event that outdated it makes the key dirty again, and the next look
/// finds the newer state. Retrying before that would only fail again.
pub(crate) fn await_newer_state(outcome: Result<Action, ReconcileError>) -> Result<Action, ReconcileError> {
    match outcome {
        Err(error) if error.is_outdated() => {
            tracing::debug!(%error, "the cache is behind; waiting for the event");
            Ok(Action::await_change())
        }
        other => other,
    }
}
