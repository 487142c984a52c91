//! Writes that undo the change of another client, which the program has not seen.

use serde_json::Value;

use crate::record::{Actor, CONFLICT, Change, ChangeVerb, ObjectName, Record};

/// Returns the objects whose injected change was undone by the program's write just after it. The program sent that write
/// before the change, so it cannot have read it. A write with a resource version fails instead.
pub(super) fn overwrites(record: &Record) -> Vec<ObjectName> {
    let is_injected = |change: &Change| {
        change.actor == Actor::Other && !has_mark(change.before.as_deref()) && has_mark(change.after.as_deref())
    };
    let mut objects = Vec::new();
    for (index, injected) in record.changes.iter().enumerate().filter(|(_, change)| is_injected(change)) {
        let mut later = record.changes[index + 1..].iter();
        let Some(next) = later.find(|later| later.object == injected.object) else { continue };
        let is_undone = next.verb == ChangeVerb::Update && !has_mark(next.after.as_deref());
        let is_unseen = record
            .requests
            .iter()
            .any(|request| request.revision == Some(next.revision) && request.started <= injected.at);
        if is_undone && is_unseen {
            objects.push(injected.object.clone());
        }
    }
    objects
}

fn has_mark(state: Option<&Value>) -> bool {
    state.is_some_and(|state| state["metadata"]["annotations"][CONFLICT].is_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exploration::simulated::Builder;

    /// Returns the overwritten objects of a run in which the program writes after the conflict, in a request that it sent
    /// before or after the conflict.
    fn found(annotations: &Value, sends_before: bool) -> usize {
        let mut run = Builder::new();
        run.program("create configmaps/a/b", Some(json!({"data": {"x": "1"}})));
        let before = run.record.changes[0].at;
        let marked = json!({"metadata": {"annotations": {CONFLICT: "true"}}, "data": {"x": "1"}});
        run.other("update configmaps/a/b", Some(marked));
        let state = json!({"metadata": {"annotations": annotations}, "data": {"x": "2"}});
        run.program("update configmaps/a/b", Some(state));
        let last = run.record.changes.last().unwrap();
        let (revision, at) = (last.revision, last.at);
        run.request("PUT", "/api/v1/namespaces/a/configmaps/b", Some(200));
        let request = run.record.requests.last_mut().unwrap();
        request.revision = Some(revision);
        request.started = if sends_before { before } else { at };
        overwrites(&run.record).len()
    }

    #[test]
    fn unseen_change_must_survive_the_next_write() {
        assert_eq!(found(&json!({}), true), 1);
        assert_eq!(found(&json!({CONFLICT: "true"}), true), 0);
        assert_eq!(found(&json!({}), false), 0, "the program has seen the change");
    }
}
