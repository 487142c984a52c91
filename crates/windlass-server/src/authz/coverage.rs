//! Whether somebody has what they are about to give away.

use std::collections::BTreeSet;

use super::Rule;

/// What `wanted` allows beyond `held`, in words: a line for each resource.
pub(crate) fn missing(held: &[Rule], wanted: &[Rule]) -> BTreeSet<String> {
    let lacks = |rule: &Rule| !held.iter().any(|own| own.covers(rule));
    let missing = wanted.iter().flat_map(Rule::broken_down).filter(lacks);
    let mut lines: Vec<Rule> = Vec::new();
    for mut rule in missing {
        // Verbs with the same resource share a line.
        let same = |line: &&mut Rule| {
            rule.paths.is_empty()
                && (&line.groups, &line.resources, &line.names) == (&rule.groups, &rule.resources, &rule.names)
        };
        match lines.iter_mut().find(same) {
            Some(line) => line.verbs.append(&mut rule.verbs),
            None => lines.push(rule),
        }
    }
    lines.iter().map(Rule::describe).collect()
}
