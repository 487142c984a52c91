//! Job: runs pods until enough of them have succeeded, or too many have failed.
//!
//! Guarantees: every finished pod is counted once, even after an interruption; a finished job does not change. Not
//! guaranteed: an exact number of succeeded pods, if the job is not indexed. Decisions are computed on plain values
//! ([`observed`], [`plan`], [`tracking`]); this file reads the objects and writes the results.

mod backoff;
mod failure;
mod indexes;
mod observed;
mod memory;
mod orphans;
mod plan;
mod success;
mod tracking;
mod spec;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use windlass_api::{LabelSelector, Object, ObjectExt, ObjectKey, ObjectRef};
use windlass_cache::Cached;
use windlass_client::Error;
use windlass_runtime::{Action, Context, Controller, Manager, Watch, events::Note};

pub(crate) use self::spec::end;
use self::{
    memory::Memory,
    observed::Observed,
    plan::{Plan, plan},
    tracking::Change,
};
use crate::{
    confirmed::Confirmed,
    error::{ReconcileError, await_newer_state},
    expectations::Expectations,
    ownership,
    pod_control::{PodControl, WriteOutcome},
};

/// The number of jobs reconciled at the same time.
const WORKERS: usize = 5;
/// The minimum time that a job waits before it replaces pods.
const LEAST_WAIT: Duration = Duration::from_secs(1);

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let known = manager.cluster().informer::<Job>(&Watch::all()).store();
    let control = PodControl::new(manager.cluster().recorder("job-controller"));
    let jobs = Arc::new(Jobs { control, memory: Memory::default(), confirmed: Confirmed::default() });
    manager.add(
        Controller::<Job>::new()
            .named("job")
            .owns_with(ownership::managed_by::<Job, Pod>())
            .watches_with(ownership::adoptable::<Pod>(), move |pod| {
                ownership::adopting_owners(&known, pod, |job| selector(job).ok().flatten())
            })
            .concurrency(WORKERS)
            .reconcile_keys(move |key, cx| {
                let jobs = Arc::clone(&jobs);
                async move { await_newer_state(Box::pin(reconcile(key, cx, jobs)).await) }
            }),
    );
    orphans::add_to(manager);
}

/// The state shared by the workers.
#[derive(Debug)]
struct Jobs {
    control: PodControl,
    memory: Memory,
    confirmed: Confirmed,
}

async fn reconcile(key: ObjectRef<Job>, cx: Context, jobs: Arc<Jobs>) -> Result<Action, ReconcileError> {
    let Some(job) = cx.store::<Job>().get(&key).map(|job| job.get()).transpose()? else {
        jobs.control.forget(key.key());
        jobs.memory.forget(key.key());
        jobs.confirmed.forget(key.key());
        return Ok(Action::await_change());
    };
    if spec::is_managed_elsewhere(&job) {
        return Ok(Action::await_change());
    }
    if end(&job).is_some() {
        jobs.memory.forget(key.key());
        jobs.confirmed.forget(key.key());
        return Ok(Action::await_change());
    }
    if !spec::has_known_mode(&job) {
        let message = "Skipped Job sync because completion mode is unknown";
        jobs.control.recorder().record(&*job, Note::warning("UnknownCompletionMode", message));
        return Ok(Action::await_change());
    }
    let Some(selector) = selector(&job)? else { return Ok(Action::await_change()) };
    let candidates = ownership::candidates::<Job, Pod>(&cx, &*job)?;
    let caught_up = jobs.control.caught_up(key.key(), &*job, &candidates);
    let pods = pods_of(&cx, &job, &selector, candidates).await?;
    if !caught_up || !jobs.memory.caught_up(key.key(), &job, &pods) {
        return Ok(Action::requeue_after(Expectations::timeout()));
    }
    let now = cx.clock().now();
    let observed = Observed::new((*job).clone(), pods, jobs.memory.failures(key.key()), now);
    let mut sync = Sync { cx: &cx, jobs: &jobs, key: key.key(), observed, now, wait: None, suspension: Change::Same };
    let failure = sync.act().await?;
    sync.track().await?;
    failure.map_or_else(|| Ok(sync.requeue_action()), |error| Err(error.into()))
}

/// Returns the job's pods, after adopting and releasing.
async fn pods_of(
    cx: &Context,
    job: &Job,
    selector: &LabelSelector,
    candidates: Vec<Cached<Pod>>,
) -> Result<Vec<Arc<Pod>>, ReconcileError> {
    let claimed = ownership::claim_with(cx.live(), job, selector, candidates, Some(spec::TRACKING)).await?;
    let mut pods = Vec::with_capacity(claimed.len());
    for pod in &claimed {
        let mut pod = pod.get()?;
        // The cache does not show the adoption yet.
        if !pod.is_controlled_by(job) && !spec::is_tracked(&pod) {
            let finalizers = &mut Arc::make_mut(&mut pod).metadata_mut().finalizers;
            finalizers.get_or_insert_default().push(spec::TRACKING.to_owned());
        }
        pods.push(pod);
    }
    Ok(pods)
}

/// One reconcile of one job.
struct Sync<'c> {
    cx: &'c Context,
    jobs: &'c Jobs,
    key: &'c ObjectKey,
    observed: Observed,
    now: Timestamp,
    /// The wait until pods can be replaced.
    wait: Option<Duration>,
    /// The change of the `Suspended` condition.
    suspension: Change,
}

