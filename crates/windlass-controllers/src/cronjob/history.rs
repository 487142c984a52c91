//! The history of a cron job: records finished jobs, and deletes those beyond the history limits.

use std::sync::Arc;

use k8s_openapi::api::{batch::v1::Job, core::v1::ObjectReference};
use windlass_api::{ObjectExt, ObjectRef, Propagation};
use windlass_client::Error;
use windlass_runtime::events::Note;

use super::{Sync, ended};
use crate::{error::ReconcileError, pod_control::server_message};

impl Sync<'_> {
    /// Records finished jobs. Warns of an active job that is missing in the status: another client created it, or this
    /// controller failed to record it.
    pub(super) async fn record_ends(&mut self) -> Result<(), ReconcileError> {
        for job in self.children.clone() {
            let is_active = self.is_active(&job);
            match ended(&job) {
                None if !is_active => {
                    // The cache of cron jobs may lag behind that of jobs.
                    let live = self.cx.live().get(self.cron.object_ref()).await?;
                    let active = live.status.and_then(|status| status.active).unwrap_or_default();
                    if !active.iter().any(|known| known.uid.as_deref() == job.uid()) {
                        let message = format!("Saw a job that the controller did not create or forgot: {}", job.name());
                        self.record(Note::warning("UnexpectedJob", message));
                    }
                }
                None => {}
                Some(condition) => {
                    if is_active {
                        let message = format!("Saw completed job: {}, condition: {condition}", job.name());
                        self.record(Note::normal("SawCompletedJob", message));
                        self.forget(&job);
                    }
                    if condition == "Complete" {
                        self.record_success(&job);
                    }
                }
            }
        }
        Ok(())
    }

    fn record_success(&mut self, job: &Job) {
        let completed = job.status.as_ref().and_then(|status| status.completion_time.clone());
        if completed > self.status.last_successful_time {
            self.status.last_successful_time = completed;
        }
    }

    /// Removes jobs from the status that no longer exist.
    pub(super) async fn record_missing(&mut self) -> Result<(), ReconcileError> {
        for known in self.status.active.clone().unwrap_or_default() {
            if self.children.iter().any(|job| job.uid() == known.uid.as_deref()) {
                continue;
            }
            // The cache may be stale.
            let name = known.name.clone().unwrap_or_default();
            let key = ObjectRef::<Job>::new(name.as_str()).within(known.namespace.clone().unwrap_or_default());
            if self.cx.live().get_opt(key).await?.is_none() {
                self.record(Note::normal("MissingJob", format!("Active job went missing: {name}")));
                self.forget_uid(known.uid.as_deref());
            }
        }
        Ok(())
    }

    /// Deletes the oldest finished jobs beyond the history limits. A failed deletion is reported by an event and
    /// retried in a later reconcile.
    pub(super) async fn clean_up(&mut self) {
        let spec = self.cron.spec.clone();
        let kept = [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)];
        for (condition, limit) in kept {
            let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
            let mut over: Vec<Arc<Job>> =
                self.children.iter().filter(|job| ended(job) == Some(condition)).cloned().collect();
            over.sort_by_key(|job| {
                let started = job.status.as_ref().and_then(|status| status.start_time.clone());
                (started.is_none(), started, job.name().to_owned())
            });
            for job in &over[..over.len().saturating_sub(limit)] {
                if !job.is_deleting() && self.delete(job).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Deletes a job with background propagation.
    pub(super) async fn delete(&mut self, job: &Job) -> Result<(), Error> {
        let uid = job.uid().unwrap_or_default();
        let deleted =
            self.cx.client().delete::<Job>(job.object_ref()).uid(uid).propagation(Propagation::Background).await;
        match deleted {
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                self.record(Note::warning("FailedDelete", format!("Deleted job: {}", server_message(&error))));
                Err(error)
            }
            _ => {
                self.forget(job);
                self.record(Note::normal("SuccessfulDelete", format!("Deleted job {}", job.name())));
                Ok(())
            }
        }
    }

    fn is_active(&self, job: &Job) -> bool {
        self.status.active.iter().flatten().any(|known| known.uid.as_deref() == job.uid())
    }

    fn forget(&mut self, job: &Job) {
        self.forget_uid(job.uid());
    }

    fn forget_uid(&mut self, uid: Option<&str>) {
        let is_other = |known: &ObjectReference| known.uid.as_deref() != uid;
        let mut active = self.status.active.take().unwrap_or_default();
        active.retain(is_other);
        self.status.active = Some(active).filter(|active| !active.is_empty());
    }
}
