//! The wall clock as a value that is passed in.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

/// A source of wall-clock time.
///
/// Durations and timers use `tokio::time`, which tests can pause. The wall clock is for times in API objects: creation
/// timestamps, lease times, event times. Cloning is cheap, and clones return the same time.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Injected(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl Clock {
    /// Returns the clock of the operating system.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// Creates a clock that calls `now` each time, for tests and replays.
    #[must_use]
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Injected(Arc::new(now)))
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            #[allow(clippy::disallowed_methods, reason = "the one place that reads the operating system's clock")]
            Source::System => Timestamp::now(),
            Source::Injected(now) => now(),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System => "Clock(system)",
            Source::Injected(_) => "Clock(injected)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injected_clock_returns_the_injected_time() {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let clock = Clock::from_fn(move || at);
        assert_eq!(clock.clone().now(), at);
    }
}
