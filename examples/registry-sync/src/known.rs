//! What has been synced: the program's own memory of the registry, which decides between first seen, changed and deleted.
//!
//! It dies with the program. What it has forgotten, the first look at the registry brings back, as doubt.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use windlass::ObjectKey;

/// What is known of a thing in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State<V> {
    /// It was written so, and the registry has said yes.
    Synced(V),
    /// It may be there or not, so or otherwise: a write has failed, or it was found to be other than it should.
    Doubtful,
}

/// What is known of all.
#[derive(Debug)]
pub(crate) struct Known<V>(Mutex<BTreeMap<ObjectKey, State<V>>>);

impl<V: Clone + PartialEq> Known<V> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// `None`: it was never synced.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<State<V>> {
        self.0.lock().get(key).cloned()
    }

    /// To be said before a write: if its answer never comes, this remains.
    pub(crate) fn doubt(&self, key: &ObjectKey) {
        self.0.lock().insert(key.clone(), State::Doubtful);
    }

    pub(crate) fn synced(&self, key: &ObjectKey, value: V) {
        self.0.lock().insert(key.clone(), State::Synced(value));
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }

    /// The keys of those that are synced and of which this holds.
    pub(crate) fn which(&self, holds: impl Fn(&ObjectKey, &V) -> bool) -> Vec<ObjectKey> {
        let known = self.0.lock();
        let holds = |(key, state): &(&ObjectKey, &State<V>)| matches!(state, State::Synced(value) if holds(key, value));
        known.iter().filter(holds).map(|(key, _)| key.clone()).collect()
    }

    /// Compares with what the registry has. What differs is in doubt from now on, and named together with all that was in doubt
    /// already. `shows` says how the registry shows what was written.
    pub(crate) fn compare(
        &self,
        found: &BTreeMap<ObjectKey, V>,
        shows: impl Fn(&V) -> Option<V>,
    ) -> BTreeSet<ObjectKey> {
        let mut known = self.0.lock();
        let differs = |(key, state): &(&ObjectKey, &State<V>)| match state {
            State::Synced(value) => shows(value).as_ref() != found.get(*key),
            State::Doubtful => true,
        };
        let mut doubtful: BTreeSet<_> = known.iter().filter(differs).map(|(key, _)| key.clone()).collect();
        doubtful.extend(found.keys().filter(|key| !known.contains_key(*key)).cloned());
        known.extend(doubtful.iter().map(|key| (key.clone(), State::Doubtful)));
        doubtful
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_in_doubt_and_what_is_as_written_is_not() {
        let key = ObjectKey::new;
        let known = Known::new();
        for (name, value) in [("same", 1), ("other", 1), ("lost", 1), ("empty", 0)] {
            known.synced(&key(name), value);
        }
        known.doubt(&key("failed"));
        let found = [("same", 1), ("other", 2), ("stranger", 3)].map(|(name, value)| (key(name), value));
        let doubtful = known.compare(&found.into(), |value| (*value > 0).then_some(*value));
        assert_eq!(doubtful, ["failed", "lost", "other", "stranger"].map(key).into());
        assert_eq!(known.get(&key("same")), Some(State::Synced(1)));
        assert_eq!(known.get(&key("other")), Some(State::Doubtful));
        assert_eq!(known.get(&key("never")), None);
    }
}
