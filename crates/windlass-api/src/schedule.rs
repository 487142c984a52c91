//! Schedules of cron jobs: five fields or a descriptor, as robfig/cron's standard parser reads them.
//!
//! A field is a list of ranges: `*`, `?`, `5`, `1-5`, `*/15`, `10/5`, `MON-FRI`. If both the day of the month and the
//! day of the week are restricted, one match suffices. `@every 90s` counts from the last time. Local times that are
//! skipped when clocks go forward are skipped. Those that are repeated when clocks go back count twice.

use jiff::{
    SignedDuration, Timestamp, ToSpan as _, civil,
    tz::{AmbiguousOffset, TimeZone},
};
use thiserror::Error;

use crate::{DurationError, parse_duration};

/// The number of years to search ahead.
const HORIZON: i16 = 5;
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A recurring schedule.
///
/// ```
/// use jiff::tz::TimeZone;
/// use windlass_api::Schedule;
///
/// let nightly = Schedule::parse("30 2 * * MON-FRI")?;
/// let next = nightly.next("2026-01-02T12:00:00Z".parse()?, &TimeZone::UTC);
/// assert_eq!(next, Some("2026-01-05T02:30:00Z".parse()?));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule(Rule);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Every(SignedDuration),
    Fields(Fields),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
}

/// Numbers below 64, and whether they come from a star.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set {
    bits: u64,
    is_any: bool,
}

/// The error of an invalid schedule. The messages are those of the real parser, as its users see them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The schedule is empty.
    #[error("empty spec string")]
    Empty,
    /// The number of fields is not five.
    #[error("expected exactly 5 fields, found {found}: [{fields}]")]
    Fields {
        /// The number of fields.
        found: usize,
        /// The fields.
        fields: String,
    },
    /// The descriptor, which starts with `@`, is unknown.
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
    /// The interval of `@every` is not a duration.
    #[error("failed to parse duration {0}: {1}")]
    Every(String, DurationError),
    /// A range is invalid.
    #[error("{0}")]
    Range(String),
}

impl Schedule {
    /// Parses a schedule. A time zone in front of it is skipped; see [`Self::zone`].
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        if text.is_empty() {
            return Err(ScheduleError::Empty);
        }
        let (_, rest) = split(text);
        if rest.starts_with('@') { descriptor(rest).map(Self) } else { Fields::parse(rest).map(Rule::Fields).map(Self) }
    }

    /// Returns the time zone in front of a schedule: `TZ=Europe/Berlin` or `CRON_TZ=Europe/Berlin`.
    #[must_use]
    pub fn zone(text: &str) -> Option<&str> {
        split(text).0
    }

    /// Returns the first time after `after` in a time zone; `None` if there is none within five years.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.0 {
            Rule::Every(delay) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                whole.checked_add(*delay).ok()
            }
            Rule::Fields(fields) => fields.next(after, zone),
        }
    }
}

/// Splits a schedule into its time zone and the rest.
fn split(text: &str) -> (Option<&str>, &str) {
    match text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
        Some(named) => named.split_once(' ').map_or((Some(named), ""), |(name, rest)| (Some(name), rest.trim())),
        None => (None, text),
    }
}

fn descriptor(text: &str) -> Result<Rule, ScheduleError> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let every = text.strip_prefix("@every ").ok_or_else(|| ScheduleError::Descriptor(text.to_owned()))?;
            let delay = parse_duration(every).map_err(|error| ScheduleError::Every(text.to_owned(), error))?;
            // Whole seconds, and at least one.
            return Ok(Rule::Every(SignedDuration::from_secs(delay.as_secs().max(1))));
        }
    };
    Fields::parse(fields).map(Rule::Fields)
}

