//! The schedule of a cron job, in its time zone. Plain values, no I/O.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};
use thiserror::Error;
use windlass_api::ScheduleError;

/// A parsed schedule.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    zone: TimeZone,
    times: windlass_api::Schedule,
}

/// The reason why a schedule cannot be parsed. The messages equal those in kube-controller-manager's events.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Unreadable {
    #[error("provided bad location {0}: unknown time zone {0}")]
    Zone(String),
    #[error(transparent)]
    Times(#[from] ScheduleError),
}

impl Schedule {
    /// Parses a schedule. `zone` is its time zone, unless the text names one.
    pub(super) fn parse(text: &str, zone: Option<&str>) -> Result<Self, Unreadable> {
        let named = windlass_api::Schedule::zone(text).or(zone).unwrap_or_default();
        let zone = time_zone(named).ok_or_else(|| Unreadable::Zone(named.to_owned()))?;
        Ok(Self { zone, times: windlass_api::Schedule::parse(text)? })
    }

    /// Returns the first time after `after`, or `None` if there is none within years.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.times.next(after, &self.zone)
    }
}

/// Returns the time zone of a name. The empty name is the server's zone.
pub(super) fn time_zone(name: &str) -> Option<TimeZone> {
    if matches!(name, "" | "UTC") { Some(TimeZone::UTC) } else { TimeZone::get(name).ok() }
}

/// Formats a time for the annotation, in the zone of the cron job.
pub(super) fn write(time: Timestamp, zone: Option<&str>) -> String {
    let shown = time.to_zoned(time_zone(zone.unwrap_or_default()).unwrap_or(TimeZone::UTC));
    let date = shown.strftime("%Y-%m-%dT%H:%M:%S");
    if shown.offset().is_zero() { format!("{date}Z") } else { format!("{date}{}", shown.strftime("%:z")) }
}

/// Returns the duration until a time, rounded up a little because clocks differ.
pub(super) fn until(time: Timestamp, now: Timestamp) -> Duration {
    const LATE: Duration = Duration::from_millis(100);
    Duration::try_from(time.duration_since(now)).unwrap_or_default() + LATE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, zone: &str, after: &str) -> String {
        let schedule = Schedule::parse(schedule, Some(zone)).unwrap();
        schedule.next(after.parse().unwrap()).map_or("never".to_owned(), |time| time.to_string())
    }

    #[test]
    fn clocks_skip_hours_and_repeat_them() {
        let zone = "Europe/Berlin";
        assert_eq!(next("30 2 * * *", zone, "2026-03-28T12:00:00Z"), "2026-03-30T00:30:00Z");
        assert_eq!(next("30 2 * * *", zone, "2026-10-24T12:00:00Z"), "2026-10-25T00:30:00Z");
        assert_eq!(next("30 2 * * *", zone, "2026-10-25T00:30:00Z"), "2026-10-25T01:30:00Z");
        assert_eq!(write("2026-07-01T10:00:00Z".parse().unwrap(), Some(zone)), "2026-07-01T12:00:00+02:00");
        assert_eq!(write("2026-07-01T10:00:00Z".parse().unwrap(), None), "2026-07-01T10:00:00Z");
    }

    #[test]
    fn a_schedule_may_name_its_zone_and_it_must_be_one() {
        assert_eq!(next("TZ=Asia/Tokyo 0 9 * * *", "", "2026-01-01T00:00:00Z"), "2026-01-02T00:00:00Z");
        let error = |text| Schedule::parse(text, None).unwrap_err().to_string();
        assert_eq!(error("TZ=Mars/Base 0 * * * *"), "provided bad location Mars/Base: unknown time zone Mars/Base");
        assert_eq!(error("0 * * *"), "expected exactly 5 fields, found 4: [0 * * *]");
    }
}
