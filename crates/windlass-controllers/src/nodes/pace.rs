//! How long things take on a simulated node.

use std::time::Duration;

use windlass_api::Entropy;

use super::lifecycle::Stage;

/// How long the simulated nodes take for what real ones need time for.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a pace does nothing until controllers are given it"]
pub struct Pace {
    start: Duration,
    work: Duration,
    stop: Duration,
    /// How much longer each may take, as a part of it.
    jitter: f64,
}

impl Pace {
    /// How long containers take to start and to stop. Those that are meant to end work three times as long as it takes
    /// to start them. Each takes up to half as long again, at random.
    pub const fn new(start: Duration, stop: Duration) -> Self {
        Self { start, work: start.saturating_mul(3), stop, jitter: 0.5 }
    }

    /// Everything at once; for tests.
    pub const fn immediate() -> Self {
        Self::new(Duration::ZERO, Duration::ZERO)
    }

    /// How long the containers of pods that are meant to end take for it: those whose restart policy is not `Always`.
    pub const fn work(mut self, work: Duration) -> Self {
        self.work = work;
        self
    }

    /// How much longer anything may take, at random, as a part of its duration: 0.5 is up to half as long again.
    pub const fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    pub(crate) fn of(&self, stage: Stage, entropy: &Entropy) -> Duration {
        let base = match stage {
            Stage::Start => self.start,
            Stage::Work => self.work,
            Stage::Stop => self.stop,
            // These are said, and exact.
            Stage::Sleep(time) | Stage::BackOff(time) | Stage::Term(time) => return time,
        };
        if base.is_zero() { base } else { entropy.jitter(base, self.jitter) }
    }
}

impl Default for Pace {
    /// A second to start, half of one to stop.
    fn default() -> Self {
        Self::new(Duration::from_secs(1), Duration::from_millis(500))
    }
}
