//! The violations of invariants, computed from the recorded changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{Invariant, invariant::When};
use crate::{
    error::{Error, Result},
    record::{Change, ObjectName, StepRecord, Violation, undo},
};

/// Objects by name.
type Objects = BTreeMap<ObjectName, Arc<Value>>;

/// Returns the violations of a run, at most one of each invariant by each object.
///
/// `end` are the objects at the end. Events and leases are not recorded as changes, so they only count at the end.
pub(super) fn violations(
    invariants: &[Invariant],
    steps: &[StepRecord],
    changes: &[Change],
    end: &Objects,
) -> Vec<Violation> {
    if invariants.is_empty() {
        return Vec::new();
    }
    let mut search = Search { invariants, seen: BTreeSet::new(), violations: Vec::new() };
    let mut objects = end.clone();
    undo(&mut objects, changes);
    let mut changes = changes.iter().peekable();
    for (number, step) in steps.iter().enumerate() {
        while let Some(change) = changes.next_if(|change| change.step <= number) {
            match &change.after {
                Some(after) => objects.insert(change.object.clone(), Arc::clone(after)),
                None => objects.remove(&change.object),
            };
            search.check(When::Always, &objects, Some(&change.object), number, change.at);
        }
        if let Some(settled) = step.settled {
            search.check(When::Settled, &objects, None, number, settled);
        }
    }
    search.violations
}

/// Checks that the resources of the invariants are known. An invariant of an unknown resource would always hold.
pub(super) fn check_resources(invariants: &[Invariant], known: &BTreeSet<&str>) -> Result<()> {
    match invariants.iter().find(|invariant| !known.contains(invariant.resource())) {
        None => Ok(()),
        Some(invariant) => Err(Error::CleanRun(format!(
            "invariant {:?}: the cluster has no resource {:?}",
            invariant.message(),
            invariant.resource()
        ))),
    }
}

struct Search<'i> {
    invariants: &'i [Invariant],
    /// The violations so far, by the index of the invariant.
    seen: BTreeSet<(usize, Option<ObjectName>)>,
    violations: Vec<Violation>,
}

impl Search<'_> {
    /// Checks the invariants for a time, about one object or about all.
    fn check(&mut self, when: When, objects: &Objects, changed: Option<&ObjectName>, step: usize, at: Duration) {
        let invariants = self.invariants;
        for (index, invariant) in invariants.iter().enumerate().filter(|(_, invariant)| invariant.when() == when) {
            if changed.is_some_and(|object| !invariant.selects(object)) {
                continue;
            }
            let mut selected = objects.iter().filter(|(name, _)| invariant.selects(name));
            let checked: Vec<_> = if invariant.is_of_each() {
                let relevant = selected.filter(|(name, _)| changed.is_none_or(|changed| changed == *name));
                relevant.map(|(name, object)| (Some(name.clone()), invariant.holds(object))).collect()
            } else {
                let all = selected.by_ref().map(|(_, object)| Value::clone(object)).collect();
                vec![(None, invariant.holds_together(all))]
            };
            for (object, holds) in checked {
                let error = match holds {
                    Ok(true) => continue,
                    Ok(false) => None,
                    Err(error) => Some(error),
                };
                if self.seen.insert((index, object.clone())) {
                    let invariant = invariant.message().to_owned();
                    self.violations.push(Violation { at, step, invariant, object, error });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::Actor;

    fn step(settled: bool) -> StepRecord {
        let settled = settled.then_some(Duration::from_secs(9));
        let name = "s".to_owned();
        StepRecord { name, started: Duration::ZERO, starting_until: Duration::ZERO, settled, revision: 1 }
    }

    fn name(text: &str) -> ObjectName {
        text.parse().expect("a valid name")
    }

    /// Returns a change of the field `n` of an object.
    fn change(step: usize, object: &str, before: Option<u8>, after: Option<u8>) -> Change {
        let verb = match (before, after) {
            (None, _) => crate::record::ChangeVerb::Create,
            (_, None) => crate::record::ChangeVerb::Delete,
            _ => crate::record::ChangeVerb::Update,
        };
        let text = format!("{step}:{}:{object}", verb.as_str());
        Change {
            revision: 1,
            at: Duration::from_secs(u64::try_from(step).expect("a small number")),
            step,
            verb,
            object: name(object),
            uid: String::new(),
            actor: Actor::Other,
            point: format!("crash@{text}").parse::<crate::Plan>().expect("a valid plan").faults()[0].point.clone(),
            before: before.map(|n| Arc::new(json!({"n": n}))),
            after: after.map(|n| Arc::new(json!({"n": n}))),
        }
    }

    fn found(invariants: &str, steps: &[StepRecord], changes: &[Change], end: &[(&str, u8)]) -> Vec<String> {
        let invariants = Invariant::read(invariants).expect("valid invariants");
        let end = end.iter().map(|(object, n)| (name(object), Arc::new(json!({"n": n})))).collect();
        let line = |violation: Violation| {
            let Violation { at, step, invariant, object, error } = violation;
            let object = object.map_or("all".to_owned(), |object| object.to_string());
            format!("{step} {}s {invariant}: {object}{}", at.as_secs(), error.unwrap_or_default())
        };
        violations(&invariants, steps, changes, &end).into_iter().map(line).collect()
    }

    #[test]
    fn invariants_hold_after_each_change_or_when_settled() {
        let changes = [
            change(0, "pods/a/x", None, Some(1)),
            change(0, "pods/a/x", Some(1), Some(2)),
            change(0, "pods/a/x", Some(2), Some(1)),
            change(1, "pods/a/x", Some(1), Some(2)),
            change(2, "pods/a/x", Some(2), None),
        ];
        let steps = [step(true), step(true), step(true)];
        let invariant = "[{message: small, resource: pods, expression: object.n < 2}]";
        assert_eq!(found(invariant, &steps, &changes, &[]), ["1 9s small: pods/a/x"]);
        let always = invariant.replace("< 2", "< 2, when: always");
        assert_eq!(found(&always, &steps, &changes, &[]), ["0 0s small: pods/a/x"], "once per object");
        let unsettled = [step(true), step(false), step(true)];
        assert_eq!(found(invariant, &unsettled, &changes, &[]), [""; 0]);
    }

    #[test]
    fn objects_before_the_first_change_count() {
        let changes = [change(1, "pods/a/x", Some(3), Some(0)), change(1, "pods/a/y", Some(3), None)];
        let steps = [step(true), step(true)];
        let invariant = "[{message: two, resource: pods, expression: 'objects.size() == 3', when: settled}]";
        assert_eq!(found(invariant, &steps, &changes, &[("pods/a/x", 0), ("pods/a/z", 0)]), ["1 9s two: all"]);
        let error = "[{message: m, resource: pods, expression: object.m == 1}]";
        assert_eq!(found(error, &steps[..1], &[], &[("pods/a/z", 0)]), ["0 9s m: pods/a/zno such key: m"]);
    }
}
