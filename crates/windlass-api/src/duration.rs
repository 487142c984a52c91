//! Durations in the format of the Kubernetes API: `1h15m30.918s`.

use jiff::SignedDuration;
use thiserror::Error;

/// The error of a text that is not a duration. The messages are Go's, except for the quoting of unusual characters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    /// The text is malformed, or the duration is longer than 292 years.
    #[error("time: invalid duration {text:?}")]
    Invalid {
        /// The text.
        text: String,
    },
    /// A number has no unit.
    #[error("time: missing unit in duration {text:?}")]
    NoUnit {
        /// The text.
        text: String,
    },
    /// A number has an unknown unit.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The text.
        text: String,
        /// The unit.
        unit: String,
    },
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a `meta/v1.Duration`: numbers with units, such as `1.5h`, `90s` or `-2us`.
///
/// ```
/// use windlass_api::{format_duration, parse_duration};
///
/// assert_eq!(format_duration(parse_duration("1.5h")?), "1h30m0s");
/// # Ok::<_, windlass_api::DurationError>(())
/// ```
pub fn parse_duration(text: &str) -> Result<SignedDuration, DurationError> {
    let invalid = || DurationError::Invalid { text: text.to_owned() };
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit = &after[..after.find(|letter: char| letter == '.' || letter.is_ascii_digit()).unwrap_or(after.len())];
        if unit.is_empty() {
            return Err(DurationError::NoUnit { text: text.to_owned() });
        }
        let Some((_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(DurationError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned() });
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        // Eighteen digits are far more precise than a nanosecond of the largest unit.
        let kept = &fraction[..fraction.len().min(18)];
        let part = if kept.is_empty() {
            0
        } else {
            let scale = 10u128.pow(u32::try_from(kept.len()).unwrap_or_default());
            u128::from(*nanos) * kept.parse::<u128>().unwrap_or_default() / scale
        };
        total = whole
            .checked_mul(*nanos)
            .and_then(|product| product.checked_add(u64::try_from(part).ok()?))
            .and_then(|sum| total.checked_add(sum))
            .filter(|total| *total <= 1 << 63)
            .ok_or_else(invalid)?;
        rest = &after[unit.len()..];
    }
    let nanos =
        if negative { 0i64.wrapping_sub_unsigned(total) } else { i64::try_from(total).map_err(|_| invalid())? };
    Ok(SignedDuration::from_nanos(nanos))
}

/// Formats a `meta/v1.Duration` with the largest possible units: `1m30s`, `1.5ms`.
#[must_use]
pub fn format_duration(duration: SignedDuration) -> String {
    let sign = if duration.is_negative() { "-" } else { "" };
    let total = duration.as_nanos().unsigned_abs();
    let decimal = |unit: u128| {
        let (whole, fraction) = (total / unit, total % unit);
        let width = unit.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        let digits = digits.trim_end_matches('0');
        if digits.is_empty() { whole.to_string() } else { format!("{whole}.{digits}") }
    };
    match total {
        0 => "0s".into(),
        1..=999 => format!("{sign}{total}ns"),
        1_000..=999_999 => format!("{sign}{}µs", decimal(1_000)),
        1_000_000..=999_999_999 => format!("{sign}{}ms", decimal(1_000_000)),
        _ => {
            let (minutes, below) = (total / 60_000_000_000, total % 60_000_000_000);
            let fraction = format!("{:09}", below % 1_000_000_000);
            let fraction = fraction.trim_end_matches('0');
            let dot = if fraction.is_empty() { "" } else { "." };
            let seconds = format!("{}{dot}{fraction}s", below / 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        for (text, expected) in [
            ("0", "0s"),
            ("1h", "1h0m0s"),
            ("1.5h", "1h30m0s"),
            ("1500ms", "1.5s"),
            ("-2us", "-2µs"),
            ("1h15m30.918s", "1h15m30.918s"),
            ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(parse_duration(text).map(format_duration).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn broken_durations_carry_gos_errors() {
        let error = |text: &str| parse_duration(text).unwrap_err().to_string();
        assert_eq!(error("x"), r#"time: invalid duration "x""#);
        assert_eq!(error("5"), r#"time: missing unit in duration "5""#);
        assert_eq!(error("5d"), r#"time: unknown unit "d" in duration "5d""#);
        assert_eq!(error("9999999h"), r#"time: invalid duration "9999999h""#);
    }
}
