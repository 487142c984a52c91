//! The list of the tests that fail, and the table of the tests outside of conformance: `conformance/E2E.md`.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use super::program::Outcome;
use crate::{Result, upstream::root};

/// The file, relative to the root of the workspace.
pub(super) const LIST: &str = "conformance/E2E.md";

/// The header of the table of the tests outside of conformance.
const HEADER: &str = "| test | kube-apiserver | windlass |\n|---|---|---|\n";

/// The cell of a test that passes.
const PASSES: &str = "passes";

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    /// The conformance tests that fail with `windlass up`, and the reasons.
    failing: BTreeMap<String, String>,
    /// The other tests.
    other: BTreeMap<String, Other>,
}

/// The outcomes of a test outside of conformance.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Other {
    /// The outcome with the real control plane.
    real: String,
    /// The expected outcome with `windlass up`.
    ours: String,
}

// === impl List ===

impl List {
    /// Reads the file.
    pub(super) fn read() -> Result<Self> {
        Self::parse(&fs::read_to_string(root().join(LIST)).map_err(|error| format!("{LIST}: {error}"))?)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut list = Self::default();
        for line in text.lines() {
            if let Some(item) = line.strip_prefix("- `") {
                match item.split_once("`: ") {
                    Some((name, reason)) if !reason.is_empty() => {
                        list.failing.insert(name.to_owned(), reason.to_owned());
                    }
                    _ => return Err(format!("{LIST}: no reason for `{item}").into()),
                }
            }
            if let Some(row) = line.strip_prefix("| `") {
                let cells = row.strip_suffix(" |").and_then(|row| row.split_once("` | "));
                let Some((name, (real, ours))) = cells.and_then(|(name, rest)| Some((name, rest.split_once(" | ")?)))
                else {
                    return Err(format!("{LIST}: the row has not three cells: | `{row}").into());
                };
                list.other.insert(name.to_owned(), Other { real: real.to_owned(), ours: ours.to_owned() });
            }
        }
        Ok(list)
    }

    /// Reports whether a test is expected to fail with `windlass up`.
    pub(super) fn is_failing(&self, name: &str) -> bool {
        self.failing.contains_key(name) || self.other.get(name).is_some_and(|other| other.ours != PASSES)
    }

    /// Returns the names of the tests outside of conformance that pass with the real control plane.
    pub(super) fn other(&self) -> Vec<String> {
        self.other.iter().filter(|(_, other)| other.real == PASSES).map(|(name, _)| name.clone()).collect()
    }

    /// Sets the outcomes with the real control plane, and removes all other rows. A new row expects that a test that
    /// passes there passes with `windlass up`, too.
    pub(super) fn record<'a>(&mut self, outcomes: impl Iterator<Item = (&'a String, &'a Outcome)>) {
        let mut before = std::mem::take(&mut self.other);
        self.other = outcomes
            .map(|(name, outcome)| {
                let real = match outcome {
                    Outcome::Passed => PASSES.to_owned(),
                    Outcome::Failed(_) => "fails".to_owned(),
                    Outcome::Skipped(_) => "skips itself".to_owned(),
                };
                let ours = if real == PASSES { PASSES.to_owned() } else { "not run".to_owned() };
                let ours = before.remove(name).filter(|row| row.real == real).map_or(ours, |row| row.ours);
                (name.clone(), Other { real, ours })
            })
            .collect();
    }

    /// Replaces the table in the file.
    pub(super) fn write(&self) -> Result {
        let path = root().join(LIST);
        let text = fs::read_to_string(&path)?;
        let (before, _) = text.split_once(HEADER).ok_or_else(|| format!("{LIST}: the table has no header"))?;
        let mut changed = format!("{before}{HEADER}");
        for (name, Other { real, ours }) in &self.other {
            writeln!(changed, "| `{name}` | {real} | {ours} |")?;
        }
        fs::write(path, changed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_item_without_reason_is_an_error() {
        let list = List::parse("# Title\n- `[sig-apps] Job should run`: needs a container\n").unwrap();
        assert!(list.is_failing("[sig-apps] Job should run"));
        assert!(!list.is_failing("[sig-apps] Job should"));
        assert!(List::parse("- `[sig-apps] Job should run`").is_err());
    }

    #[test]
    fn row_without_three_cells_is_an_error() {
        let error = List::parse("| `a` | passes |").unwrap_err().to_string();
        assert!(error.contains("| `a` | passes |"), "{error}");
    }

    #[test]
    fn table_has_the_outcomes_of_both() {
        let list = List::parse("| `a` | passes | passes |\n| `b` | fails | not run |\n| `c` | passes | fails: why |\n");
        let list = list.unwrap();
        assert_eq!(list.other(), ["a", "c"]);
        assert!(!list.is_failing("a"));
        assert!(list.is_failing("c"));
    }

    #[test]
    fn recording_keeps_the_expectations_of_equal_outcomes() {
        let mut list =
            List::parse("| `a` | passes | fails: why |\n| `b` | fails | not run |\n| `c` | passes | passes |");
        let list = list.as_mut().unwrap();
        let outcomes = [("a".to_owned(), Outcome::Passed), ("b".to_owned(), Outcome::Passed)];
        list.record(outcomes.iter().map(|(name, outcome)| (name, outcome)));
        assert_eq!(*list, List::parse("| `a` | passes | fails: why |\n| `b` | passes | passes |").unwrap());
    }
}
