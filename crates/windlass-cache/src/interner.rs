//! What many objects have in common is held once: strings, and whole sets of labels, owners and finalizers.
//!
//! Nothing is evicted while an object uses it. What nobody uses any more is swept out when the tables have doubled, so
//! that labels which differ from object to object cost no more than twice their number.

use std::{hash::BuildHasher, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashTable};
use windlass_api::{OwnerRef, Traits};

#[derive(Debug, Default)]
pub(crate) struct Interner {
    strings: Counted<Arc<str>>,
    traits: Counted<Arc<Traits>>,
    hasher: DefaultHashBuilder,
}

/// Labels, owners and finalizers as they stand in an object.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TraitsIn<'j> {
    pub(crate) labels: Vec<(&'j str, &'j str)>,
    pub(crate) owners: Vec<OwnerIn<'j>>,
    pub(crate) finalizers: Vec<&'j str>,
}

#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OwnerIn<'j> {
    pub(crate) api_version: &'j str,
    pub(crate) kind: &'j str,
    pub(crate) name: &'j str,
    pub(crate) uid: &'j str,
    pub(crate) controller: bool,
    pub(crate) block_owner_deletion: bool,
}

/// Shared values, each with its hash, and the size at which those are dropped that nobody else holds.
#[derive(Debug)]
struct Counted<T> {
    table: HashTable<(u64, T)>,
    sweep_at: usize,
}

const FIRST_SWEEP: usize = 1_024;

// === impl Interner ===

impl Interner {
    pub(crate) fn string(&mut self, text: &str) -> Arc<str> {
        let hash = self.hasher.hash_one(text);
        self.strings.get_or(hash, |known| **known == *text, |string| Arc::strong_count(string) > 1, || text.into())
    }

    pub(crate) fn traits(&mut self, traits: &TraitsIn<'_>) -> Arc<Traits> {
        let hash = self.hasher.hash_one(traits);
        if let Some(known) = self.traits.find(hash, |known| traits.are(known)) {
            return known;
        }
        let made = Traits {
            labels: traits.labels.iter().map(|(key, value)| (self.string(key), self.string(value))).collect(),
            owner_references: traits.owners.iter().map(|owner| self.owner(owner)).collect(),
            finalizers: traits.finalizers.iter().map(|finalizer| self.string(finalizer)).collect(),
        };
        self.traits.get_or(hash, |_| false, |traits| Arc::strong_count(traits) > 1, || Arc::new(made))
    }

    fn owner(&mut self, owner: &OwnerIn<'_>) -> OwnerRef {
        OwnerRef {
            api_version: self.string(owner.api_version),
            kind: self.string(owner.kind),
            name: self.string(owner.name),
            uid: self.string(owner.uid),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        }
    }
}

impl TraitsIn<'_> {
    fn are(&self, known: &Traits) -> bool {
        let same_labels = || {
            let mut pairs = self.labels.iter().zip(&known.labels);
            pairs.all(|((key, value), (known_key, known_value))| *key == &**known_key && *value == &**known_value)
        };
        let same_owners = || {
            self.owners.iter().zip(&known.owner_references).all(|(owner, known)| {
                owner.uid == &*known.uid
                    && owner.name == &*known.name
                    && owner.kind == &*known.kind
                    && owner.api_version == &*known.api_version
                    && (owner.controller, owner.block_owner_deletion) == (known.controller, known.block_owner_deletion)
            })
        };
        let same_finalizers =
            || self.finalizers.iter().zip(&known.finalizers).all(|(finalizer, known)| *finalizer == &**known);
        self.labels.len() == known.labels.len()
            && self.owners.len() == known.owner_references.len()
            && self.finalizers.len() == known.finalizers.len()
            && same_labels()
            && same_owners()
            && same_finalizers()
    }
}

// === impl Counted ===

impl<T: Clone> Counted<T> {
    fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<T> {
        self.table.find(hash, |(known, value)| *known == hash && is(value)).map(|(_, value)| value.clone())
    }

    fn get_or(
        &mut self,
        hash: u64,
        is: impl Fn(&T) -> bool,
        in_use: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> T {
        if let Some(known) = self.find(hash, is) {
            return known;
        }
        if self.table.len() >= self.sweep_at {
            self.table.retain(|(_, value)| in_use(value));
            self.sweep_at = (self.table.len() * 2).max(FIRST_SWEEP);
            self.table.shrink_to(self.sweep_at, |(hash, _)| *hash);
        }
        let value = make();
        self.table.insert_unique(hash, (hash, value.clone()), |(hash, _)| *hash);
        value
    }
}

impl<T> Default for Counted<T> {
    fn default() -> Self {
        Self { table: HashTable::new(), sweep_at: FIRST_SWEEP }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(value: &str) -> TraitsIn<'_> {
        TraitsIn { labels: vec![("app", value)], ..TraitsIn::default() }
    }

    #[test]
    fn equal_sets_and_equal_strings_are_one() {
        let mut interner = Interner::default();
        let (first, second) = (interner.traits(&labelled("a")), interner.traits(&labelled("a")));
        assert!(Arc::ptr_eq(&first, &second));
        let other = interner.traits(&labelled("b"));
        assert!(Arc::ptr_eq(&first.labels[0].0, &other.labels[0].0));
        assert_eq!((&*first.labels[0].1, &*other.labels[0].1), ("a", "b"));
    }

    #[test]
    fn sets_that_differ_anywhere_are_two() {
        let owner = |controller| OwnerIn { uid: "u", controller, ..OwnerIn::default() };
        let sets = [
            TraitsIn::default(),
            labelled("a"),
            TraitsIn { labels: vec![("app", "a"), ("b", "")], ..TraitsIn::default() },
            TraitsIn { owners: vec![owner(true)], ..TraitsIn::default() },
            TraitsIn { owners: vec![owner(false)], ..TraitsIn::default() },
            TraitsIn { finalizers: vec!["f"], ..TraitsIn::default() },
            TraitsIn { finalizers: vec!["g"], ..TraitsIn::default() },
        ];
        let mut interner = Interner::default();
        let interned: Vec<_> = sets.iter().map(|set| interner.traits(set)).collect();
        for (at, set) in sets.iter().enumerate() {
            for (other_at, other) in interned.iter().enumerate() {
                assert_eq!(set.are(other), at == other_at);
            }
        }
    }

    #[test]
    fn what_nobody_uses_is_swept_out_and_what_is_used_stays() {
        let mut interner = Interner::default();
        let kept = interner.traits(&labelled("kept"));
        for number in 0..20 * FIRST_SWEEP {
            interner.traits(&labelled(&number.to_string()));
        }
        assert!(interner.traits.table.len() <= FIRST_SWEEP && interner.strings.table.len() <= 2 * FIRST_SWEEP);
        assert!(Arc::ptr_eq(&kept, &interner.traits(&labelled("kept"))));
    }
}
