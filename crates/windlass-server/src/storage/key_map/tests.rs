//! Tests that compare the map with a model that keeps every state.

use std::collections::BTreeMap;

use windlass_api::Entropy;

use super::*;

/// A key with the revisions at which it gained and lost its value, in turns.
#[derive(Debug)]
struct Key {
    key: Arc<str>,
    changes: Vec<Revision>,
}

impl KeyEntry for Key {
    fn key(&self) -> &Arc<str> {
        &self.key
    }

    fn is_live(&self) -> bool {
        self.changes.len() % 2 == 1
    }

    fn is_live_at(&self, revision: Revision) -> bool {
        self.changes.iter().filter(|change| **change <= revision).count() % 2 == 1
    }
}

/// A map, and the live keys at each revision since the last compaction.
#[derive(Debug, Default)]
struct Compared {
    map: KeyMap<Key>,
    states: BTreeMap<Revision, Vec<String>>,
    revision: Revision,
}

impl Compared {
    fn live(&self) -> Vec<String> {
        self.states.last_key_value().map(|(_, live)| live.clone()).unwrap_or_default()
    }

    /// Creates the key, or deletes it if it exists.
    fn toggle(&mut self, key: &str) {
        self.revision = self.revision.next();
        let entry = Key { key: key.into(), changes: vec![self.revision] };
        self.map.put(entry, self.revision, |old, new| old.changes.extend(new.changes));
        let mut live = self.live();
        match live.binary_search_by(|other| (**other).cmp(key)) {
            Ok(at) => drop(live.remove(at)),
            Err(at) => live.insert(at, key.to_owned()),
        }
        self.states.insert(self.revision, live);
    }

    /// Removes the states before the current one, and the keys without a value.
    fn compact(&mut self) {
        let live = self.live();
        let mut dead = Vec::new();
        self.map.visit(Bound::Unbounded, |entry| {
            dead.extend((!entry.is_live()).then(|| Arc::clone(&entry.key)));
            ControlFlow::Continue(())
        });
        for key in dead {
            assert!(self.map.remove(&key, self.revision).is_some());
        }
        self.states = BTreeMap::from([(self.revision, live)]);
    }

    fn check(&self, from: Bound<&str>, prefix: &str, at: Revision, visits: usize) {
        let is_after = |key: &str| match from {
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
            Bound::Unbounded => true,
        };
        let expected = self.states[&at].iter().filter(|key| is_after(key) && key.starts_with(prefix)).count() as u64;
        let (mut count, mut from, mut parts) = (0, from.map(str::to_owned), 0);
        loop {
            let part = self.map.count(from.as_ref().map(String::as_str), prefix, at, visits);
            count += part.count;
            parts += 1;
            let Some(last) = part.last else { break };
            from = Bound::Excluded(last.to_string());
        }
        assert_eq!(count, expected, "under {prefix:?} at {at}, in {parts} parts");
    }

    fn check_entries(&self, from: Bound<&str>) {
        let mut keys = Vec::new();
        self.map.visit(from, |entry| {
            keys.extend(entry.is_live().then(|| entry.key.to_string()));
            ControlFlow::Continue(())
        });
        let live = self.live();
        let start = match from {
            Bound::Included(from) => live.partition_point(|key| **key < *from),
            Bound::Excluded(from) => live.partition_point(|key| **key <= *from),
            Bound::Unbounded => 0,
        };
        assert_eq!(keys, live[start..]);
    }
}

/// Checks the counts of all nodes, and that all leaves have the same depth.
fn check_nodes(node: &Node<Key>, depth: usize, depths: &mut Vec<usize>) {
    match node {
        Node::Leaf(entries) => {
            assert!(entries.len() <= CAPACITY && entries.is_sorted_by(|a, b| a.key < b.key));
            depths.push(depth);
        }
        Node::Inner(children) => {
            assert!((1..=CAPACITY).contains(&children.len()));
            for child in children {
                assert_eq!(child.live, child.node.live());
                check_nodes(&child.node, depth + 1, depths);
            }
        }
    }
}

fn random_key(entropy: &Entropy, keys: u64) -> String {
    let number = entropy.below(keys);
    format!("/{}/{:05}", number % 3, number)
}

