//! The event log of a run: steps, processes, log lines, requests, changes and faults in the order of time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_api::difference::differences;

use crate::{
    findings::Finding,
    plan::ChangeVerb,
    record::{Actor, Change, Outcome, ProcessEnd, Record, Request},
};

/// The maximum number of entries. Of a longer log, the entries in the middle are left out, except faults and steps.
const MOST: usize = 1_000;
/// The maximum number of printed fields of a change, and of characters of a line.
const FIELDS: usize = 4;
const LONGEST: usize = 400;

/// A line of the event log of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The time since the start of the run, in seconds.
    pub at: f64,
    /// The kind of entry.
    pub kind: EntryKind,
    /// The originator: a process of the program, or empty.
    pub actor: String,
    /// The description.
    pub text: String,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum EntryKind {
    /// A step began, or the cluster has settled after it.
    Step,
    /// A process of the program started or ended.
    Process,
    /// A line that the program printed.
    Log,
    /// A request of the program.
    Request,
    /// A change of an object.
    Change,
    /// A fault struck, or a mutation was made or reverted.
    Fault,
    /// A finding.
    Finding,
}

impl EntryKind {
    /// Returns the kind as a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Process => "process",
            Self::Log => "log",
            Self::Request => "request",
            Self::Change => "change",
            Self::Fault => "fault",
            Self::Finding => "finding",
        }
    }
}

/// Returns the event log of a run, which ends with its findings. The log of a mutation is followed by that of a run in which
/// the object is new.
pub(crate) fn timeline(record: &Record, findings: &[Finding]) -> Vec<Entry> {
    let mut entries = shortened(entries(record));
    let at = record.took.as_secs_f64();
    if record.outcome == Outcome::Interrupted {
        let text = "the run was interrupted".to_owned();
        entries.push(Entry { at, kind: EntryKind::Step, actor: String::new(), text });
    }
    if let Some(fresh) = record.fresh.first() {
        let text = "another run, in which the object is new".to_owned();
        entries.push(Entry { at: 0.0, kind: EntryKind::Step, actor: String::new(), text });
        entries.extend(shortened(self::entries(fresh)));
    }
    for finding in findings {
        entries.push(Entry { at, kind: EntryKind::Finding, actor: String::new(), text: finding.to_string() });
    }
    entries
}

/// Returns the entries of one run in the order of time.
fn entries(record: &Record) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut add = |at: Duration, kind, actor: String, text: String| {
        entries.push((at, Entry { at: at.as_secs_f64(), kind, actor, text: cut(text) }));
    };
    for (number, step) in record.steps.iter().enumerate() {
        add(step.started, EntryKind::Step, String::new(), format!("step {number}: {}", step.name));
        if let Some(settled) = step.settled {
            add(settled, EntryKind::Step, String::new(), format!("settled after step {number}"));
        }
    }
    for request in record.requests.iter().filter(|request| is_of_interest(request)) {
        let (actor, text) = (format!("process {}", request.process), described(request));
        add(request.started, EntryKind::Request, actor, text);
    }
    for change in &record.changes {
        let actor = match change.actor {
            Actor::Program(number) => format!("process {number}"),
            Actor::Other => "cluster".to_owned(),
        };
        add(change.at, EntryKind::Change, actor, changed(change));
    }
    for injection in &record.injections {
        add(injection.at, EntryKind::Fault, String::new(), injection.description.clone());
    }
    for process in &record.processes {
        let actor = || format!("process {}", process.number);
        add(process.started, EntryKind::Process, actor(), "started".to_owned());
        if process.dropped_lines > 0 {
            let text = format!("… {} earlier lines", process.dropped_lines);
            let at = process.log.first().map_or(process.started, |line| line.at);
            add(at, EntryKind::Log, actor(), text);
        }
        for line in &process.log {
            add(line.at, EntryKind::Log, actor(), line.text.clone());
        }
        match &process.ended {
            Some((at, ProcessEnd::Killed)) => add(*at, EntryKind::Process, actor(), "killed by the fault".to_owned()),
            Some((at, ProcessEnd::Stopped)) => add(*at, EntryKind::Process, actor(), "stopped".to_owned()),
            Some((at, ProcessEnd::Exited(status))) => add(*at, EntryKind::Process, actor(), format!("ended: {status}")),
            None => {}
        }
    }
    entries.sort_by_key(|(at, _)| *at);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Returns `true` for requests that write, start a list or a watch, or fail. Reads of single objects are many.
fn is_of_interest(request: &Request) -> bool {
    let is_read = request.method == "GET" || request.method == "HEAD";
    let is_failure = request.status.is_none_or(|status| status >= 400 && status != 404);
    !is_read || is_failure || request.target.contains("watch=") || request.target.contains("resourceVersion=")
}

