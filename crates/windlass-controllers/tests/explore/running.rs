//! Explorations of jobs and of their cleanup.

use k8s_openapi::{
    api::{
        batch::v1::{CronJob, Job},
        core::v1::Pod,
    },
    serde_json::{Value, json},
};
use tokio::time::{Instant, sleep};
use windlass_api::{ObjectExt as _, Patch};
use windlass_client::Client;
use windlass_controllers::BuiltIn;
use windlass_envtest::explore::{State, StepResult, explore};

use crate::{LOOK, PATIENCE, create, of, pods_become};

pub(crate) async fn create_job(client: &Client, more: Value) -> StepResult {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]});
    let mut spec = json!({"template": {"spec": pod}});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    create::<Job>(client, json!({"metadata": {"name": "job", "namespace": "default"}, "spec": spec})).await
}

fn has_condition(state: &State, type_: &str) -> bool {
    let conditions = state.get::<Job>("job").and_then(|job| job.status).and_then(|status| status.conditions);
    conditions.into_iter().flatten().any(|condition| condition.type_ == type_ && condition.status == "True")
}

fn counts(state: &State) -> (i32, i32) {
    let status = state.get::<Job>("job").and_then(|job| job.status).unwrap_or_default();
    (status.succeeded.unwrap_or(0), status.failed.unwrap_or(0))
}

#[test]
fn jobs() {
    let scenario = of(BuiltIn::Job)
        .step("two of three at a time", |client| async move {
            create_job(&client, json!({"parallelism": 2, "completions": 3})).await
        })
        .step("two succeed", |client| async move { pods_become(&client, 2, "Succeeded").await })
        .step("the third succeeds", |client| async move { pods_become(&client, 1, "Succeeded").await })
        // A creation whose response is lost is repeated: for a moment there may be a surplus pod.
        .may_churn::<Pod>()
        .settled("it is complete", |state| has_condition(state, "Complete"))
        .settled("each pod is counted once", |state| {
            let succeeded =
                |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded");
            let pods = state.all::<Pod>().iter().filter(|pod| succeeded(pod)).count();
            counts(state).0 >= 3 && usize::try_from(counts(state).0) == Ok(pods)
        })
        .settled("no pod has a finalizer", |state| state.all::<Pod>().iter().all(|pod| pod.finalizers().is_empty()));
    explore(scenario).assert();
}

#[test]
fn jobs_that_fail() {
    let scenario = of(BuiltIn::Job)
        .step("an index that may not fail", |client| async move {
            create_job(&client, json!({"completions": 1, "completionMode": "Indexed", "backoffLimit": 0})).await
        })
        .step("it fails", |client| async move { pods_become(&client, 1, "Failed").await })
        .may_churn::<Pod>()
        .settled("it has failed", |state| has_condition(state, "Failed"))
        .settled("no pod has a finalizer", |state| state.all::<Pod>().iter().all(|pod| pod.finalizers().is_empty()));
    explore(scenario).assert();
}

/// Sets the status of the job as the controller of Jobs does at its end.
pub(crate) async fn finish_job(client: &Client) -> StepResult {
    let time = "2020-01-01T00:00:00Z";
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": time});
    let status = json!({
        "startTime": time, "completionTime": time, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    client.patch::<Job>("job", Patch::Merge(json!({"status": status}))).subresource("status").await?;
    Ok(())
}

#[test]
fn the_end_of_jobs() {
    let scenario = of(BuiltIn::TtlAfterFinished)
        .step("a job", |client| async move { create_job(&client, json!({"ttlSecondsAfterFinished": 5})).await })
        .step("it is finished", |client| async move { finish_job(&client).await })
        .settled("it is being deleted", |state| state.get::<Job>("job").is_none_or(|job| job.is_deleting()));
    explore(scenario).assert();
}

#[test]
fn cron_jobs() {
    let scenario = of(BuiltIn::CronJob)
        .step("a cron job that is due every three minutes", |client| async move {
            let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]});
            let spec = json!({"schedule": "@every 3m", "jobTemplate": {"spec": {"template": {"spec": pod}}}});
            create::<CronJob>(&client, json!({"metadata": {"name": "cron", "namespace": "default"}, "spec": spec}))
                .await
        })
        .step("it has created a job, and is suspended", |client| async move {
            let begun = Instant::now();
            let is_told = async || {
                let cron = client.get::<CronJob>("cron").await?;
                Ok::<_, windlass_client::Error>(cron.status.is_some_and(|status| status.last_schedule_time.is_some()))
            };
            while !is_told().await? {
                if begun.elapsed() > PATIENCE {
                    return Err("no job is created".into());
                }
                sleep(LOOK).await;
            }
            client.patch::<CronJob>("cron", Patch::Merge(json!({"spec": {"suspend": true}}))).await?;
            Ok(())
        })
        .step("the job is finished", |client| async move {
            for job in client.list::<Job>().within("default").await?.items {
                let time = "2020-01-01T00:00:00Z";
                let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": time});
                let status = json!({
                    "startTime": time, "completionTime": time, "succeeded": 1,
                    "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
                });
                client
                    .patch::<Job>(job.object_ref(), Patch::Merge(json!({"status": status})))
                    .subresource("status")
                    .await?;
            }
            Ok(())
        })
        .settled("one job exists, and the status records its success", |state| {
            let status = state.get::<CronJob>("cron").and_then(|cron| cron.status).unwrap_or_default();
            state.all::<Job>().len() == 1
                && status.active.is_none_or(|active| active.is_empty())
                && status.last_successful_time.is_some()
        });
    explore(scenario).assert();
}
