//! Rate limiters: delays before a key is retried.

mod exponential;
mod failures;
mod fast_slow;
mod max_of;
mod max_wait;
mod token_bucket;

use std::{
    fmt::{self, Debug},
    hash::Hash,
    time::Duration,
};

pub use exponential::Exponential;
pub use fast_slow::FastSlow;
pub use max_of::MaxOf;
pub use max_wait::WithMaxWait;
pub use token_bucket::TokenBucket;

/// Decides how long a key waits before a retry.
pub trait RateLimiter<T>: Debug + Send + Sync + 'static {
    /// Returns the delay for `item`, and counts an attempt.
    fn when(&self, item: &T) -> Duration;

    /// Stops tracking `item`, because it succeeded or was given up. Does nothing by default.
    fn forget(&self, item: &T) {
        let _ = item;
    }

    /// Returns the number of attempts for `item` since it was last forgotten; 0 for limiters that do not track items.
    fn num_requeues(&self, item: &T) -> u32 {
        let _ = item;
        0
    }
}

impl<T, L: RateLimiter<T> + ?Sized> RateLimiter<T> for Box<L> {
    fn when(&self, item: &T) -> Duration {
        (**self).when(item)
    }

    fn forget(&self, item: &T) {
        (**self).forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        (**self).num_requeues(item)
    }
}

/// The default limiter of controllers: the longer of a per-item exponential back-off (5 ms … 1000 s) and the delay of a
/// token bucket for all items (10 per second, bursts of 100).
///
/// The back-off keeps a broken object from being retried in a tight loop. The bucket keeps many broken objects from
/// overloading the API server.
pub struct DefaultRateLimiter<T> {
    limiter: MaxOf<T>,
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> DefaultRateLimiter<T> {
    /// Creates a limiter without recorded failures and with a full bucket.
    pub fn new() -> Self {
        let per_item = Exponential::new(Duration::from_millis(5), Duration::from_secs(1000));
        let overall = TokenBucket::new(Duration::from_millis(100), 100);
        Self { limiter: MaxOf::new().and(per_item).and(overall) }
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Default for DefaultRateLimiter<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> RateLimiter<T> for DefaultRateLimiter<T> {
    fn when(&self, item: &T) -> Duration {
        self.limiter.when(item)
    }

    fn forget(&self, item: &T) {
        self.limiter.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.limiter.num_requeues(item)
    }
}

// Implemented by hand, because the derive would require `T: Debug`.
impl<T> Debug for DefaultRateLimiter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DefaultRateLimiter").field(&self.limiter).finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[test]
    fn exponential_doubles_to_max_and_resets_on_forget() {
        let limiter = Exponential::new(Duration::from_millis(1), Duration::from_millis(50));
        let delays: Vec<u128> = (0..8).map(|_| limiter.when(&"a").as_millis()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 50, 50]);
        assert_eq!(limiter.when(&"b").as_millis(), 1, "each item has its own count");
        assert_eq!(limiter.num_requeues(&"a"), 8);
        limiter.forget(&"a");
        assert_eq!(limiter.num_requeues(&"a"), 0);
        assert_eq!(limiter.when(&"a").as_millis(), 1);
    }

    #[test]
    fn exponential_does_not_overflow() {
        let limiter = Exponential::new(Duration::from_secs(1), Duration::from_secs(u64::MAX));
        let longest = (0..200).map(|_| limiter.when(&())).max().unwrap();
        assert_eq!(longest, Duration::from_secs(u64::MAX));
        let fine = Exponential::new(Duration::from_nanos(1), Duration::from_secs(1000));
        let delays: Vec<u128> = (0..42).map(|_| fine.when(&()).as_nanos()).collect();
        assert_eq!(
            delays[39..],
            [1 << 39, 1_000_000_000_000, 1_000_000_000_000],
            "no step is left out before the maximum"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn exponential_counts_attempts_and_not_time() {
        let limiter = Exponential::default();
        limiter.when(&"a");
        assert_eq!(limiter.when(&"a").as_millis(), 2, "triggered again before its delay was over");
        advance(Duration::from_hours(1)).await;
        assert_eq!(limiter.when(&"a").as_millis(), 4, "and long after it");
    }

    #[test]
    fn first_attempts_are_fast_and_later_ones_slow() {
        let limiter = FastSlow::new(Duration::from_millis(5), Duration::from_secs(10), 3);
        let delays: Vec<u128> = (0..5).map(|_| limiter.when(&"a").as_millis()).collect();
        assert_eq!(delays, [5, 5, 5, 10_000, 10_000]);
        assert_eq!(limiter.when(&"b").as_millis(), 5);
        assert_eq!(limiter.num_requeues(&"a"), 5);
        limiter.forget(&"a");
        assert_eq!(limiter.num_requeues(&"a"), 0);
        assert_eq!(limiter.when(&"a").as_millis(), 5);
    }

    #[test]
    fn a_maximum_shortens_the_delay_and_not_the_count() {
        let limiter =
            WithMaxWait::new(FastSlow::new(Duration::ZERO, Duration::from_hours(1), 1), Duration::from_secs(2));
        assert_eq!([limiter.when(&"a"), limiter.when(&"a")], [Duration::ZERO, Duration::from_secs(2)]);
        assert_eq!(limiter.num_requeues(&"a"), 2);
        limiter.forget(&"a");
        assert_eq!(limiter.num_requeues(&"a"), 0);
        assert_eq!(limiter.when(&"a"), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn bucket_starts_full_and_refills_to_capacity() {
        let bucket = TokenBucket::new(Duration::from_millis(100), 3);
        let take = || RateLimiter::<()>::when(&bucket, &()).as_millis();
        assert_eq!([take(), take(), take(), take(), take()], [0, 0, 0, 100, 200]);
        advance(Duration::from_millis(200)).await; // pays the two debts, no more
        assert_eq!(take(), 100);
        advance(Duration::from_hours(1)).await; // fills it to 3, not to 36,000
        assert_eq!([take(), take(), take(), take()], [0, 0, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn max_of_takes_the_longest_delay_and_forgets_everywhere() {
        let limiter = MaxOf::new()
            .and(Exponential::new(Duration::from_millis(40), Duration::from_secs(1)))
            .and(TokenBucket::new(Duration::from_millis(100), 2));
        let delays: Vec<u128> = (0..5).map(|_| limiter.when(&"a").as_millis()).collect();
        assert_eq!(delays, [40, 80, 160, 320, 640], "the bucket alone would say 0, 0, 100, 200, 300");
        assert_eq!(limiter.num_requeues(&"a"), 5);
        limiter.forget(&"a");
        assert_eq!(limiter.num_requeues(&"a"), 0);
        assert_eq!(limiter.when(&"a").as_millis(), 400, "the bucket does not forget");
    }

    #[tokio::test(start_paused = true)]
    async fn default_limiter_allows_100_then_10_per_second() {
        let limiter = DefaultRateLimiter::new();
        for item in 0..100 {
            assert_eq!(limiter.when(&item), Duration::from_millis(5));
        }
        assert_eq!(limiter.when(&100), Duration::from_millis(100));
        assert_eq!(limiter.when(&101), Duration::from_millis(200));
        let longest = (0..30).map(|_| limiter.when(&0)).max().unwrap();
        assert_eq!(longest, Duration::from_secs(1000));
    }
}
