//! Computes the replica counts of a deployment's replica sets. Plain values, no I/O.

use k8s_openapi::{
    api::apps::v1::{Deployment, ReplicaSet},
    apimachinery::pkg::util::intstr::IntOrString,
};
use windlass_api::ObjectExt;

use super::annotation;

/// The number of replicas that a rolling update may exceed, or fall short of, the desired number. Never both zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slack {
    /// The maximum number of replicas above the desired number.
    pub(super) surge: i32,
    /// The maximum number of unavailable replicas.
    pub(super) unavailable: i32,
}

/// The replica sets of a deployment by their role in the rollout.
#[derive(Clone, Debug)]
pub(super) struct ReplicaSets {
    /// The replica set with the deployment's current template.
    pub(super) new: Option<ReplicaSet>,
    /// All others, oldest first.
    pub(super) old: Vec<ReplicaSet>,
}

impl Slack {
    /// Returns the slack of a deployment's strategy. Percentages refer to the desired replicas; surge rounds up,
    /// unavailable rounds down.
    pub(super) fn of(deployment: &Deployment) -> Self {
        let desired = desired_replicas(deployment);
        let spec = deployment.spec.as_ref();
        let rolling =
            spec.and_then(|spec| spec.strategy.as_ref()).and_then(|strategy| strategy.rolling_update.as_ref());
        if is_recreate(deployment) {
            return Self { surge: 0, unavailable: 0 };
        }
        let surge = resolve(rolling.and_then(|rolling| rolling.max_surge.as_ref()), desired, Rounding::Up);
        let unavailable =
            resolve(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), desired, Rounding::Down);
        if surge == 0 && unavailable == 0 {
            // Both rounded down to zero, so the rollout could not progress: allow one unavailable replica.
            return Self { surge, unavailable: 1.min(desired) };
        }
        Self { surge, unavailable: unavailable.min(desired) }
    }
}

impl ReplicaSets {
    /// Returns all replica sets, the old ones first.
    pub(super) fn all(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(&self.new)
    }

    /// Returns the old replica sets with a replica count above zero.
    pub(super) fn old_active(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().filter(|set| spec_replicas(set) > 0)
    }

    /// Returns the sum of the desired replicas.
    pub(super) fn total_replicas(&self) -> i32 {
        self.all().map(spec_replicas).sum()
    }

    /// Returns the number of available pods.
    pub(super) fn available(&self) -> i32 {
        self.all().map(available_replicas).sum()
    }

    /// Returns the number of available pods that are not about to be deleted. A status may be older than the last
    /// scaling, and still count terminating pods.
    fn available_to_stay(&self) -> i32 {
        self.all().map(|set| available_replicas(set).min(spec_replicas(set))).sum()
    }
}

/// A replica set's name and its new replica count.
pub(super) type Scaling = (String, i32);

/// Returns the next replica count of the new replica set during a rolling update.
pub(super) fn new_replicas(deployment: &Deployment, sets: &ReplicaSets) -> i32 {
    let desired = desired_replicas(deployment);
    let current = sets.new.as_ref().map_or(0, spec_replicas);
    if is_recreate(deployment) || current > desired {
        return desired;
    }
    let room = desired + Slack::of(deployment).surge - sets.total_replicas();
    current + room.clamp(0, desired - current)
}

/// Returns the next replica counts of the old replica sets. Unavailable pods are removed first, then as many more as
/// the available new pods allow.
pub(super) fn old_replicas(deployment: &Deployment, sets: &ReplicaSets) -> Vec<Scaling> {
    let desired = desired_replicas(deployment);
    let min_available = desired - Slack::of(deployment).unavailable;
    let new_unavailable = sets.new.as_ref().map_or(0, |set| spec_replicas(set) - available_replicas(set));
    let mut cleanup = sets.total_replicas() - min_available - new_unavailable;
    if cleanup <= 0 {
        return Vec::new();
    }
    let mut targets: Vec<(&ReplicaSet, i32)> = sets.old_active().map(|set| (set, spec_replicas(set))).collect();

    // Removing unavailable pods does not reduce availability.
    for (set, target) in &mut targets {
        let unhealthy = spec_replicas(set) - available_replicas(set);
        let remove = unhealthy.clamp(0, cleanup.max(0));
        *target -= remove;
        cleanup -= remove;
    }

    // Available pods are removed only as far as they exceed the minimum.
    let mut spare = sets.available_to_stay() - min_available;
    for (_, target) in &mut targets {
        let remove = spare.clamp(0, *target);
        *target -= remove;
        spare -= remove;
    }
    let changed = targets.into_iter().filter(|(set, target)| spec_replicas(set) != *target);
    changed.map(|(set, target)| (set.name().to_owned(), target)).collect()
}

