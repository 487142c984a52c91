//! How long the reflector waits between attempts.

use std::time::Duration;

use tokio::time::Instant;
use windlass_api::Entropy;

/// Delays that double, up to a limit, and start over when all was well for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// The first delay.
    pub initial: Duration,
    /// How much longer each delay is than the one before.
    pub factor: f64,
    /// No delay is longer, before jitter.
    pub limit: Duration,
    /// Each delay is longer by a random part, up to this fraction of it.
    pub jitter: f64,
    /// After so long without a delay the next one is the first again.
    pub reset_after: Duration,
}

impl Default for Backoff {
    /// client-go's: 0.8 s doubling to 30 s, up to twice that by jitter, over after two good minutes.
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(800),
            factor: 2.0,
            limit: Duration::from_secs(30),
            jitter: 1.0,
            reset_after: Duration::from_mins(2),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Delays {
    settings: Backoff,
    next: Duration,
    last: Option<Instant>,
}

impl Delays {
    pub(crate) fn new(settings: Backoff) -> Self {
        Self { settings, next: settings.initial, last: None }
    }

    pub(crate) fn next(&mut self, now: Instant, entropy: &Entropy) -> Duration {
        let settings = &self.settings;
        if self.last.is_some_and(|last| now.duration_since(last) > settings.reset_after) {
            self.next = settings.initial;
        }
        self.last = Some(now);
        let delay = self.next.min(settings.limit);
        self.next = delay.mul_f64(settings.factor.max(1.0)).min(settings.limit);
        entropy.jitter(delay, settings.jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_the_limit_and_start_over_after_a_good_while() {
        let mut delays = Delays::new(Backoff { jitter: 0.0, ..Backoff::default() });
        let entropy = Entropy::seeded(1);
        let start = Instant::now();
        let seconds: Vec<_> = (0..8).map(|_| delays.next(start, &entropy).as_secs_f64()).collect();
        assert_eq!(seconds, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]);
        assert_eq!(delays.next(start + Duration::from_mins(2), &entropy), Duration::from_secs(30));
        assert_eq!(delays.next(start + Duration::from_secs(241), &entropy), Duration::from_millis(800));
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_adds_up_to_as_much_again() {
        let entropy = Entropy::seeded(1);
        for _ in 0..100 {
            let delay = Delays::new(Backoff::default()).next(Instant::now(), &entropy).as_secs_f64();
            assert!((0.8..1.6).contains(&delay), "{delay}");
        }
    }
}
