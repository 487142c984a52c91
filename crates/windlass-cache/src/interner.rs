//! An interner for values that many objects share: strings, and whole sets of labels, owners and finalizers.
//!
//! A value stays while an object uses it. Unused values are removed when the tables have doubled in size. So labels
//! that differ from object to object take at most twice the required entries.

use std::{cell::LazyCell, hash::BuildHasher, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashTable};
use windlass_api::{OwnerRef, Traits};

use crate::scan::{EncodedTraits, OwnerIn, RawTraits};

#[derive(Debug, Default)]
pub(crate) struct Interner {
    strings: Counted<Arc<str>>,
    traits: Counted<Known>,
    hasher: DefaultHashBuilder,
}

/// A shared set of traits.
#[derive(Debug)]
struct Known {
    /// The hash of the encoding.
    hash: u64,
    traits: Arc<Traits>,
    /// The encoding, once several objects share the traits. A comparison with it needs fewer cache lines than one with
    /// their strings, and objects with traits of their own need no memory for it.
    encoded: Option<Box<EncodedTraits>>,
}

/// Shared values, and the table size at which unused ones are removed.
#[derive(Debug)]
struct Counted<T> {
    table: HashTable<T>,
    sweep_at: usize,
}

const FIRST_SWEEP: usize = 1_024;

// === impl Interner ===

impl Interner {
    pub(crate) fn string(&mut self, text: &str) -> Arc<str> {
        let hasher = &self.hasher;
        let hash = hasher.hash_one(text);
        if let Some(known) = self.strings.table.find(hash, |known| **known == *text) {
            return Arc::clone(known);
        }
        let string: Arc<str> = text.into();
        let in_use = |string: &Arc<str>| Arc::strong_count(string) > 1;
        self.strings.add(hash, Arc::clone(&string), in_use, |string| hasher.hash_one(&**string));
        string
    }

    /// Returns the shared value, or `None` if it has to be parsed with serde.
    ///
    /// Values are found by the hash of their text, so a shared value is not parsed again.
    pub(crate) fn traits(&mut self, raw: &RawTraits<'_>) -> Option<Arc<Traits>> {
        let hash = self.hasher.hash_one(raw);
        let read = LazyCell::new(|| raw.read());
        let is = |known: &Known| match &known.encoded {
            Some(encoded) if encoded.is(raw) => true,
            _ => raw.matches_encoding(&known.traits) || read.as_ref().is_some_and(|read| read.are(&known.traits)),
        };
        if let Some(known) = self.traits.table.find_mut(hash, |known| known.hash == hash && is(known)) {
            if known.encoded.is_none() && known.is_shared() {
                known.encoded = Some(Box::new(raw.to_encoded()));
            }
            return Some(Arc::clone(&known.traits));
        }
        let read = read.as_ref()?;
        let traits = Arc::new(Traits {
            labels: read.labels.iter().map(|(key, value)| (self.string(key), self.string(value))).collect(),
            owner_references: read.owners.iter().map(|owner| self.owner(owner)).collect(),
            finalizers: read.finalizers.iter().map(|finalizer| self.string(finalizer)).collect(),
        });
        let known = Known { hash, traits: Arc::clone(&traits), encoded: None };
        self.traits.add(hash, known, |known| Arc::strong_count(&known.traits) > 1, |known| known.hash);
        Some(traits)
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

// === impl Known ===

impl Known {
    /// Reports whether several objects have the traits. An object and its next state count as two.
    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.traits) > 3
    }
}

// === impl Counted ===

impl<T> Counted<T> {
    /// Adds a value that is not in the table.
    fn add(&mut self, hash: u64, value: T, in_use: impl Fn(&T) -> bool, hash_of: impl Fn(&T) -> u64) {
        if self.table.len() >= self.sweep_at {
            self.table.retain(|value| in_use(value));
            self.sweep_at = (self.table.len() * 2).max(FIRST_SWEEP);
            self.table.shrink_to(self.sweep_at, &hash_of);
        }
        self.table.insert_unique(hash, value, hash_of);
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

    /// Interns traits from the texts of labels, owners and finalizers.
    fn traits(interner: &mut Interner, [labels, owners, finalizers]: [&str; 3]) -> Option<Arc<Traits>> {
        let [labels, owners, finalizers] = [labels, owners, finalizers].map(str::as_bytes);
        interner.traits(&RawTraits { labels, owners, finalizers, ..RawTraits::default() })
    }

    fn labeled(interner: &mut Interner, value: &str) -> Arc<Traits> {
        traits(interner, [&format!(r#"{{"app":"{value}"}}"#), "", ""]).unwrap()
    }

    #[test]
    fn equal_sets_and_equal_strings_are_one() {
        let mut interner = Interner::default();
        let (first, second) = (labeled(&mut interner, "a"), labeled(&mut interner, "a"));
        assert!(Arc::ptr_eq(&first, &second));
        let other = labeled(&mut interner, "b");
        assert!(Arc::ptr_eq(&first.labels[0].0, &other.labels[0].0));
        assert_eq!((&*first.labels[0].1, &*other.labels[0].1), ("a", "b"));
        let mut spaced = || traits(&mut interner, [r#"{ "app" : "a" }"#, "", ""]).unwrap();
        assert!(Arc::ptr_eq(&spaced(), &spaced()));
    }

    #[test]
    fn sets_that_differ_anywhere_are_two() {
        let sets = [
            ["", "", ""],
            [r#"{"app":"a"}"#, "", ""],
            [r#"{"app":"a","b":""}"#, "", ""],
            ["", r#"[{"uid":"u","controller":true}]"#, ""],
            ["", r#"[{"uid":"u"}]"#, ""],
            ["", "", r#"["f"]"#],
            ["", "", r#"["g"]"#],
        ];
        let mut interner = Interner::default();
        let interned = sets.map(|set| traits(&mut interner, set).unwrap());
        for (at, set) in sets.into_iter().enumerate() {
            for (other_at, other) in interned.iter().enumerate() {
                assert_eq!(Arc::ptr_eq(&traits(&mut interner, set).unwrap(), other), at == other_at);
            }
        }
    }

    #[test]
    fn ambiguous_metadata_is_not_interned() {
        assert_eq!(traits(&mut Interner::default(), [r#"{"\u0061":"b"}"#, "", ""]), None);
    }

    #[test]
    fn unused_entries_are_swept_and_used_ones_kept() {
        let mut interner = Interner::default();
        let kept = labeled(&mut interner, "kept");
        for number in 0..20 * FIRST_SWEEP {
            labeled(&mut interner, &number.to_string());
        }
        assert!(interner.traits.table.len() <= FIRST_SWEEP && interner.strings.table.len() <= 2 * FIRST_SWEEP);
        assert!(Arc::ptr_eq(&kept, &labeled(&mut interner, "kept")));
    }

    #[test]
    fn encoding_of_traits_is_kept_if_several_objects_share_them() {
        let mut interner = Interner::default();
        let encodings =
            |interner: &Interner| interner.traits.table.iter().filter(|known| known.encoded.is_some()).count();
        let _states = [labeled(&mut interner, "own"), labeled(&mut interner, "own"), labeled(&mut interner, "own")];
        assert_eq!(encodings(&interner), 0);
        let shared: Vec<_> = (0..5).map(|_| labeled(&mut interner, "shared")).collect();
        assert_eq!(encodings(&interner), 1);
        assert!(shared.iter().all(|traits| Arc::ptr_eq(traits, &shared[0])));
        assert!(!Arc::ptr_eq(&labeled(&mut interner, "other"), &shared[0]));
    }
}
