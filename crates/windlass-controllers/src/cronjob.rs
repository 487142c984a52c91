//! CronJob: creates a job at each scheduled time.
//!
//! Guarantees: at most one job per scheduled time, even after an interruption, because the job's name contains the
//! time. Not guaranteed: that a job starts on the second. If the cache of jobs is stale, jobs can overlap despite
//! `concurrencyPolicy`. The schedule is computed on plain values ([`schedule`], [`due`]); this file reads the objects
//! and writes the results.

mod due;
mod history;
mod schedule;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobStatus, Job},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use windlass_api::{ObjectExt, ObjectKey, ObjectRef};
use windlass_runtime::{
    Action, Context, Controller, Manager,
    events::{Note, Recorder},
};

use self::{
    due::{Late, Missed},
    schedule::Schedule,
};
use crate::{
    confirmed::Confirmed,
    error::{ReconcileError, await_newer_state},
    job::end,
    pod_control::{is_namespace_terminating, server_message},
    versions::Versions,
};

/// The number of cron jobs reconciled at the same time.
const WORKERS: usize = 5;
/// The annotation with a job's scheduled time.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let recorder = manager.cluster().recorder("cronjob-controller");
    let jobs = Arc::new(CronJobs { recorder, versions: Versions::default(), confirmed: Confirmed::default() });
    manager.add(Controller::<CronJob>::new().named("cronjob").owns::<Job>().concurrency(WORKERS).reconcile_keys(
        move |key, cx| {
            let jobs = Arc::clone(&jobs);
            async move { await_newer_state(Box::pin(reconcile(key, cx, jobs)).await) }
        },
    ));
}

/// The state shared by the workers.
#[derive(Debug)]
struct CronJobs {
    recorder: Recorder,
    /// The last written versions of the cron jobs; their status holds the last scheduled time.
    versions: Versions,
    confirmed: Confirmed,
}

async fn reconcile(key: ObjectRef<CronJob>, cx: Context, jobs: Arc<CronJobs>) -> Result<Action, ReconcileError> {
    let Some(cron) = cx.store::<CronJob>().get(&key).map(|cron| cron.get()).transpose()? else {
        jobs.versions.forget(key.key());
        jobs.confirmed.forget(key.key());
        return Ok(Action::await_change());
    };
    if !jobs.versions.caught_up(key.key(), &*cron) {
        return Ok(Action::await_change());
    }
    let mut children = Vec::new();
    for job in cx.store::<Job>().within(key.namespace().unwrap_or_default()).list() {
        if job.meta().controller().is_some_and(|owner| Some(&*owner.uid) == cron.uid()) {
            children.push(job.get()?);
        }
    }
    let now = cx.clock().now();
    let status = cron.status.clone().unwrap_or_default();
    let mut sync = Sync { cx: &cx, jobs: &jobs, key: key.key(), cron: (*cron).clone(), status, children, now };
    sync.clean_up().await;
    let outcome = sync.act().await;
    sync.write_status().await?;
    outcome
}

/// One reconcile of one cron job.
#[derive(Debug)]
struct Sync<'c> {
    cx: &'c Context,
    jobs: &'c CronJobs,
    key: &'c ObjectKey,
    cron: CronJob,
    /// The status as computed so far by this reconcile.
    status: CronJobStatus,
    children: Vec<Arc<Job>>,
    now: Timestamp,
}

