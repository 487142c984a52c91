//! Additions with options: delay, rate limit and priority.

use std::{hash::Hash, time::Duration};

use crate::{DEFAULT_PRIORITY, WorkQueue};

/// Options of [`WorkQueue::add_with`]. The defaults are those of [`WorkQueue::add`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until they are passed to `add_with`"]
pub struct AddOptions {
    after: Duration,
    rate_limited: bool,
    priority: Option<i32>,
}

// === impl AddOptions ===

impl AddOptions {
    /// Creates options without a delay and with the [default priority](DEFAULT_PRIORITY).
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds after a delay. Zero means at once.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }

    /// Adds after the delay chosen by the queue's rate limiter, and counts an attempt. With an explicit delay as well,
    /// the earlier time applies.
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }

    /// Sets a priority, which takes effect only in queues [by priority](crate::Builder::by_priority). Higher priorities
    /// come first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
}

// === impl WorkQueue ===

impl<T: Clone + Eq + Hash + Send + Sync + 'static> WorkQueue<T> {
    /// Adds `item` with options.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use windlass_queue::{AddOptions, LOW_PRIORITY, WorkQueue};
    ///
    /// let queue = WorkQueue::builder().by_priority().build();
    /// queue.add_with("listed", AddOptions::new().priority(LOW_PRIORITY));
    /// queue.add("changed");
    /// assert_eq!(queue.get().with_priority().await, Some(("changed", 0)));
    /// assert_eq!(queue.get().with_priority().await, Some(("listed", LOW_PRIORITY)));
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the options contain a delay and the call is outside of a tokio runtime with time enabled.
    #[track_caller]
    pub fn add_with(&self, item: T, options: AddOptions) {
        let priority = options.priority.unwrap_or(DEFAULT_PRIORITY);
        let mut delay = options.after;
        if options.rate_limited {
            let limit = self.limiter().when(&item);
            delay = if delay.is_zero() { limit } else { delay.min(limit) };
        }
        self.add_at(item, delay, priority);
    }
}