#[test]
fn counts_at_all_revisions_equal_those_of_a_model() {
    for (seed, keys, compact_every) in [(1, 20, 50), (2, 300, 400), (3, 3_000, 1_000), (4, 9_000, 3_500)] {
        let entropy = Entropy::seeded(seed);
        let mut compared = Compared::default();
        for step in 1..=7_000_u64 {
            compared.toggle(&random_key(&entropy, keys));
            if step % compact_every == 0 {
                compared.compact();
            }
            if step % 13 != 0 {
                continue;
            }
            let oldest = compared.states.first_key_value().unwrap().0.0;
            let at = Revision(oldest + entropy.below(compared.revision.0 - oldest + 1));
            let key = random_key(&entropy, keys);
            let visits = usize::try_from(1 + entropy.below(200)).unwrap();
            compared.check(Bound::Unbounded, "", at, visits);
            compared.check(Bound::Excluded(&key), "", at, usize::MAX);
            for prefix in ["/0/", "/1/", "/2/", "/3"] {
                compared.check(Bound::Included(prefix), prefix, at, visits);
                compared.check(Bound::Excluded(key.as_str().max(prefix)), prefix, at, visits);
            }
            compared.check_entries(Bound::Included(&key));
            compared.check_entries(Bound::Excluded(&key));
        }
        compared.check_entries(Bound::Unbounded);
        let mut depths = Vec::new();
        check_nodes(&compared.map.root, 0, &mut depths);
        assert!(depths.iter().all(|depth| *depth == depths[0]), "{depths:?}");
    }
}

#[test]
fn map_shrinks_to_nothing_in_any_order() {
    for order in 0..3 {
        let mut compared = Compared::default();
        let mut keys: Vec<_> = (0..20_000).map(|number| format!("/a/{number:05}")).collect();
        for (number, key) in keys.iter().enumerate() {
            let entry = Key { key: key.as_str().into(), changes: vec![Revision(number as u64 + 1)] };
            compared.map.put(entry, Revision(number as u64 + 1), |_, _| unreachable!("the keys differ"));
        }
        match order {
            0 => {}
            1 => keys.reverse(),
            _ => keys.sort_by_key(|key| key.bytes().rev().collect::<Vec<_>>()),
        }
        for (removed, key) in keys.iter().enumerate() {
            assert_eq!(
                compared.map.remove(key, Revision(30_000)).map(|entry| entry.key.to_string()),
                Some(key.clone())
            );
            if removed % 1_000 == 0 {
                let left = compared.map.count(Bound::Unbounded, "", Revision(30_000), usize::MAX).count;
                assert_eq!(left, 19_999 - removed as u64);
                check_nodes(&compared.map.root, 0, &mut Vec::new());
            }
        }
        assert!(compared.map.is_empty_below("") && compared.map.get("/a/00000").is_none());
        assert!(matches!(&compared.map.root, Node::Leaf(entries) if entries.is_empty()));
    }
}

/// The number of visited entries does not depend on the number of keys.
#[test]
fn count_visits_two_paths_and_the_changed_leaves() {
    let mut map = KeyMap::new();
    let key = |number: u64| Arc::<str>::from(format!("/a/{number:06}"));
    for number in 0..100_000 {
        map.put(Key { key: key(number), changes: vec![Revision(1)] }, Revision(1), |_, _| unreachable!());
    }
    let at_most = |at, visits| map.count(Bound::Excluded("/a/000499"), "/a/", at, visits);
    let complete = KeyCount { count: 99_500, last: None };
    assert_eq!(at_most(Revision(1), 2 * CAPACITY), complete);
    for number in (0..100_000).step_by(10_000) {
        let gone = map.update(&key(number + 5_000), Revision(2), |entry| entry.changes.push(Revision(2)));
        assert!(gone.is_some());
    }
    let at_most = |at, visits| map.count(Bound::Excluded("/a/000499"), "/a/", at, visits);
    assert_eq!(at_most(Revision(2), 2 * CAPACITY), KeyCount { count: 99_490, last: None });
    assert_eq!(at_most(Revision(1), 12 * CAPACITY), complete);
    assert!(at_most(Revision(1), 2 * CAPACITY).last.is_some());
}

#[test]
fn keys_in_order_fill_the_leaves() {
    let mut map = KeyMap::new();
    for number in 0..10_000_u64 {
        let key = format!("/a/{number:06}").into();
        map.put(Key { key, changes: vec![Revision(1)] }, Revision(1), |_, _| unreachable!());
    }
    let mut depths = Vec::new();
    check_nodes(&map.root, 0, &mut depths);
    assert_eq!(depths.len(), 10_000_usize.div_ceil(CAPACITY));
}
