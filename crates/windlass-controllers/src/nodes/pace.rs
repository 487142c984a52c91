//! The durations on a simulated node.

use std::time::Duration;

use windlass_api::Entropy;

use super::lifecycle::Stage;

/// The durations of container start, run and stop on the simulated nodes.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a pace does nothing until controllers are given it"]
pub struct Pace {
    start: Duration,
    work: Duration,
    stop: Duration,
    /// The maximum random extension of each duration, as a fraction of it.
    jitter: f64,
}

impl Pace {
    /// Sets the durations of starting and stopping containers. Containers that terminate by themselves run three times
    /// as long as they take to start. Each duration is extended at random by up to a half.
    pub const fn new(start: Duration, stop: Duration) -> Self {
        Self { start, work: start.saturating_mul(3), stop, jitter: 0.5 }
    }

    /// Returns a pace without any delays, for tests.
    pub const fn immediate() -> Self {
        Self::new(Duration::ZERO, Duration::ZERO)
    }

    /// Sets the run time of containers that terminate by themselves: those in pods whose restart policy is not
    /// `Always`.
    pub const fn work(mut self, work: Duration) -> Self {
        self.work = work;
        self
    }

    /// Sets the maximum random extension of each duration, as a fraction of it: 0.5 extends a duration by up to a half.
    pub const fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    pub(crate) fn of(&self, stage: Stage, entropy: &Entropy) -> Duration {
        let base = match stage {
            Stage::Start => self.start,
            Stage::Work => self.work,
            Stage::Stop => self.stop,
            // These durations are specified, and exact.
            Stage::Sleep(time) | Stage::BackOff(time) | Stage::Term(time) => return time,
        };
        if base.is_zero() { base } else { entropy.jitter(base, self.jitter) }
    }
}

impl Default for Pace {
    /// 1 s to start, 0.5 s to stop.
    fn default() -> Self {
        Self::new(Duration::from_secs(1), Duration::from_millis(500))
    }
}
