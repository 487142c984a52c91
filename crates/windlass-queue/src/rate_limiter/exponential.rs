//! Exponential back-off per item.

use std::{
    fmt::{self, Debug},
    hash::Hash,
    time::Duration,
};

use super::{RateLimiter, failures::Failures};

/// Doubles an item's delay with each failure: `base`, 2·`base`, 4·`base` … `max`.
///
/// It counts attempts, not time: events that trigger an item again during an outage lengthen its delay as well.
pub struct Exponential<T> {
    base: Duration,
    max: Duration,
    failures: Failures<T>,
}

impl<T> Exponential<T> {
    /// Creates a limiter with delays from `base` to `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: Failures::default() }
    }
}

impl<T> Default for Exponential<T> {
    /// Creates a limiter with delays from 1 ms to 1000 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(1), Duration::from_secs(1000))
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> RateLimiter<T> for Exponential<T> {
    fn when(&self, item: &T) -> Duration {
        let factor = 1_u128.checked_shl(self.failures.count(item));
        let nanos = factor.and_then(|factor| self.base.as_nanos().checked_mul(factor));
        nanos.filter(|&nanos| nanos < self.max.as_nanos()).map_or(self.max, Duration::from_nanos_u128)
    }

    fn forget(&self, item: &T) {
        self.failures.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.of(item)
    }
}

impl<T> Debug for Exponential<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exponential").field("base", &self.base).field("max", &self.max).finish_non_exhaustive()
    }
}
