//! The program's memory of the registry, which distinguishes new, changed and deleted services.
//!
//! It is lost when the program ends. After a restart, the first check of the registry marks all existing entries as
//! unconfirmed.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use windlass::ObjectKey;

/// The known state of an entry in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SyncState<V> {
    /// The registry has confirmed this value.
    Synced(V),
    /// The entry may be missing or different: a write has failed, or a check found a difference.
    Unconfirmed,
}

/// The known states of all entries.
#[derive(Debug)]
pub(crate) struct SyncStates<V>(Mutex<BTreeMap<ObjectKey, SyncState<V>>>);

impl<V: Clone + PartialEq> SyncStates<V> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns the state of an entry, or `None` if it was never synced.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<SyncState<V>> {
        self.0.lock().get(key).cloned()
    }

    /// Marks an entry as unconfirmed. Called before a write, so that the mark remains if there is no response.
    pub(crate) fn mark_unconfirmed(&self, key: &ObjectKey) {
        self.0.lock().insert(key.clone(), SyncState::Unconfirmed);
    }

    pub(crate) fn synced(&self, key: &ObjectKey, value: V) {
        self.0.lock().insert(key.clone(), SyncState::Synced(value));
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }

    /// Returns the keys of the synced entries for which the condition holds.
    pub(crate) fn which(&self, holds: impl Fn(&ObjectKey, &V) -> bool) -> Vec<ObjectKey> {
        let known = self.0.lock();
        let holds =
            |(key, state): &(&ObjectKey, &SyncState<V>)| matches!(state, SyncState::Synced(value) if holds(key, value));
        known.iter().filter(holds).map(|(key, _)| key.clone()).collect()
    }

    /// Compares the known entries with those of the registry, marks the differing ones as unconfirmed, and returns all
    /// unconfirmed keys. `shows` returns the form in which the registry lists an entry.
    pub(crate) fn compare(
        &self,
        found: &BTreeMap<ObjectKey, V>,
        shows: impl Fn(&V) -> Option<V>,
    ) -> BTreeSet<ObjectKey> {
        let mut known = self.0.lock();
        let differs = |(key, state): &(&ObjectKey, &SyncState<V>)| match state {
            SyncState::Synced(value) => shows(value).as_ref() != found.get(*key),
            SyncState::Unconfirmed => true,
        };
        let mut unconfirmed: BTreeSet<_> = known.iter().filter(differs).map(|(key, _)| key.clone()).collect();
        unconfirmed.extend(found.keys().filter(|key| !known.contains_key(*key)).cloned());
        known.extend(unconfirmed.iter().map(|key| (key.clone(), SyncState::Unconfirmed)));
        unconfirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_entries_are_unconfirmed_and_equal_ones_synced() {
        let key = ObjectKey::new;
        let known = SyncStates::new();
        for (name, value) in [("same", 1), ("other", 1), ("lost", 1), ("empty", 0)] {
            known.synced(&key(name), value);
        }
        known.mark_unconfirmed(&key("failed"));
        let found = [("same", 1), ("other", 2), ("stranger", 3)].map(|(name, value)| (key(name), value));
        let unconfirmed = known.compare(&found.into(), |value| (*value > 0).then_some(*value));
        assert_eq!(unconfirmed, ["failed", "lost", "other", "stranger"].map(key).into());
        assert_eq!(known.get(&key("same")), Some(SyncState::Synced(1)));
        assert_eq!(known.get(&key("other")), Some(SyncState::Unconfirmed));
        assert_eq!(known.get(&key("never")), None);
    }
}