impl Fields {
    fn parse(text: &str) -> Result<Self, ScheduleError> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts[..] else {
            return Err(ScheduleError::Fields { found: parts.len(), fields: parts.join(" ") });
        };
        Ok(Self {
            minutes: Set::parse(minutes, 0, 59, &[])?,
            hours: Set::parse(hours, 0, 23, &[])?,
            days: Set::parse(days, 1, 31, &[])?,
            months: Set::parse(months, 1, 12, &MONTHS)?,
            weekdays: Set::parse(weekdays, 0, 6, &WEEKDAYS)?,
        })
    }

    fn is_day(&self, date: civil::Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        if self.days.is_any || self.weekdays.is_any { day && weekday } else { day || weekday }
    }

    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let from = after.to_zoned(zone.clone());
        let mut date = from.date();
        let last = date.year().saturating_add(HORIZON);
        while date.year() <= last {
            if !self.months.has(date.month()) {
                date = date.first_of_month().checked_add(1.month()).ok()?;
                continue;
            }
            if self.is_day(date)
                && let Some(found) = self.on(date, after, zone)
            {
                return Some(found);
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Returns the first time after `after` on a day.
    fn on(&self, date: civil::Date, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let hours = (0..24).filter(|hour| self.hours.has(*hour));
        hours
            .flat_map(|hour| (0..60).filter(|minute| self.minutes.has(*minute)).map(move |minute| (hour, minute)))
            .flat_map(|(hour, minute)| instants(date.at(hour, minute, 0, 0), zone))
            .filter(|time| *time > after)
            .min()
    }
}

/// Returns the instants of a local time: none if it is skipped, two if it is repeated.
fn instants(shown: civil::DateTime, zone: &TimeZone) -> impl Iterator<Item = Timestamp> {
    let possible = zone.to_ambiguous_timestamp(shown);
    let (earlier, later) = match possible.offset() {
        AmbiguousOffset::Unambiguous { .. } => (possible.earlier().ok(), None),
        AmbiguousOffset::Gap { .. } => (None, None),
        AmbiguousOffset::Fold { .. } => (possible.earlier().ok(), possible.later().ok()),
    };
    earlier.into_iter().chain(later)
}

impl Set {
    fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits & (1_u64 << number) != 0)
    }

    fn parse(text: &str, first: u32, last: u32, names: &[&str]) -> Result<Self, ScheduleError> {
        let mut set = Self::default();
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let Self { bits, is_any } = Self::range(range, first, last, names)?;
            set = Self { bits: set.bits | bits, is_any: set.is_any | is_any };
        }
        Ok(set)
    }

    fn range(text: &str, first: u32, last: u32, names: &[&str]) -> Result<Self, ScheduleError> {
        let wrong = |why: String| Err(ScheduleError::Range(why));
        let parts: Vec<&str> = text.split('/').collect();
        let ends: Vec<&str> = parts[0].split('-').collect();
        let read = |text: &str| {
            let named = names.iter().zip(first..).find(|(name, _)| text.eq_ignore_ascii_case(name));
            named.map_or_else(|| number(text), |(_, number)| Ok(number))
        };
        let (low, mut high, mut is_any) = match ends[..] {
            ["*" | "?", ..] => (first, last, true),
            [only] => (read(only)?, read(only)?, false),
            [low, high] => (read(low)?, read(high)?, false),
            _ => return wrong(format!("too many hyphens: {text}")),
        };
        let step = match parts[..] {
            [_] => 1,
            [_, step] => number(step)?,
            _ => return wrong(format!("too many slashes: {text}")),
        };
        if parts.len() == 2 && ends.len() == 1 {
            high = last;
        }
        if step > 1 {
            is_any = false;
        }
        if low < first {
            return wrong(format!("beginning of range ({low}) below minimum ({first}): {text}"));
        }
        if high > last {
            return wrong(format!("end of range ({high}) above maximum ({last}): {text}"));
        }
        if low > high {
            return wrong(format!("beginning of range ({low}) beyond end of range ({high}): {text}"));
        }
        if step == 0 {
            return wrong(format!("step of range should be a positive number: {text}"));
        }
        let numbers = (low..=high).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        Ok(Self { bits: numbers.fold(0, |bits, number| bits | 1 << number), is_any })
    }
}

fn number(text: &str) -> Result<u32, ScheduleError> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => {
            Err(ScheduleError::Range(format!("negative number ({number}) not allowed: {text}")))
        }
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => {
            let why = format!("strconv.Atoi: parsing {text:?}: invalid syntax");
            Err(ScheduleError::Range(format!("failed to parse int from {text}: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let next = Schedule::parse(schedule).unwrap().next(after.parse().unwrap(), &TimeZone::UTC);
        next.map_or("never".to_owned(), |time| time.to_string())
    }

    #[test]
    fn the_next_time_is_found() {
        for (schedule, after, expected) in [
            ("* * * * *", "2026-01-01T10:00:30.5Z", "2026-01-01T10:01:00Z"),
            ("*/15 * * * *", "2026-01-01T10:45:00Z", "2026-01-01T11:00:00Z"),
            ("20/15 8,20 * * *", "2026-01-01T08:36:00Z", "2026-01-01T08:50:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 12 * jan-mar MON-FRI", "2026-03-31T13:00:00Z", "2027-01-01T12:00:00Z"),
            // Both days are restricted, and one match suffices.
            ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 13 * ?", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("@every 1h30m10.7s", "2026-01-01T00:00:00.3Z", "2026-01-01T01:30:10Z"),
            ("0 0 31 2 *", "2026-01-01T00:00:00Z", "never"),
        ] {
            assert_eq!(next(schedule, after), expected, "{schedule} after {after}");
        }
    }

    #[test]
    fn invalid_schedules_have_the_errors_of_the_go_parser() {
        for (schedule, expected) in [
            ("", "empty spec string"),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x/y * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every often", "failed to parse duration @every often: time: invalid duration \"often\""),
            ("TZ=UTC", "expected exactly 5 fields, found 0: []"),
        ] {
            assert_eq!(Schedule::parse(schedule).unwrap_err().to_string(), expected, "{schedule}");
        }
    }
}
