//! A registry in this process with switchable failure modes, for tests and demonstrations.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use windlass::ObjectKey;

use crate::{Entry, Registry, RegistryError};

/// The behavior of the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Behavior {
    /// The registry works.
    #[default]
    Working,
    /// The registry is unreachable.
    Unreachable,
    /// The registry accepts requests and never responds.
    Hanging,
    /// The registry performs requests, but its responses are invalid.
    Garbled,
}

/// A registry in memory.
#[derive(Debug, Default)]
pub struct Memory {
    entries: Mutex<BTreeMap<ObjectKey, Entry>>,
    behavior: Mutex<Behavior>,
    writes: Mutex<usize>,
}

impl Memory {
    /// Sets the behavior.
    pub fn set_behavior(&self, behavior: Behavior) {
        *self.behavior.lock() = behavior;
    }

    /// Returns the current entries.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<ObjectKey, Entry> {
        self.entries.lock().clone()
    }

    /// Changes the entries directly, as another program would.
    pub fn tamper(&self, change: impl FnOnce(&mut BTreeMap<ObjectKey, Entry>)) {
        change(&mut self.entries.lock());
    }

    /// Returns the number of requested writes.
    #[must_use]
    pub fn writes(&self) -> usize {
        *self.writes.lock()
    }

    /// Performs a request according to the current behavior.
    async fn act<T>(
        &self,
        what: &str,
        act: impl FnOnce(&mut BTreeMap<ObjectKey, Entry>) -> T,
    ) -> Result<T, RegistryError> {
        let behavior = *self.behavior.lock();
        match behavior {
            Behavior::Working => Ok(act(&mut self.entries.lock())),
            Behavior::Unreachable => {
                Err(RegistryError::NoAnswer { what: what.to_owned(), source: "connection refused".into() })
            }
            Behavior::Hanging => std::future::pending().await,
            Behavior::Garbled => {
                act(&mut self.entries.lock());
                Err(RegistryError::Garbage { what: what.to_owned(), why: "unexpected text".to_owned() })
            }
        }
    }
}

impl Registry for Memory {
    fn entries(&self) -> BoxFuture<'_, Result<BTreeMap<ObjectKey, Entry>, RegistryError>> {
        Box::pin(self.act("reading the registry", |entries| entries.clone()))
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, entry: &'a Entry) -> BoxFuture<'a, Result<(), RegistryError>> {
        *self.writes.lock() += 1;
        Box::pin(self.act("writing an entry", |entries| {
            entries.insert(key.clone(), entry.clone());
        }))
    }

    fn remove<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), RegistryError>> {
        *self.writes.lock() += 1;
        Box::pin(self.act("removing an entry", |entries| {
            entries.remove(key);
        }))
    }
}
