//! Reproducible random choices.

use windlass_api::Entropy;

/// A seeded generator.
#[derive(Debug)]
pub(crate) struct SeededRandom(Entropy);

impl SeededRandom {
    /// Returns the generator for the item with this number.
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        Self(Entropy::seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number)))
    }

    pub(crate) fn below(&self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).unwrap_or_default()
    }

    /// Returns `true` with this probability in percent.
    pub(crate) fn chance(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    pub(crate) fn shuffle<T>(&self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}
