//! Computes the time of a cron job's next job, and the number of missed times. Plain values, no I/O.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJob;

use super::schedule::Schedule;

/// More missed times than this cause a warning.
const MANY: i64 = 100;

/// The number of scheduled times without a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Missed {
    None,
    Few,
    Many,
}

/// The last scheduled time, as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The start of the count: the last job, or the creation of the cron job.
    since: Timestamp,
    /// The last scheduled time; `None` if none has passed.
    pub(super) at: Option<Timestamp>,
    pub(super) missed: Missed,
}

/// The treatment of scheduled times beyond the starting deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    Counts,
    /// Times beyond the deadline are ignored.
    Forgotten,
}

/// The schedule is valid but never due, such as the 31st of February.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct NeverDue;

/// Returns the last scheduled time.
pub(super) fn last(job: &CronJob, schedule: &Schedule, now: Timestamp, late: Late) -> Result<Due, NeverDue> {
    let before = job.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    let mut since = before.or(job.metadata.creation_timestamp.as_ref()).map_or(now, |time| time.0);
    if let Some(deadline) = deadline(job).filter(|_| late == Late::Forgotten) {
        since = since.max(now.checked_sub(deadline).unwrap_or(since));
    }
    let first = schedule.next(since).ok_or(NeverDue)?;
    let second = schedule.next(first);
    if now < first {
        return Ok(Due { since, at: None, missed: Missed::None });
    }
    let second = second.ok_or(NeverDue)?;
    if now < second {
        return Ok(Due { since, at: Some(first), missed: Missed::None });
    }
    let step = second.duration_since(first).as_secs();
    if step < 1 {
        return Err(NeverDue);
    }
    // Skips ahead by the interval of the first two times; since other intervals may differ, the last few times are
    // counted one by one.
    let missed = now.duration_since(first).as_secs() / step + 1;
    let back = SignedDuration::from_secs((missed - 2).saturating_mul(step));
    let mut next = schedule.next(first.checked_add(back).unwrap_or(first));
    let mut at = None;
    while let Some(time) = next.filter(|time| *time <= now) {
        at = Some(time);
        next = schedule.next(time);
    }
    Ok(Due { since, at, missed: if missed > MANY { Missed::Many } else { Missed::Few } })
}

/// Returns the time of the next reconcile.
pub(super) fn next(job: &CronJob, schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let from = match last(job, schedule, now, Late::Counts) {
        Ok(Due { at: Some(at), .. }) => at,
        Ok(Due { since, missed: Missed::None, .. }) => since,
        _ => now,
    };
    schedule.next(from)
}

/// Returns the starting deadline of a job.
pub(super) fn deadline(job: &CronJob) -> Option<SignedDuration> {
    job.spec.starting_deadline_seconds.map(SignedDuration::from_secs)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn job(last: Value, deadline: Value) -> CronJob {
        serde_json::from_value(json!({
            "metadata": {"creationTimestamp": "2026-01-01T10:00:30Z"},
            "spec": {"schedule": "", "jobTemplate": {}, "startingDeadlineSeconds": deadline},
            "status": {"lastScheduleTime": last},
        }))
        .unwrap()
    }

    #[test]
    fn last_missed_time_is_found_for_any_count() {
        let hourly = Schedule::parse("0 * * * *", None).unwrap();
        let new = job(Value::Null, Value::Null);
        let due = |job: &CronJob, now: &str| {
            let due = last(job, &hourly, at(now), Late::Forgotten).unwrap();
            (due.at, due.missed)
        };
        assert_eq!(due(&new, "2026-01-01T10:59:59Z"), (None, Missed::None));
        assert_eq!(due(&new, "2026-01-01T11:00:00Z"), (Some(at("2026-01-01T11:00:00Z")), Missed::None));
        assert_eq!(due(&new, "2026-01-01T15:30:00Z"), (Some(at("2026-01-01T15:00:00Z")), Missed::Few));
        assert_eq!(due(&new, "2026-02-01T15:30:00Z"), (Some(at("2026-02-01T15:00:00Z")), Missed::Many));
        let strict = job(Value::Null, json!(60));
        assert_eq!(due(&strict, "2026-02-01T15:30:00Z"), (None, Missed::None));
        assert_eq!(next(&strict, &hourly, at("2026-02-01T15:30:00Z")), Some(at("2026-02-01T16:00:00Z")));
        let ran = job(json!("2026-01-01T12:00:00Z"), Value::Null);
        assert_eq!(due(&ran, "2026-01-01T12:30:00Z"), (None, Missed::None));
        assert_eq!(next(&ran, &hourly, at("2026-01-01T12:30:00Z")), Some(at("2026-01-01T13:00:00Z")));
    }

    #[test]
    fn uneven_schedules_and_impossible_ones() {
        let uneven = Schedule::parse("30 6-16/4 * * 1-5", None).unwrap();
        let due = last(&job(Value::Null, Value::Null), &uneven, at("2026-01-05T15:00:00Z"), Late::Counts).unwrap();
        assert_eq!(due.at, Some(at("2026-01-05T14:30:00Z")));
        let never = Schedule::parse("59 23 31 2 *", None).unwrap();
        assert_eq!(
            last(&job(Value::Null, Value::Null), &never, at("2026-01-05T15:00:00Z"), Late::Counts),
            Err(NeverDue)
        );
    }
}
