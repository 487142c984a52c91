//! Why a reconcile of a built-in controller fails.

use thiserror::Error;
use windlass_api::SelectorError;
use windlass_cache::DecodeError;
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
    /// The object's selector makes no sense.
    #[error("the selector of the object cannot be used")]
    Selector(#[from] SelectorError),
}

impl ReconcileError {
    /// Whether a write failed because the cache is behind the server: the object has changed meanwhile, or is gone.
    fn is_outdated(&self) -> bool {
        let Self::Client(error) = self else { return false };
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
