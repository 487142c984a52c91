//! Tracking of finished pods, so that each is counted exactly once.
//!
//! A finalizer keeps a pod until it is counted. First its UID is added to the status, then the finalizer is removed,
//! then the UID is replaced by a count. After an interruption, the next reconcile continues at the same step. Pods of
//! indexed jobs that succeeded need no UID, because the status contains the index.

use std::{collections::HashSet, sync::Arc};

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use serde_json::json;
use windlass_api::{ObjectExt, Patch};
use windlass_client::Error;
use windlass_runtime::Context;

use super::{
    failure::{self, Verdict},
    indexes::Indexes,
    observed::{Observed, Uncounted, condition},
    spec,
};
use crate::pods;

/// The maximum number of uncounted pods whose UIDs are in the status.
const MOST_UNCOUNTED: usize = 500;

/// The comparison of a status with the one on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Change {
    Same,
    Changed,
}

/// The result of adding finished pods to the status, and the follow-up work.
#[derive(Debug)]
#[must_use]
pub(super) struct Recorded {
    pub(super) change: Change,
    /// The pods whose finalizer may be removed once the status is written.
    pub(super) to_release: Vec<Arc<Pod>>,
    /// The UIDs of the pods that still have the finalizer.
    pub(super) held: HashSet<String>,
    /// `true` if more pods are left than one reconcile counts.
    pub(super) is_partial: bool,
}

impl Change {
    pub(super) fn of(changed: bool) -> Self {
        if changed { Self::Changed } else { Self::Same }
    }

    pub(super) fn or(self, other: Self) -> Self {
        if self == Self::Changed { self } else { other }
    }
}

/// Adds finished pods to the status, by UID or by index, together with the verdict.
pub(super) fn record(observed: &mut Observed, now: Timestamp) -> Recorded {
    let tracked: Vec<_> = observed.pods.iter().filter(|pod| spec::is_tracked(pod)).cloned().collect();
    let held: HashSet<String> = tracked.iter().filter_map(|pod| pod.uid().map(str::to_owned)).collect();
    let before = Uncounted::of(&observed.job);
    let mut change = count_released(observed.status(), &held);
    let mut tracked = tracked;
    if spec::is_indexed(&observed.job) {
        tracked.sort_by_key(|pod| spec::index(pod));
    }

    let (mut to_release, mut new_indexes) = (Vec::new(), Vec::new());
    let mut is_partial = false;
    for pod in tracked {
        if !may_go(observed, &pod) {
            continue;
        }
        match ending(observed, &pod, &before) {
            Ending::Known => {}
            Ending::Index(index) => new_indexes.push(index),
            Ending::Succeeded => uncounted(observed.status(), |pods| &mut pods.succeeded, &pod),
            Ending::Failed => uncounted(observed.status(), |pods| &mut pods.failed, &pod),
        }
        to_release.push(pod);
        let now = Uncounted::of(&observed.job);
        if new_indexes.len() + now.succeeded.len() + now.failed.len() >= MOST_UNCOUNTED {
            is_partial = true;
            break;
        }
    }
    let after = Uncounted::of(&observed.job);
    let has_new = after.succeeded.difference(&before.succeeded).next().is_some()
        || after.failed.difference(&before.failed).next().is_some();
    change = change.or(Change::of(has_new || !new_indexes.is_empty()));
    change = change.or(record_indexes(observed, new_indexes)).or(record_verdict(observed, now));
    Recorded { change, to_release, held, is_partial }
}

/// The way in which a finished pod enters the status.
enum Ending {
    /// The pod is already in the status, or does not count.
    Known,
    Index(i32),
    Succeeded,
    Failed,
}

fn ending(observed: &Observed, pod: &Pod, before: &Uncounted) -> Ending {
    let uid = pod.uid().unwrap_or_default();
    let is_indexed = spec::is_indexed(&observed.job);
    let index = spec::valid_index(&observed.job, pod);
    if pods::phase(pod) == "Succeeded" && !before.failed.contains(uid) {
        return match index {
            Some(index) if is_indexed && !observed.known_indexes.contains(index) => Ending::Index(index),
            _ if is_indexed || before.succeeded.contains(uid) => Ending::Known,
            _ => Ending::Succeeded,
        };
    }
    // In a failed job, every pod that did not succeed has failed.
    let is_lost = observed.verdict.as_ref().is_some_and(|verdict| verdict.type_ != "SuccessCriteriaMet");
    let counts = (spec::has_failed(&observed.job, pod) || is_lost)
        && !before.failed.contains(uid)
        && (!is_indexed || index.is_some())
        && failure::verdict(&observed.job, pod) != Verdict::Ignore;
    if counts { Ending::Failed } else { Ending::Known }
}

/// Returns `true` if the pod's finalizer may be removed: the pod or the job is finished. A failed pod stays until
/// another pod has taken over its index.
fn may_go(observed: &Observed, pod: &Pod) -> bool {
    if observed.job.is_deleting() || observed.verdict.is_some() || pods::phase(pod) == "Succeeded" {
        return true;
    }
    let awaits_successor = || {
        let waiting = spec::index(pod).and_then(|index| observed.awaiting_successor.get(&index));
        waiting.is_some_and(|waiting| waiting.uid() == pod.uid())
    };
    spec::has_failed(&observed.job, pod) && !awaits_successor()
}

fn uncounted(
    status: &mut JobStatus,
    list: impl Fn(&mut k8s_openapi::api::batch::v1::UncountedTerminatedPods) -> &mut Option<Vec<String>>,
    pod: &Pod,
) {
    let list = list(status.uncounted_terminated_pods.get_or_insert_default()).get_or_insert_default();
    list.push(pod.uid().unwrap_or_default().to_owned());
}

