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
    /// Everything at once; for tests.
    pub const fn immediate() -> Self {
        Self { start: Duration::ZERO, work: Duration::ZERO, stop: Duration::ZERO, jitter: 0.0 }
    }

    /// How long containers take to start.
    pub const fn start(mut self, start: Duration) -> Self {
        self.start = start;
        self
    }

    /// How long the containers of pods that are meant to end take for it: those whose restart policy is not `Always`.
    pub const fn work(mut self, work: Duration) -> Self {
        self.work = work;
        self
    }

    /// How long containers take to stop.
    pub const fn stop(mut self, stop: Duration) -> Self {
        self.stop = stop;
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
        };
        if base.is_zero() { base } else { entropy.jitter(base, self.jitter) }
    }
}

impl Default for Pace {
    /// A second to start, three to work, half of one to stop, each up to half as long again.
    fn default() -> Self {
        Self {
            start: Duration::from_secs(1),
            work: Duration::from_secs(3),
            stop: Duration::from_millis(500),
            jitter: 0.5,
        }
    }
}
