//! Detection of repeated keys in one pass.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use serde_json::Value;

/// The keys seen so far. Client-supplied lists are checked with it in linear time, without a search among earlier
/// items.
#[derive(Clone, Debug)]
pub(crate) struct DuplicateCheck<K>(HashSet<K>);

impl<K> Default for DuplicateCheck<K> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<K: Eq + Hash> DuplicateCheck<K> {
    /// Adds a key and reports whether it is a repetition.
    pub(crate) fn repeats(&mut self, key: K) -> bool {
        !self.0.insert(key)
    }

    /// Reports whether a key has been added, without adding it.
    pub(crate) fn has<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.contains(key)
    }
}

/// Returns the items of a list by key. Of items with equal keys, the first is used.
pub(crate) fn first_by<'v, K: Eq + Hash>(items: &'v [Value], key: impl Fn(&'v Value) -> K) -> HashMap<K, &'v Value> {
    let mut found = HashMap::with_capacity(items.len());
    for item in items {
        found.entry(key(item)).or_insert(item);
    }
    found
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, hash::Hasher};

    use super::*;

    /// A key that counts its comparisons.
    struct Counted<'c>(u32, &'c Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted<'_> {}

    impl Hash for Counted<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn each_key_needs_few_comparisons() {
        const COUNT: u32 = 60_000;
        let comparisons = Cell::new(0);
        let mut seen = DuplicateCheck::default();
        let repeated = (0..COUNT).chain(0..COUNT).filter(|key| seen.repeats(Counted(*key, &comparisons))).count();
        assert_eq!(repeated, 60_000);
        assert!(comparisons.get() < 4 * 60_000, "{}", comparisons.get());
    }
}
