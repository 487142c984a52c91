//! Rate limits for requests.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// A token bucket with a sustained rate and a burst.
///
/// Callers that find the bucket empty wait in order. Clones share the bucket, so that several clients can share a
/// limit.
#[derive(Clone, Debug)]
pub struct RateLimit(Arc<Bucket>);

#[derive(Debug)]
struct Bucket {
    /// The time in which one token is added.
    interval: Duration,
    /// The time in which the bucket fills: interval × burst.
    window: Duration,
    /// The time at which the bucket will be full without further requests. `None` or a past time if it is full.
    full_at: Mutex<Option<Instant>>,
}

/// A token that was taken. It is returned if the caller stops waiting for it.
struct Reservation<'b> {
    bucket: &'b Bucket,
    wait: Duration,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Used,
}

impl RateLimit {
    /// Creates a bucket that gains a token every `interval` and holds at most `burst` tokens. It starts full. A zero
    /// interval means no limit.
    #[must_use]
    pub fn new(interval: Duration, burst: u32) -> Self {
        let window = interval.saturating_mul(burst);
        Self(Arc::new(Bucket { interval, window, full_at: Mutex::new(None) }))
    }

    /// Creates a limit with an average rate and a burst. A rate of 0 is raised to 1.
    ///
    /// ```
    /// # use windlass_client::{Client, RateLimit};
    /// # fn faster(client: Client) -> Client {
    /// client.with_rate_limit(RateLimit::per_second(50, 100))
    /// # }
    /// ```
    #[must_use]
    pub fn per_second(requests: u32, burst: u32) -> Self {
        Self::new(Duration::from_secs(1) / requests.max(1), burst)
    }

    /// Takes a token and returns the waiting time.
    pub(crate) async fn acquire(&self) -> Duration {
        let mut reservation = self.0.reserve();
        if !reservation.wait.is_zero() {
            tokio::time::sleep(reservation.wait).await;
        }
        reservation.state = State::Used;
        reservation.wait
    }
}

impl Default for RateLimit {
    /// Returns client-go's default: 5 requests per second with a burst of 10.
    fn default() -> Self {
        Self::per_second(5, 10)
    }
}

impl Bucket {
    fn reserve(&self) -> Reservation<'_> {
        let now = Instant::now();
        let mut full_at = self.full_at.lock();
        let start = full_at.map_or(now, |full_at| full_at.max(now));
        // A debt that cannot be represented does not grow any more.
        let end = start.checked_add(self.interval).unwrap_or(start);
        *full_at = Some(end);
        Reservation { bucket: self, wait: end.duration_since(now).saturating_sub(self.window), state: State::Waiting }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.state == State::Waiting {
            let mut full_at = self.bucket.full_at.lock();
            *full_at = full_at.and_then(|full_at| full_at.checked_sub(self.bucket.interval));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn burst_is_immediate_and_the_rest_rate_limited() {
        let limit = RateLimit::default();
        let began = Instant::now();
        for number in 0..20_u32 {
            limit.acquire().await;
            let expected = Duration::from_millis(200) * number.saturating_sub(9);
            // Tokio's timers have a resolution of a millisecond.
            let off = began.elapsed().abs_diff(expected);
            assert!(off <= Duration::from_millis(2), "request {number} after {:?}", began.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rest_fills_the_bucket_and_no_further() {
        let limit = RateLimit::per_second(5, 10);
        tokio::time::advance(Duration::from_hours(1)).await;
        for _ in 0..10 {
            assert_eq!(limit.acquire().now_or_never(), Some(Duration::ZERO));
        }
        assert_eq!(limit.acquire().now_or_never(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn clones_share_the_bucket() {
        let limit = RateLimit::per_second(1, 1);
        assert!(limit.clone().acquire().now_or_never().is_some());
        assert!(limit.acquire().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_wait_returns_its_token() {
        let limit = RateLimit::per_second(1, 1);
        limit.acquire().await;
        for _ in 0..100 {
            assert!(limit.acquire().now_or_never().is_none());
        }
        let waited = limit.acquire().await;
        assert!(waited <= Duration::from_secs(1), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_interval_is_no_limit() {
        let limit = RateLimit::new(Duration::ZERO, 0);
        for _ in 0..1_000 {
            assert_eq!(limit.acquire().now_or_never(), Some(Duration::ZERO));
        }
    }
}
