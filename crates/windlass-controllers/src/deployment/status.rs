//! The status of a deployment: counts and conditions. Plain values, no I/O.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet},
    apimachinery::pkg::apis::meta::v1::Time,
};
use windlass_api::ObjectExt;

use super::scale::{ReplicaSets, Slack, desired_replicas, spec_replicas};

/// A step of a rollout that the conditions record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The new replica set was created.
    Created(String),
    /// The replica set already existed: after a rollback, or a restart of the controller.
    Found(String),
    /// The replica set could not be created.
    CreateFailed(String),
    /// The rollout was paused.
    Paused,
    /// The rollout was resumed.
    Resumed,
}

/// Computes the status of a deployment.
pub(super) fn compute(
    deployment: &Deployment,
    sets: &ReplicaSets,
    progress: Option<&Progress>,
    now: Timestamp,
) -> DeploymentStatus {
    let before = deployment.status.clone().unwrap_or_default();
    let count = |of: fn(&ReplicaSet) -> i32| sets.all().map(of).sum::<i32>();
    let (total, available) = (count(replicas), sets.available());
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: non_zero(total),
        updated_replicas: non_zero(sets.new.as_ref().map_or(0, replicas)),
        ready_replicas: non_zero(count(ready_replicas)),
        available_replicas: non_zero(available),
        unavailable_replicas: non_zero((count(spec_replicas) - available).max(0)),
        terminating_replicas: terminating_replicas(sets),
        collision_count: before.collision_count,
        ..before.clone()
    };
    let mut conditions = Conditions { list: before.conditions.clone().unwrap_or_default(), now };
    // New progress comes first, as in kube-controller-manager.
    if let Some(progress) = progress {
        conditions.record(progress);
    }
    conditions.availability(deployment, available);
    conditions.progress(deployment, sets, &before, &status);
    conditions.replica_failure(sets);
    status.conditions = Some(conditions.list).filter(|list| !list.is_empty());
    status
}

/// Returns the number of terminating pods of all replica sets. Returns `None` if a replica set's controller does not
/// count them. A replica set without an observed status has none.
fn terminating_replicas(sets: &ReplicaSets) -> Option<i32> {
    let seen = sets.all().filter_map(|set| set.status.as_ref()).filter(|status| status.observed_generation.is_some());
    seen.map(|status| status.terminating_replicas).sum()
}

/// Returns the time to check the deployment's progress deadline.
pub(super) fn deadline(deployment: &Deployment, status: &DeploymentStatus) -> Option<Timestamp> {
    let condition = find(status.conditions.as_deref()?, "Progressing")?;
    let waiting = matches!(
        condition.reason.as_deref(),
        Some("NewReplicaSetCreated" | "FoundNewReplicaSet" | "ReplicaSetUpdated" | "DeploymentResumed")
    );
    let seconds = deadline_seconds(deployment).filter(|_| waiting)?;
    condition.last_update_time.as_ref()?.0.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Returns `true` if every replica is of the new template and available, and no old one is left.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = desired_replicas(deployment);
    let all = |count: Option<i32>| count.unwrap_or(0) == desired;
    all(status.updated_replicas)
        && all(status.replicas)
        && all(status.available_replicas)
        && status.observed_generation >= deployment.metadata.generation
}

/// Returns the reason of the `Progressing` condition.
pub(super) fn progressing_reason(deployment: &Deployment) -> Option<&str> {
    find(deployment.status.as_ref()?.conditions.as_deref()?, "Progressing")?.reason.as_deref()
}

/// Returns the progress deadline in seconds, or `None` if there is none.
pub(super) fn deadline_seconds(deployment: &Deployment) -> Option<i64> {
    let seconds = deployment.spec.as_ref().and_then(|spec| spec.progress_deadline_seconds)?;
    (seconds != i32::MAX).then_some(seconds.into())
}

struct Conditions {
    list: Vec<DeploymentCondition>,
    now: Timestamp,
}

impl Conditions {
    fn availability(&mut self, deployment: &Deployment, available: i32) {
        let enough = desired_replicas(deployment) - Slack::of(deployment).unavailable;
        if available >= enough {
            self.set("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.");
        } else {
            let message = "Deployment does not have minimum availability.";
            self.set("Available", "False", "MinimumReplicasUnavailable", message);
        }
    }

