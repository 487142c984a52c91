//! The status of a daemon set. Plain values, no I/O.

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::{eligibility::Eligibility, plan::Observed};
use crate::pods;

pub(super) fn compute(observed: &Observed<'_>) -> DaemonSetStatus {
    let before = observed.set.status.clone().unwrap_or_default();
    let mut status = DaemonSetStatus {
        observed_generation: observed.set.metadata.generation,
        collision_count: before.collision_count,
        conditions: before.conditions,
        ..DaemonSetStatus::default()
    };
    let (mut available, mut updated) = (0, 0);
    for (node, eligibility) in &observed.eligibility_by_node {
        // Only the first pod of a node counts.
        let pod = observed.by_node.get(node).and_then(|pods| pods.first());
        if *eligibility != Eligibility::Run {
            status.number_misscheduled += i32::from(pod.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pod else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pods::is_ready(pod));
        available += i32::from(observed.is_available(pod));
        updated += i32::from(observed.is_new(pod));
    }
    let non_zero = |count: i32| Some(count).filter(|count| *count != 0);
    status.number_available = non_zero(available);
    status.updated_number_scheduled = non_zero(updated);
    status.number_unavailable = non_zero(status.desired_number_scheduled - available);
    status
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_are_counted_and_not_pods() {
        let pod = |node: &str, hash: &str, ready: &str| -> Arc<Pod> {
            let pod = json!({
                "metadata": {"name": format!("{node}-{hash}"), "labels": {"controller-revision-hash": hash}},
                "spec": {"nodeName": node, "containers": []},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
            });
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        let set = DaemonSet::default();
        let eligibility_by_node =
            [("a", Eligibility::Run), ("b", Eligibility::Run), ("c", Eligibility::Run), ("d", Eligibility::Stay)];
        let eligibility_by_node =
            eligibility_by_node.into_iter().map(|(node, eligibility)| (node.to_owned(), eligibility)).collect();
        let pods =
            [pod("a", "new", "True"), pod("a", "old", "True"), pod("b", "old", "False"), pod("d", "new", "True")];
        let status = compute(&Observed::new(&set, "new", eligibility_by_node, &pods, Timestamp::UNIX_EPOCH));
        assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (3, 2));
        assert_eq!((status.number_ready, status.number_misscheduled), (1, 1));
        assert_eq!((status.number_available, status.number_unavailable), (Some(1), Some(2)));
        assert_eq!(status.updated_number_scheduled, Some(1));
    }
}