impl Sync<'_> {
    async fn act(&mut self) -> Result<Action, ReconcileError> {
        self.record_ends().await?;
        self.record_missing().await?;
        if self.cron.is_deleting() {
            return Ok(Action::await_change());
        }
        let spec = &self.cron.spec;
        if let Some(zone) = spec.time_zone.as_deref().filter(|zone| schedule::time_zone(zone).is_none()) {
            let message = format!("invalid timeZone: {zone:?}: unknown time zone {zone}");
            self.record(Note::warning("UnknownTimeZone", message));
            return Ok(Action::await_change());
        }
        if spec.suspend == Some(true) {
            return Ok(Action::await_change());
        }
        let schedule = match self.schedule() {
            Ok(schedule) => schedule,
            Err(error) => {
                let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
                self.record(Note::warning("UnparseableSchedule", message));
                return Ok(Action::await_change());
            }
        };
        let due = match due::last(&self.cron, &schedule, self.now, Late::Forgotten) {
            Ok(due) => due,
            Err(error) => {
                let message = format!("invalid schedule: {} : {error}", spec.schedule);
                self.record(Note::warning("InvalidSchedule", message));
                return Ok(Action::await_change());
            }
        };
        if let Some(at) = due.at {
            if due.missed == Missed::Many {
                let message =
                    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
                self.record(Note::warning("TooManyMissedTimes", message));
            }
            self.begin(at).await?;
        }
        // The next time is computed from the job that was just created.
        let mut begun = self.cron.clone();
        begun.status = Some(self.status.clone());
        let next = due::next(&begun, &schedule, self.now);
        Ok(next.map_or_else(Action::await_change, |next| Action::requeue_after(schedule::until(next, self.now))))
    }

    fn schedule(&self) -> Result<Schedule, schedule::Unreadable> {
        let spec = &self.cron.spec;
        if spec.schedule.contains("TZ") {
            let message = format!(
                "CRON_TZ or TZ used in schedule {:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
                spec.schedule
            );
            self.record(Note::warning("UnsupportedSchedule", message));
        }
        Schedule::parse(&spec.schedule, spec.time_zone.as_deref())
    }

    /// Creates the job of a scheduled time, unless its deadline has passed or the job already exists.
    async fn begin(&mut self, at: Timestamp) -> Result<(), ReconcileError> {
        let latest = due::deadline(&self.cron).and_then(|deadline| at.checked_add(deadline).ok());
        if latest.is_some_and(|latest| latest < self.now) {
            let at = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
            let message = format!("Missed scheduled time to start a job: {at}");
            self.record(Note::warning("MissSchedule", message));
            return Ok(());
        }
        let job = self.job(at);
        let active = self.status.active.clone().unwrap_or_default();
        let is_begun = active.iter().any(|known| known.name.as_deref() == Some(job.name()))
            || self.status.last_schedule_time == Some(Time(at));
        if is_begun {
            return Ok(());
        }
        // The job may have been created since an earlier state, and deleted again.
        self.jobs.confirmed.ensure(self.cx, &self.cron).await?;
        match self.cron.spec.concurrency_policy.as_deref() {
            Some("Forbid") if !active.is_empty() => {
                let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.record(Note::normal("JobAlreadyActive", message));
                return Ok(());
            }
            Some("Replace") => self.replace(&active).await?,
            _ => {}
        }
        let created = match self.cx.client().create(&job).await {
            Ok(created) => {
                self.record(Note::normal("SuccessfulCreate", format!("Created job {}", created.name())));
                created
            }
            Err(error) if error.is_already_exists() => {
                // Either an earlier reconcile created it without recording it, or it belongs to another owner.
                let found = self.cx.live().get_opt::<Job>(job.object_ref()).await?;
                let is_known = |found: &Job| active.iter().any(|known| known.uid.as_deref() == found.uid());
                match found.filter(|found| found.is_controlled_by(&self.cron) && !is_known(found)) {
                    Some(found) => found,
                    None => return Ok(()),
                }
            }
            Err(error) if is_namespace_terminating(&error) => return Ok(()),
            Err(error) => {
                let message = format!("Error creating job: {}", server_message(&error));
                self.record(Note::warning("FailedCreate", message));
                return Err(error.into());
            }
        };
        self.status.active.get_or_insert_default().push(reference(&created));
        self.status.last_schedule_time = Some(Time(at));
        Ok(())
    }

    /// Deletes the active jobs.
    async fn replace(&mut self, active: &[ObjectReference]) -> Result<(), ReconcileError> {
        for reference in active {
            let key = ObjectRef::<Job>::new(reference.name.clone().unwrap_or_default())
                .within(reference.namespace.clone().unwrap_or_default());
            let job = match self.cx.live().get(key).await {
                Ok(job) => job,
                Err(error) => {
                    self.record(Note::warning("FailedGet", format!("Get job: {}", server_message(&error))));
                    return Err(error.into());
                }
            };
            self.delete(&job).await?;
        }
        Ok(())
    }

    /// Builds the job of a scheduled time. Its name contains the time.
    fn job(&self, at: Timestamp) -> Job {
        let template = self.cron.spec.job_template.clone();
        let from = template.metadata.unwrap_or_default();
        let mut job = Job { spec: template.spec, ..Job::default() };
        job.metadata.name = Some(format!("{}-{}", self.cron.name(), at.as_second().div_euclid(60)));
        job.metadata.namespace = self.cron.namespace().map(str::to_owned);
        job.metadata.labels = from.labels;
        job.metadata.annotations = from.annotations;
        job.annotations_mut().insert(SCHEDULED.to_owned(), schedule::write(at, self.cron.spec.time_zone.as_deref()));
        job.controlled_by(&self.cron)
    }

    fn record(&self, note: Note) {
        self.jobs.recorder.record(&self.cron, note);
    }

    async fn write_status(&mut self) -> Result<(), ReconcileError> {
        if self.status == self.cron.status.clone().unwrap_or_default() {
            return Ok(());
        }
        let mut changed = self.cron.clone();
        changed.status = Some(self.status.clone());
        let written = self.cx.client().update_status(&changed).await?;
        self.jobs.versions.wrote(self.key, &written);
        Ok(())
    }
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        field_path: None,
    }
}

/// Returns the type of the condition that finished the job, or `None` if the job is not finished.
fn ended(job: &Job) -> Option<&str> {
    end(job).map(|condition| &*condition.type_)
}
