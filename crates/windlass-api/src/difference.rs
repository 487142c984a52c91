//! The differences of two JSON values, by path. Reports of fault explorations print them.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum number of printed characters of a value, and of those before the first difference.
const LONGEST: usize = 120;
const CONTEXT: usize = 20;

/// The text of a value that does not exist.
const MISSING: &str = "missing";

/// A difference of two values at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The path, such as `status/conditions/0/reason`. A slash in a name is `~1`.
    pub path: String,
    /// The parts that differ.
    pub part: Part,
    /// The expected value as JSON, or `missing`. A long value is cut.
    pub expected: String,
    /// The found value as JSON, or `missing`. A long value is cut.
    pub found: String,
}

/// The parts of two values that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// The values at the path.
    Value,
    /// An element that one of two lists of different lengths lacks, or has less often. The path is that of the list.
    Element,
}

/// Returns the differences of two values.
///
/// Lists of equal length are compared by index. `null` and a missing field are equal.
///
/// ```
/// use windlass_api::difference::differences;
///
/// let differences = differences(&serde_json::json!({"spec": {"replicas": 3}}), &serde_json::json!({"spec": {}}));
/// assert_eq!(differences[0].to_string(), "spec/replicas is missing, not 3");
/// ```
#[must_use]
pub fn differences(expected: &Value, found: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    collect("", expected, found, &mut differences);
    differences
}

/// Returns a path with `*` instead of list indexes.
#[must_use]
pub fn starred_path(path: &str) -> String {
    let star = |part| if is_index(part) { "*" } else { part };
    path.split('/').map(star).collect::<Vec<_>>().join("/")
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, part, expected, found } = self;
        match part {
            Part::Value => write!(f, "{path} is {found}, not {expected}"),
            Part::Element if found == MISSING => write!(f, "{path} lacks {expected}"),
            Part::Element => write!(f, "{path} has {found} as well"),
        }
    }
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
            let difference =
                |expected, found| Difference { path: path.to_owned(), part: Part::Element, expected, found };
            differences.extend(missing.into_iter().map(|value| difference(brief(value, 0), MISSING.to_owned())));
            differences.extend(extra.into_iter().map(|value| difference(MISSING.to_owned(), brief(value, 0))));
        }
        (a, b) if a != b => {
            let (expected, found) = (a.to_string(), b.to_string());
            let same = expected.chars().zip(found.chars()).take_while(|(a, b)| a == b).count();
            let (expected, found) = (brief(a, same), brief(b, same));
            differences.push(Difference { path: path.to_owned(), part: Part::Value, expected, found });
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
        Value::Null => return MISSING.to_owned(),
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
        differences(expected, found).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn differences_have_their_path() {
        let (expected, found) = (json!({"a": [1, {"b/c": 2}], "d": 3}), json!({"a": [1, {"b/c": "x"}]}));
        assert_eq!(text(&expected, &found), [r#"a/1/b~1c is "x", not 2"#, "d is missing, not 3"]);
        assert_eq!(starred_path(&differences(&expected, &found)[0].path), "a/*/b~1c");
    }

    #[test]
    fn missing_list_elements_are_reported_alone() {
        let element = |name: &str| json!({"name": name});
        let expected = json!({"list": [element("a"), element("b"), element("b")]});
        let differences = text(&expected, &json!({"list": [element("b"), element("c")]}));
        let expected = [r#"list lacks {"name":"a"}"#, r#"list lacks {"name":"b"}"#, r#"list has {"name":"c"} as well"#];
        assert_eq!(differences, expected);
    }

    #[test]
    fn long_values_are_cut_around_the_difference() {
        let long = |end: &str| json!(format!("{}{end}", "x".repeat(500)));
        let difference = differences(&long("end"), &long("END")).remove(0);
        assert!(difference.expected.starts_with("…xxx") && difference.expected.ends_with(r#"end""#), "{difference}");
        assert!(difference.found.ends_with(r#"END""#) && difference.to_string().len() < 300, "{difference}");
    }
}
