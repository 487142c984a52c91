//! The desired state of a job, and the job-related fields of its pods.

use k8s_openapi::api::{
    batch::v1::{Job, JobCondition, PodFailurePolicy},
    core::v1::Pod,
};
use windlass_api::ObjectExt;

use crate::pods;

/// The value of `managedBy` for this controller, the default.
const THIS_CONTROLLER: &str = "kubernetes.io/job-controller";
/// The finalizer that keeps a pod until it is counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label with the completion index of a pod.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Returns the number of completions; `None` if any success completes the job.
pub(super) fn completions(job: &Job) -> Option<i32> {
    job.spec.as_ref()?.completions
}

pub(super) fn parallelism(job: &Job) -> i32 {
    job.spec.as_ref().and_then(|spec| spec.parallelism).unwrap_or(1)
}

pub(super) fn backoff_limit(job: &Job) -> i32 {
    job.spec.as_ref().and_then(|spec| spec.backoff_limit).unwrap_or(6)
}

/// Returns the maximum number of failures per index, if the job counts per index.
pub(super) fn backoff_limit_per_index(job: &Job) -> Option<i32> {
    job.spec.as_ref()?.backoff_limit_per_index
}

pub(super) fn failure_policy(job: &Job) -> Option<&PodFailurePolicy> {
    job.spec.as_ref()?.pod_failure_policy.as_ref()
}

pub(super) fn is_indexed(job: &Job) -> bool {
    completion_mode(job) == Some("Indexed")
}

/// Returns `true` if the job's completion mode is a known one.
pub(super) fn has_known_mode(job: &Job) -> bool {
    matches!(completion_mode(job), None | Some("Indexed" | "NonIndexed"))
}

fn completion_mode(job: &Job) -> Option<&str> {
    job.spec.as_ref()?.completion_mode.as_deref()
}

pub(super) fn is_suspended(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.suspend).unwrap_or(false)
}

/// Returns `true` if another controller manages the job.
pub(super) fn is_managed_elsewhere(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|manager| manager != THIS_CONTROLLER)
}

/// Returns `true` if pods are replaced only when they have finished, not already when they are terminating.
pub(super) fn replaces_only_ended(job: &Job) -> bool {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_replacement_policy.as_deref());
    policy == Some("Failed") || failure_policy(job).is_some()
}

/// Returns the condition of a type, if it is true.
pub(super) fn condition<'j>(job: &'j Job, type_: &str) -> Option<&'j JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Returns the condition that marks the job as finished.
pub(crate) fn end(job: &Job) -> Option<&JobCondition> {
    condition(job, "Complete").or_else(|| condition(job, "Failed"))
}

pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// Returns `true` if the pod counts as failed. A terminating pod does, unless the job replaces only finished pods.
pub(super) fn has_failed(job: &Job, pod: &Pod) -> bool {
    match pods::phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => pod.is_deleting() && !replaces_only_ended(job),
    }
}

/// Returns the completion index of a pod, or `None` without a valid one.
pub(super) fn index(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// Returns the completion index of a pod, if it is one of the job's.
pub(super) fn valid_index(job: &Job, pod: &Pod) -> Option<i32> {
    index(pod).filter(|index| *index < completions(job).unwrap_or(0))
}
