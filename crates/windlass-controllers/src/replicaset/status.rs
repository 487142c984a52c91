//! The status of a replica set. Plain values, no I/O.

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{Replicated, readiness::Replica};

/// Computes the status. `failure` is the reason and message of a failed creation or deletion.
pub(super) fn compute<K: Replicated>(
    set: &K,
    active: &[Replica<'_>],
    ending: &[Replica<'_>],
    failure: Option<(&str, String)>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let before = set.status().unwrap_or_default();
    let min_ready = set.min_ready_seconds();
    let count = |of: &dyn Fn(&Replica<'_>) -> bool| i32::try_from(active.iter().filter(|pod| of(pod)).count()).ok();
    let non_zero = |count: Option<i32>| count.filter(|count| *count != 0);
    let wanted =
        set.template().and_then(|template| template.metadata.as_ref()).and_then(|metadata| metadata.labels.as_ref());
    let fully_labeled =
        |pod: &Replica<'_>| wanted.into_iter().flatten().all(|(key, value)| pod.meta.label(key) == Some(value));
    let terminating = ending.iter().filter(|pod| pod.is_terminating()).count();
    ReplicaSetStatus {
        replicas: count(&|_| true).unwrap_or(i32::MAX),
        fully_labeled_replicas: non_zero(count(&fully_labeled)),
        ready_replicas: non_zero(count(&|pod| pod.readiness.ready)),
        available_replicas: non_zero(count(&|pod| pod.is_available(min_ready, now))),
        terminating_replicas: i32::try_from(terminating).ok(),
        observed_generation: set.metadata().generation,
        conditions: conditions(before.conditions, failure, now),
    }
}

fn conditions(
    before: Option<Vec<ReplicaSetCondition>>,
    failure: Option<(&str, String)>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    const FAILURE: &str = "ReplicaFailure";
    let mut conditions = before.unwrap_or_default();
    match failure {
        None => conditions.retain(|condition| condition.type_ != FAILURE),
        // The condition keeps the message of the first failure.
        Some(_) if conditions.iter().any(|condition| condition.type_ == FAILURE) => {}
        Some((reason, message)) => conditions.push(ReplicaSetCondition {
            type_: FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(Time(now)),
        }),
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use windlass_api::{Meta, ObjectKey};

    use super::{super::readiness::Readiness, *};

    #[test]
    fn status_counts_ready_pods_and_failures() {
        let meta = Meta::new(ObjectKey::new("pod"));
        let pods =
            [true, false].map(|ready| Replica { meta: &meta, readiness: Readiness { ready, ..Readiness::default() } });
        let now = Timestamp::UNIX_EPOCH;
        let mut set = ReplicaSet::default();
        let failed = compute(&set, &pods, &[], Some(("FailedCreate", "no".to_owned())), now);
        assert_eq!((failed.replicas, failed.ready_replicas, failed.available_replicas), (2, Some(1), Some(1)));
        assert_eq!(failed.conditions.as_ref().unwrap()[0].reason.as_deref(), Some("FailedCreate"));
        set.status = Some(failed.clone());
        assert_eq!(compute(&set, &pods, &[], Some(("FailedCreate", "again".to_owned())), now), failed);
        assert_eq!(compute(&set, &pods, &[], None, now).conditions, None);
    }
}
