//! The differences of two values, by path.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum number of printed characters of a value, and of those before the first difference.
const LONGEST: usize = 120;
const CONTEXT: usize = 20;

/// A difference of two values at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The path, such as `status/conditions/0/reason`.
    pub path: String,
    /// The value in the runs without faults. A long value is cut.
    pub expected: String,
    /// The value in this run. A long value is cut.
    pub found: String,
}

/// Returns the paths at which two values differ.
pub(crate) fn differences(expected: &Value, found: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    collect("", expected, found, &mut differences);
    differences
}

/// Returns the path with `*` for list indexes.
pub(crate) fn starred_path(path: &str) -> String {
    let star = |part| if is_index(part) { "*" } else { part };
    path.split('/').map(star).collect::<Vec<_>>().join("/")
}

fn is_index(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn collect(path: &str, expected: &Value, found: &Value, differences: &mut Vec<Difference>) {
    let below = |part: &str| if path.is_empty() { part.to_owned() } else { format!("{path}/{part}") };
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                let (a, b) = (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
                collect(&below(&name.replace('/', "~1")), a, b, differences);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                collect(&below(&index.to_string()), a, b, differences);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let (missing, extra) = (without(a, b), without(b, a));
            let difference = |expected: String, found: String| Difference { path: path.to_owned(), expected, found };
            differences.extend(missing.into_iter().map(|value| difference(brief(value, 0), "missing".to_owned())));
            differences.extend(extra.into_iter().map(|value| difference("missing".to_owned(), brief(value, 0))));
        }
        (a, b) if a != b => {
            let (expected, found) = (a.to_string(), b.to_string());
            let same = expected.chars().zip(found.chars()).take_while(|(a, b)| a == b).count();
            differences.push(Difference { path: path.to_owned(), expected: brief(a, same), found: brief(b, same) });
        }
        _ => {}
    }
}

/// Returns the elements that the other list lacks, or has less often.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(expected: &Value, found: &Value) -> Vec<String> {
        let differences = differences(expected, found);
        differences.into_iter().map(|one| format!("{}: {} → {}", one.path, one.expected, one.found)).collect()
    }

    #[test]
    fn differences_have_their_path() {
        let differences = text(&json!({"a": [1, {"b/c": 2}], "d": 3}), &json!({"a": [1, {"b/c": "x"}]}));
        assert_eq!(differences, [r#"a/1/b~1c: 2 → "x""#, "d: 3 → missing"]);
        assert_eq!(starred_path("a/1/b~1c"), "a/*/b~1c");
    }

    #[test]
    fn missing_list_elements_are_reported_alone() {
        let element = |name: &str| json!({"name": name});
        let expected = json!({"list": [element("a"), element("b"), element("b")]});
        let differences = text(&expected, &json!({"list": [element("b"), element("c")]}));
        let expected =
            [r#"list: {"name":"a"} → missing"#, r#"list: {"name":"b"} → missing"#, r#"list: missing → {"name":"c"}"#];
        assert_eq!(differences, expected);
    }

    #[test]
    fn long_values_are_cut_around_the_difference() {
        let long = |end: &str| json!(format!("{}{end}", "x".repeat(500)));
        let differences = text(&long("end"), &long("END"));
        assert!(differences[0].starts_with(": …xxx") && differences[0].contains(r#"end" → …x"#), "{}", differences[0]);
        assert!(differences[0].len() < 300, "{}", differences[0]);
    }
}
