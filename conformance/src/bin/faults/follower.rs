//! The check of what a watch has received, against the history of etcd: each change once, in order, without gaps.

use std::{
    collections::BTreeMap,
    ops::{AddAssign, Bound},
};

use crate::{
    Result,
    history::{Change, Kind},
    watching::Received,
};

/// The state that a watch has reached.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    revision: u64,
    /// The last versions and values of the existing objects.
    objects: BTreeMap<String, (u64, String)>,
    pub(crate) counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) events: usize,
    pub(crate) bookmarks: usize,
    pub(crate) resumed: usize,
    pub(crate) lists: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.bookmarks += other.bookmarks;
        self.resumed += other.resumed;
        self.lists += other.lists;
    }
}

impl Follower {
    /// Follows a watch that starts after a revision at which no object exists.
    pub(crate) fn new(revision: u64) -> Self {
        Self { revision, objects: BTreeMap::new(), counts: Counts::default() }
    }

    /// Returns a follower that has reached a revision.
    pub(crate) fn at(revision: u64, history: &BTreeMap<u64, Change>) -> Self {
        let mut follower = Self::new(revision);
        history.range(..=revision).for_each(|(at, change)| follower.apply(*at, change));
        follower.revision = revision;
        follower
    }

    /// Checks the next message of the watch. The history must be complete up to it.
    pub(crate) fn accept(&mut self, received: &Received, history: &BTreeMap<u64, Change>) -> Result {
        match received {
            Received::Event { revision, kind, name, value } => {
                self.counts.events += 1;
                let Some((expected, change)) = history.range(self.revision + 1..).next() else {
                    return Err(format!("after {}, {received:?} is not in the history", self.revision).into());
                };
                let before = self.objects.get(&change.name).map(|(_, value)| value.clone());
                self.apply(*expected, change);
                // A deletion has the last value.
                let expected_value = change.value.clone().or(before);
                if (expected, &change.kind, &change.name) != (revision, kind, name)
                    || expected_value.as_ref() != Some(value)
                {
                    return Err(format!("{received:?} was received, expected {change:?} of revision {expected}").into());
                }
            }
            Received::Bookmark(revision) => {
                self.counts.bookmarks += 1;
                if *revision < self.revision {
                    return Err(format!("a bookmark at {revision} follows revision {}", self.revision).into());
                }
                if let Some((skipped, change)) = history.range(after(self.revision, *revision)).next() {
                    return Err(format!("a bookmark at {revision} skips {change:?} of revision {skipped}").into());
                }
                self.revision = *revision;
            }
            Received::Resumed => self.counts.resumed += 1,
            Received::Listed { compacted, revision, objects } => {
                self.counts.lists += 1;
                if compacted.is_none_or(|compacted| compacted <= self.revision) {
                    let last = self.revision;
                    return Err(format!("410 after revision {last}, but etcd is compacted at {compacted:?}").into());
                }
                if *revision < self.revision {
                    return Err(format!("a list at {revision} follows revision {}", self.revision).into());
                }
                for (at, change) in history.range(after(self.revision, *revision)) {
                    self.apply(*at, change);
                }
                self.revision = *revision;
                self.expect(objects)?;
            }
            Received::Invalid(message) => return Err(message.clone().into()),
        }
        Ok(())
    }

    /// Returns an error if these are not the objects of the current revision.
    pub(crate) fn expect(&self, objects: &BTreeMap<String, (u64, String)>) -> Result {
        if *objects == self.objects {
            return Ok(());
        }
        let differs = |(name, object): &(&String, &(u64, String))| self.objects.get(*name) != Some(*object);
        let listed = objects.iter().find(differs);
        let missing = self.objects.iter().find(|(name, _)| !objects.contains_key(*name));
        let at = self.revision;
        Err(format!("the list at {at} has {listed:?}, which differs from the history, or lacks {missing:?}").into())
    }

