//! `meta/v1`'s Time, MicroTime and Duration, with Go's parsers, errors and formats.

use std::fmt::Write;

use jiff::{
    SignedDuration, ToSpan,
    civil::{Date, DateTime, Time},
};

use windlass_api::DurationError;

/// The Unix epoch.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The precision of a formatted time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    Seconds,
    Micros,
}

/// An element of a Go layout and the text before it.
type Element = (&'static str, &'static str);

const SECONDS: [Element; 7] =
    [("", "2006"), ("-", "01"), ("-", "02"), ("T", "15"), (":", "04"), (":", "05"), ("", "Z07:00")];
const MICROS: [Element; 8] =
    [("", "2006"), ("-", "01"), ("-", "02"), ("T", "15"), (":", "04"), (":", "05"), ("", ".000000"), ("", "Z07:00")];

/// Parses a time and formats it in UTC. Returns `None` for Go's zero time, which is encoded as null. The error is Go's
/// message.
pub(super) fn normalize_time(text: &str, precision: Precision) -> Result<Option<String>, String> {
    let at = parse(text, precision)?;
    Ok(format(at, precision))
}

/// Formats a time given in seconds since 1970 and nanoseconds, as in protobuf. Returns `None` for Go's zero time.
pub(super) fn from_unix(seconds: i64, nanos: i32, precision: Precision) -> Result<Option<String>, String> {
    let nanos = if precision == Precision::Seconds { 0 } else { nanos };
    let since = SignedDuration::from_secs(seconds).checked_add(SignedDuration::from_nanos(nanos.into()));
    let at = since.and_then(|since| EPOCH.checked_add(since).ok()).ok_or("a time out of range")?;
    Ok(format(at, precision))
}

/// Returns the seconds since 1970 and the nanoseconds of a formatted time; `None` for any other text.
pub(super) fn to_unix(text: &str, precision: Precision) -> Option<(i64, u32)> {
    // Absent times are frequent, and the message of an error takes longer than parsing.
    if text.is_empty() {
        return None;
    }
    let since = parse(text, precision).ok()?.duration_since(EPOCH);
    let nanos = i128::rem_euclid(since.as_nanos(), 1_000_000_000);
    let seconds = since.as_secs() - i64::from(since.subsec_nanos() < 0);
    Some((seconds, u32::try_from(nanos).unwrap_or_default()))
}

/// Reads a time in the form that [`format`] writes with the precision of seconds. Returns `None` for any other text.
fn canonical(text: &str) -> Option<DateTime> {
    let text: &[u8; 20] = text.as_bytes().try_into().ok()?;
    for (at, expected) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')] {
        if text[at] != expected {
            return None;
        }
    }
    let digit = |at: usize| {
        let digit = text[at].wrapping_sub(b'0');
        (digit < 10).then_some(i16::from(digit))
    };
    let pair = |at: usize| Some(digit(at)? * 10 + digit(at + 1)?);
    let small = |at: usize| i8::try_from(pair(at)?).ok();
    let date = Date::new(pair(0)? * 100 + pair(2)?, small(5)?, small(8)?).ok()?;
    Some(DateTime::from_parts(date, Time::new(small(11)?, small(14)?, small(17)?, 0).ok()?))
}

fn format(at: DateTime, precision: Precision) -> Option<String> {
    if (at.date(), at.time()) == (Date::constant(1, 1, 1), Time::midnight()) {
        return None;
    }
    let mut text = String::with_capacity("2006-01-02T15:04:05.000000Z".len());
    let _ = write!(text, "{:04}", at.year());
    let rest = [('-', at.month()), ('-', at.day()), ('T', at.hour()), (':', at.minute()), (':', at.second())];
    for (separator, number) in rest {
        // `write!` takes several times as long.
        let number = number.unsigned_abs();
        text.extend([separator, char::from(b'0' + number / 10), char::from(b'0' + number % 10)]);
    }
    if precision == Precision::Micros {
        let _ = write!(text, ".{:06}", at.subsec_nanosecond() / 1000);
    }
    text.push('Z');
    Some(text)
}

/// The parser's state: the remaining text and the values read so far.
struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    precision: Precision,
    nanos: i32,
    offset: i64,
}

