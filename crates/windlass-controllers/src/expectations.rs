//! A controller's own writes that its cache does not show yet.

use std::{sync::Arc, time::Duration};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::ObjectKey;

/// The time after which an expectation expires. A write without a visible effect by then never gets one: the object was
/// created and deleted between two reconciles, or the cache missed it.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Creations and deletions, per owner, that the cache does not show yet.
///
/// A controller that counts its replicas in a stale cache would create too many. So it records the UIDs of the objects
/// it created and deleted, and does not count again before the cache shows them. client-go's expectations are counters
/// that event handlers decrement. UIDs can be checked against the cache at any time, so a missed or repeated event does
/// no harm.
#[derive(Debug, Default)]
pub(crate) struct Expectations {
    owners: Mutex<HashMap<ObjectKey, Expected>>,
}

#[derive(Debug)]
struct Expected {
    /// The UID of the owner. A recreated owner has other objects, and expects nothing.
    owner: String,
    created: HashSet<Arc<str>>,
    deleted: HashSet<Arc<str>>,
    /// The time when the last of them was recorded.
    since: Instant,
}

/// The state of an object in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The object does not exist.
    Absent,
    /// The object exists and is not being deleted.
    Alive,
    /// The object exists and is being deleted.
    Deleting,
}

impl Expectations {
    /// Records that the controller created an object for the owner with the UID `of`.
    pub(crate) fn created(&self, owner: &ObjectKey, of: &str, uid: &str) {
        self.record(owner, of, |expected| expected.created.insert(uid.into()));
    }

    /// Records that the controller deleted an object of the owner with the UID `of`.
    pub(crate) fn deleted(&self, owner: &ObjectKey, of: &str, uid: &str) {
        self.record(owner, of, |expected| expected.deleted.insert(uid.into()));
    }

    /// Returns `true` if nothing is expected for an owner.
    pub(crate) fn are_empty(&self, owner: &ObjectKey) -> bool {
        !self.owners.lock().contains_key(owner)
    }

    /// Drops the expectations that the cache fulfils by now, and those of an earlier owner of the same name. Returns `true`
    /// if none is left.
    pub(crate) fn satisfied(&self, owner: &ObjectKey, of: &str, seen: impl Fn(&str) -> Seen) -> bool {
        let mut owners = self.owners.lock();
        let Some(expected) = owners.get_mut(owner) else { return true };
        if expected.owner != of {
            owners.remove(owner);
            return true;
        }
        expected.created.retain(|uid| seen(uid) == Seen::Absent);
        expected.deleted.retain(|uid| seen(uid) == Seen::Alive);
        let nothing_left = expected.created.is_empty() && expected.deleted.is_empty();
        let satisfied = nothing_left || expected.since.elapsed() >= TIMEOUT;
        if satisfied {
            owners.remove(owner);
        }
        satisfied
    }

    /// Returns the maximum time to wait for the expectations of an owner.
    pub(crate) const fn timeout() -> Duration {
        TIMEOUT
    }

    /// Drops the expectations of a deleted owner.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        self.owners.lock().remove(owner);
    }

    fn record(&self, owner: &ObjectKey, of: &str, add: impl FnOnce(&mut Expected) -> bool) {
        let mut owners = self.owners.lock();
        let fresh = || Expected {
            owner: of.to_owned(),
            created: HashSet::new(),
            deleted: HashSet::new(),
            since: Instant::now(),
        };
        let expected = owners.entry_ref(owner).or_insert_with(fresh);
        if expected.owner != of {
            *expected = fresh();
        }
        expected.since = Instant::now();
        add(expected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn owner_waits_for_its_expectations() {
        let (expectations, owner) = (Expectations::default(), ObjectKey::new("rs").within("n"));
        assert!(expectations.satisfied(&owner, "uid", |_| Seen::Absent));
        expectations.created(&owner, "uid", "a");
        expectations.deleted(&owner, "uid", "b");
        let lagging = |uid: &str| if uid == "b" { Seen::Alive } else { Seen::Absent };
        assert!(!expectations.satisfied(&owner, "uid", lagging));
        assert!(!expectations.satisfied(&owner, "uid", |_| Seen::Alive), "b is not deleted yet");
        assert!(expectations.satisfied(&owner, "uid", |_| Seen::Deleting));
        assert!(expectations.satisfied(&owner, "uid", lagging), "what was seen once is not expected again");
    }

    #[tokio::test(start_paused = true)]
    async fn expectation_expires() {
        let (expectations, owner) = (Expectations::default(), ObjectKey::new("rs"));
        expectations.created(&owner, "uid", "a");
        tokio::time::advance(TIMEOUT.checked_sub(Duration::from_secs(1)).unwrap()).await;
        assert!(!expectations.satisfied(&owner, "uid", |_| Seen::Absent));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(expectations.satisfied(&owner, "uid", |_| Seen::Absent));
    }

    #[test]
    fn owners_are_apart_and_can_be_forgotten() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _guard = runtime.enter();
        let expectations = Expectations::default();
        let (one, other) = (ObjectKey::new("one"), ObjectKey::new("other"));
        expectations.created(&one, "uid", "a");
        assert!(expectations.satisfied(&other, "uid", |_| Seen::Absent));
        expectations.forget(&one);
        assert!(expectations.satisfied(&one, "uid", |_| Seen::Absent));
    }

    #[tokio::test(start_paused = true)]
    async fn recreated_owner_expects_nothing() {
        let (expectations, owner) = (Expectations::default(), ObjectKey::new("rs"));
        expectations.created(&owner, "uid", "a");
        assert!(!expectations.satisfied(&owner, "uid", |_| Seen::Absent));
        assert!(expectations.satisfied(&owner, "another", |_| Seen::Absent));
        expectations.created(&owner, "uid", "a");
        expectations.created(&owner, "another", "b");
        assert!(expectations.satisfied(&owner, "another", |uid| if uid == "b" { Seen::Alive } else { Seen::Absent }));
    }
}
