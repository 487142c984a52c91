//! Comparison of a run with the run without faults.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    normal::{Normal, normal},
    run::Run,
    scenario::Scenario,
    state::{How, State},
};

/// The maximum number of reported differences per object, and per run.
const MOST_OF_ONE: usize = 4;
const MOST: usize = 12;
/// The maximum number of printed characters of a value, and of those before the first difference.
const LONGEST: usize = 120;
const CONTEXT: usize = 20;

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

/// Returns the final state of a run. For resources that only the other run has listed, that run's initial state is
/// used.
fn whole(scenario: &Scenario, run: &Run, other: &Run) -> Normal {
    let mut state: State = run.end.clone();
    for (resource, objects) in &other.baseline.0 {
        state.0.entry(resource.clone()).or_insert_with(|| objects.clone());
    }
    normal(scenario, &state)
}

/// Appends the paths at which two values differ.
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
        (Value::Array(a), Value::Array(b)) => {
            let lacks = without(a, b).into_iter().map(|element| format!("{path} lacks {}", brief(element, 0)));
            differences.extend(lacks);
            let more = without(b, a).into_iter().map(|element| format!("{path} has {} as well", brief(element, 0)));
            differences.extend(more);
        }
        (wanted, found) if wanted != found => {
            let (a, b) = (wanted.to_string(), found.to_string());
            let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
            differences.push(format!("{path} is {}, not {}", brief(found, same), brief(wanted, same)));
        }
        _ => {}
    }
}

/// Returns the elements that the other list lacks or has less often.
fn without<'v>(list: &'v [Value], other: &[Value]) -> Vec<&'v Value> {
    let mut other: Vec<_> = other.iter().collect();
    let is_missing = |element: &&Value| match other.iter().position(|there| there == element) {
        Some(at) => {
            other.swap_remove(at);
            false
        }
        None => true,
    };
    list.iter().filter(is_missing).collect()
}

/// Returns a value as text. A long value is cut to the part around the first difference, which comes after `same`
/// characters.
fn brief(value: &Value, same: usize) -> String {
    let text = match value {
        Value::Null => return "missing".to_owned(),
        value => value.to_string(),
    };
    let length = text.chars().count();
    if length <= LONGEST {
        return text;
    }
    let start = same.saturating_sub(CONTEXT).min(length - LONGEST);
    let part: String = text.chars().skip(start).take(LONGEST).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if start + LONGEST < length { "…" } else { "" };
    format!("{before}{part}{after}")
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
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_reported_with_their_path() {
        let mut told = Vec::new();
        differ(String::new(), &json!({"a": [1, {"b": 2}], "c": 3}), &json!({"a": [1, {"b": "x"}]}), &mut told);
        assert_eq!(told, ["/a/1/b is \"x\", not 2", "/c is missing, not 3"]);
    }

    #[test]
    fn differing_elements_and_parts_are_printed_alone() {
        let mut told = Vec::new();
        let long = |end: &str| format!("{}{end}", "x".repeat(500));
        let element = |name: &str| json!({"name": name, "ready": true});
        let wanted = json!({"list": [element("a"), element("b"), element("b")], "text": long("end")});
        let found = json!({"list": [element("b"), element("c")], "text": long("END")});
        differ(String::new(), &wanted, &found, &mut told);
        assert_eq!(
            told[..3],
            [
                r#"/list lacks {"name":"a","ready":true}"#,
                r#"/list lacks {"name":"b","ready":true}"#,
                r#"/list has {"name":"c","ready":true} as well"#,
            ]
        );
        assert!(told[3].contains(r#"END", not …"#) && told[3].ends_with(r#"end""#), "{}", told[3]);
    }

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