fn record_indexes(observed: &mut Observed, new: Vec<i32>) -> Change {
    if !spec::is_indexed(&observed.job) {
        return Change::Same;
    }
    observed.succeeded_indexes = observed.succeeded_indexes.union(&new.into_iter().collect());
    let total = observed.succeeded_indexes.total();
    let written = |indexes: &Indexes| Some(indexes.to_string()).filter(|text| !text.is_empty());
    let completed = written(&observed.succeeded_indexes);
    let failed = observed.failed_indexes.as_ref().map(Indexes::to_string);
    let status = observed.status();
    let changed = status.completed_indexes.clone().filter(|text| !text.is_empty()) != completed
        || status.failed_indexes != failed;
    (status.succeeded, status.completed_indexes, status.failed_indexes) = (Some(total), completed, failed);
    Change::of(changed)
}

/// Adds the interim condition, which is set before finalizers are removed. The final condition follows later.
fn record_verdict(observed: &mut Observed, now: Timestamp) -> Change {
    let Some(verdict) = observed.verdict.clone() else { return Change::Same };
    let last = match &*verdict.type_ {
        "FailureTarget" => "Failed",
        "SuccessCriteriaMet" => "Complete",
        _ => return Change::Same,
    };
    let reason = verdict.reason.clone().unwrap_or_default();
    observed.verdict = Some(condition(last, &reason, verdict.message.clone().unwrap_or_default(), now));
    if spec::condition(&observed.job, &verdict.type_).is_some() {
        return Change::Same;
    }
    observed.status().conditions.get_or_insert_default().push(verdict);
    Change::Changed
}

/// Replaces the UIDs of pods without the finalizer by counts.
pub(super) fn count_released(status: &mut JobStatus, held: &HashSet<String>) -> Change {
    let pods = status.uncounted_terminated_pods.get_or_insert_default();
    let mut changed = false;
    for (uids, total) in [(&mut pods.succeeded, &mut status.succeeded), (&mut pods.failed, &mut status.failed)] {
        let Some(list) = uids else { continue };
        let before = list.len();
        list.retain(|uid| held.contains(uid));
        let counted = i32::try_from(before - list.len()).unwrap_or(i32::MAX);
        if counted > 0 {
            *total = Some(total.unwrap_or(0).saturating_add(counted));
            changed = true;
        }
        if list.is_empty() {
            *uids = None;
        }
    }
    Change::of(changed)
}

/// Sets the final condition once all pods are counted and none is terminating. Returns `true` if the job is finished.
pub(super) fn finish(observed: &mut Observed, now: Timestamp) -> bool {
    let Some(verdict) = observed.verdict.clone() else { return false };
    let uncounted = Uncounted::of(&observed.job);
    if !uncounted.succeeded.is_empty() || !uncounted.failed.is_empty() || observed.counts.terminating > 0 {
        return false;
    }
    let status = observed.status();
    if verdict.type_ == "Complete" {
        status.completion_time.clone_from(&verdict.last_transition_time);
    }
    let reason = verdict.reason.as_deref().unwrap_or_default();
    let message = verdict.message.as_deref().unwrap_or_default();
    // An existing condition makes no difference to the result.
    let _ = set_condition(status, &verdict.type_, "True", reason, message, now);
    true
}

/// Sets a condition, and returns whether that changed anything. A missing condition is not added with the status
/// `False`.
pub(super) fn set_condition(
    status: &mut JobStatus,
    type_: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Change {
    let mut wanted = condition(type_, reason, message, now);
    value.clone_into(&mut wanted.status);
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|known| known.type_ == type_) {
        Some(known) => {
            let same = known.status == value && known.reason == wanted.reason && known.message == wanted.message;
            if !same {
                *known = wanted;
            }
            Change::of(!same)
        }
        None if value == "False" => Change::Same,
        None => {
            conditions.push(wanted);
            Change::Changed
        }
    }
}

/// Removes the finalizer. A missing pod is not an error.
pub(super) async fn release(cx: &Context, pod: &Pod) -> Result<(), Error> {
    let metadata = json!({"uid": pod.uid(), "$deleteFromPrimitiveList/finalizers": [spec::TRACKING]});
    let patch = Patch::Strategic(json!({"metadata": metadata}));
    match cx.client().patch::<Pod>(pod.object_ref(), patch).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}

/// Removes the finalizers of several pods, and calls `told` for each success.
pub(super) async fn release_all(cx: &Context, pods: &[Arc<Pod>], mut told: impl FnMut(&Arc<Pod>)) -> Result<(), Error> {
    let outcomes = join_all(pods.iter().map(|pod| release(cx, pod))).await;
    let mut result = Ok(());
    for (pod, outcome) in pods.iter().zip(outcomes) {
        match outcome {
            Ok(()) => told(pod),
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Copies the counts of pods to the status, and returns whether they differ.
pub(super) fn record_counts(observed: &mut Observed) -> Change {
    let counts = observed.counts;
    let status = observed.status();
    let changed = status.active.unwrap_or(0) != counts.active
        || status.ready != Some(counts.ready)
        || status.terminating != Some(counts.terminating);
    status.active = Some(counts.active);
    status.ready = Some(counts.ready);
    status.terminating = Some(counts.terminating);
    Change::of(changed)
}

/// Returns `true` if more pods succeeded than required.
pub(super) fn has_too_many(job: &Job) -> bool {
    let succeeded = job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
    spec::completions(job).is_some_and(|wanted| succeeded > wanted)
}