impl Sync<'_> {
    /// Creates and deletes pods, and determines whether the job is finished. The error of a failed write is returned,
    /// and does not keep the rest of the status from being written.
    async fn act(&mut self) -> Result<Option<Error>, ReconcileError> {
        if self.observed.verdict.is_some() {
            let active = self.observed.active.clone();
            self.ensure_current(active.len()).await?;
            let WriteOutcome { pods, failure } = self.jobs.control.delete(self.cx, &self.observed.job, &active).await;
            self.observed.record_deleted(&pods);
            if failure.is_some() {
                self.observed.verdict = None;
            }
            return Ok(failure);
        }
        let mut is_looked_after = false;
        let mut failure = None;
        if !self.observed.job.is_deleting() {
            failure = self.manage().await?;
            is_looked_after = true;
        }
        if self.observed.is_complete() {
            let message = "Reached expected number of succeeded pods";
            self.observed.verdict =
                Some(observed::condition("SuccessCriteriaMet", "CompletionsReached", message, self.now));
        } else if is_looked_after {
            self.record_suspension();
        }
        Ok(failure)
    }

    /// Checks that the job is the current one. Called before pods are created or deleted.
    async fn ensure_current(&self, pods: usize) -> Result<(), ReconcileError> {
        if pods == 0 { Ok(()) } else { self.jobs.confirmed.ensure(self.cx, &self.observed.job).await }
    }

    async fn manage(&mut self) -> Result<Option<Error>, ReconcileError> {
        Ok(match plan(&self.observed, self.now) {
            Plan::Rest => None,
            Plan::Wait(wait) => {
                self.wait = Some(wait.max(LEAST_WAIT));
                None
            }
            Plan::Create(pods) => {
                self.ensure_current(pods.len()).await?;
                let written = self.jobs.control.create(self.cx, &self.observed.job, pods).await;
                self.observed.counts.active += observed::count(written.pods.iter());
                written.failure
            }
            // Surplus pods do not count as failed: their finalizer is removed first.
            Plan::Delete(pods) => {
                self.ensure_current(pods.len()).await?;
                let mut released = Vec::new();
                let outcome = tracking::release_all(self.cx, &pods, |pod| released.push(Arc::clone(pod))).await;
                for pod in &released {
                    self.jobs.memory.released(self.key, &self.observed.job, pod);
                }
                let written = self.jobs.control.delete(self.cx, &self.observed.job, &released).await;
                self.observed.record_deleted(&written.pods);
                outcome.err().or(written.failure)
            }
        })
    }

    fn record_suspension(&mut self) {
        let now = self.now;
        let is_suspended = spec::is_suspended(&self.observed.job);
        let status = self.observed.status();
        let (value, reason, message, event) = if is_suspended {
            ("True", "JobSuspended", "Job suspended", "Suspended")
        } else {
            ("False", "JobResumed", "Job resumed", "Resumed")
        };
        if tracking::set_condition(status, "Suspended", value, reason, message, now) == Change::Changed {
            // The start time is reset when the job is resumed.
            status.start_time = (!is_suspended).then_some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
            self.suspension = Change::Changed;
            self.jobs.control.recorder().record(&self.observed.job, Note::normal(event, message));
        }
    }

    /// Counts finished pods and writes the status.
    async fn track(&mut self) -> Result<(), ReconcileError> {
        let counts = tracking::record_counts(&mut self.observed);
        let recorded = tracking::record(&mut self.observed, self.now);
        if self.suspension.or(counts).or(recorded.change) == Change::Changed {
            self.write_status().await?;
        }
        let (memory, key, mut held) = (&self.jobs.memory, self.key, recorded.held);
        let job = self.observed.job.clone();
        let outcome = tracking::release_all(self.cx, &recorded.to_release, |pod| {
            memory.released(key, &job, pod);
            held.remove(pod.uid().unwrap_or_default());
        })
        .await;
        let counted = tracking::count_released(self.observed.status(), &held);
        let is_over = outcome.is_ok() && !recorded.is_partial && tracking::finish(&mut self.observed, self.now);
        if is_over || counted == Change::Changed {
            self.write_status().await?;
        }
        if is_over {
            self.tell_end();
        }
        Ok(outcome?)
    }

    async fn write_status(&mut self) -> Result<(), ReconcileError> {
        let written = self.cx.client().update_status(&self.observed.job).await?;
        self.jobs.memory.wrote(self.key, &written, self.observed.failures);
        self.observed.job = written;
        self.observed.status().uncounted_terminated_pods.get_or_insert_default();
        Ok(())
    }

    fn tell_end(&self) {
        let job = &self.observed.job;
        let recorder = self.jobs.control.recorder();
        let Some(end) = end(job) else { return };
        if end.type_ == "Complete" {
            if tracking::has_too_many(job) {
                let message = "Too many succeeded pods running after completion count reached";
                recorder.record(job, Note::warning("TooManySucceededPods", message));
            }
            recorder.record(job, Note::normal("Completed", "Job completed"));
        } else {
            let message = end.message.clone().unwrap_or_default();
            recorder.record(job, Note::warning(end.reason.clone().unwrap_or_default(), message));
        }
    }

    /// Schedules the next reconcile for changes that cause no event.
    fn requeue_action(&self) -> Action {
        let deadline = observed::deadline(&self.observed.job).filter(|_| self.observed.verdict.is_none());
        let deadline = deadline.map(|at| Duration::try_from(at.duration_since(self.now)).unwrap_or_default());
        let next = [self.wait, deadline].into_iter().flatten().min();
        next.map_or_else(Action::await_change, Action::requeue_after)
    }
}

/// Returns the job's selector, or `None` if it selects everything.
fn selector(job: &Job) -> Result<Option<LabelSelector>, ReconcileError> {
    let Some(selector) = job.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { return Ok(None) };
    ownership::selecting(selector)
}
