//! `metav1.Time` and `MicroTime`: RFC 3339 in JSON, seconds and nanoseconds since 1970 in protobuf.

use crate::wire::{self, Reader, Span, low};

/// The seconds of Go's zero time, the start of year 1.
const ZERO: i64 = -62_135_596_800;
/// The first second after year 99,999. JSON has later times than those with four digits if a time near the end of year
/// 9999 is in another time zone.
const END: i64 = 3_093_527_980_800;
/// The first second of year 0.
const START: i64 = -62_167_219_200;
const DAY: i64 = 86_400;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

/// The precision of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    Seconds,
    Micros,
}

// === impl Time ===

impl Time {
    /// Creates the time of a message. Returns `None` if the year is negative or has more than five digits.
    pub(crate) fn from_parts(seconds: i64, nanos: i32, precision: Precision) -> Option<Self> {
        let nanos = if precision == Precision::Seconds { 0 } else { i64::from(nanos / 1000 * 1000) };
        let seconds = seconds.checked_add(nanos.div_euclid(1_000_000_000))?;
        let nanos = u32::try_from(nanos.rem_euclid(1_000_000_000)).ok()?;
        (START..END).contains(&seconds).then_some(Self { seconds, nanos })
    }

    /// Returns `true` for Go's zero time, which is null in JSON and an empty message in protobuf.
    pub(crate) const fn is_zero(self) -> bool {
        self.seconds == ZERO && self.nanos == 0
    }

