//! The wall clock of tests: tokio's.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use windlass_api::Clock;

/// When runs with a seed begin, as seconds since 1970: the first of January 2026.
const FIXED: i64 = 1_767_225_600;

/// A wall clock that goes as tokio's does: it stands still, and leaps, with one that is paused.
pub(crate) fn following_tokio(start: Timestamp) -> Clock {
    let began = Instant::now();
    Clock::from_fn(move || {
        let passed = SignedDuration::try_from(began.elapsed()).unwrap_or(SignedDuration::MAX);
        start.checked_add(passed).unwrap_or(Timestamp::MAX)
    })
}

/// The same time in every run.
pub(crate) fn fixed() -> Timestamp {
    Timestamp::from_second(FIXED).unwrap_or(Timestamp::UNIX_EPOCH)
}
