//! Conversions between counts, durations and floating-point numbers.

use std::time::Duration;

/// Converts a count. Counts of requests and objects are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
pub(crate) const fn float(count: usize) -> f64 {
    count as f64
}

/// Returns the whole part of a number; 0 for negative numbers and for NaN.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub(crate) const fn whole(number: f64) -> usize {
    number as usize
}

/// Returns a duration; zero for negative numbers and for NaN.
pub(crate) fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(if number > 0.0 { Duration::MAX } else { Duration::ZERO })
}

/// Returns a duration in microseconds, at most 71 minutes.
pub(crate) fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
