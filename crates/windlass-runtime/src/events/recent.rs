//! A map of bounded size.

use std::collections::HashMap;

/// The maximum number of entries, as in client-go.
const CAPACITY: usize = 4096;

/// A map that removes the least recently used half of its entries when it is full.
#[derive(Debug)]
pub(super) struct Recent<V> {
    /// The values with the number of their last use.
    entries: HashMap<String, (u64, V)>,
    uses: u64,
}

impl<V> Recent<V> {
    /// Returns the entry of a key. Creates it if it is missing.
    pub(super) fn entry(&mut self, key: &str, make: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if self.entries.len() >= CAPACITY && !self.entries.contains_key(key) {
            self.forget_half();
        }
        let (used, value) = self.entries.entry(key.to_owned()).or_insert_with(|| (0, make()));
        *used = self.uses;
        value
    }

    fn forget_half(&mut self) {
        let mut uses: Vec<u64> = self.entries.values().map(|(used, _)| *used).collect();
        let (_, median, _) = uses.select_nth_unstable(CAPACITY / 2);
        let median = *median;
        self.entries.retain(|_, (used, _)| *used > median);
    }
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), uses: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_entry_is_evicted_at_the_limit() {
        let mut recent = Recent::default();
        for number in 0..3 * CAPACITY {
            recent.entry("kept", || 0);
            recent.entry(&number.to_string(), || number);
            assert!(recent.entries.len() <= CAPACITY);
        }
        assert_eq!(*recent.entry("kept", || 1), 0, "used entries remain");
        assert_eq!(*recent.entry("0", || 7), 7, "unused entries are removed");
    }
}
