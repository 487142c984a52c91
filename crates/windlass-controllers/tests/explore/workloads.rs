//! Explorations of the controllers that create pods.

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, ReplicaSet},
        core::v1::{Node, Pod, ReplicationController},
    },
    serde_json::{Value, json},
};
use tokio::time::{Instant, sleep};
use windlass_api::{ObjectBuilder as _, Patch};
use windlass_client::Client;
use windlass_controllers::BuiltIn;
use windlass_envtest::explore::{State, explore};

use crate::{LOOK, PATIENCE, create, of, pods_become};

pub(crate) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": image}]},
    })
}

pub(crate) fn spec(replicas: u32, image: &str) -> Value {
    json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(image)})
}

fn replicas(count: u32) -> Patch {
    Patch::Merge(json!({"spec": {"replicas": count}}))
}

/// Returns a condition: exactly `count` pods exist.
pub(crate) fn pods(count: usize) -> impl Fn(&State) -> bool + Send + Sync {
    move |state| state.all::<Pod>().len() == count
}

#[test]
fn replica_sets() {
    let scenario = of(BuiltIn::ReplicaSet)
        .step("two replicas", |client| async move {
            create::<ReplicaSet>(
                &client,
                json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec(2, "a")}),
            )
            .await
        })
        .step("three", |client| async move {
            client.patch::<ReplicaSet>("web", replicas(3)).await?;
            Ok(())
        })
        .step("one", |client| async move {
            client.patch::<ReplicaSet>("web", replicas(1)).await?;
            Ok(())
        })
        // Not guaranteed by the controller: for a moment there may be more or fewer pods.
        .may_churn::<Pod>()
        .settled("there is one pod", pods(1));
    explore(scenario).assert();
}

#[test]
fn replication_controllers() {
    let scenario = of(BuiltIn::ReplicationController)
        .step("two replicas", |client| async move {
            let spec = json!({"replicas": 2, "selector": {"app": "web"}, "template": template("a")});
            let made = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec});
            create::<ReplicationController>(&client, made).await
        })
        .step("one", |client| async move {
            client.patch::<ReplicationController>("web", replicas(1)).await?;
            Ok(())
        })
        .may_churn::<Pod>()
        .settled("there is one pod", pods(1));
    explore(scenario).assert();
}

/// Returns `true` if two pods of the new image are running.
async fn is_new(client: &Client) -> Result<bool, windlass_client::Error> {
    let pods = client.list::<Pod>().within("default").await?.items;
    let is_new = |pod: &Pod| {
        let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.as_deref());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        image == Some("b") && phase == Some("Running")
    };
    Ok(pods.len() == 2 && pods.iter().all(is_new))
}

#[test]
fn daemon_sets() {
    let scenario = of(BuiltIn::DaemonSet)
        .prepare(|client| async move {
            for name in ["one", "two"] {
                client.create(&Node::named(name)).await?;
            }
            Ok(())
        })
        .step("a pod on each of two nodes", |client| async move {
            let mut template = template("a");
            template["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
            let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
            create::<DaemonSet>(&client, json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}))
                .await
        })
        .step("both are ready", |client| async move { pods_become(&client, 2, "Running").await })
        .step("another image", |client| async move {
            let containers = json!([{"name": "web", "image": "b"}]);
            let image = Patch::Merge(json!({"spec": {"template": {"spec": {"containers": containers}}}}));
            client.patch::<DaemonSet>("web", image).await?;
            Ok(())
        })
        // One after the other, or both if a stale cache shows them as unavailable anyway.
        .step("the new ones become ready", |client| async move {
            let begun = Instant::now();
            while !is_new(&client).await? {
                if begun.elapsed() > PATIENCE {
                    return Err("the pods are not replaced".into());
                }
                pods_become(&client, 0, "Running").await?;
                sleep(LOOK).await;
            }
            Ok(())
        })
        .ignoring::<Node>()
        // A creation whose response is lost is repeated, and the surplus pod is deleted.
        .may_churn::<Pod>()
        .settled("both pods are new, each on another node", |state| {
            let pods = state.all::<Pod>();
            let image = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone());
            let affinity = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.affinity.clone());
            pods.len() == 2
                && pods.iter().all(|pod| image(pod).as_deref() == Some("b"))
                && affinity(&pods[0]) != affinity(&pods[1])
        });
    explore(scenario).assert();
}
