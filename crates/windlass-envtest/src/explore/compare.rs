//! Comparison of a run with the run without faults.

use std::collections::BTreeSet;

use windlass_api::difference;

use super::{
    normal::{Normal, normal},
    run::Run,
    scenario::Scenario,
    state::{How, State},
};

/// The maximum number of reported differences per object, and per run.
const MOST_OF_ONE: usize = 4;
const MOST: usize = 12;

/// Returns the findings of a run, and its differences from the reference.
pub(crate) fn compare(scenario: &Scenario, reference: &Run, run: &Run) -> Vec<String> {
    let mut findings = run.findings.clone();
    if !run.is_complete {
        return findings;
    }
    let mut differences = ends(scenario, reference, run);
    let more = differences.len().saturating_sub(MOST);
    differences.truncate(MOST);
    findings.append(&mut differences);
    if more > 0 {
        findings.push(format!("… and {more} more differences"));
    }
    findings.extend(churn(scenario, reference, run));
    findings
}

fn ends(scenario: &Scenario, reference: &Run, run: &Run) -> Vec<String> {
    let (wanted, found) = (whole(scenario, reference, run), whole(scenario, run, reference));
    let keys: BTreeSet<_> = wanted.keys().chain(found.keys()).collect();
    let mut differences = Vec::new();
    for key in keys {
        let (resource, name) = key;
        let empty = Vec::new();
        let (wanted, found) = (wanted.get(key).unwrap_or(&empty), found.get(key).unwrap_or(&empty));
        match (wanted.len(), found.len()) {
            (1, 0) => differences.push(format!("{resource} {name} is missing at the end")),
            (0, 1) => differences.push(format!("{resource} {name} is left over at the end")),
            (wanted, found) if wanted != found => {
                differences.push(format!("there are {found} of {resource} {name} at the end, not {wanted}"));
            }
            _ => {
                for (wanted, found) in wanted.iter().zip(found) {
                    let printed = difference::differences(wanted, found).into_iter().take(MOST_OF_ONE);
                    differences.extend(printed.map(|difference| format!("{resource} {name}: {difference}")));
                }
            }
        }
    }
    differences
}

/// Returns the final state of a run. For resources that only the other run has listed, that run's initial state is
/// used.
fn whole(scenario: &Scenario, run: &Run, other: &Run) -> Normal {
    let mut state: State = run.end.clone();
    for (resource, objects) in &other.baseline.0 {
        state.0.entry(resource.clone()).or_insert_with(|| objects.clone());
    }
    normal(scenario, &state)
}

/// Returns the kinds of which more objects were created or removed than in the reference.
fn churn(scenario: &Scenario, reference: &Run, run: &Run) -> Vec<String> {
    let mut findings = Vec::new();
    for how in [How::Created, How::Removed] {
        for ((resource, _), count) in run.counts.iter().filter(|((_, of), _)| *of == how) {
            if scenario.ignored.contains(resource) || scenario.churning.contains(resource) {
                continue;
            }
            let usual = reference.counts.get(&(resource.clone(), how)).copied().unwrap_or_default();
            if *count > usual {
                let verb = if how == How::Created { "created" } else { "removed" };
                findings.push(format!("{count} of {resource} were {verb}, not {usual}"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_and_deleted_objects_are_counted() {
        let run = |created: usize| Run {
            counts: [(("pods".to_owned(), How::Created), created)].into(),
            is_complete: true,
            ..Run::default()
        };
        let scenario = Scenario::new("pods");
        assert_eq!(compare(&scenario, &run(3), &run(4)), ["4 of pods were created, not 3"]);
        assert_eq!(compare(&scenario, &run(3), &run(2)), Vec::<String>::new());
    }
}
