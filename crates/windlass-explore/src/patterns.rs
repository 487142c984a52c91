//! Patterns of names that programs generate themselves, such as `backup-1732870000` or `token-x7f2q`, learned from runs
//! without faults.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{ObjectName, Record};

/// The minimum length of a generated part. Shorter ones are usually ordinals.
const SHORTEST: usize = 4;

/// The patterns of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patterns(BTreeSet<Pattern>);

/// A name with one generated part, among all objects of a resource in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pattern {
    resource: String,
    namespace: String,
    before: String,
    after: String,
}

impl Patterns {
    /// Learns from objects that are not in all runs. Names that differ in one part from a name of another run, and are
    /// otherwise equal, have a generated part.
    pub(crate) fn learn(clean: &[Record]) -> Self {
        let runs: Vec<BTreeSet<&ObjectName>> = clean.iter().map(objects).collect();
        let mut numbers: BTreeMap<&ObjectName, usize> = BTreeMap::new();
        for object in runs.iter().flatten() {
            *numbers.entry(*object).or_default() += 1;
        }
        // The number of runs that have an object with the pattern.
        let mut patterns: BTreeMap<Pattern, BTreeSet<usize>> = BTreeMap::new();
        for (run, objects) in runs.iter().enumerate() {
            for object in objects.iter().filter(|object| numbers[**object] < runs.len()) {
                for pattern in Pattern::of(object) {
                    patterns.entry(pattern).or_default().insert(run);
                }
            }
        }
        let learned = patterns.into_iter().filter(|(_, runs)| runs.len() > 1);
        Self(learned.map(|(pattern, _)| pattern).collect())
    }

    /// Returns `true` if no name has a generated part.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name of an object with `*` for its generated part, if it has one.
    pub(crate) fn apply(&self, object: &ObjectName) -> Option<String> {
        // Most programs generate no names, and each change is looked up.
        if self.is_empty() {
            return None;
        }
        let pattern = Pattern::of(object).find(|pattern| self.0.contains(pattern))?;
        Some(format!("{}*{}", pattern.before, pattern.after))
    }
}

impl Pattern {
    /// Returns the possible patterns of a name: each part between separators may be generated.
    fn of(object: &ObjectName) -> impl Iterator<Item = Self> {
        let ObjectName { resource, namespace, name } = object;
        let is_separator = |character: char| !character.is_ascii_alphanumeric();
        let mut start = 0;
        let parts = name.split(is_separator).map(move |part| {
            let range = start..start + part.len();
            // All separators of names are one byte long.
            start = range.end + 1;
            range
        });
        let parts = parts.filter(|range| range.len() >= SHORTEST && range.end <= name.len());
        parts.map(|range| Self {
            resource: resource.clone(),
            namespace: namespace.clone(),
            before: name.get(..range.start).unwrap_or_default().to_owned(),
            after: name.get(range.end..).unwrap_or_default().to_owned(),
        })
    }
}

/// Returns the objects of a run that exist or have existed.
fn objects(record: &Record) -> BTreeSet<&ObjectName> {
    record.changes.iter().map(|change| &change.object).chain(record.end.keys()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exploration::simulated::{ended_with, object};

    fn run(names: &[&str]) -> Record {
        ended_with(names.iter().map(|name| (object(name), json!({}))))
    }

    #[test]
    fn names_that_differ_in_one_part_are_learned() {
        let clean = [
            run(&["jobs/a/backup-1732870000-data", "secrets/a/token-x7f2q", "pods/a/db-0", "pods/a/once"]),
            run(&["jobs/a/backup-1732870111-data", "secrets/a/token-bbbbb", "pods/a/db-1"]),
        ];
        let patterns = Patterns::learn(&clean);
        let applied = |name: &str| patterns.apply(&object(name));
        assert_eq!(applied("jobs/a/backup-1732999999-data").as_deref(), Some("backup-*-data"));
        assert_eq!(applied("secrets/a/token-zzzz1").as_deref(), Some("token-*"));
        assert_eq!(applied("secrets/b/token-zzzz1"), None, "another namespace");
        assert_eq!(applied("pods/a/db-7777"), None, "ordinals are not generated");
        assert_eq!(applied("pods/a/once"), None);
    }

    #[test]
    fn names_in_all_runs_are_not_patterns() {
        let clean = [run(&["pods/a/web-alpha", "pods/a/web-beta1"]), run(&["pods/a/web-alpha", "pods/a/web-beta1"])];
        assert_eq!(Patterns::learn(&clean), Patterns::default());
    }
}
