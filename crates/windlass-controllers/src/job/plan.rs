//! Plans the next creations or deletions of a job's pods. Plain values, no I/O.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use windlass_api::{Object, ObjectExt};

use super::{
    backoff::{ended_at, remaining},
    failure,
    observed::Observed,
    spec,
};
use crate::pods;

/// The maximum number of pods that one reconcile creates or deletes.
const BURST: usize = 500;
/// The maximum length of a generated name's prefix.
const PREFIX: usize = 58;
/// The environment variable with a container's completion index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// The next action.
#[derive(Debug)]
pub(super) enum Plan {
    Rest,
    /// Create pods after this time.
    Wait(Duration),
    Create(Vec<Pod>),
    Delete(Vec<Arc<Pod>>),
}

/// Plans either deletions or creations. Surplus pods are deleted first.
pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let job = &observed.job;
    if spec::is_suspended(job) {
        return Plan::Delete(observed.active.clone());
    }
    let counts = observed.counts;
    let parallelism = spec::parallelism(job);
    let wanted = match spec::completions(job) {
        // After the first success no pods are added; the active ones may finish.
        None if counts.succeeded > 0 => counts.active,
        None => parallelism,
        Some(completions) => (completions - counts.succeeded).min(parallelism).max(0),
    };
    let mut surplus = surplus(observed, usize::try_from(counts.active - wanted).unwrap_or(0));
    if !surplus.is_empty() {
        surplus.truncate(BURST);
        return Plan::Delete(surplus);
    }
    let leaving = if spec::replaces_only_ended(job) { counts.terminating } else { 0 };
    let missing = usize::try_from(wanted - leaving - counts.active).unwrap_or(0);
    if missing == 0 {
        return Plan::Rest;
    }
    let by_index = spec::backoff_limit_per_index(job).is_some();
    let wait = if by_index { Duration::ZERO } else { observed.failures.remaining(now) };
    if !wait.is_zero() {
        return Plan::Wait(wait);
    }
    let missing = missing.min(BURST);
    if !spec::is_indexed(job) {
        return Plan::Create(vec![pod(observed, None); missing]);
    }
    let indexes = pending_indexes(observed, missing);
    let waits = |index: &i32| {
        observed.awaiting_successor.get(index).map_or(Duration::ZERO, |failed| {
            remaining(failure::earlier_failures(failed).saturating_add(1), ended_at(failed), now)
        })
    };
    let (ready, waiting): (Vec<_>, Vec<_>) = indexes.into_iter().partition(|index| !by_index || waits(index).is_zero());
    match waiting.iter().map(waits).min() {
        Some(wait) if ready.is_empty() => Plan::Wait(wait),
        _ => Plan::Create(ready.into_iter().map(|index| pod(observed, Some(index))).collect()),
    }
}

/// Returns the pods to delete. In an indexed job, these are all but one pod of each index and the pods without a valid
/// index. If they are fewer than `at_least`, more pods follow in deletion order.
fn surplus(observed: &Observed, at_least: usize) -> Vec<Arc<Pod>> {
    let (mut surplus, mut rest) = (Vec::new(), Vec::new());
    if spec::is_indexed(&observed.job) {
        let mut by_index: BTreeMap<i32, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in &observed.active {
            match spec::valid_index(&observed.job, pod) {
                Some(index) => by_index.entry(index).or_default().push(Arc::clone(pod)),
                None => surplus.push(Arc::clone(pod)),
            }
        }
        for mut same in by_index.into_values() {
            pods::sort_for_deletion(&mut same, |_| 0);
            rest.extend(same.pop());
            surplus.extend(same);
        }
    } else {
        rest.clone_from(&observed.active);
    }
    if surplus.len() < at_least {
        pods::sort_for_deletion(&mut rest, |_| 0);
        surplus.extend(rest.into_iter().take(at_least - surplus.len()));
    }
    surplus
}

/// Returns the first indexes that are neither finished nor have a pod.
fn pending_indexes(observed: &Observed, number: usize) -> Vec<i32> {
    let leaving = spec::replaces_only_ended(&observed.job);
    let busy = observed.pods.iter().filter(|pod| pods::is_active(pod) || (leaving && pods::is_terminating(pod)));
    let mut taken = observed.succeeded_indexes.union(&busy.filter_map(|pod| spec::index(pod)).collect());
    if let Some(failed) = &observed.failed_indexes {
        taken = taken.union(failed);
    }
    taken.first_missing(number, spec::completions(&observed.job).unwrap_or(0))
}

/// Builds a pod of the job's template, with an index if the job is indexed.
fn pod(observed: &Observed, index: Option<i32>) -> Pod {
    let job = &observed.job;
    let template = job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut pod = pods::from_template(job, template);
    let finalizers = pod.metadata_mut().finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == spec::TRACKING) {
        finalizers.push(spec::TRACKING.to_owned());
    }
    if let Some(index) = index {
        give_index(observed, &mut pod, index);
    }
    pod
}

fn give_index(observed: &Observed, pod: &mut Pod, index: i32) {
    let job = &observed.job;
    let end = format!("-{index}-");
    let mut name = job.name().to_owned();
    name.truncate(PREFIX - end.len());
    pod.metadata_mut().generate_name = Some(name + &end);
    pod.annotations_mut().insert(spec::INDEX.to_owned(), index.to_string());
    pod.labels_mut().insert(spec::INDEX.to_owned(), index.to_string());
    if spec::backoff_limit_per_index(job).is_some() {
        let failed = observed.awaiting_successor.get(&index).map(|pod| &**pod);
        for (annotation, count) in failure::annotations(job, failed) {
            pod.annotations_mut().insert(annotation.to_owned(), count.to_string());
        }
    }
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{}-{index}", job.name()));
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            tell_index(container);
        }
    }
}

fn tell_index(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().all(|variable| variable.name != INDEX_VARIABLE) {
        let field =
            ObjectFieldSelector { field_path: format!("metadata.labels['{}']", spec::INDEX), ..Default::default() };
        variables.push(EnvVar {
            name: INDEX_VARIABLE.to_owned(),
            value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
            ..EnvVar::default()
        });
    }
}
