//! Panics and exits of the program.

use std::time::Duration;

use super::Finding;
use crate::{
    plan::{Effect, Refusal},
    record::{ProcessEnd, Record},
};

/// The maximum length of a message from the log.
const LONGEST: usize = 300;

/// An exit of the program that no fault caused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exit {
    status: String,
    log: String,
}

/// Returns the panics of all processes.
pub(super) fn panics(record: &Record) -> Vec<Finding> {
    let panics = record.processes.iter().flat_map(|process| &process.panics);
    panics.map(|panic| Finding::Panicked { message: panic.message.clone() }).collect()
}

/// Returns the exits that no fault explains.
pub(super) fn exits(record: &Record) -> Vec<Exit> {
    let mut excuses: Vec<Duration> = Vec::new();
    if record.plan.faults().iter().any(|fault| may_end(&fault.effect)) {
        excuses.extend(record.injections.iter().map(|injection| injection.at));
    }
    let mut exits = Vec::new();
    for process in &record.processes {
        let Some((at, ProcessEnd::Exited(status))) = &process.ended else { continue };
        // One exit after each fault is what a supervisor expects of a program that loses its lease.
        if let Some(excuse) = excuses.iter().position(|excuse| excuse <= at) {
            excuses.remove(excuse);
            continue;
        }
        let log = process.log.iter().rev().map(|line| line.text.trim()).find(|line| !line.is_empty());
        let log = log.unwrap_or_default().chars().take(LONGEST).collect();
        exits.push(Exit { status: status.clone(), log });
    }
    exits
}

/// Returns `true` if a program may end because of the effect: the API server fails, or another process is the leader. The
/// other effects happen in each healthy cluster.
fn may_end(effect: &Effect) -> bool {
    match effect {
        Effect::Refused(refusal) => matches!(refusal, Refusal::InternalError | Refusal::GatewayTimeout),
        Effect::Delayed | Effect::Deposed => true,
        Effect::Crash
        | Effect::LostResponse
        | Effect::Stalled
        | Effect::Conflict
        | Effect::Lag
        | Effect::Gap { .. }
        | Effect::Rewind { .. } => false,
    }
}

impl From<Exit> for Finding {
    fn from(Exit { status, log }: Exit) -> Self {
        Self::Exited { status, log }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exploration::simulated::record,
        record::{Injection, LogLine, Process},
    };

    fn process(number: usize, ended: &ProcessEnd, log: &[&str]) -> Process {
        let at = Duration::from_secs(10);
        let log = log.iter().map(|text| LogLine { at, text: (*text).to_owned() }).collect();
        let ended = Some((at, ended.clone()));
        Process { number, started: Duration::ZERO, ended, log, dropped_lines: 0, panics: Vec::new() }
    }

    fn exited() -> ProcessEnd {
        ProcessEnd::Exited("exit status: 1".to_owned())
    }

    #[test]
    fn a_fault_explains_one_later_exit() {
        let mut record = record();
        record.processes = vec![
            process(1, &exited(), &["bye", ""]),
            process(2, &exited(), &["again"]),
            process(3, &ProcessEnd::Killed, &[]),
            process(4, &ProcessEnd::Stopped, &[]),
        ];
        assert_eq!(exits(&record).len(), 2);
        assert_eq!(exits(&record)[0].log, "bye");
        let strike = |seconds| Injection { at: Duration::from_secs(seconds), step: 1, description: String::new() };
        record.injections = vec![strike(5)];
        record.plan = "deposed@1:create:pods/a/b".parse().unwrap();
        assert_eq!(exits(&record).len(), 1);
        record.injections = vec![strike(11)];
        assert_eq!(exits(&record).len(), 2, "the exit was before the fault");
        record.injections = vec![strike(5)];
        for usual in ["lag", "lost-response", "refused(429)"] {
            record.plan = format!("{usual}@1:create:pods/a/b").parse().unwrap();
            assert_eq!(exits(&record).len(), 2, "{usual}");
        }
    }
}