    fn apply(&mut self, revision: u64, change: &Change) {
        self.revision = revision;
        match (&change.kind, &change.value) {
            (Kind::Added | Kind::Modified, Some(value)) => {
                self.objects.insert(change.name.clone(), (revision, value.clone()));
            }
            _ => drop(self.objects.remove(&change.name)),
        }
    }
}

/// Returns the range of revisions after one, up to a later one or the same.
fn after(revision: u64, last: u64) -> (Bound<u64>, Bound<u64>) {
    (Bound::Excluded(revision), Bound::Included(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: Kind, value: &str) -> Change {
        Change { name: "a".into(), kind, value: (kind != Kind::Deleted).then(|| value.to_owned()) }
    }

    fn history() -> BTreeMap<u64, Change> {
        let kinds = [(5, Kind::Added, "1"), (7, Kind::Modified, "2"), (8, Kind::Deleted, ""), (9, Kind::Added, "3")];
        kinds.into_iter().map(|(revision, kind, value)| (revision, change(kind, value))).collect()
    }

    fn event(revision: u64, kind: Kind, value: &str) -> Received {
        Received::Event { revision, kind, name: "a".into(), value: value.into() }
    }

    fn check(received: &[Received]) -> Result<u64> {
        let mut follower = Follower::new(3);
        received.iter().try_for_each(|each| follower.accept(each, &history()))?;
        Ok(follower.revision)
    }

    fn listed(compacted: u64, revision: u64, value: &str) -> Received {
        let objects = BTreeMap::from([("a".to_owned(), (revision, value.to_owned()))]);
        Received::Listed { compacted: Some(compacted), revision, objects }
    }

    #[test]
    fn complete_watches_are_accepted() {
        let events = [
            event(5, Kind::Added, "1"),
            Received::Bookmark(6),
            Received::Bookmark(6),
            event(7, Kind::Modified, "2"),
            Received::Resumed,
            event(8, Kind::Deleted, "2"),
            event(9, Kind::Added, "3"),
            Received::Bookmark(12),
        ];
        assert_eq!(check(&events).unwrap(), 12);
        assert_eq!(check(&[event(5, Kind::Added, "1"), listed(6, 9, "3")]).unwrap(), 9);
        assert_eq!(check(&[event(5, Kind::Added, "1"), listed(6, 5, "1")]).unwrap(), 5);
        assert_eq!(check(&[listed(4, 7, "2"), event(8, Kind::Deleted, "2")]).unwrap(), 8);
    }

    #[test]
    fn skipped_repeated_and_wrong_events_are_rejected() {
        let first = event(5, Kind::Added, "1");
        for (received, message) in [
            (vec![event(7, Kind::Modified, "2")], "expected Change"),
            (vec![first.clone(), first.clone()], "expected Change"),
            (vec![event(5, Kind::Modified, "1")], "expected Change"),
            (vec![event(5, Kind::Added, "2")], "expected Change"),
            (vec![first.clone(), event(7, Kind::Modified, "2"), event(8, Kind::Deleted, "1")], "expected Change"),
            (vec![Received::Bookmark(5)], "skips Change"),
            (vec![first.clone(), Received::Bookmark(4)], "follows revision 5"),
            (vec![listed(9, 9, "3"), event(10, Kind::Added, "4")], "not in the history"),
            (vec![Received::Invalid("no version".into())], "no version"),
        ] {
            let error = check(&received).unwrap_err().to_string();
            assert!(error.contains(message), "{received:?}: {error}");
        }
    }

    #[test]
    fn list_without_compaction_or_with_other_objects_is_rejected() {
        let first = event(5, Kind::Added, "1");
        for (list, message) in [
            (listed(5, 7, "2"), "410 after revision 5, but etcd is compacted at Some(5)"),
            (listed(6, 7, "1"), "differs from the history"),
            (listed(6, 8, "2"), "differs from the history"),
            (listed(6, 4, "1"), "follows revision 5"),
        ] {
            let error = check(&[first.clone(), list]).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
