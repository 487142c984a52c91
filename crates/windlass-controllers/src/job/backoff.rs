//! The back-off of a job after failed pods: 10 s, doubled after each failure, up to 10 min.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(10);

/// The failures of a job's pods since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    count: i32,
    last: Option<Timestamp>,
}

impl Failures {
    /// Returns the failures including pods that have finished since.
    pub(super) fn with(self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Self {
        let success = succeeded.iter().filter_map(|pod| ended_at(pod)).max();
        let before = if succeeded.is_empty() { self } else { Self::default() };
        let times = failed.iter().map(|pod| ended_at(pod));
        let since = times.filter(|at| success.is_none() || *at > success);
        since.fold(before, |failures, at| Self { count: failures.count.saturating_add(1), last: failures.last.max(at) })
    }

    pub(super) fn remaining(self, now: Timestamp) -> Duration {
        remaining(self.count, self.last, now)
    }
}

/// Returns the remaining back-off, given the number of failures and the time of the last one.
pub(super) fn remaining(failures: i32, last: Option<Timestamp>, now: Timestamp) -> Duration {
    let (Some(last), 1..) = (last, failures) else { return Duration::ZERO };
    let doublings = u32::try_from(failures - 1).unwrap_or(0).min(16);
    let wait = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    let elapsed = now.duration_since(last);
    let wait = SignedDuration::try_from(wait).unwrap_or_default();
    Duration::try_from(wait.saturating_sub(elapsed)).unwrap_or_default()
}

/// Returns the time when a pod ended: the end of its containers, else the time it stopped being ready, else its
/// deletion, else its creation.
pub(super) fn ended_at(pod: &Pod) -> Option<Timestamp> {
    by_containers(pod)
        .or_else(|| by_readiness(pod))
        .or_else(|| by_deletion(pod))
        .or_else(|| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// Returns the latest end of the containers, including sidecars, or `None` if one is running.
fn by_containers(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let is_sidecar = |name: &str| {
        let mut init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        init.any(|container| container.name == name && container.restart_policy.as_deref() == Some("Always"))
    };
    let sidecars = status.init_container_statuses.iter().flatten().filter(|container| is_sidecar(&container.name));
    let ends: Option<Vec<_>> = status.container_statuses.iter().flatten().chain(sidecars).map(ended_by).collect();
    ends?.into_iter().max()
}

fn ended_by(container: &ContainerStatus) -> Option<Timestamp> {
    container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
}

fn by_readiness(pod: &Pod) -> Option<Timestamp> {
    let mut conditions = pod.status.as_ref()?.conditions.as_ref()?.iter();
    let unready = conditions.find(|condition| condition.type_ == "Ready" && condition.status == "False")?;
    unready.last_transition_time.as_ref().map(|time| time.0)
}

fn by_deletion(pod: &Pod) -> Option<Timestamp> {
    let at = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    at.checked_sub(SignedDuration::from_secs(grace)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ended(second: i64) -> Arc<Pod> {
        let container = json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "finishedAt": at(second).to_string()}}});
        Arc::new(serde_json::from_value(json!({"metadata": {}, "status": {"containerStatuses": [container]}})).unwrap())
    }

    #[test]
    fn each_failure_doubles_the_wait_and_a_success_ends_it() {
        let once = Failures::default().with(&[], &[ended(100)]);
        assert_eq!(once.remaining(at(100)), Duration::from_secs(10));
        assert_eq!(once.remaining(at(108)), Duration::from_secs(2));
        assert_eq!(once.remaining(at(111)), Duration::ZERO);
        let thrice = once.with(&[], &[ended(120), ended(110)]);
        assert_eq!(thrice.remaining(at(120)), Duration::from_secs(40));
        assert_eq!(thrice.with(&[ended(130)], &[]).remaining(at(130)), Duration::ZERO);
        let after = thrice.with(&[ended(130)], &[ended(125), ended(131)]);
        assert_eq!(after.remaining(at(131)), Duration::from_secs(10), "those before the success are forgotten");
        let often = (0..40).fold(once, |failures, _| failures.with(&[], &[ended(100)]));
        assert_eq!(often.remaining(at(100)), Duration::from_mins(10));
    }

    #[test]
    fn end_time_without_containers_falls_back_to_conditions() {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {"creationTimestamp": at(1).to_string(), "deletionTimestamp": at(40).to_string(),
                "deletionGracePeriodSeconds": 30},
            "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(5).to_string()}]},
        }))
        .unwrap();
        assert_eq!(ended_at(&pod), Some(at(5)));
        pod.status = None;
        assert_eq!(ended_at(&pod), Some(at(10)));
        pod.metadata.deletion_timestamp = None;
        assert_eq!(ended_at(&pod), Some(at(1)));
    }
}
