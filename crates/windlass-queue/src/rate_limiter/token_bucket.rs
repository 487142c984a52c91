//! A rate limit for all items together.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::RateLimiter;

/// A token bucket: adds one token per interval, up to a capacity. Each attempt takes one token, and waits for it if the
/// bucket is empty.
///
/// The bucket starts full. It does not track items, so forgetting an item returns no token.
#[derive(Debug)]
pub struct TokenBucket {
    /// The time in which one token is added.
    interval: Duration,
    /// The time in which an empty bucket is filled: interval × burst.
    window: Duration,
    /// When the bucket would be full if no more tokens were taken. If it is in the past, the bucket is full.
    full_at: Mutex<Instant>,
}

impl TokenBucket {
    /// Creates a bucket that adds a token every `interval` (zero means no limit) and holds at most `burst` tokens.
    pub fn new(interval: Duration, burst: u32) -> Self {
        let window = interval.saturating_mul(burst);
        Self { interval, window, full_at: Mutex::new(Instant::now()) }
    }
}

impl<T> RateLimiter<T> for TokenBucket {
    fn when(&self, _item: &T) -> Duration {
        let now = Instant::now();
        let mut full_at = self.full_at.lock();
        let start = (*full_at).max(now);
        // Stops increasing the debt at the limit of the clock.
        *full_at = start.checked_add(self.interval).unwrap_or(start);
        full_at.duration_since(now).saturating_sub(self.window)
    }
}