    fn record(&mut self, progress: &Progress) {
        match progress {
            Progress::Created(set) => {
                let message = format!("Created new replica set {set:?}");
                self.set("Progressing", "True", "NewReplicaSetCreated", &message);
            }
            Progress::Found(set) => {
                self.set("Progressing", "True", "FoundNewReplicaSet", &format!("Found new replica set {set:?}"));
            }
            Progress::CreateFailed(error) => self.set("Progressing", "False", "ReplicaSetCreateError", error),
            Progress::Paused => self.set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"),
            Progress::Resumed => self.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed"),
        }
    }

    fn progress(
        &mut self,
        deployment: &Deployment,
        sets: &ReplicaSets,
        before: &DeploymentStatus,
        status: &DeploymentStatus,
    ) {
        let present = find(&self.list, "Progressing").cloned();
        let reason = present.as_ref().and_then(|condition| condition.reason.as_deref());
        if deadline_seconds(deployment).is_none() || matches!(reason, Some("DeploymentPaused")) {
            return;
        }
        // A completed rollout stays complete, whatever happens to its pods later.
        let settled = status.replicas == status.updated_replicas && reason == Some("NewReplicaSetAvailable");
        if settled {
            return;
        }
        let subject = sets.new.as_ref().map_or_else(
            || format!("Deployment {:?}", deployment.name()),
            |set| format!("ReplicaSet {:?}", set.name()),
        );
        if is_complete(deployment, status) {
            let message = format!("{subject} has successfully progressed.");
            self.set("Progressing", "True", "NewReplicaSetAvailable", &message);
        } else if has_progressed(before, status) {
            let message = format!("{subject} is progressing.");
            let transition = present.filter(|condition| condition.status == "True");
            self.remove("Progressing");
            self.set("Progressing", "True", "ReplicaSetUpdated", &message);
            // A new update time, but the same transition time.
            if let (Some(old), Some(new)) = (transition, self.list.last_mut()) {
                new.last_transition_time = old.last_transition_time;
            }
        } else if self.timed_out(deployment, status) {
            let message = format!("{subject} has timed out progressing.");
            self.set("Progressing", "False", "ProgressDeadlineExceeded", &message);
        }
    }

    fn timed_out(&self, deployment: &Deployment, status: &DeploymentStatus) -> bool {
        let conditions = DeploymentStatus { conditions: Some(self.list.clone()), ..status.clone() };
        deadline(deployment, &conditions).is_some_and(|deadline| deadline <= self.now)
    }

    /// Adopts the `ReplicaFailure` condition of a replica set that cannot create its pods.
    fn replica_failure(&mut self, sets: &ReplicaSets) {
        let failure = |set: &ReplicaSet| {
            let conditions = set.status.as_ref()?.conditions.as_ref()?;
            conditions.iter().find(|condition| condition.type_ == "ReplicaFailure").cloned()
        };
        let of_new = sets.new.iter().find_map(failure);
        match of_new.or_else(|| sets.old.iter().find_map(failure)) {
            Some(failure) => self.set(
                "ReplicaFailure",
                &failure.status,
                failure.reason.as_deref().unwrap_or_default(),
                failure.message.as_deref().unwrap_or_default(),
            ),
            None => self.remove("ReplicaFailure"),
        }
    }

    /// Sets a condition. Does nothing if status and reason are unchanged.
    fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let present = find(&self.list, type_);
        if present.is_some_and(|old| old.status == status && old.reason.as_deref() == Some(reason)) {
            return;
        }
        let now = Some(Time(self.now));
        let transition = present.filter(|old| old.status == status).and_then(|old| old.last_transition_time.clone());
        self.remove(type_);
        self.list.push(DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_update_time: now.clone(),
            last_transition_time: transition.or(now),
        });
    }

    fn remove(&mut self, type_: &str) {
        self.list.retain(|condition| condition.type_ != type_);
    }
}

fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(after.updated_replicas) > count(before.updated_replicas)
        || old(after) < old(before)
        || count(after.ready_replicas) > count(before.ready_replicas)
        || count(after.available_replicas) > count(before.available_replicas)
}

fn find<'c>(conditions: &'c [DeploymentCondition], type_: &str) -> Option<&'c DeploymentCondition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn replicas(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

fn ready_replicas(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
}

fn non_zero(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
