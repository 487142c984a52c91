//! Findings as sentences, and the keys by which they are grouped.

use std::{fmt, ops::RangeInclusive};

use super::Finding;
use crate::record::ChangeVerb;

/// The maximum number of printed fields of an object.
const FIELDS: usize = 4;

impl Finding {
    /// Returns a text that is equal for findings of the same kind at the same objects.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Missing { object } => format!("missing {object}"),
            Self::LeftOver { object } => format!("left over {object}"),
            Self::Number { object, .. } => format!("number {object}"),
            Self::Different { object, .. } => format!("different {object}"),
            Self::Churn { object, verb, expected, found } => {
                let direction = if found > expected.end() { "more" } else { "less" };
                format!("{direction} {} {object}", verb.as_str())
            }
            Self::Overwritten { object } => format!("overwritten {object}"),
            Self::StuckInDeletion { object, .. } => format!("stuck {object}"),
            Self::Violated { invariant, object, .. } => {
                format!("violated {invariant} {}", object.as_ref().map(ToString::to_string).unwrap_or_default())
            }
            Self::Panicked { message } => format!("panicked {}", without_numbers(message)),
            Self::Exited { status, .. } => format!("exited {status}"),
            Self::StepFailed { step, .. } => format!("step failed {step}"),
            Self::NotSettled { step } => format!("not settled {step}"),
            Self::UnlikeNew { difference } => format!("unlike new {}", difference.key()),
        }
    }

    /// Returns the kind of the finding as one word, for reports.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::LeftOver { .. } => "leftOver",
            Self::Number { .. } => "number",
            Self::Different { .. } => "different",
            Self::Churn { .. } => "churn",
            Self::Overwritten { .. } => "overwritten",
            Self::StuckInDeletion { .. } => "stuckInDeletion",
            Self::Violated { .. } => "violated",
            Self::Panicked { .. } => "panicked",
            Self::Exited { .. } => "exited",
            Self::StepFailed { .. } => "stepFailed",
            Self::NotSettled { .. } => "notSettled",
            Self::UnlikeNew { .. } => "unlikeNew",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { object } => write!(f, "{object} is missing at the end"),
            Self::LeftOver { object } => write!(f, "{object} is left over at the end"),
            Self::Number { object, expected, found } => {
                write!(f, "there are {found} of {object} at the end, expected {}", range(expected))
            }
            Self::Different { object, fields } => {
                write!(f, "{object} ends differently: ")?;
                for (index, field) in fields.iter().take(FIELDS).enumerate() {
                    let separator = if index == 0 { "" } else { "; " };
                    write!(f, "{separator}{} is {}, expected {}", field.path, field.found, field.expected)?;
                }
                match fields.len().saturating_sub(FIELDS) {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
                }
            }
            Self::Churn { object, verb, expected, found } => {
                let verb = match verb {
                    ChangeVerb::Create => "created",
                    ChangeVerb::Update => "updated",
                    ChangeVerb::Delete => "deleted",
                };
                write!(f, "{object} was {verb} {}, expected {}", times(*found), range(expected))
            }
            Self::Overwritten { object } => {
                write!(f, "{object}: the program overwrote another client's change that it had not seen")
            }
            Self::StuckInDeletion { object, finalizers } if finalizers.is_empty() => {
                write!(f, "{object} is still being deleted at the end")
            }
            Self::StuckInDeletion { object, finalizers } => {
                let finalizers = finalizers.join(", ");
                write!(f, "{object} is still being deleted at the end and waits for the finalizers {finalizers}")
            }
            Self::Violated { invariant, object, error } => {
                write!(f, "invariant violated: {invariant}")?;
                if let Some(object) = object {
                    write!(f, " ({object})")?;
                }
                error.as_ref().map_or(Ok(()), |error| write!(f, ": {error}"))
            }
            Self::Panicked { message } => write!(f, "the program panicked: {message}"),
            Self::Exited { status, log } if log.is_empty() => write!(f, "the program ended by itself: {status}"),
            Self::Exited { status, log } => write!(f, "the program ended by itself: {status}; its last line: {log}"),
            Self::StepFailed { step, error } => write!(f, "step {step} failed: {error}"),
            Self::NotSettled { step } => {
                write!(f, "the cluster still changed at the time limit of step {step}")
            }
            Self::UnlikeNew { difference } => write!(f, "compared with a new object, {difference}"),
        }
    }
}

fn times(number: usize) -> String {
    match number {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        number => format!("{number} times"),
    }
}

fn range(range: &RangeInclusive<usize>) -> String {
    if range.start() == range.end() {
        range.start().to_string()
    } else {
        format!("{} to {}", range.start(), range.end())
    }
}

/// Replaces each number by `#`, so that messages with times, addresses and counters are equal.
fn without_numbers(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for word in text.split_inclusive(|character: char| !character.is_ascii_alphanumeric()) {
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        let end = word.trim_start_matches(|character: char| character.is_ascii_alphanumeric());
        if has_digit {
            result.push('#');
            result.push_str(end);
        } else {
            result.push_str(word);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use windlass_api::difference::{Difference, Part};

    use super::*;
    use crate::exploration::simulated::object;

    #[test]
    fn texts_state_the_difference() {
        let object = object("pods/default/web-*");
        let churn = |found| Finding::Churn { object: object.clone(), verb: ChangeVerb::Create, expected: 1..=2, found };
        assert_eq!(churn(3).to_string(), "pods/default/web-* was created 3 times, expected 1 to 2");
        assert_eq!(churn(0).to_string(), "pods/default/web-* was created never, expected 1 to 2");
        let field = |path: &str| {
            let (path, expected, found) = (path.to_owned(), "1".to_owned(), "2".to_owned());
            Difference { path, part: Part::Value, expected, found }
        };
        let different = Finding::Different { object, fields: "abcdef".split("").skip(1).take(6).map(field).collect() };
        let text = different.to_string();
        assert!(text.starts_with("pods/default/web-* ends differently: a is 2, expected 1; b is 2"), "{text}");
        assert!(text.ends_with("; and 2 more"), "{text}");
    }

    #[test]
    fn keys_group_by_kind_and_object() {
        let churn = |found| Finding::Churn { object: object("a/b"), verb: ChangeVerb::Create, expected: 1..=2, found };
        assert_eq!(churn(3).key(), churn(9).key());
        assert_ne!(churn(3).key(), churn(0).key());
        assert_ne!(churn(3).key(), Finding::Missing { object: object("a/b") }.key());
        let panicked = |message: &str| Finding::Panicked { message: message.to_owned() }.key();
        assert_eq!(panicked("panic: 12:30 nil at 0xc0001 [x]"), panicked("panic: 11:07 nil at 0xc0f2a [x]"));
        assert_ne!(panicked("panic: nil"), panicked("panic: index"));
    }
}
