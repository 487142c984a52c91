//! The status of a daemon set. Plain values, no I/O.

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::{place::Place, plan::Look};
use crate::pods;

pub(super) fn compute(look: &Look<'_>) -> DaemonSetStatus {
    let before = look.set.status.clone().unwrap_or_default();
    let mut status = DaemonSetStatus {
        observed_generation: look.set.metadata.generation,
        collision_count: before.collision_count,
        conditions: before.conditions,
        ..DaemonSetStatus::default()
    };
    let (mut available, mut updated) = (0, 0);
    for (node, place) in &look.places {
        // Only the first pod of a node counts.
        let pod = look.by_node.get(node).and_then(|pods| pods.first());
        if *place != Place::Run {
            status.number_misscheduled += i32::from(pod.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pod else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pods::is_ready(pod));
        available += i32::from(look.is_available(pod));
        updated += i32::from(look.is_new(pod));
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
        let places = [("a", Place::Run), ("b", Place::Run), ("c", Place::Run), ("d", Place::Stay)];
        let places = places.into_iter().map(|(node, place)| (node.to_owned(), place)).collect();
        let pods =
            [pod("a", "new", "True"), pod("a", "old", "True"), pod("b", "old", "False"), pod("d", "new", "True")];
        let status = compute(&Look::new(&set, "new", places, &pods, Timestamp::UNIX_EPOCH));
        assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (3, 2));
        assert_eq!((status.number_ready, status.number_misscheduled), (1, 1));
        assert_eq!((status.number_available, status.number_unavailable), (Some(1), Some(2)));
        assert_eq!(status.updated_number_scheduled, Some(1));
    }
}
