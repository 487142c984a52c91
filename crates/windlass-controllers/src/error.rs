//! Why a reconcile of a built-in controller fails.

use thiserror::Error;
use windlass_api::SelectorError;
use windlass_cache::DecodeError;

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
