//! A registry in this process, and the moods of registries: for tests, and for those who have no registry.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use windlass::ObjectKey;

use crate::{Entry, Registry, RegistryError};

/// How a registry behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mood {
    /// As it should.
    #[default]
    Well,
    /// It is not there.
    Away,
    /// It takes requests, and never answers.
    Silent,
    /// It does what it is asked to, and its answers make no sense.
    Raving,
}

/// A registry in memory.
#[derive(Debug, Default)]
pub struct Memory {
    entries: Mutex<BTreeMap<ObjectKey, Entry>>,
    mood: Mutex<Mood>,
    writes: Mutex<usize>,
}

impl Memory {
    /// Changes how it behaves.
    pub fn set_mood(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    /// What is in it.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<ObjectKey, Entry> {
        self.entries.lock().clone()
    }

    /// Changes it behind everybody's back.
    pub fn tamper(&self, change: impl FnOnce(&mut BTreeMap<ObjectKey, Entry>)) {
        change(&mut self.entries.lock());
    }

    /// How many writes it was asked for.
    #[must_use]
    pub fn writes(&self) -> usize {
        *self.writes.lock()
    }

    /// Does something in its present mood.
    async fn act<T>(
        &self,
        what: &str,
        act: impl FnOnce(&mut BTreeMap<ObjectKey, Entry>) -> T,
    ) -> Result<T, RegistryError> {
        let mood = *self.mood.lock();
        match mood {
            Mood::Well => Ok(act(&mut self.entries.lock())),
            Mood::Away => Err(RegistryError::NoAnswer { what: what.to_owned(), source: "nobody listens there".into() }),
            Mood::Silent => std::future::pending().await,
            Mood::Raving => {
                act(&mut self.entries.lock());
                Err(RegistryError::Garbage { what: what.to_owned(), why: "it says moo".to_owned() })
            }
        }
    }
}

impl Registry for Memory {
    fn entries(&self) -> BoxFuture<'_, Result<BTreeMap<ObjectKey, Entry>, RegistryError>> {
        Box::pin(self.act("looking at the registry", |entries| entries.clone()))
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
