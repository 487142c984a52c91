//! The third layer: delays that the queue's [`RateLimiter`](crate::RateLimiter) chooses.

use std::hash::Hash;

use crate::WorkQueue;

impl<T: Clone + Eq + Hash + Send + Sync + 'static> WorkQueue<T> {
    /// Adds `item` when the rate limiter says so, and counts the attempt.
    ///
    /// The same as `add_after(item, limiter.when(&item))`.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as [`WorkQueue::add_after`].
    #[track_caller]
    pub fn add_rate_limited(&self, item: T) {
        let delay = self.limiter().when(&item);
        self.add_after(item, delay);
    }

    /// Tells the rate limiter that `item` is done with retrying, because it succeeded or was given up.
    ///
    /// Neither takes it out of the queue nor replaces [`WorkQueue::done`].
    pub fn forget(&self, item: &T) {
        self.limiter().forget(item);
    }

    /// How often `item` was added by rate since it was last forgotten.
    pub fn num_requeues(&self, item: &T) -> u32 {
        self.limiter().num_requeues(item)
    }
}
