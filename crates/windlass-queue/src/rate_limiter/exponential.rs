//! Back-off per item.

use std::{
    fmt::{self, Debug},
    hash::Hash,
    time::Duration,
};

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::RateLimiter;

/// Doubles an item's delay with each failure: `base`, 2·`base`, 4·`base` … `max`.
///
/// It counts attempts, not time: events that trigger an item again during an outage lengthen its delay as well.
pub struct Exponential<T> {
    base: Duration,
    max: Duration,
    /// Only items with at least one failure; their number is bounded by the items that fail and are not forgotten.
    failures: Mutex<HashMap<T, u32>>,
}

impl<T> Exponential<T> {
    /// Delays from `base` to `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: Mutex::new(HashMap::new()) }
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> RateLimiter<T> for Exponential<T> {
    fn when(&self, item: &T) -> Duration {
        let failures = {
            let mut all = self.failures.lock();
            if let Some(count) = all.get_mut(item) {
                let before = *count;
                *count = count.saturating_add(1);
                before
            } else {
                all.insert(item.clone(), 1);
                0
            }
        };
        let factor = 1_u32.checked_shl(failures);
        factor.and_then(|factor| self.base.checked_mul(factor)).map_or(self.max, |delay| delay.min(self.max))
    }

    fn forget(&self, item: &T) {
        self.failures.lock().remove(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.lock().get(item).copied().unwrap_or(0)
    }
}

impl<T> Debug for Exponential<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exponential").field("base", &self.base).field("max", &self.max).finish_non_exhaustive()
    }
}
