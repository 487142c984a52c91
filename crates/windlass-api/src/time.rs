//! Times in the formats of the Kubernetes API.

use jiff::{Timestamp, fmt::temporal::DateTimePrinter};
use thiserror::Error;

/// The error of a text that is not a time in RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not an RFC 3339 time: {reason}")]
pub struct TimeError {
    /// The text.
    pub text: String,
    /// The reason.
    pub reason: String,
}

/// Formats a `meta/v1.Time`: whole seconds, UTC, `Z`.
#[must_use]
pub fn format_time(at: Timestamp) -> String {
    print(at, 0)
}

/// Formats a `meta/v1.MicroTime`: six fractional digits, UTC, `Z`.
#[must_use]
pub fn format_micro_time(at: Timestamp) -> String {
    print(at, 6)
}

/// Parses any time in RFC 3339. The offset is required.
pub fn parse_time(text: &str) -> Result<Timestamp, TimeError> {
    text.parse().map_err(|error: jiff::Error| TimeError { text: text.to_owned(), reason: error.to_string() })
}

fn print(at: Timestamp, digits: u8) -> String {
    DateTimePrinter::new().precision(Some(digits)).timestamp_to_string(&at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_to_seconds_and_micro_times_to_six_digits() {
        let at = parse_time("2026-01-02T03:04:05.678901999+02:00").unwrap();
        assert_eq!(format_time(at), "2026-01-02T01:04:05Z");
        assert_eq!(format_micro_time(at), "2026-01-02T01:04:05.678901Z");
        assert_eq!(format_micro_time(parse_time("2026-01-02T03:04:05Z").unwrap()), "2026-01-02T03:04:05.000000Z");
    }

    #[test]
    fn a_time_without_offset_is_refused_by_name() {
        assert!(parse_time("2026-01-02T03:04:05").unwrap_err().to_string().contains("2026-01-02T03:04:05"));
    }
}
