//! Updates that are repeated, such as heartbeats and retries. The cluster settles in spite of them.

use std::collections::HashMap;

use serde_json::Value;

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
    /// Counts a change. Returns `true` if it repeats earlier ones of the step, or is the heartbeat of a node.
    pub(crate) fn add(&mut self, change: &Change) -> bool {
        if change.verb != ChangeVerb::Update {
            return false;
        }
        if is_heartbeat(change) {
            return true;
        }
        let number = self.updates.entry((change.object.clone(), change.point.fields.clone())).or_default();
        *number += 1;
        *number > USUAL
    }
}

/// Reports whether an update changes only the times at which a node has confirmed its conditions. Nodes do this at times
/// of their own, every few minutes.
fn is_heartbeat(change: &Change) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return false };
    change.object.resource == "nodes" && without_heartbeats(before) == without_heartbeats(after)
}

fn without_heartbeats(node: &Value) -> Value {
    let mut node = node.clone();
    if let Some(metadata) = node.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    let conditions = node.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.remove("lastHeartbeatTime");
    }
    node
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

    #[test]
    fn heartbeats_of_nodes_are_repetitions() {
        let ready = |status: &str, at: &str| {
            let condition = json!({"type": "Ready", "status": status, "lastHeartbeatTime": at});
            Some(json!({"metadata": {"resourceVersion": at}, "status": {"conditions": [condition]}}))
        };
        let mut run = Builder::new();
        run.other("create nodes/n1", ready("True", "1"));
        run.other("update nodes/n1", ready("True", "2"));
        run.other("update nodes/n1", ready("False", "3"));
        run.other("create machines.example.com/n1", ready("True", "1"));
        run.other("update machines.example.com/n1", ready("True", "2"));
        let mut repeats = Repeats::default();
        let repeated: Vec<_> = run.record.changes.iter().map(|change| repeats.add(change)).collect();
        assert_eq!(repeated, [false, true, false, false, false]);
    }
}
