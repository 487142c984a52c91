//! Resets the `DisruptionTarget` condition of pods that were not deleted in time.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use windlass_api::ObjectExt;
use windlass_cache::Cached;
use windlass_runtime::{Action, Context, Controller, Manager, Predicate, Watch};

use crate::{
    error::{ReconcileError, await_newer_state},
    pods,
};

const CONDITION: &str = "DisruptionTarget";
/// The reason of a termination by the kubelet, which has no time limit.
const BY_KUBELET: &str = "TerminationByKubelet";
const TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// Selects pods whose encoded form contains the condition's name. Most pods do not, and are not decoded.
#[derive(Debug)]
struct HasDisruptionTarget;

impl HasDisruptionTarget {
    fn is_in(pod: &Cached<Pod>) -> bool {
        std::str::from_utf8(&pod.bytes()).is_ok_and(|text| text.contains(CONDITION))
    }
}

impl Predicate<Pod> for HasDisruptionTarget {
    fn added(&self, pod: &Cached<Pod>) -> bool {
        Self::is_in(pod)
    }

    fn updated(&self, _: &Cached<Pod>, pod: &Cached<Pod>) -> bool {
        Self::is_in(pod)
    }

    fn deleted(&self, _: &Cached<Pod>) -> bool {
        false
    }
}

pub(super) fn add_to(manager: &mut Manager) {
    manager.add(
        Controller::watching(Watch::<Pod>::all().filter(HasDisruptionTarget))
            .named("disruption-stale")
            .reconcile(async |pod: Arc<Pod>, cx: Context| await_newer_state(reconcile(&pod, &cx).await)),
    );
}

async fn reconcile(pod: &Pod, cx: &Context) -> Result<Action, ReconcileError> {
    let now = cx.clock().now();
    let Some(until) = holds_until(pod) else { return Ok(Action::await_change()) };
    if let Ok(wait) = Duration::try_from(until.duration_since(now))
        && !wait.is_zero()
    {
        return Ok(Action::requeue_after(wait));
    }
    let mut changed = pod.clone();
    let conditions = changed.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten());
    for condition in conditions.filter(|condition| condition.type_ == CONDITION) {
        "False".clone_into(&mut condition.status);
        condition.last_transition_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        (condition.reason, condition.message) = (None, None);
    }
    cx.client().update_status(&changed).await?;
    Ok(Action::await_change())
}

/// Returns the time when the pod's condition expires, if the condition is set and the pod is not being deleted.
fn holds_until(pod: &Pod) -> Option<Timestamp> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let condition = conditions.find(|condition| condition.type_ == CONDITION && condition.status == "True")?;
    let is_over = pod.is_deleting() || pods::is_finished(pod) || condition.reason.as_deref() == Some(BY_KUBELET);
    condition.last_transition_time.as_ref()?.0.checked_add(TIMEOUT).ok().filter(|_| !is_over)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(phase: &str, condition: Value) -> Pod {
        serde_json::from_value(json!({"status": {"phase": phase, "conditions": [condition]}})).unwrap()
    }

    #[test]
    fn disruption_target_expires_unless_pod_has_ended() {
        let by = |status: &str, reason: &str| json!({"type": CONDITION, "status": status, "reason": reason, "lastTransitionTime": "1970-01-01T00:01:00Z"});
        let evicted = by("True", "EvictionByEvictionAPI");
        assert_eq!(holds_until(&pod("Running", evicted.clone())), Timestamp::from_second(180).ok());
        assert_eq!(holds_until(&pod("Failed", evicted.clone())), None);
        assert_eq!(holds_until(&pod("Running", by("True", BY_KUBELET))), None);
        assert_eq!(holds_until(&pod("Running", by("False", ""))), None);
        let mut leaving = pod("Running", evicted);
        leaving.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
        assert_eq!(holds_until(&leaving), None);
    }
}
