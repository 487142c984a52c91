//! The trait of registries, and their errors.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::BoxFuture;
use thiserror::Error;
use windlass::{ObjectKey, api::BoxError};

use crate::Entry;

/// An error of a registry. The request may have been performed nevertheless.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The registry did not respond.
    #[error("{what}: the registry did not respond")]
    NoAnswer {
        /// The operation.
        what: String,
        /// The cause.
        source: BoxError,
    },
    /// The registry rejected the request.
    #[error("{what}: the registry rejected the request: {why}")]
    Refused {
        /// The operation.
        what: String,
        /// The registry's message.
        why: String,
    },
    /// The response is invalid.
    #[error("{what}: the registry sent an invalid response: {why}")]
    Garbage {
        /// The operation.
        what: String,
        /// The problem with the response.
        why: String,
    },
}

/// An external registry. It only returns and changes entries that were created by this trait.
pub trait Registry: Send + Sync + 'static {
    /// Returns the current entries.
    fn entries(&self) -> BoxFuture<'_, Result<BTreeMap<ObjectKey, Entry>, RegistryError>>;

    /// Creates or replaces an entry.
    fn put<'a>(&'a self, key: &'a ObjectKey, entry: &'a Entry) -> BoxFuture<'a, Result<(), RegistryError>>;

    /// Removes an entry, if it exists.
    fn remove<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), RegistryError>>;

    /// Returns the form in which [`Self::entries`] lists an entry. A registry need not store all of it.
    fn shows(&self, entry: &Entry) -> Option<Entry> {
        Some(entry.clone())
    }

    /// Returns the current namespaces. By default, a registry has no namespaces, and the methods for them do nothing.
    fn namespaces(&self) -> BoxFuture<'_, Result<BTreeSet<String>, RegistryError>> {
        Box::pin(async { Ok(BTreeSet::new()) })
    }

    /// Adds a namespace, unless it exists.
    fn add_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RegistryError>> {
        let _ = name;
        Box::pin(async { Ok(()) })
    }

    /// Removes a namespace, if it exists. May fail as long as it has services.
    fn remove_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RegistryError>> {
        let _ = name;
        Box::pin(async { Ok(()) })
    }

    /// Returns `true` if the registry has namespaces.
    fn has_namespaces(&self) -> bool {
        false
    }
}
