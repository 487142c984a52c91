//! The values of a copy that could not be decoded.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use super::{Revision, StorageError};

/// The keys with a value in the readable history that could not be decoded.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    current: BTreeMap<Arc<str>, Current>,
    replaced: VecDeque<Replaced>, // in the order of `until`
}

/// The latest value of a key.
#[derive(Debug)]
struct Current {
    /// A revision at which the key has this value. Every other value of the key is older than it, or was written later.
    since: Revision,
    reason: Arc<str>,
}

/// An earlier value of a key.
#[derive(Debug)]
struct Replaced {
    key: Arc<str>,
    since: Revision,
    until: Revision, // exclusive
    reason: Arc<str>,
}

impl Unreadable {
    /// Records values that the keys have at a revision.
    pub(super) fn at(revision: Revision, values: Vec<(Arc<str>, String)>) -> Self {
        let current = values.into_iter().map(|(key, reason)| (key, Current { since: revision, reason: reason.into() }));
        Self { current: current.collect(), replaced: VecDeque::new() }
    }

    /// Records a value that was written at a revision.
    pub(super) fn insert(&mut self, key: &Arc<str>, revision: Revision, reason: &str) {
        self.replace(key, revision);
        self.current.insert(Arc::clone(key), Current { since: revision, reason: reason.into() });
    }

    /// Records that the value of a key was replaced or deleted. Returns the reason why the old value is unreadable, if
    /// it is.
    pub(super) fn replace(&mut self, key: &str, revision: Revision) -> Option<Arc<str>> {
        let (key, Current { since, reason }) = self.current.remove_entry(key)?;
        self.replaced.push_back(Replaced { key, since, until: revision, reason: Arc::clone(&reason) });
        Some(reason)
    }

    /// Removes a value that can be read now.
    pub(super) fn remove(&mut self, key: &str) {
        self.current.remove(key);
    }

    /// Forgets values that are visible at no readable revision.
    pub(super) fn forget_before(&mut self, oldest: Revision) {
        while self.replaced.pop_front_if(|value| value.until <= oldest).is_some() {}
    }

    /// Returns a revision at which the key has its latest value, if that is unreadable.
    pub(super) fn since(&self, key: &str) -> Option<Revision> {
        self.current.get(key).map(|value| value.since)
    }

    /// Returns keys whose latest value is unreadable and the reasons, in key order.
    pub(super) fn keys_after(&self, after: &str, limit: usize) -> Vec<(Arc<str>, Arc<str>)> {
        let following = self.current.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        following.take(limit).map(|(key, value)| (Arc::clone(key), Arc::clone(&value.reason))).collect()
    }

    /// Returns the reason why the value of a key at a revision is unreadable, if it is.
    pub(super) fn reason(&self, key: &str, at: Revision) -> Option<&Arc<str>> {
        if let Some(value) = self.current.get(key).filter(|value| value.since <= at) {
            return Some(&value.reason);
        }
        self.replaced_at(at).find(|value| *value.key == *key).map(|value| &value.reason)
    }

    /// Returns an error if the value of a key at a revision is unreadable.
    pub(super) fn check_key(&self, key: &str, at: Revision) -> Result<(), StorageError> {
        self.reason(key, at).map_or(Ok(()), |reason| Err(error(key, reason)))
    }

    /// Returns an error if the value of a key under a prefix at a revision is unreadable. At the current revision, the
    /// number of keys does not matter.
    pub(super) fn check(&self, prefix: &str, at: Revision) -> Result<(), StorageError> {
        let following = self.current.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let mut current = following.take_while(|(key, _)| key.starts_with(prefix));
        if let Some((key, value)) = current.find(|(_, value)| value.since <= at) {
            return Err(error(key, &value.reason));
        }
        let replaced = self.replaced_at(at).find(|value| value.key.starts_with(prefix));
        replaced.map_or(Ok(()), |value| Err(error(&value.key, &value.reason)))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty() && self.replaced.is_empty()
    }

    fn replaced_at(&self, at: Revision) -> impl Iterator<Item = &Replaced> {
        let first = self.replaced.partition_point(|value| value.until <= at);
        self.replaced.range(first..).filter(move |value| value.since <= at)
    }
}

fn error(key: &str, reason: &str) -> StorageError {
    StorageError::Unreadable { key: key.to_owned(), source: reason.into() }
}
