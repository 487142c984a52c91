//! Updates that a program repeats, such as heartbeats and retries. The cluster settles in spite of them.

use std::collections::HashMap;

use crate::record::{Change, ChangeVerb, ObjectName};

/// The number of updates of the same fields in a step after which further ones are repetitions.
const USUAL: usize = 6;

/// Counts the updates of a step.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// The number of updates by object and fields.
    updates: HashMap<(ObjectName, Vec<String>), usize>,
}

impl Repeats {
    /// Counts a change. Returns `true` if it repeats earlier ones of the step.
    pub(crate) fn add(&mut self, change: &Change) -> bool {
        if change.verb != ChangeVerb::Update {
            return false;
        }
        let number = self.updates.entry((change.object.clone(), change.point.fields.clone())).or_default();
        *number += 1;
        *number > USUAL
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exploration::simulated::Builder;

    #[test]
    fn later_updates_of_the_same_fields_are_repetitions() {
        let mut run = Builder::new();
        run.program("create secrets/a/b", Some(json!({"data": {"x": 0}})));
        for value in 1..=8 {
            run.program("update secrets/a/b", Some(json!({"data": {"x": value}})));
        }
        run.program("update secrets/a/b", Some(json!({"data": {"x": 8, "y": 1}})));
        let mut repeats = Repeats::default();
        let repeated: Vec<_> = run.record.changes.iter().map(|change| repeats.add(change)).collect();
        assert_eq!(repeated, [false, false, false, false, false, false, false, true, true, false]);
    }
}
