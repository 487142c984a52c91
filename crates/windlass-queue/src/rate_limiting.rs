//! The third layer: delays that the queue's [`RateLimiter`](crate::RateLimiter) chooses.

use std::hash::Hash;

use crate::WorkQueue;

impl<T: Clone + Eq + Hash + Send + Sync + 'static> WorkQueue<T> {
    /// Adds `item` after the rate limiter's delay, and counts an attempt.
    ///
    /// The same as `add_after(item, limiter.when(&item))`.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, like [`WorkQueue::add_after`].
    #[track_caller]
    pub fn add_rate_limited(&self, item: T) {
        let delay = self.limiter().when(&item);
        self.add_after(item, delay);
    }

    /// Resets the rate limiter for `item`, because it succeeded or was given up.
    ///
    /// The item stays in the queue, and [`WorkQueue::done`] must still be called.
    pub fn forget(&self, item: &T) {
        self.limiter().forget(item);
    }

    /// Returns the number of rate-limited additions of `item` since it was last forgotten.
    pub fn num_requeues(&self, item: &T) -> u32 {
        self.limiter().num_requeues(item)
    }
}