/// The reason why an element was rejected.
enum Refused {
    Bad,
    Range(&'static str),
}

fn parse(text: &str, precision: Precision) -> Result<DateTime, String> {
    if precision == Precision::Seconds
        && let Some(at) = canonical(text)
    {
        return Ok(at);
    }
    parse_elements(text, precision)
}

fn parse_elements(text: &str, precision: Precision) -> Result<DateTime, String> {
    let mut parser = Parser { text, rest: text, precision, nanos: 0, offset: 0 };
    let mut numbers = [0i64; 6];
    let layout: &[Element] = if precision == Precision::Seconds { &SECONDS } else { &MICROS };
    for (index, (prefix, element)) in layout.iter().enumerate() {
        for byte in prefix.chars() {
            parser.rest = parser.rest.strip_prefix(byte).ok_or_else(|| parser.element_error(parser.rest, prefix))?;
        }
        let start_of_element = parser.rest;
        let read = match *element {
            "Z07:00" => parser.zone(),
            ".000000" => parser.fraction(),
            _ => parser.number(element).map(|number| numbers[index] = number),
        };
        match read {
            Ok(()) => {}
            Err(Refused::Bad) => return Err(parser.element_error(start_of_element, element)),
            Err(Refused::Range(what)) => return Err(parser.error(&format!(": {what} out of range"))),
        }
    }
    if !parser.rest.is_empty() {
        return Err(parser.error(&format!(": extra text: {}", quote(parser.rest))));
    }
    let number = |index: usize| i8::try_from(numbers[index]).unwrap_or_default();
    let date = Date::new(i16::try_from(numbers[0]).unwrap_or_default(), number(1), number(2))
        .map_err(|_| parser.error(": day out of range"))?;
    let time = Time::new(number(3), number(4), number(5), parser.nanos).map_err(|error| error.to_string())?;
    date.to_datetime(time).checked_sub(parser.offset.seconds()).map_err(|error| error.to_string())
}

/// Quotes a text as Go's time package does: non-ASCII characters are escaped byte by byte.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' | 0x7f => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

impl Parser<'_> {
    fn element_error(&self, at: &str, element: &str) -> String {
        let layout = match self.precision {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Micros => "2006-01-02T15:04:05.000000Z07:00",
        };
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.text),
            quote(layout),
            quote(at),
            quote(element)
        )
    }

    fn error(&self, message: &str) -> String {
        format!("parsing time {}{message}", quote(self.text))
    }

    fn number(&mut self, element: &str) -> Result<i64, Refused> {
        let bytes = self.rest.as_bytes();
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let width = match element {
            "2006" if (0..4).all(digit) => 4,
            "2006" => return Err(Refused::Bad),
            _ if digit(0) && digit(1) => 2,
            // Only the hour may have a single digit.
            "15" if digit(0) => 1,
            _ => return Err(Refused::Bad),
        };
        let (text, rest) = self.rest.split_at(width);
        let number = text.parse().unwrap_or_default();
        self.rest = rest;
        match element {
            "01" if !(1..=12).contains(&number) => return Err(Refused::Range("month")),
            "15" if number >= 24 => return Err(Refused::Range("hour")),
            "04" if number >= 60 => return Err(Refused::Range("minute")),
            "05" if number >= 60 => return Err(Refused::Range("second")),
            // A fraction is also accepted if the layout has none.
            "05" if self.precision == Precision::Seconds => {
                let digits = self.rest.strip_prefix(['.', ',']).unwrap_or_default();
                let count = digits.bytes().take_while(u8::is_ascii_digit).count();
                if count > 0 {
                    self.nanos = nanos(&digits[..count]);
                    self.rest = &digits[count..];
                }
            }
            _ => {}
        }
        Ok(number)
    }

    fn fraction(&mut self) -> Result<(), Refused> {
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|rest| rest.get(..6)).ok_or(Refused::Bad)?;
        if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(Refused::Bad);
        }
        self.nanos = nanos(digits);
        self.rest = &self.rest[7..];
        Ok(())
    }

    fn zone(&mut self) -> Result<(), Refused> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(());
        }
        let zone = self.rest.get(..6).ok_or(Refused::Bad)?;
        let (hours, minutes) = zone.get(1..).and_then(|zone| zone.split_once(':')).ok_or(Refused::Bad)?;
        let read = |text: &str| {
            let digits = text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_digit());
            if digits { text.parse::<i64>().ok() } else { None }
        };
        let (hours, minutes) = (read(hours), read(minutes));
        self.rest = &self.rest[6..];
        if hours.is_some_and(|hours| hours > 24) {
            return Err(Refused::Range("time zone offset hour"));
        }
        if minutes.is_some_and(|minutes| minutes > 60) {
            return Err(Refused::Range("time zone offset minute"));
        }
        let seconds = (hours.ok_or(Refused::Bad)? * 60 + minutes.ok_or(Refused::Bad)?) * 60;
        self.offset = match zone.as_bytes()[0] {
            b'+' => seconds,
            b'-' => -seconds,
            _ => return Err(Refused::Bad),
        };
        Ok(())
    }
}

fn nanos(digits: &str) -> i32 {
    format!("{digits:0<9}")[..9].parse().unwrap_or_default()
}

/// Parses a duration and formats it as Go does. The error is Go's message.
pub(super) fn normalize_duration(text: &str) -> Result<String, String> {
    parse_duration(text).map(format_duration)
}

/// Checks that a text is a duration. The error is Go's message.
pub(crate) fn check_duration(text: &str) -> Result<(), String> {
    parse_duration(text).map(drop)
}

