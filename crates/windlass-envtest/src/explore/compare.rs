//! What is wrong with a run, beside the one in which nothing went wrong.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    normal::{Normal, normal},
    run::Run,
    scenario::Scenario,
    state::{How, State},
};

/// So many differences are told of one object, and of one run.
const MOST_OF_ONE: usize = 4;
const MOST: usize = 12;

/// What the run has otherwise than the reference, and what was found in it.
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
            (1, 0) => differences.push(format!("{resource} {name} is not there in the end")),
            (0, 1) => differences.push(format!("{resource} {name} is left in the end")),
            (wanted, found) if wanted != found => {
                differences.push(format!("in the end there are {found} of {resource} {name}, not {wanted}"));
            }
            _ => {
                for (wanted, found) in wanted.iter().zip(found) {
                    let mut paths = Vec::new();
                    differ(String::new(), wanted, found, &mut paths);
                    let told = paths.into_iter().take(MOST_OF_ONE);
                    differences.extend(told.map(|difference| format!("{resource} {name}: {difference}")));
                }
            }
        }
    }
    differences
}

/// The end of a run; of resources that only the other one has looked at, what was there before.
fn whole(scenario: &Scenario, run: &Run, other: &Run) -> Normal {
    let mut state: State = run.end.clone();
    for (resource, objects) in &other.baseline.0 {
        state.0.entry(resource.clone()).or_insert_with(|| objects.clone());
    }
    normal(scenario, &state)
}

/// Where two values differ.
fn differ(path: String, wanted: &Value, found: &Value, differences: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                let null = Value::Null;
                let (a, b) = (a.get(name).unwrap_or(&null), b.get(name).unwrap_or(&null));
                differ(format!("{path}/{name}"), a, b, differences);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differ(format!("{path}/{index}"), a, b, differences);
            }
        }
        (wanted, found) if wanted != found => {
            differences.push(format!("{path} is {}, not {}", brief(found), brief(wanted)));
        }
        _ => {}
    }
}

fn brief(value: &Value) -> String {
    let text = match value {
        Value::Null => return "missing".to_owned(),
        value => value.to_string(),
    };
    let mut brief: String = text.chars().take(120).collect();
    if brief.len() < text.len() {
        brief.push('…');
    }
    brief
}

/// What came and went that never did in the reference.
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
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_told_by_their_place() {
        let mut told = Vec::new();
        differ(String::new(), &json!({"a": [1, {"b": 2}], "c": 3}), &json!({"a": [1, {"b": "x"}]}), &mut told);
        assert_eq!(told, ["/a/1/b is \"x\", not 2", "/c is missing, not 3"]);
    }

    #[test]
    fn what_came_and_went_is_found_by_counting() {
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
