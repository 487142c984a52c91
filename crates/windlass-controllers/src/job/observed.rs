//! The state of a job and its pods in one reconcile, including whether the job is finished. Plain values, no I/O.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition, JobStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use windlass_api::ObjectExt;

use super::{
    backoff::{Failures, ended_at},
    failure::{self, Verdict},
    indexes::Indexes,
    spec, success,
};
use crate::pods;

/// A job, its pods, and the derived counts.
#[derive(Debug)]
pub(super) struct Observed {
    /// The job as updated so far by this reconcile.
    pub(super) job: Job,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) active: Vec<Arc<Pod>>,
    pub(super) counts: Counts,
    /// The succeeded indexes: those in the status, then those including the pods.
    pub(super) known_indexes: Indexes,
    pub(super) succeeded_indexes: Indexes,
    /// The failed indexes; `None` unless failures are counted per index.
    pub(super) failed_indexes: Option<Indexes>,
    /// The failed pods that stay until another pod has taken over their index and its failure count.
    pub(super) awaiting_successor: BTreeMap<i32, Arc<Pod>>,
    /// The failures, including those since the last reconcile.
    pub(super) failures: Failures,
    /// The condition that finishes the job, if it is finished.
    pub(super) verdict: Option<JobCondition>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) active: i32,
    pub(super) ready: i32,
    pub(super) terminating: i32,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
}

/// The finished pods in the status that are not counted yet.
#[derive(Debug, Default)]
pub(super) struct Uncounted {
    pub(super) succeeded: HashSet<String>,
    pub(super) failed: HashSet<String>,
}

impl Uncounted {
    pub(super) fn of(job: &Job) -> Self {
        let pods = job.status.as_ref().and_then(|status| status.uncounted_terminated_pods.clone()).unwrap_or_default();
        let set = |uids: Option<Vec<String>>| uids.unwrap_or_default().into_iter().collect();
        Self { succeeded: set(pods.succeeded), failed: set(pods.failed) }
    }
}