    /// Parses a time in the formats that Go's decoder accepts.
    pub(crate) fn parse(text: &str, precision: Precision) -> Option<Self> {
        let bytes = text.as_bytes();
        // Go's encoder writes years of five digits, too.
        let is_long = bytes.get(5) == Some(&b'-') && bytes.get(4).is_some_and(u8::is_ascii_digit);
        let thousands = if is_long { number(bytes, 0, 1).filter(|digit| *digit > 0)? * 10_000 } else { 0 };
        let bytes = &bytes[usize::from(is_long)..];
        let (year, month, day) = (thousands + number(bytes, 0, 4)?, number(bytes, 5, 2)?, number(bytes, 8, 2)?);
        // The hour may have one digit.
        let shift = usize::from(bytes.get(12) == Some(&b':'));
        let at = 13 - shift;
        let (hour, minute, second) =
            (number(bytes, 11, 2 - shift)?, number(bytes, at + 1, 2)?, number(bytes, at + 4, 2)?);
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (at, b':'), (at + 3, b':')];
        if marks.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
            return None;
        }
        let days = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let last = *days.get(usize::try_from(month - 1).ok()?)?;
        if !(1..=last).contains(&day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let (nanos, rest) = fraction(&bytes[at + 6..], precision)?;
        let offset = zone(rest)?;
        let seconds = days_since_epoch(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
        Some(Self { seconds, nanos })
    }

    /// Writes the time in UTC, in quotes.
    pub(crate) fn write(self, out: &mut Vec<u8>, precision: Precision) {
        let (year, month, day) = date(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        out.push(b'"');
        let parts = [
            (year, if year > 9999 { 5 } else { 4 }, b'-'),
            (month, 2, b'-'),
            (day, 2, b'T'),
            (second / 3600, 2, b':'),
            (second / 60 % 60, 2, b':'),
        ];
        for (number, width, mark) in parts {
            digits(out, number, width);
            out.push(mark);
        }
        digits(out, second % 60, 2);
        if precision == Precision::Micros {
            out.push(b'.');
            digits(out, i64::from(self.nanos / 1000), 6);
        }
        out.extend_from_slice(b"Z\"");
    }
}

/// Reads seconds and nanoseconds of a message as encoders write it: both numbers, in this order. Returns `None` for
/// another encoding.
pub(crate) fn usual_parts(message: &[u8]) -> Option<(i64, i32)> {
    let mut reader = Reader::new(message, Span { start: 0, end: u32::try_from(message.len()).ok()? });
    let mut next = |expected| match reader.tag().ok()? {
        (number, wire::VARINT) if number == expected => reader.varint().ok(),
        _ => None,
    };
    let (seconds, nanos) = (next(1)?.cast_signed(), low(next(2)?));
    reader.is_at_end().then_some((seconds, nanos))
}

/// Reads the digits at a position.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<i64> {
    let digits = bytes.get(at..at + width)?;
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

/// Reads the fraction of a second: optional for `Time`, six digits for `MicroTime`.
fn fraction(bytes: &[u8], precision: Precision) -> Option<(u32, &[u8])> {
    let digits = match bytes {
        [b'.' | b',', rest @ ..] => rest.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 0,
    };
    match precision {
        Precision::Seconds if digits == 0 => return Some((0, bytes)),
        Precision::Micros if digits != 6 => return None,
        _ => {}
    }
    let nanos = (1..=9).fold(0, |nanos, at| nanos * 10 + if at <= digits { u32::from(bytes[at] - b'0') } else { 0 });
    Some((nanos, &bytes[digits + 1..]))
}

/// Reads a time zone: `Z` or an offset. Returns its seconds.
fn zone(bytes: &[u8]) -> Option<i64> {
    let sign = match bytes {
        [b'Z'] => return Some(0),
        [b'+', _, _, b':', _, _] => 1,
        [b'-', _, _, b':', _, _] => -1,
        _ => return None,
    };
    let (hours, minutes) = (number(bytes, 1, 2)?, number(bytes, 4, 2)?);
    (hours <= 24 && minutes <= 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn digits(out: &mut Vec<u8>, number: i64, width: u32) {
    out.extend((0..width).rev().map(|place| b'0' + (number.unsigned_abs() / 10u64.pow(place) % 10) as u8));
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar. Years start in March, so that a leap day is the
/// last day of a year.
const fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
        - 719_469
}

/// Returns year, month and day; the inverse of [`days_since_epoch`].
const fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = year_of_era + era * 400;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str, precision: Precision) -> Option<String> {
        let mut out = Vec::new();
        Time::parse(text, precision)?.write(&mut out, precision);
        Some(String::from_utf8(out).unwrap().trim_matches('"').to_owned())
    }

    #[test]
    fn times_are_normalized_to_utc() {
        use Precision::{Micros, Seconds};
        for (text, precision, expected) in [
            ("2026-01-02T03:04:05Z", Seconds, "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05.999999999999Z", Seconds, "2026-01-02T03:04:05Z"),
            ("2026-01-01T01:00:00+02:00", Seconds, "2025-12-31T23:00:00Z"),
            ("2026-01-01T1:00:00-00:30", Seconds, "2026-01-01T01:30:00Z"),
            ("2024-02-29T23:59:59Z", Seconds, "2024-02-29T23:59:59Z"),
            ("0001-01-01T00:00:00Z", Seconds, "0001-01-01T00:00:00Z"),
            ("1969-12-31T23:59:59.000001Z", Micros, "1969-12-31T23:59:59.000001Z"),
            ("9999-12-31T23:59:59-01:00", Seconds, "10000-01-01T00:59:59Z"),
            ("10000-01-01T00:59:59Z", Seconds, "10000-01-01T00:59:59Z"),
        ] {
            assert_eq!(round_trip(text, precision).as_deref(), Some(expected), "{text}");
        }
        for (text, precision) in [
            ("", Seconds),
            ("2026-01-02", Seconds),
            ("2026-13-02T00:00:00Z", Seconds),
            ("2026-02-29T00:00:00Z", Seconds),
            ("2026-01-02T24:00:00Z", Seconds),
            ("2026-01-02T03:04:05", Seconds),
            ("2026-01-02T03:04:05Zx", Seconds),
            ("2026-01-02T03:04:05.Z", Seconds),
            ("2026-01-02T03:04:05Z", Micros),
            ("2026-01-02T03:04:05.0000001Z", Micros),
            ("2026-00-02T03:04:05Z", Seconds),
            ("2026-01-02 03:04:05Z", Seconds),
            ("20260-1-02T03:04:05Z", Seconds),
            ("02026-01-02T03:04:05Z", Seconds),
            ("100000-01-02T03:04:05Z", Seconds),
        ] {
            assert_eq!(round_trip(text, precision), None, "{text}");
        }
    }

    #[test]
    fn dates_agree_with_a_calendar() {
        let mut days = days_since_epoch(0, 1, 1);
        assert_eq!(days * DAY, START);
        for year in 0..100_000 {
            for month in 1..=12 {
                assert_eq!(days_since_epoch(year, month, 1), days);
                assert_eq!(date(days), (year, month, 1));
                days += match month {
                    2 => 28 + i64::from(is_leap(year)),
                    4 | 6 | 9 | 11 => 30,
                    _ => 31,
                };
                assert_eq!(date(days - 1).1, month);
            }
        }
        assert_eq!(days * DAY, END);
        assert_eq!(days_since_epoch(1970, 1, 1), 0);
        assert_eq!(days_since_epoch(1, 1, 1) * DAY, ZERO);
    }

    #[test]
    fn parts_are_normalized_and_limited() {
        use Precision::{Micros, Seconds};
        assert_eq!(Time::from_parts(5, 999_999_999, Seconds), Some(Time { seconds: 5, nanos: 0 }));
        assert_eq!(Time::from_parts(5, 1999, Micros), Some(Time { seconds: 5, nanos: 1000 }));
        assert_eq!(Time::from_parts(5, -1999, Micros), Some(Time { seconds: 4, nanos: 999_999_000 }));
        assert_eq!(Time::from_parts(5, i32::MAX, Micros), Some(Time { seconds: 7, nanos: 147_483_000 }));
        assert_eq!(Time::from_parts(i64::MAX, i32::MAX, Micros), None);
        assert_eq!(Time::from_parts(END, 0, Seconds), None);
        assert!(Time::from_parts(ZERO, 0, Seconds).unwrap().is_zero());
    }
}
