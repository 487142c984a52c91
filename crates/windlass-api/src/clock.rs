//! The wall clock, as a value that is passed in.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

/// Where the wall-clock time comes from.
///
/// Durations and timers belong to `tokio::time`, which tests pause. The wall clock is for what the API writes down:
/// creation timestamps, lease times, event times. Cloning is cheap; a clone tells the same time.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Injected(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl Clock {
    /// The clock of the operating system.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that asks `now` each time; for tests and replays.
    #[must_use]
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Injected(Arc::new(now)))
    }

    /// The current time.
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
    fn an_injected_clock_tells_the_injected_time() {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let clock = Clock::from_fn(move || at);
        assert_eq!(clock.clone().now(), at);
    }
}
