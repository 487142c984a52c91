//! A limiter with two delays per item.

use std::{
    fmt::{self, Debug},
    hash::Hash,
    time::Duration,
};

use super::{RateLimiter, failures::Failures};

/// Returns a short delay for the first attempts of an item, and a long one for all further attempts.
pub struct FastSlow<T> {
    fast: Duration,
    slow: Duration,
    max_fast_attempts: u32,
    failures: Failures<T>,
}

impl<T> FastSlow<T> {
    /// Creates a limiter that returns `fast` for the first `max_fast_attempts` attempts, then `slow`.
    pub fn new(fast: Duration, slow: Duration, max_fast_attempts: u32) -> Self {
        Self { fast, slow, max_fast_attempts, failures: Failures::default() }
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> RateLimiter<T> for FastSlow<T> {
    fn when(&self, item: &T) -> Duration {
        if self.failures.count(item) < self.max_fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&self, item: &T) {
        self.failures.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.of(item)
    }
}

impl<T> Debug for FastSlow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastSlow")
            .field("fast", &self.fast)
            .field("slow", &self.slow)
            .field("max_fast_attempts", &self.max_fast_attempts)
            .finish_non_exhaustive()
    }
}
