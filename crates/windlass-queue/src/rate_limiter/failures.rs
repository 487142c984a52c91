//! Counters of failures per item.

use std::hash::Hash;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// The items with at least one failure. The map is bounded by the number of items that fail and are not forgotten.
pub(super) struct Failures<T>(Mutex<HashMap<T, u32>>);

impl<T: Clone + Eq + Hash> Failures<T> {
    /// Increments the counter and returns its previous value.
    pub(super) fn count(&self, item: &T) -> u32 {
        let mut all = self.0.lock();
        if let Some(count) = all.get_mut(item) {
            let before = *count;
            *count = count.saturating_add(1);
            before
        } else {
            all.insert(item.clone(), 1);
            0
        }
    }

    pub(super) fn forget(&self, item: &T) {
        self.0.lock().remove(item);
    }

    pub(super) fn of(&self, item: &T) -> u32 {
        self.0.lock().get(item).copied().unwrap_or(0)
    }
}

// Implemented by hand, because the derive would require `T: Default`.
impl<T> Default for Failures<T> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}