/// Distributes a changed replica count over the active replica sets in proportion to their sizes. An unfinished or
/// paused rollout keeps its progress.
pub(super) fn proportional(deployment: &Deployment, sets: &ReplicaSets) -> Vec<Scaling> {
    let desired = desired_replicas(deployment);
    let limit = if desired > 0 && !is_recreate(deployment) { desired + Slack::of(deployment).surge } else { desired };
    let mut active: Vec<&ReplicaSet> = sets.all().filter(|set| spec_replicas(set) > 0).collect();
    let total: i32 = active.iter().map(|set| spec_replicas(set)).sum();
    let to_add = limit - total;

    // Largest first, so that the rounding remainder goes to the largest. Among equals, the newest when scaling up and
    // the oldest when scaling down.
    active.sort_by(|a, b| {
        let newest_first = b.metadata.creation_timestamp.cmp(&a.metadata.creation_timestamp);
        let age = if to_add > 0 { newest_first } else { newest_first.reverse() };
        spec_replicas(b).cmp(&spec_replicas(a)).then(age)
    });

    let mut left = to_add;
    let mut targets: Vec<(&ReplicaSet, i32)> = Vec::with_capacity(active.len());
    for set in active {
        let share = if to_add == 0 { 0 } else { share(set, deployment, limit, left) };
        left -= share;
        targets.push((set, spec_replicas(set) + share));
    }
    if let Some((_, target)) = targets.first_mut() {
        *target = (*target + left).max(0);
    }
    let changed = targets.into_iter().filter(|(set, target)| spec_replicas(set) != *target);
    changed.map(|(set, target)| (set.name().to_owned(), target)).collect()
}

/// Returns one replica set's part of a change, at most the rest of the change.
fn share(set: &ReplicaSet, deployment: &Deployment, limit: i32, left: i32) -> i32 {
    let replicas = spec_replicas(set);
    let recorded = |name| set.annotations().get(name).and_then(|value| value.parse::<i32>().ok());
    // The deployment's maximum when this replica set was last scaled.
    let before = recorded(annotation::MAX_REPLICAS).filter(|max| *max > 0);
    let before = before.or_else(|| deployment.status.as_ref().and_then(|status| status.replicas)).unwrap_or(0);
    if replicas == 0 || before == 0 {
        return 0;
    }
    let scaled = (f64::from(replicas) * f64::from(limit) / f64::from(before)).round();
    #[expect(clippy::cast_possible_truncation, reason = "rounded, and within the product of two i32 over a third")]
    let wanted = scaled as i32 - replicas;
    if left > 0 { wanted.clamp(0, left) } else { wanted.clamp(left, 0) }
}

/// Returns the desired replicas of a deployment.
pub(super) fn desired_replicas(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Returns the desired replicas of a replica set.
pub(super) fn spec_replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

pub(super) fn available_replicas(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

pub(super) fn is_recreate(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

#[derive(Clone, Copy)]
enum Rounding {
    Up,
    Down,
}

fn resolve(value: Option<&IntOrString>, of: i32, rounding: Rounding) -> i32 {
    let percent = match value {
        None => 25,
        Some(IntOrString::Int(number)) => return (*number).max(0),
        Some(IntOrString::String(text)) => match text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok()) {
            Some(percent) => percent.max(0),
            // The API server validates the value; an invalid one counts as zero.
            None => return 0,
        },
    };
    let product = percent * i64::from(of);
    let resolved = match rounding {
        Rounding::Up => (product + 99) / 100,
        Rounding::Down => product / 100,
    };
    i32::try_from(resolved).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "scale_tests.rs"]
mod tests;
