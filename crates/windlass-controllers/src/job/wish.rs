//! What a job asks for, and what its pods say of themselves.

use k8s_openapi::api::{
    batch::v1::{Job, JobCondition, PodFailurePolicy},
    core::v1::Pod,
};
use windlass_api::ObjectExt;

use crate::pods;

/// Who works on jobs that do not name anybody.
const THIS_CONTROLLER: &str = "kubernetes.io/job-controller";
/// Holds a pod until it has been counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Which index a pod of an indexed job has: an annotation, and a label.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The number of completions when it is the number of successes that counts.
pub(super) fn completions(job: &Job) -> Option<i32> {
    job.spec.as_ref()?.completions
}

pub(super) fn parallelism(job: &Job) -> i32 {
    job.spec.as_ref().and_then(|spec| spec.parallelism).unwrap_or(1)
}

pub(super) fn backoff_limit(job: &Job) -> i32 {
    job.spec.as_ref().and_then(|spec| spec.backoff_limit).unwrap_or(6)
}

/// How many failures each index may have, when that is counted by index.
pub(super) fn backoff_limit_per_index(job: &Job) -> Option<i32> {
    job.spec.as_ref()?.backoff_limit_per_index
}

pub(super) fn failure_policy(job: &Job) -> Option<&PodFailurePolicy> {
    job.spec.as_ref()?.pod_failure_policy.as_ref()
}

pub(super) fn is_indexed(job: &Job) -> bool {
    completion_mode(job) == Some("Indexed")
}

/// Whether the way in which completions are counted is one that exists.
pub(super) fn has_known_mode(job: &Job) -> bool {
    matches!(completion_mode(job), None | Some("Indexed" | "NonIndexed"))
}

fn completion_mode(job: &Job) -> Option<&str> {
    job.spec.as_ref()?.completion_mode.as_deref()
}

pub(super) fn is_suspended(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.suspend).unwrap_or(false)
}

/// Whether somebody else works on the job.
pub(super) fn is_managed_elsewhere(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|manager| manager != THIS_CONTROLLER)
}

/// Whether pods are replaced when they have ended, and not already when they are being deleted.
pub(super) fn replaces_only_ended(job: &Job) -> bool {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_replacement_policy.as_deref());
    policy == Some("Failed") || failure_policy(job).is_some()
}

/// The condition of a type, if it is true.
pub(super) fn condition<'j>(job: &'j Job, type_: &str) -> Option<&'j JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// The condition that says that the job is over.
pub(crate) fn end(job: &Job) -> Option<&JobCondition> {
    condition(job, "Complete").or_else(|| condition(job, "Failed"))
}

pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// Whether the pod counts as failed: one that is being deleted does, unless only those that ended are replaced.
pub(super) fn has_failed(job: &Job, pod: &Pod) -> bool {
    match pods::phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => pod.is_deleting() && !replaces_only_ended(job),
    }
}

/// The index of a pod; nothing when it has none, or none that makes sense.
pub(super) fn index(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// The index of a pod when the job has a use for it.
pub(super) fn valid_index(job: &Job, pod: &Pod) -> Option<i32> {
    index(pod).filter(|index| *index < completions(job).unwrap_or(0))
}
