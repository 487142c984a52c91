//! The check of the clients' operations against the history of etcd: what was acknowledged was executed once, what was
//! rejected was not, and the rest at most once.

use std::collections::BTreeMap;

use crate::{
    Result,
    counter::{self, COUNTER, Increments},
    history::{Change, Kind},
    operation::{Operation, Outcome, Request},
    workload,
};

/// Checks the operations of a round, which began after a revision. The history must be complete up to their end.
pub(crate) fn check(operations: &[Operation], start: u64, history: &BTreeMap<u64, Change>) -> Vec<String> {
    let mut written: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (revision, change) in history.range(start + 1..) {
        if let Some(value) = &change.value {
            written.entry(value).or_default().push(*revision);
        }
    }
    let mut violations = Vec::new();
    for operation in operations {
        if let Err(error) = check_one(operation, history, &written) {
            violations.push(format!("{error}: {operation:?}"));
        }
    }
    violations
}

fn check_one(operation: &Operation, history: &BTreeMap<u64, Change>, written: &BTreeMap<&str, Vec<u64>>) -> Result {
    if let Outcome::Wrong(message) = &operation.outcome {
        return Err(format!("unexpected response {message:?}").into());
    }
    if let (Request::Delete(expected), Outcome::Deleted) = (&operation.request, &operation.outcome) {
        let mut later = history.range(expected.version + 1..).filter(|(_, change)| change.name == operation.register);
        return match later.next() {
            Some((_, change)) if change.kind == Kind::Deleted => Ok(()),
            next => Err(format!("the deletion was acknowledged, but the next change is {next:?}").into()),
        };
    }
    let Some(value) = operation.request.written() else { return Ok(()) };
    let revisions = written.get(value.as_str()).map(Vec::as_slice).unwrap_or_default();
    let is_expected = match (&operation.outcome, revisions) {
        (Outcome::Found(object), [revision]) => *revision == object.version,
        (Outcome::Unknown(_), revisions) => revisions.len() <= 1,
        (Outcome::Found(_) | Outcome::Deleted | Outcome::Wrong(_), _) => false,
        (Outcome::Exists | Outcome::Conflict | Outcome::Missing | Outcome::Rejected, revisions) => revisions.is_empty(),
    };
    if is_expected { Ok(()) } else { Err(format!("the write was executed at {revisions:?}").into()) }
}

/// Checks the whole history of the registers: no value was written twice. Unlike [`check`], this includes operations that
/// were executed after their round.
pub(crate) fn check_once(history: &BTreeMap<u64, Change>) -> Result {
    let mut written = BTreeMap::new();
    for (revision, change) in history.iter().filter(|(_, change)| workload::is_register(&change.name)) {
        let Some(value) = &change.value else { continue };
        if let Some(earlier) = written.insert(value, revision) {
            return Err(format!("{value:?} was written to {} at {earlier} and {revision}", change.name).into());
        }
    }
    Ok(())
}

/// Checks the whole history of the counter, after the last increment.
pub(crate) fn check_counter(increments: Increments, history: &BTreeMap<u64, Change>) -> Result<u64> {
    let mut last = None;
    for (revision, change) in history.iter().filter(|(_, change)| change.name == COUNTER) {
        let value = change.value.as_deref().ok_or("the counter was deleted")?;
        let count = counter::count(value)?;
        if count != last.map_or(0, |last| last + 1) {
            return Err(format!("the counter goes from {last:?} to {count} in revision {revision}").into());
        }
        last = Some(count);
    }
    let count = last.ok_or("the counter was not created")?;
    let Increments { acknowledged, unknown, .. } = increments;
    if (acknowledged..=acknowledged + unknown).contains(&count) {
        return Ok(count);
    }
    let most = acknowledged + unknown;
    Err(format!("the counter is {count}, expected {acknowledged} to {most}: an update was lost or applied twice")
        .into())
}
