//! A rate for all items together.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::RateLimiter;

/// One token per interval, up to a capacity; each attempt takes one, and waits for its token when there is none.
///
/// The bucket starts full. It does not know items: forgetting one gives nothing back.
#[derive(Debug)]
pub struct TokenBucket {
    /// Time to grow one token.
    interval: Duration,
    /// Time to grow all of them: interval × burst.
    window: Duration,
    /// When the bucket would be full if no more were taken. In the past: it is full.
    full_at: Mutex<Instant>,
}

impl TokenBucket {
    /// A token every `interval` (zero means no limit), at most `burst` of them kept.
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
        // A debt that no clock can express does not grow any more.
        *full_at = start.checked_add(self.interval).unwrap_or(start);
        full_at.duration_since(now).saturating_sub(self.window)
    }
}
