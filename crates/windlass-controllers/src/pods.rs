//! Properties of pods used by several controllers.

use std::{
    cmp::{Ordering, Reverse},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use windlass_api::{Object as _, ObjectExt, Resource};

/// The annotation with a pod's deletion cost: pods with a lower cost are deleted first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Returns `true` if the pod counts as a replica: neither finished nor terminating.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !pod.is_deleting()
}

/// Returns `true` if the pod has succeeded or failed.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns `true` if the pod is being deleted and has not finished yet.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.is_deleting() && !is_finished(pod)
}

/// Returns `true` if the pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Returns `true` if the pod has been ready for at least `min_ready_seconds`.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod) && (min_ready_seconds <= 0 || available_at(pod, min_ready_seconds).is_some_and(|at| at <= now))
}

/// Returns the time when a ready pod becomes available, if it stays ready.
pub(crate) fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    let since = ready_condition(pod)?.last_transition_time.as_ref()?.0;
    since.checked_add(SignedDuration::from_secs(min_ready_seconds.into())).ok()
}

/// Returns the time until the next ready pod becomes available.
pub(crate) fn next_available<'p>(
    pods: impl IntoIterator<Item = &'p Arc<Pod>>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    let waiting = pods.into_iter().filter(|pod| is_ready(pod) && !is_available(pod, min_ready_seconds, now));
    let next = waiting.filter_map(|pod| available_at(pod, min_ready_seconds)).min();
    next.and_then(|at| Duration::try_from(at.duration_since(now)).ok())
}

/// Builds a pod from an owner's template. The server generates its name.
pub(crate) fn from_template<K: Resource>(owner: &K, template: PodTemplateSpec) -> Pod {
    let from = template.metadata.unwrap_or_default();
    let mut pod = Pod { spec: template.spec, ..Pod::default() };
    let metadata = pod.metadata_mut();
    metadata.generate_name = Some(format!("{}-", owner.name()));
    metadata.namespace = owner.namespace().map(str::to_owned);
    metadata.labels = from.labels;
    metadata.annotations = from.annotations;
    metadata.finalizers = from.finalizers;
    pod.controlled_by(owner)
}

/// Sorts pods by deletion preference. First come unscheduled, pending and unready pods. Then come pods with a low
/// deletion cost, on crowded nodes, ready for a shorter time, with more restarts, and younger ones.
///
/// `crowd` returns the number of active pods of the same owner on the pod's node.
pub(crate) fn sort_for_deletion(pods: &mut [Arc<Pod>], crowd: impl Fn(&Pod) -> usize) {
    pods.sort_by(|a, b| {
        let by = |rank: fn(&Pod) -> u8| rank(a).cmp(&rank(b));
        by(|pod| u8::from(is_scheduled(pod)))
            .then_with(|| by(phase_rank))
            .then_with(|| by(|pod| u8::from(is_ready(pod))))
            .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
            .then_with(|| Reverse(crowd(a)).cmp(&Reverse(crowd(b))))
            .then_with(|| compare_ready_since(a, b))
            .then_with(|| Reverse(restarts(a)).cmp(&Reverse(restarts(b))))
            .then_with(|| Reverse(created(a)).cmp(&Reverse(created(b))))
    });
}

/// Returns the name of the pod's node; empty before the pod is scheduled.
pub(crate) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn is_scheduled(pod: &Pod) -> bool {
    !node_name(pod).is_empty()
}

fn phase_rank(pod: &Pod) -> u8 {
    match phase(pod) {
        "Pending" | "" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

fn deletion_cost(pod: &Pod) -> i32 {
    pod.annotations().get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// A pod that became ready later is deleted first. A pod without that time comes before all others.
fn compare_ready_since(a: &Pod, b: &Pod) -> Ordering {
    if !(is_ready(a) && is_ready(b)) {
        return Ordering::Equal;
    }
    let since = |pod: &Pod| ready_condition(pod)?.last_transition_time.as_ref().map(|time| time.0);
    match (since(a), since(b)) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(a), Some(b)) => b.cmp(&a),
    }
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    statuses.iter().map(|status| status.restart_count).max().unwrap_or(0)
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::core::v1::{PodSpec, PodStatus},
        apimachinery::pkg::apis::meta::v1::Time,
    };
    use windlass_api::Object;

    use super::*;

    fn pod(name: &str, node: &str, phase: &str, ready_since: Option<i64>) -> Pod {
        let mut pod = Pod {
            spec: Some(PodSpec {
                node_name: Some(node.to_owned()).filter(|node| !node.is_empty()),
                ..PodSpec::default()
            }),
            status: Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() }),
            ..Pod::default()
        };
        pod.metadata_mut().name = Some(name.to_owned());
        if let (Some(since), Some(status)) = (ready_since, &mut pod.status) {
            status.conditions = Some(vec![PodCondition {
                type_: "Ready".to_owned(),
                status: "True".to_owned(),
                last_transition_time: Some(Time(Timestamp::from_second(since).unwrap())),
                ..PodCondition::default()
            }]);
        }
        pod
    }

    #[test]
    fn the_least_useful_pod_is_deleted_first() {
        let mut pods = [
            pod("old-ready", "n", "Running", Some(10)),
            pod("new-ready", "n", "Running", Some(20)),
            pod("unready", "n", "Running", None),
            pod("pending", "n", "Pending", None),
            pod("unscheduled", "", "Pending", None),
            pod("cheap", "n", "Running", Some(5)),
        ]
        .map(Arc::new);
        let cheap = Arc::make_mut(&mut pods[5]);
        cheap.annotations_mut().insert(DELETION_COST.to_owned(), "-1".to_owned());
        sort_for_deletion(&mut pods, |_| 1);
        let names: Vec<_> = pods.iter().map(|pod| pod.name()).collect();
        assert_eq!(names, ["unscheduled", "pending", "unready", "cheap", "new-ready", "old-ready"]);
    }

    #[test]
    fn pod_on_the_fullest_node_is_deleted_first() {
        let mut pods = [pod("alone", "n1", "Running", Some(1)), pod("crowded", "n2", "Running", Some(1))].map(Arc::new);
        sort_for_deletion(&mut pods, |pod| if node_name(pod) == "n2" { 2 } else { 1 });
        assert_eq!(pods[0].name(), "crowded");
    }

    #[test]
    fn availability_waits_for_min_ready_seconds() {
        let ready = pod("p", "n", "Running", Some(100));
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(is_available(&ready, 0, at(100)));
        assert!(!is_available(&ready, 10, at(109)) && is_available(&ready, 10, at(110)));
    }
}