fn described(request: &Request) -> String {
    let Request { method, target, status, answered, revision, .. } = request;
    let result = match (status, answered) {
        (Some(status), Some(_)) => format!("→ {status}"),
        (Some(status), None) => format!("→ {status}, not delivered"),
        (None, Some(_)) => "→ refused by the fault".to_owned(),
        (None, None) => "→ no answer".to_owned(),
    };
    let revision = revision.map(|revision| format!(", revision {revision}")).unwrap_or_default();
    format!("{method} {target} {result}{revision}")
}

fn changed(change: &Change) -> String {
    let Change { verb, object, revision, before, after, .. } = change;
    let text = format!("{} {object} at revision {revision}", verb.as_str());
    let (ChangeVerb::Update, Some(before), Some(after)) = (verb, before, after) else { return text };
    let is_noise = |path: &str| {
        path.starts_with("metadata/managedFields")
            || path == "metadata/resourceVersion"
            || path == "metadata/generation"
    };
    let differences = differences(before, after);
    let fields: Vec<_> = differences.iter().filter(|difference| !is_noise(&difference.path)).collect();
    let more = fields.len().saturating_sub(FIELDS);
    let fields: Vec<_> =
        fields.iter().take(FIELDS).map(|one| format!("{}: {} → {}", one.path, one.expected, one.found)).collect();
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{text}: {}{more}", fields.join(", "))
}

fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Leaves out entries that are far from the faults if there are too many.
fn shortened(entries: Vec<Entry>) -> Vec<Entry> {
    if entries.len() <= MOST {
        return entries;
    }
    let fault = entries.iter().position(|entry| entry.kind == EntryKind::Fault).unwrap_or(entries.len());
    let start = fault.saturating_sub(MOST / 2).min(entries.len() - MOST);
    let mut shortened = Vec::new();
    let mut left_out = 0;
    for (index, entry) in entries.into_iter().enumerate() {
        let is_near = (start..start + MOST).contains(&index);
        if !is_near && !matches!(entry.kind, EntryKind::Step | EntryKind::Fault) {
            left_out += 1;
            continue;
        }
        if left_out > 0 {
            let text = format!("… {left_out} entries are left out");
            shortened.push(Entry { at: entry.at, kind: EntryKind::Step, actor: String::new(), text });
            left_out = 0;
        }
        shortened.push(entry);
    }
    shortened
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{exploration::simulated::Builder, record::LogLine};

    fn texts(entries: &[Entry]) -> Vec<String> {
        entries.iter().map(|entry| format!("{} {}: {}", entry.kind.as_str(), entry.actor, entry.text)).collect()
    }

    #[test]
    fn log_lines_are_next_to_requests_changes_and_faults() {
        let mut run = Builder::new();
        run.other("create dbs/default/a", Some(json!({"spec": {"size": 1}, "metadata": {}})));
        run.request("GET", "/api/v1/namespaces/default/pods/a", Some(200));
        run.request("PATCH", "/apis/e/v1/dbs/a", None);
        run.record.requests[1].answered = None;
        run.program("update dbs/default/a", Some(json!({"spec": {"size": 2}, "metadata": {"resourceVersion": "7"}})));
        run.strike("the program is killed");
        let at = run.record.changes[1].at;
        run.record.processes[0].log.push(LogLine { at, text: "x".repeat(1_000) });
        run.record.processes[0].ended = Some((at + Duration::from_secs(1), ProcessEnd::Killed));
        let entries = timeline(&run.record, &[Finding::NotSettled { step: 2 }]);
        let texts = texts(&entries);
        let log = format!("log process 1: {}…", "x".repeat(400));
        let expected = [
            "step : step 1: step 1",
            "change cluster: create dbs/default/a at revision 1",
            "request process 1: PATCH /apis/e/v1/dbs/a → no answer",
            "change process 1: update dbs/default/a at revision 2: spec/size: 1 → 2",
            &log,
            "fault : the program is killed",
            "process process 1: killed by the fault",
        ];
        let start = texts.iter().position(|text| *text == expected[0]).unwrap();
        assert_eq!(texts[start..start + expected.len()], expected);
        assert_eq!(texts.last().unwrap(), "finding : the cluster still changed at the time limit of step 2");
    }

    #[test]
    fn long_logs_are_shortened_around_the_fault() {
        let mut run = Builder::new();
        for line in 0..5_000 {
            let at = Duration::from_secs(10) + Duration::from_millis(line);
            run.record.processes[0].log.push(LogLine { at, text: format!("line {line}") });
        }
        run.strike("boom");
        run.record.injections[0].at = Duration::from_secs(12);
        let texts = texts(&timeline(&run.record, &[]));
        assert!(texts.len() < MOST + 20, "{}", texts.len());
        assert!(texts.contains(&"log process 1: line 1999".to_owned()), "{texts:?}");
        assert!(!texts.contains(&"log process 1: line 10".to_owned()));
        assert!(texts.iter().any(|text| text.contains("entries are left out")));
        assert!(texts.contains(&"step : step 2: step 2".to_owned()), "steps stay");
    }
}
