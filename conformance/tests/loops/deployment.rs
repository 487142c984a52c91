//! A Deployment of 8 replicas: a pod is replaced, then it is scaled, rolled out, rolled back and deleted.

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{Event, Node, Pod},
};
use serde_json::json;
use windlass_api::{ObjectExt, Patch, Propagation};
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers, Pace};

use super::{NODES, Observed, Step, namespace};
use conformance::{Target, eventually, on_each_target};

const REPLICAS: usize = 8;

#[tokio::test]
async fn a_deployment_of_eight_replicas_is_kept_at_eight() {
    on_each_target(|target| async {
        keep(&target).await;
        target
    })
    .await;
}

#[tokio::test]
async fn a_new_image_rolls_out_and_back_without_losing_too_many_pods() {
    on_each_target(|target| async {
        roll(&target).await;
        target
    })
    .await;
}

fn controllers() -> Controllers {
    Controllers::of([
        BuiltIn::Deployment,
        BuiltIn::ReplicaSet,
        BuiltIn::GarbageCollector,
        BuiltIn::ServiceAccount,
        BuiltIn::Nodes,
    ])
    .nodes(NODES)
    .pace(Pace::immediate())
}

async fn keep(target: &Target) {
    let ns = namespace(target, "eight").await;
    let client = &target.client;
    let (observed, ()) = Observed::start(client, &controllers(), |_| ()).await;
    client.create(&deployment(&ns)).await.unwrap();

    // Eight pods run on simulated nodes, and the status reports them.
    eventually("eight replicas are available", || available(client, &ns, REPLICAS)).await;
    let pods = live_pods(client, &ns).await;
    assert_eq!(pods.len(), REPLICAS);
    let settled = client.get::<Deployment>("web").within(&ns).await.unwrap();
    assert_eq!(settled.annotations()["deployment.kubernetes.io/revision"], "1");
    assert_eq!(settled.metadata.generation, Some(1), "a revision is no new wish");
    assert_eq!(settled.status.unwrap().terminating_replicas, Some(0));
    let nodes: Vec<_> = client.list::<Node>().await.unwrap().items;
    for pod in &pods {
        let node = pod.spec.as_ref().unwrap().node_name.as_deref();
        assert!(nodes.iter().any(|known| Some(known.name()) == node), "{} is on {node:?}", pod.name());
        assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    }

    // The controllers have recorded events.
    let web = pods[0].controller().unwrap().name.clone();
    let told = [
        format!("deployment-controller ScalingReplicaSet Scaled up replica set {web} from 0 to {REPLICAS}"),
        format!("replicaset-controller SuccessfulCreate Created pod: {}", pods[0].name()),
        format!("kubelet Started Container started of {}", pods[0].name()),
    ];
    eventually("the events are written", || async {
        let events = client.list::<Event>().within(&ns).await.unwrap();
        let lines: Vec<_> = events.iter().map(line).collect();
        told.iter().all(|told| lines.contains(told)).then_some(())
    })
    .await;

    // A pod is deleted. Its deletion becomes the key of its ReplicaSet, which creates another pod.
    let victim = &pods[0];
    let owner = victim.controller().unwrap().name.clone();
    let start = observed.steps().len();
    client.delete::<Pod>(victim.name()).within(&ns).await.unwrap();
    eventually("the loss reaches the replica set", || async {
        observed.position(start, |step| {
            matches!(step, Step::Enqueued { kind, name, key, .. }
                if kind == "Pod" && name == victim.name() && *key == format!("{ns}/{owner}"))
        })
    })
    .await;
    eventually("eight again, without the one", || async {
        let pods = live_pods(client, &ns).await;
        (pods.len() == REPLICAS && pods.iter().all(|pod| pod.uid() != victim.uid())).then_some(())
    })
    .await;
    eventually("the status says so", || available(client, &ns, REPLICAS)).await;

    // Its dependents are deleted, too.
    client.delete::<Deployment>("web").within(&ns).propagation(Propagation::Background).await.unwrap();
    eventually("nothing is left", || async {
        let sets = client.list::<ReplicaSet>().within(&ns).await.unwrap();
        (sets.is_empty() && client.list::<Pod>().within(&ns).await.unwrap().is_empty()).then_some(())
    })
    .await;
    observed.stop().await;
}

/// Formats an event. Events about containers contain the pod's name.
fn line(event: &Event) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let about = &event.involved_object;
    let line = format!("{} {} {}", text(&event.reporting_component), text(&event.reason), text(&event.message));
    if about.field_path.is_some() { format!("{line} of {}", text(&about.name)) } else { line }
}

async fn roll(target: &Target) {
    let ns = namespace(target, "roll").await;
    let client = &target.client;
    let (observed, ()) = Observed::start(client, &controllers(), |_| ()).await;
    client.create(&deployment(&ns)).await.unwrap();
    eventually("eight replicas are available", || available(client, &ns, REPLICAS)).await;

    let image = |image: &str| {
        Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}))
    };
    client.patch::<Deployment>("web", image("two")).within(&ns).await.unwrap();
    let complete = || async {
        let pods = live_pods(client, &ns).await;
        // 25 % of 8: at most 10 and at least 6.
        assert!((6..=10).contains(&pods.len()), "{} pods during the rollout", pods.len());
        let all = pods.iter().all(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("two"));
        (all && available(client, &ns, REPLICAS).await.is_some()).then_some(())
    };
    eventually("the rollout is complete", complete).await;
    let rolled = client.get::<Deployment>("web").within(&ns).await.unwrap();
    assert_eq!(rolled.annotations()["deployment.kubernetes.io/revision"], "2");
    let progressing =
        rolled.status.unwrap().conditions.unwrap().into_iter().find(|it| it.type_ == "Progressing").unwrap();
    assert_eq!(progressing.reason.as_deref(), Some("NewReplicaSetAvailable"));
    assert_eq!(client.list::<ReplicaSet>().within(&ns).await.unwrap().len(), 2, "the old one is kept");

    // The first template again: its ReplicaSet is used again, with a new revision.
    client.patch::<Deployment>("web", image("one")).within(&ns).await.unwrap();
    eventually("the rollback is complete", || async {
        let pods = live_pods(client, &ns).await;
        let all = pods.iter().all(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("one"));
        (all && available(client, &ns, REPLICAS).await.is_some()).then_some(())
    })
    .await;
    let back = client.get::<Deployment>("web").within(&ns).await.unwrap();
    assert_eq!(back.annotations()["deployment.kubernetes.io/revision"], "3");
    assert_eq!(client.list::<ReplicaSet>().within(&ns).await.unwrap().len(), 2, "no third one is made");
    observed.stop().await;
}

fn deployment(namespace: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "one"}]},
            },
        },
    }))
    .unwrap()
}

/// Returns the pods that are not in deletion.
async fn live_pods(client: &Client, namespace: &str) -> Vec<Pod> {
    let pods = client.list::<Pod>().within(namespace).await.unwrap().items;
    pods.into_iter().filter(|pod| !pod.is_deleting()).collect()
}

/// Reports whether the status has this number of replicas, all available and of the current template.
async fn available(client: &Client, namespace: &str, replicas: usize) -> Option<()> {
    let deployment = client.get::<Deployment>("web").within(namespace).await.unwrap();
    let status = deployment.status?;
    let replicas = i32::try_from(replicas).ok();
    let complete = status.observed_generation == deployment.metadata.generation
        && [status.replicas, status.updated_replicas, status.available_replicas].iter().all(|count| *count == replicas);
    complete.then_some(())
}
