//! Counts the pods of a budget. Plain values, no I/O.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use windlass_api::ObjectExt;

use crate::pods;

/// The maximum time between the eviction of a pod and its deletion.
const DELETION: SignedDuration = SignedDuration::from_mins(2);
const CONDITION: &str = "DisruptionAllowed";

#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub(super) healthy: i32,
    pub(super) desired: i32,
    pub(super) expected: i32,
    pub(super) disrupted: BTreeMap<String, Time>,
}

/// The evicted pods that are not being deleted yet.
#[derive(Debug, Default)]
pub(super) struct Disrupted {
    pub(super) pods: BTreeMap<String, Time>,
    /// The pods that were not deleted in time. They count as healthy again.
    pub(super) overdue: Vec<Arc<Pod>>,
    /// The time when the next pod becomes overdue.
    pub(super) next: Option<Timestamp>,
}

pub(super) fn disrupted(budget: &PodDisruptionBudget, all: &[Arc<Pod>], now: Timestamp) -> Disrupted {
    let known = budget.status.as_ref().and_then(|status| status.disrupted_pods.clone()).unwrap_or_default();
    let mut disrupted = Disrupted::default();
    for pod in all.iter().filter(|pod| !pod.is_deleting()) {
        let Some(time) = known.get(pod.name()) else { continue };
        match time.0.checked_add(DELETION) {
            Ok(until) if until >= now => {
                disrupted.next = Some(disrupted.next.map_or(until, |next| next.min(until)));
                disrupted.pods.insert(pod.name().to_owned(), time.clone());
            }
            _ => disrupted.overdue.push(Arc::clone(pod)),
        }
    }
    disrupted
}

/// Counts the ready pods that are not about to be deleted.
pub(super) fn healthy(all: &[Arc<Pod>], disrupted: &BTreeMap<String, Time>) -> i32 {
    let stay = all.iter().filter(|pod| !pod.is_deleting() && !disrupted.contains_key(pod.name()));
    i32::try_from(stay.filter(|pod| pods::is_ready(pod)).count()).unwrap_or(i32::MAX)
}

pub(super) fn status(budget: &PodDisruptionBudget, counts: Counts, now: Timestamp) -> PodDisruptionBudgetStatus {
    let Counts { healthy, desired, expected, disrupted } = counts;
    // Without expected pods no disruption is allowed: pods may exist before the count is updated.
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let before = budget.status.clone().unwrap_or_default();
    let (value, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        expected_pods: Some(expected),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(disrupted).filter(|disrupted| !disrupted.is_empty()),
        observed_generation: budget.metadata.generation,
        conditions: Some(conditions(before.conditions, value, reason, "", budget.metadata.generation, now)),
    }
}

/// Builds the status after an error: no disruption is allowed.
pub(super) fn failed(budget: &PodDisruptionBudget, why: &str, now: Timestamp) -> PodDisruptionBudgetStatus {
    let mut status = budget.status.clone().unwrap_or_default();
    status.disruptions_allowed = Some(0);
    let observed = status.observed_generation;
    status.conditions = Some(conditions(status.conditions, "False", "SyncFailed", why, observed, now));
    status
}

fn conditions(
    before: Option<Vec<Condition>>,
    value: &str,
    reason: &str,
    message: &str,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = before.unwrap_or_default();
    let known = conditions.iter().position(|condition| condition.type_ == CONDITION);
    let since = known.map(|at| &conditions[at]).filter(|condition| condition.status == value);
    let condition = Condition {
        type_: CONDITION.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation,
        last_transition_time: since.map_or(Time(now), |since| since.last_transition_time.clone()),
    };
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    conditions
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready: bool) -> Arc<Pod> {
        let ready = if ready { "True" } else { "False" };
        let pod = json!({
            "metadata": {"name": name},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn evicted_pods_do_not_count_until_they_should_have_gone() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let budget: PodDisruptionBudget = serde_json::from_value(json!({
            "metadata": {"generation": 3},
            "status": {
                "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
                "disruptedPods": {"a": "1970-01-01T00:01:40Z", "gone": "1970-01-01T00:01:40Z"},
            },
        }))
        .unwrap();
        let pods = [pod("a", true), pod("b", true), pod("c", false)];
        let early = disrupted(&budget, &pods, at(110));
        assert_eq!((early.pods.len(), early.overdue.len(), early.next), (1, 0, Some(at(220))));
        assert_eq!(healthy(&pods, &early.pods), 1);
        let late = disrupted(&budget, &pods, at(221));
        assert_eq!((late.pods.len(), late.overdue.len(), late.next), (0, 1, None));
        assert_eq!(healthy(&pods, &late.pods), 2);
    }

    #[test]
    fn pods_above_the_minimum_may_be_disrupted() {
        let now = Timestamp::UNIX_EPOCH;
        let mut budget = PodDisruptionBudget::default();
        let counts = |healthy, expected| Counts { healthy, desired: 2, expected, disrupted: BTreeMap::new() };
        let some = status(&budget, counts(3, 3), now);
        assert_eq!(some.disruptions_allowed, Some(1));
        assert_eq!(some.conditions.as_ref().unwrap()[0].reason, "SufficientPods");
        budget.status = Some(some);
        assert_eq!(status(&budget, counts(1, 3), now).disruptions_allowed, Some(0));
        assert_eq!(status(&budget, counts(3, 0), now).disruptions_allowed, Some(0));
        let failed = failed(&budget, "why", now);
        let condition = &failed.conditions.as_ref().unwrap()[0];
        assert_eq!(
            (failed.disruptions_allowed, &*condition.reason, &*condition.message),
            (Some(0), "SyncFailed", "why")
        );
    }
}
