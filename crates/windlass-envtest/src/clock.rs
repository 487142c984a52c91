//! The wall clock of tests, based on tokio's clock.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use windlass_api::Clock;

/// The start time of runs with a seed, as seconds since 1970: 1 January 2026.
const FIXED: i64 = 1_767_225_600;

/// Returns a wall clock that follows tokio's clock, and pauses and advances with it.
pub(crate) fn following_tokio(start: Timestamp) -> Clock {
    let began = Instant::now();
    Clock::from_fn(move || {
        let passed = SignedDuration::try_from(began.elapsed()).unwrap_or(SignedDuration::MAX);
        start.checked_add(passed).unwrap_or(Timestamp::MAX)
    })
}

/// Returns the start time of runs with a seed.
pub(crate) fn fixed() -> Timestamp {
    Timestamp::from_second(FIXED).unwrap_or(Timestamp::UNIX_EPOCH)
}
