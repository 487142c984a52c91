//! What a registry must be able to do, and how it fails.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::BoxFuture;
use thiserror::Error;
use windlass::{ObjectKey, api::BoxError};

use crate::Entry;

/// Why a registry has not done what it was asked to. Whether it has done it nevertheless is not known.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// There was no answer.
    #[error("{what}: the registry does not answer")]
    NoAnswer {
        /// What was being done.
        what: String,
        /// Why not.
        source: BoxError,
    },
    /// It refused.
    #[error("{what}: the registry refuses: {why}")]
    Refused {
        /// What was being done.
        what: String,
        /// What it says.
        why: String,
    },
    /// Its answer is none that it should give.
    #[error("{what}: the answer of the registry cannot be read: {why}")]
    Garbage {
        /// What was being done.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A registry outside of the cluster. Of what is in it, only what was put there by this trait is seen and changed by it.
pub trait Registry: Send + Sync + 'static {
    /// What it has now.
    fn entries(&self) -> BoxFuture<'_, Result<BTreeMap<ObjectKey, Entry>, RegistryError>>;

    /// Makes an entry what it should be, whatever it is now.
    fn put<'a>(&'a self, key: &'a ObjectKey, entry: &'a Entry) -> BoxFuture<'a, Result<(), RegistryError>>;

    /// Makes sure that there is no entry.
    fn remove<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), RegistryError>>;

    /// What [`Self::entries`] is to show of an entry: a registry need not keep all of it.
    fn shows(&self, entry: &Entry) -> Option<Entry> {
        Some(entry.clone())
    }

    /// The namespaces that it has now. Nothing where there is no such thing, and so below.
    fn namespaces(&self) -> BoxFuture<'_, Result<BTreeSet<String>, RegistryError>> {
        Box::pin(async { Ok(BTreeSet::new()) })
    }

    /// Makes sure that there is a namespace.
    fn add_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RegistryError>> {
        let _ = name;
        Box::pin(async { Ok(()) })
    }

    /// Makes sure that there is no such namespace. May fail as long as there are services in it.
    fn remove_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RegistryError>> {
        let _ = name;
        Box::pin(async { Ok(()) })
    }

    /// Whether it has namespaces at all.
    fn has_namespaces(&self) -> bool {
        false
    }
}
