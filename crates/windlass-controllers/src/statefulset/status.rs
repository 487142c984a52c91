//! The status of a stateful set. Plain values, no I/O.

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetStatus},
    core::v1::Pod,
};
use windlass_api::ObjectExt;

use super::{
    identity::{replicas, revision},
    is_rolling, min_ready_seconds,
};
use crate::pods;

/// The names of a set's current and update revision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between<'r> {
    pub(super) current: &'r str,
    pub(super) update: &'r str,
    pub(super) collisions: i32,
}

/// Computes the status. `leaving` is the number of pods deleted for the update. Their revision may be older than the
/// current one, if the template has changed twice.
pub(super) fn compute<'p>(
    set: &StatefulSet,
    between: Between<'_>,
    all: impl Iterator<Item = &'p Pod> + Clone,
    leaving: i32,
    now: Timestamp,
) -> StatefulSetStatus {
    let min_ready = min_ready_seconds(set);
    let count =
        |of: &dyn Fn(&Pod) -> bool| i32::try_from(all.clone().filter(|pod| of(pod)).count()).unwrap_or(i32::MAX);
    let is_ready = |pod: &Pod| pods::phase(pod) == "Running" && pods::is_ready(pod);
    let at = |name: &str| count(&|pod| !pod.is_deleting() && revision(pod) == name);
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: count(&|_| true),
        ready_replicas: Some(count(&is_ready)),
        available_replicas: Some(count(&|pod| is_ready(pod) && pods::is_available(pod, min_ready, now))),
        current_replicas: Some((at(between.current) - leaving).max(0)),
        updated_replicas: Some(at(between.update)),
        current_revision: Some(between.current.to_owned()),
        update_revision: Some(between.update.to_owned()),
        collision_count: Some(between.collisions),
        conditions: None,
    };
    let wanted = Some(replicas(set));
    let is_complete = is_rolling(set)
        && [status.updated_replicas, status.ready_replicas, Some(status.replicas)].iter().all(|count| *count == wanted);
    if is_complete {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}

/// Returns `true` if the new status must be written. A changed collision count alone is written with the next change.
pub(super) fn is_news(status: &StatefulSetStatus, known: Option<&StatefulSetStatus>) -> bool {
    let Some(known) = known else { return true };
    let counts = |status: &StatefulSetStatus| {
        let counts =
            [status.ready_replicas, status.available_replicas, status.current_replicas, status.updated_replicas];
        (status.replicas, counts.map(Option::unwrap_or_default))
    };
    let revisions = |status: &StatefulSetStatus| (status.current_revision.clone(), status.update_revision.clone());
    status.observed_generation > known.observed_generation
        || counts(status) != counts(known)
        || revisions(status) != revisions(known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(revision: &str, ready: bool, deleting: bool) -> Pod {
        let deleted = deleting.then_some("1970-01-01T00:00:00Z");
        let ready = if ready { "True" } else { "False" };
        serde_json::from_value(json!({
            "metadata": {"labels": {"controller-revision-hash": revision}, "deletionTimestamp": deleted},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    #[test]
    fn an_update_is_over_when_all_pods_are_new_and_ready() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"generation": 2},
            "spec": {"replicas": 2, "selector": {}, "template": {}, "updateStrategy": {"type": "RollingUpdate"}},
        }))
        .unwrap();
        let between = Between { current: "a", update: "b", collisions: 0 };
        let leaving = |pods: &[Pod], leaving| compute(&set, between, pods.iter(), leaving, Timestamp::UNIX_EPOCH);
        assert_eq!(leaving(&[pod("a", true, false), pod("a", true, false)], 1).current_replicas, Some(1));
        assert_eq!(leaving(&[pod("older", true, false)], 1).current_replicas, Some(0));
        let compute = |pods: &[Pod]| leaving(pods, 0);
        let half = compute(&[pod("a", true, false), pod("b", true, false), pod("a", true, true)]);
        assert_eq!((half.replicas, half.current_replicas, half.updated_replicas), (3, Some(1), Some(1)));
        assert_eq!(half.current_revision.as_deref(), Some("a"));
        let unready = compute(&[pod("b", true, false), pod("b", false, false)]);
        assert_eq!((unready.ready_replicas, unready.current_revision.as_deref()), (Some(1), Some("a")));
        let over = compute(&[pod("b", true, false), pod("b", true, false)]);
        assert_eq!((over.current_replicas, over.current_revision.as_deref()), (Some(2), Some("b")));
        assert!(is_news(&over, Some(&half)) && is_news(&over, None) && !is_news(&over, Some(&over)));
    }
}