/// Parses a text such as `1h15m30.918s` into nanoseconds.
pub(super) fn parse_duration(text: &str) -> Result<i64, String> {
    let duration = windlass_api::parse_duration(text).map_err(|error| go_worded(&error))?;
    // A parsed duration always fits.
    Ok(i64::try_from(duration.as_nanos()).unwrap_or_default())
}

/// Formats a duration like Go's `time.Duration.String`.
pub(super) fn format_duration(nanos: i64) -> String {
    windlass_api::format_duration(SignedDuration::from_nanos(nanos))
}

/// Formats the error with special characters quoted as in Go.
pub(crate) fn go_worded(error: &DurationError) -> String {
    match error {
        DurationError::Invalid { text } => format!("time: invalid duration {}", quote(text)),
        DurationError::NoUnit { text } => format!("time: missing unit in duration {}", quote(text)),
        DurationError::UnknownUnit { text, unit } => {
            format!("time: unknown unit {} in duration {}", quote(unit), quote(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_normalized_to_utc_and_seconds() {
        for (text, expected) in [
            ("2026-01-02T03:04:05Z", Some("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05.999Z", Some("2026-01-02T03:04:05Z")),
            ("2026-01-01T01:00:00+02:00", Some("2025-12-31T23:00:00Z")),
            ("2026-01-01T1:00:00Z", Some("2026-01-01T01:00:00Z")),
            ("0001-01-01T00:00:00Z", None),
        ] {
            assert_eq!(normalize_time(text, Precision::Seconds).unwrap().as_deref(), expected, "{text}");
        }
        assert_eq!(
            normalize_time("2026-01-02T03:04:05.000001Z", Precision::Micros).unwrap().unwrap(),
            "2026-01-02T03:04:05.000001Z"
        );
    }

    #[test]
    fn canonical_times_are_read_as_by_elements() {
        let mut read = 0;
        for text in [
            "2026-01-02T03:04:05Z",
            "0001-01-01T00:00:00Z",
            "0000-12-31T23:59:59Z",
            "9999-12-31T23:59:59Z",
            "1969-12-31T23:59:59Z",
            "2024-02-29T00:00:00Z",
        ] {
            for (at, other) in (0..text.len()).flat_map(|at| "019Z:-é".chars().map(move |other| (at, other))) {
                let mut changed = text.to_owned();
                changed.replace_range(at..=at, other.encode_utf8(&mut [0; 4]));
                if let Some(at) = canonical(&changed) {
                    assert_eq!(parse_elements(&changed, Precision::Seconds), Ok(at), "{changed}");
                    read += 1;
                }
            }
        }
        assert!(read > 200, "{read} times");
        assert_eq!(canonical("2026-01-02T03:04:05Zx"), None);
    }

    #[test]
    fn invalid_times_have_the_errors_of_go() {
        let layout = r#"as "2006-01-02T15:04:05Z07:00""#;
        for (text, expected) in [
            ("abc", format!(r#"parsing time "abc" {layout}: cannot parse "abc" as "2006""#)),
            ("", format!(r#"parsing time "" {layout}: cannot parse "" as "2006""#)),
            ("2026-01-02", format!(r#"parsing time "2026-01-02" {layout}: cannot parse "" as "T""#)),
            ("2026-13-02T00:00:00Z", r#"parsing time "2026-13-02T00:00:00Z": month out of range"#.into()),
            ("2026-02-30T00:00:00Z", r#"parsing time "2026-02-30T00:00:00Z": day out of range"#.into()),
            (
                "2026-01-02T03:04:05",
                format!(r#"parsing time "2026-01-02T03:04:05" {layout}: cannot parse "" as "Z07:00""#),
            ),
            ("2026-01-02T03:04:05Zx", r#"parsing time "2026-01-02T03:04:05Zx": extra text: "x""#.into()),
        ] {
            assert_eq!(normalize_time(text, Precision::Seconds), Err(expected));
        }
        assert_eq!(
            normalize_time("2026-01-01T00:00:00Z", Precision::Micros).unwrap_err(),
            r#"parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
    }

    #[test]
    fn durations_are_parsed_and_formatted_like_go() {
        for (text, expected) in [
            ("0", "0s"),
            ("1h", "1h0m0s"),
            ("90s", "1m30s"),
            ("1.5h", "1h30m0s"),
            ("1500ms", "1.5s"),
            ("-2us", "-2µs"),
            ("100ns", "100ns"),
            ("1h15m30.918s", "1h15m30.918s"),
        ] {
            assert_eq!(normalize_duration(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("", r#"time: invalid duration """#),
            ("x", r#"time: invalid duration "x""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("5d", r#"time: unknown unit "d" in duration "5d""#),
            ("9999999h", r#"time: invalid duration "9999999h""#),
        ] {
            assert_eq!(normalize_duration(text).unwrap_err(), expected);
        }
    }
}
