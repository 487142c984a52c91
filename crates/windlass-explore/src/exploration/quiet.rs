//! The time without changes after which a run has settled.

use std::time::Duration;

use crate::{history::Repeats, record::Record};

/// The shortest quiet time of the first runs without faults. It is long, because a pause that exceeds it is taken for the
/// end of the step.
pub(super) const FIRST: Duration = Duration::from_secs(5);
/// The time without changes after which the last step of a replay ends, and the one with the fault. Programs often retry
/// after a minute, and a difference that a retry removes is no finding.
pub(super) const LINGER: Duration = Duration::from_secs(75);
const SHORTEST: Duration = Duration::from_millis(1500);
const LONGEST: Duration = Duration::from_secs(15);

/// Returns twice the longest pause between changes of a step, but at least 1.5 and at most 15 seconds. Repetitions do not
/// count, because the cluster settles in spite of them. Pauses while the program starts do not count, because runs wait
/// until it has started.
pub(super) fn learned<'r>(clean: impl IntoIterator<Item = &'r Record>) -> Duration {
    let pauses = clean.into_iter().flat_map(|record| {
        record.steps.iter().enumerate().filter_map(|(number, step)| {
            let mut repeats = Repeats::default();
            let changes = record.changes.iter().filter(|change| change.step == number);
            let changes = changes.filter(move |change| !repeats.add(change)).map(|change| change.at);
            let mut before = step.starting_until;
            changes
                .map(|at| {
                    let pause = at.saturating_sub(before);
                    before = before.max(at);
                    pause
                })
                .max()
        })
    });
    (pauses.max().unwrap_or_default() * 2).clamp(SHORTEST, LONGEST)
}

/// Returns the quiet time of replays. A program that retries after a longer pause than the quiet time has a different
/// state only for now.
pub(super) fn patient(learned: Duration) -> Duration {
    (learned * 3).clamp(FIRST, LONGEST).max(learned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exploration::simulated::Builder;

    fn record(pause: Duration) -> Record {
        let mut run = Builder::new();
        run.other("create pods/default/a", Some(json!({}))).other("create pods/default/b", Some(json!({})));
        run.step(2).other("create pods/default/c", Some(json!({})));
        let mut record = run.record;
        record.changes[1].at = record.changes[0].at + pause;
        record
    }

    #[test]
    fn quiet_time_is_twice_the_longest_pause_of_a_step() {
        let seconds = Duration::from_secs;
        assert_eq!(learned(&[record(seconds(0)), record(seconds(3))]), seconds(6));
        // The pause of ten seconds between the steps does not count.
        assert_eq!(learned(&[record(Duration::from_millis(1))]), SHORTEST);
        assert_eq!(learned(&[record(seconds(9))]), LONGEST);
    }

    #[test]
    fn pauses_while_the_program_starts_do_not_count() {
        let seconds = Duration::from_secs;
        let starting = |until: Duration| {
            let mut record = record(seconds(6));
            record.steps[1].starting_until = until;
            learned(&[record])
        };
        let second = record(seconds(6)).changes[1].at;
        assert_eq!(starting(second), SHORTEST);
        assert_eq!(starting(second.saturating_sub(seconds(2))), seconds(4));
        assert_eq!(starting(second + seconds(2)), SHORTEST);
    }

    #[test]
    fn pauses_before_repeated_updates_do_not_count() {
        let pause = |updates: u64| {
            let mut run = Builder::new();
            run.other("create secrets/default/a", Some(json!({"data": 0})));
            let at = run.record.changes[0].at;
            for number in 1..=updates {
                run.program("update secrets/default/a", Some(json!({"data": number})));
            }
            run.record.changes.iter_mut().for_each(|change| change.at = at);
            run.record.changes.last_mut().unwrap().at = at + Duration::from_secs(4);
            learned(&[run.record])
        };
        assert_eq!(pause(6), Duration::from_secs(8));
        assert_eq!(pause(7), SHORTEST);
    }
}
