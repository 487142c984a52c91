//! Explorations of stateful sets.

use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, StatefulSet},
        core::v1::{PersistentVolumeClaim, Pod},
    },
    serde_json::{Value, json},
};
use windlass_api::{ObjectExt as _, Patch};
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers};
use windlass_envtest::{
    Environment,
    explore::{State, StepResult, explore},
};

use crate::{create, of, pods_become};

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": image}]}})
}

async fn create_set(client: &Client, more: Value) -> StepResult {
    let mut spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "db"}}, "serviceName": "db", "template": template("a")});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    create::<StatefulSet>(client, json!({"metadata": {"name": "db", "namespace": "default"}, "spec": spec})).await
}

async fn patch(client: &Client, spec: Value) -> StepResult {
    client.patch::<StatefulSet>("db", Patch::Merge(json!({"spec": spec}))).await?;
    Ok(())
}

/// Returns a condition: exactly `count` pods exist, each with the image.
fn pods(count: usize, image: &'static str) -> impl Fn(&State) -> bool + Send + Sync {
    move |state| {
        let pods = state.all::<Pod>();
        let has_image =
            |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_deref() == Some(image));
        pods.len() == count && pods.iter().all(has_image)
    }
}

#[test]
fn in_order() {
    let scenario = of(BuiltIn::StatefulSet)
        .step("two replicas", |client| async move { create_set(&client, json!({})).await })
        .step("the first is ready", |client| async move { pods_become(&client, 1, "Running").await })
        .step("both are ready", |client| async move { pods_become(&client, 1, "Running").await })
        .step("another image", |client| async move { patch(&client, json!({"template": template("b")})).await })
        .step("the new one is ready", |client| async move { pods_become(&client, 1, "Running").await })
        .step("both are", |client| async move { pods_become(&client, 1, "Running").await })
        .always("the second pod never runs without the first", |state| {
            state.get::<Pod>("db-1").is_none_or(|pod| {
                // During the update the first pod is deleted, and the second stays, because it is already new.
                let is_new = pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_deref() == Some("b"));
                is_new || state.get::<Pod>("db-0").is_some()
            })
        })
        .settled("both pods are new", pods(2, "b"))
        .settled("there are two revisions", |state| state.all::<ControllerRevision>().len() == 2);
    explore(scenario).assert();
}

#[test]
fn claims_go_with_their_pods() {
    let claims = json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    let scenario = of(BuiltIn::StatefulSet)
        .step("two replicas with claims", move |client| {
            let claims = claims.clone();
            async move {
                let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
                let more = json!({
                    "podManagementPolicy": "Parallel", "volumeClaimTemplates": claims,
                    "persistentVolumeClaimRetentionPolicy": policy,
                });
                create_set(&client, more).await
            }
        })
        .step("both are ready", |client| async move { pods_become(&client, 2, "Running").await })
        .step("one replica", |client| async move { patch(&client, json!({"replicas": 1})).await })
        .always("every pod has its claim", |state| {
            let has_claim = |pod: &Pod| state.get::<PersistentVolumeClaim>(&format!("data-{}", pod.name())).is_some();
            state.all::<Pod>().iter().all(has_claim)
        })
        .settled("one pod is left", pods(1, "a"))
        .settled("each claim has the right owner", |state| {
            let owner = |claim: &str| {
                let claim = state.get::<PersistentVolumeClaim>(claim)?;
                claim.owner_references().first().map(|owner| owner.kind.clone())
            };
            owner("data-db-0").as_deref() == Some("StatefulSet") && owner("data-db-1").as_deref() == Some("Pod")
        });
    explore(scenario).assert();
}

#[tokio::test(start_paused = true)]
async fn a_set_of_more_pods_than_memory_holds_begins_with_the_first() {
    let env = Environment::start().await;
    let mut manager = env.manager();
    Controllers::of([BuiltIn::StatefulSet]).add_to(&mut manager);
    env.run(manager);
    let client = env.client();
    create_set(&client, json!({"replicas": i32::MAX})).await.unwrap();
    env.eventually::<StatefulSet>("db", |set| set.status.as_ref().is_some_and(|status| status.replicas == 1)).await;
    let pods = client.list::<Pod>().within("default").await.unwrap().items;
    assert!(pods.len() == 1 && pods[0].name() == "db-0", "{pods:?}");
    env.stop().await.unwrap();
}
