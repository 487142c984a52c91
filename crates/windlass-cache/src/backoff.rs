//! The delays between the reflector's attempts.

use std::time::Duration;

use tokio::time::Instant;
use windlass_api::{Backoff, Entropy};

/// client-go's defaults: 0.8 s, doubled up to 30 s, with jitter of up to 100 %; reset after two minutes without a
/// failure.
pub(crate) const DEFAULT: Backoff = Backoff::new(Duration::from_millis(800))
    .factor(2.0)
    .limit(Duration::from_secs(30))
    .jitter(1.0)
    .reset_after(Duration::from_mins(2));

/// A sequence of delays that is reset after a period without failures.
#[derive(Debug)]
pub(crate) struct Delays {
    delays: windlass_api::Delays,
    last: Option<Instant>,
}

impl Delays {
    pub(crate) fn new(settings: Backoff, entropy: &Entropy) -> Self {
        Self { delays: settings.delays(entropy), last: None }
    }

    pub(crate) fn next(&mut self, now: Instant) -> Duration {
        if self.last.replace(now).is_some_and(|last| self.delays.is_over(now.duration_since(last))) {
            self.delays.reset();
        }
        self.delays.next_delay()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_to_the_limit_and_reset_after_a_while() {
        let mut delays = Delays::new(DEFAULT.jitter(0.0), &Entropy::seeded(1));
        let start = Instant::now();
        let seconds: Vec<_> = (0..8).map(|_| delays.next(start).as_secs_f64()).collect();
        assert_eq!(seconds, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]);
        assert_eq!(delays.next(start + Duration::from_mins(2)), Duration::from_secs(30));
        assert_eq!(delays.next(start + Duration::from_secs(241)), Duration::from_millis(800));
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_adds_up_to_as_much_again() {
        let entropy = Entropy::seeded(1);
        for _ in 0..100 {
            let delay = Delays::new(DEFAULT, &entropy).next(Instant::now()).as_secs_f64();
            assert!((0.8..1.6).contains(&delay), "{delay}");
        }
    }
}