pub(super) fn condition(type_: &str, reason: &str, message: impl Into<String>, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.into()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// Returns the number of items as an `i32`, the API's type.
pub(super) fn count(pods: impl Iterator) -> i32 {
    i32::try_from(pods.count()).unwrap_or(i32::MAX)
}

impl Observed {
    pub(super) fn new(mut job: Job, pods: Vec<Arc<Pod>>, failures: Failures, now: Timestamp) -> Self {
        let status = job.status.get_or_insert_default();
        status.uncounted_terminated_pods.get_or_insert_default();
        let JobStatus { succeeded, failed, .. } = *status;
        let is_suspended = spec::is_suspended(&job);
        if !is_suspended && let Some(status) = &mut job.status {
            status.start_time.get_or_insert(Time(now));
        }
        let uncounted = Uncounted::of(&job);
        let new = |counted: &HashSet<String>, has_ended: &dyn Fn(&Pod) -> bool| -> Vec<Arc<Pod>> {
            let new = pods.iter().filter(|pod| is_to_be_counted(&job, pod));
            let new = new.filter(|pod| !counted.contains(pod.uid().unwrap_or_default()) && has_ended(pod));
            new.cloned().collect()
        };
        let new_succeeded = new(&uncounted.succeeded, &|pod| pods::phase(pod) == "Succeeded");
        let new_failed = new(&uncounted.failed, &|pod| spec::has_failed(&job, pod));
        let that_count = new_failed.iter().filter(|pod| failure::verdict(&job, pod) != Verdict::Ignore);
        let active: Vec<_> = pods.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
        let counts = Counts {
            active: count(active.iter()),
            ready: count(active.iter().filter(|pod| pods::is_ready(pod))),
            terminating: count(pods.iter().filter(|pod| pods::is_terminating(pod))),
            succeeded: succeeded.unwrap_or(0) + count(new_succeeded.iter()) + count(uncounted.succeeded.iter()),
            failed: failed.unwrap_or(0) + count(that_count) + count(uncounted.failed.iter()),
        };
        let failures = failures.with(&new_succeeded, &new_failed);
        let mut observed = Self {
            job,
            pods,
            active,
            counts,
            known_indexes: Indexes::default(),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            awaiting_successor: BTreeMap::new(),
            failures,
            verdict: None,
        };
        observed.read_indexes();
        observed.verdict = observed.decide(now);
        observed
    }

    pub(super) fn status(&mut self) -> &mut JobStatus {
        self.job.status.get_or_insert_default()
    }

    fn read_indexes(&mut self) {
        if !spec::is_indexed(&self.job) {
            return;
        }
        let completions = spec::completions(&self.job).unwrap_or(0);
        let status = self.job.status.clone().unwrap_or_default();
        let tracked = || self.pods.iter().filter(|pod| spec::is_tracked(pod));
        let parse = |text: Option<String>| Indexes::parse(&text.unwrap_or_default(), completions);
        let index = |pod: &Arc<Pod>| spec::valid_index(&self.job, pod);

        let known = parse(status.completed_indexes);
        let succeeded =
            known.union(&tracked().filter(|pod| pods::phase(pod) == "Succeeded").filter_map(index).collect());
        let failed = spec::backoff_limit_per_index(&self.job).map(|_| {
            let failed = tracked().filter(|pod| failure::exhausts_index(&self.job, pod)).filter_map(index);
            parse(status.failed_indexes).union(&failed.collect())
        });
        self.counts.succeeded = succeeded.total();
        (self.known_indexes, self.succeeded_indexes, self.failed_indexes) = (known, succeeded, failed);
        self.find_those_awaiting_successors();
    }

    fn find_those_awaiting_successors(&mut self) {
        let Some(failed) = &self.failed_indexes else { return };
        let active: BTreeSet<_> = self.active.iter().filter_map(|pod| spec::index(pod)).collect();
        let mut waiting: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| spec::is_tracked(pod) && spec::has_failed(&self.job, pod)) {
            let Some(index) = spec::valid_index(&self.job, pod) else { continue };
            if self.succeeded_indexes.contains(index) || failed.contains(index) || active.contains(&index) {
                continue;
            }
            let is_later = waiting.get(&index).is_none_or(|other| {
                failure::earlier_failures(other) <= failure::earlier_failures(pod) && ended_at(other) <= ended_at(pod)
            });
            if is_later {
                waiting.insert(index, Arc::clone(pod));
            }
        }
        self.awaiting_successor = waiting;
    }

    /// Returns the condition that finishes the job, if any. An earlier result has priority, then failures, then
    /// successes.
    fn decide(&self, now: Timestamp) -> Option<JobCondition> {
        let job = &self.job;
        if let Some(met) = spec::condition(job, "SuccessCriteriaMet") {
            return Some(met.clone());
        }
        if let Some(target) = spec::condition(job, "FailureTarget") {
            let reason = target.reason.as_deref().unwrap_or_default();
            return Some(condition("Failed", reason, target.message.clone().unwrap_or_default(), now));
        }
        let target = |reason: &str, message: &str| Some(condition("FailureTarget", reason, message, now));
        let failed = self.pods.iter().filter(|pod| spec::has_failed(job, pod));
        let by_policy = failed.map(|pod| failure::verdict(job, pod)).find_map(|verdict| match verdict {
            Verdict::FailJob(message) => Some(message),
            _ => None,
        });
        if let Some(message) = by_policy {
            return target("PodFailurePolicy", &message);
        }
        if self.counts.failed > spec::backoff_limit(job) || self.restarted_too_often() {
            return target("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        if deadline(job).is_some_and(|deadline| deadline <= now) {
            return target("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        if !spec::is_indexed(job) {
            return None;
        }
        if let Some(failed) = &self.failed_indexes {
            let most = job.spec.as_ref().and_then(|spec| spec.max_failed_indexes);
            if most.is_some_and(|most| failed.total() > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return target("MaxFailedIndexesExceeded", message);
            }
            let all = spec::completions(job).unwrap_or(0);
            if !failed.is_empty() && failed.total() + self.succeeded_indexes.total() >= all {
                return target("FailedIndexes", "Job has failed indexes");
            }
        }
        let message = success::rule_met(job, &self.succeeded_indexes)?;
        Some(condition("SuccessCriteriaMet", "SuccessPolicy", message, now))
    }

    /// For pods whose containers are restarted in place, the restarts count.
    fn restarted_too_often(&self) -> bool {
        let template = self.job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let alive = self.pods.iter().filter(|pod| matches!(pods::phase(pod), "Running" | "Pending"));
        let statuses = alive.filter_map(|pod| pod.status.as_ref());
        let containers =
            statuses.flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses));
        let restarts: i32 = containers.flatten().map(|container| container.restart_count).sum();
        restarts >= spec::backoff_limit(&self.job).max(1)
    }

    /// Returns `true` if the desired completions are reached and no pod is active.
    pub(super) fn is_complete(&self) -> bool {
        let reached =
            spec::completions(&self.job).map_or(self.counts.succeeded > 0, |all| self.counts.succeeded >= all);
        reached && self.counts.active == 0
    }

    /// Updates the counts after pods were deleted.
    pub(super) fn record_deleted(&mut self, deleted: &[Arc<Pod>]) {
        let number = count(deleted.iter());
        self.counts.active -= number;
        self.counts.terminating += number;
        self.counts.ready -= count(deleted.iter().filter(|pod| pods::is_ready(pod)));
    }
}

/// Returns `true` if a pod still waits to be counted.
fn is_to_be_counted(job: &Job, pod: &Pod) -> bool {
    spec::is_tracked(pod) && (!spec::is_indexed(job) || spec::valid_index(job, pod).is_some())
}

/// Returns the active deadline, or `None` if there is none or the job is suspended.
pub(super) fn deadline(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.as_ref()?.active_deadline_seconds.filter(|_| !spec::is_suspended(job))?;
    let start = job.status.as_ref()?.start_time.as_ref()?.0;
    start.checked_add(SignedDuration::from_secs(seconds)).ok()
}
