//! TtlAfterFinished: deletes finished jobs after their time to live, with foreground propagation.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use windlass_api::{ObjectExt, Propagation};
use windlass_runtime::{Action, Context, Controller, Manager};

use crate::{
    error::{ReconcileError, await_newer_state},
    job,
};

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    manager.add(
        Controller::<Job>::new()
            .named("ttlafterfinished")
            .reconcile(async |job: Arc<Job>, cx: Context| await_newer_state(reconcile(&job, &cx).await)),
    );
}

async fn reconcile(job: &Job, cx: &Context) -> Result<Action, ReconcileError> {
    let now = cx.clock().now();
    let Some(wait) = time_left(job, now) else { return Ok(Action::await_change()) };
    if !wait.is_zero() {
        return Ok(Action::requeue_after(wait));
    }
    // The TTL may have been extended in the meantime.
    let Some(live) = cx.live().get_opt::<Job>(job.object_ref()).await? else { return Ok(Action::await_change()) };
    match time_left(&live, now) {
        None => Ok(Action::await_change()),
        Some(Duration::ZERO) => {
            let uid = live.uid().unwrap_or_default();
            cx.client().delete::<Job>(live.object_ref()).uid(uid).propagation(Propagation::Foreground).await?;
            Ok(Action::await_change())
        }
        Some(wait) => Ok(Action::requeue_after(wait)),
    }
}

/// Returns the remaining time to live. Returns `None` if the job has no TTL, is not finished, or is being deleted.
fn time_left(job: &Job, now: Timestamp) -> Option<Duration> {
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished.filter(|_| !job.is_deleting())?;
    let over = job::end(job)?.last_transition_time.as_ref()?.0;
    let until = over.checked_add(SignedDuration::from_secs(seconds.into())).ok()?;
    Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_stays_for_its_time_from_when_it_was_over() {
        let job: Job = serde_json::from_value(json!({
            "metadata": {},
            "spec": {"template": {}, "ttlSecondsAfterFinished": 10},
            "status": {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "1970-01-01T00:01:40Z"}]},
        }))
        .unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(time_left(&job, at(104)), Some(Duration::from_secs(6)));
        assert_eq!(time_left(&job, at(120)), Some(Duration::ZERO));
        let running = Job { status: None, ..job.clone() };
        assert_eq!(time_left(&running, at(120)), None);
        let unlimited = Job { spec: None, ..job };
        assert_eq!(time_left(&unlimited, at(120)), None);
    }
}
