//! Delays between retries, as a value.

use std::time::Duration;

use crate::Entropy;

/// Exponential back-off: delays that grow by a factor up to a limit, with jitter and a maximum number of tries.
///
/// Corresponds to `wait.Backoff` in Go, except that reaching the limit does not end the tries early.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Backoff {
    initial: Duration,
    factor: f64,
    jitter: f64,
    /// The maximum delay. `None` for no limit.
    limit: Option<Duration>,
    tries: u32,
    /// The time without a delay after which the delays start over. `None` for never.
    reset_after: Option<Duration>,
}

/// The infinite sequence of delays of a [`Backoff`].
#[derive(Clone, Debug)]
pub struct Delays {
    backoff: Backoff,
    next: Duration,
    entropy: Entropy,
}

impl Backoff {
    /// For writers that rarely conflict: 5 tries, 10 ms apart.
    pub const CONFLICT: Self = Self::new(Duration::from_millis(10)).jitter(0.1).tries(5);

    /// For objects that controllers change frequently: 4 tries, after 10, 50 and 250 ms.
    pub const CONTENDED: Self = Self::new(Duration::from_millis(10)).factor(5.0).jitter(0.1).tries(4);

    /// Creates a back-off with a constant delay and no maximum number of tries.
    pub const fn new(initial: Duration) -> Self {
        Self { initial, factor: 1.0, jitter: 0.0, limit: None, tries: u32::MAX, reset_after: None }
    }

    /// Sets the factor by which each delay is longer than the previous one; at least 1.
    pub const fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets the jitter: each delay is extended by a random part of it, up to this fraction.
    pub const fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the maximum delay before jitter.
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets the maximum number of tries, including the first; at least one.
    pub const fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// Sets the time without a delay after which the delays start over. It is for callers that retry without end and
    /// have a clock: see [`Delays::is_over`].
    pub const fn reset_after(mut self, quiet: Duration) -> Self {
        self.reset_after = Some(quiet);
        self
    }

    /// Returns the maximum number of tries.
    #[must_use]
    pub const fn max_tries(&self) -> u32 {
        if self.tries == 0 { 1 } else { self.tries }
    }

    /// Returns the delays from the first. Their number is not limited: see [`Self::max_tries`].
    #[must_use]
    pub fn delays(&self, entropy: &Entropy) -> Delays {
        Delays { backoff: *self, next: self.initial, entropy: entropy.clone() }
    }

    fn bounded(&self, delay: Duration) -> Duration {
        self.limit.map_or(delay, |limit| delay.min(limit))
    }
}

impl Delays {
    /// Returns the next delay.
    #[must_use]
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.backoff.bounded(self.next);
        // A delay that cannot be represented does not grow any more.
        let grown = Duration::try_from_secs_f64(delay.as_secs_f64() * self.backoff.factor.max(1.0)).unwrap_or(delay);
        self.next = self.backoff.bounded(grown);
        self.entropy.jitter(delay, self.backoff.jitter)
    }

    /// Reports whether `quiet`, the time without a delay, is long enough to [start over](Self::reset).
    #[must_use]
    pub fn is_over(&self, quiet: Duration) -> bool {
        self.backoff.reset_after.is_some_and(|reset_after| quiet > reset_after)
    }

    /// Starts over with the first delay.
    pub fn reset(&mut self) {
        self.next = self.backoff.initial;
    }
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.next_delay())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(backoff: Backoff, count: usize) -> Vec<u128> {
        backoff.delays(&Entropy::seeded(1)).take(count).map(|delay| delay.as_millis()).collect()
    }

    #[test]
    fn delays_grow_by_the_factor_up_to_the_limit() {
        let backoff = Backoff::new(Duration::from_millis(10)).factor(3.0).limit(Duration::from_millis(100));
        assert_eq!(millis(backoff, 5), [10, 30, 90, 100, 100]);
        assert_eq!(millis(Backoff::new(Duration::from_millis(7)), 3), [7, 7, 7]);
        assert_eq!(millis(backoff.limit(Duration::from_millis(5)), 2), [5, 5]);
    }

    #[test]
    fn jitter_adds_up_to_its_fraction_and_does_not_pile_up() {
        let mut delays = Backoff::CONTENDED.delays(&Entropy::seeded(1));
        for base in [10.0, 50.0, 250.0] {
            let delay = delays.next_delay().as_secs_f64() * 1_000.0;
            assert!((base..base * 1.1).contains(&delay), "{delay}");
        }
        delays.reset();
        assert!(delays.next_delay() < Duration::from_millis(12));
    }

    #[test]
    fn a_delay_that_no_duration_can_express_grows_no_more() {
        let mut delays = Backoff::new(Duration::MAX).factor(2.0).delays(&Entropy::seeded(1));
        assert_eq!([delays.next_delay(), delays.next_delay()], [Duration::MAX; 2]);
    }

    #[test]
    fn back_off_is_over_after_the_reset_time() {
        let backoff = Backoff::new(Duration::from_secs(1));
        let is_over = |backoff: Backoff, secs| backoff.delays(&Entropy::seeded(1)).is_over(Duration::from_secs(secs));
        assert!(!is_over(backoff, 1_000_000));
        let backoff = backoff.reset_after(Duration::from_mins(2));
        assert_eq!((is_over(backoff, 120), is_over(backoff, 121)), (false, true));
    }

    #[test]
    fn at_least_one_attempt_is_made() {
        assert_eq!(Backoff::new(Duration::ZERO).tries(0).max_tries(), 1);
        assert_eq!(Backoff::CONFLICT.max_tries(), 5);
    }
}
