//! How often each item failed.

use std::hash::Hash;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// The items with at least one failure; their number is bounded by those that fail and are not forgotten.
pub(super) struct Failures<T>(Mutex<HashMap<T, u32>>);

impl<T: Clone + Eq + Hash> Failures<T> {
    /// Counts one more and returns how many there were before.
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

// By hand: the derive would ask for `T: Default`.
impl<T> Default for Failures<T> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}
