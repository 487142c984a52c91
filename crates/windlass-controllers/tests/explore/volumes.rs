//! Explorations of claims and volumes.

use k8s_openapi::{
    api::{
        core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
        storage::v1::StorageClass,
    },
    serde_json::{Value, json},
};
use tokio::time::{Instant, sleep};
use windlass_api::{ObjectExt as _, Patch, Resource};
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers};
use windlass_envtest::{
    Environment,
    explore::{Scenario, State, StepResult, explore},
};

use crate::{LOOK, PATIENCE, create, of};

fn volume(name: &str, policy: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "persistentVolumeReclaimPolicy": policy,
        "hostPath": {"path": "/tmp/windlass"},
    }})
}

fn claim(name: &str) -> Value {
    let requests = json!({"requests": {"storage": "1Gi"}});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": requests, "storageClassName": ""});
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// Waits until a condition holds of an object.
async fn until<K: Resource>(client: &Client, name: &'static str, is: impl Fn(&K) -> bool) -> StepResult {
    let begun = Instant::now();
    while !client.get_opt::<K>(name).await?.is_some_and(|object| is(&object)) {
        if begun.elapsed() > PATIENCE {
            return Err(format!("{name} does not become what it should").into());
        }
        sleep(LOOK).await;
    }
    Ok(())
}

async fn until_bound(client: &Client, name: &'static str) -> StepResult {
    until(client, name, is_bound).await
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

fn size_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let capacity = claim.status.as_ref()?.capacity.as_ref()?;
    Some(capacity.get("storage")?.0.as_str())
}

fn phase(state: &State, name: &str) -> Option<String> {
    state.get::<PersistentVolume>(name)?.status?.phase
}

/// Returns `true` if no volume is bound to two claims.
fn is_consistent(state: &State) -> bool {
    let claims: Vec<PersistentVolumeClaim> = state.all();
    let named: Vec<_> = claims.iter().filter_map(|claim| claim.spec.as_ref()?.volume_name.as_deref()).collect();
    named.iter().enumerate().all(|(index, name)| !named[..index].contains(name))
}

#[test]
fn claims_are_bound_and_volumes_released() {
    let scenario = of(BuiltIn::PersistentVolume)
        .step("a volume and a claim", |client| async move {
            create::<PersistentVolume>(&client, volume("kept", "Retain")).await?;
            create::<PersistentVolumeClaim>(&client, claim("one")).await
        })
        .step("it is bound", |client| async move { until_bound(&client, "one").await })
        .step("another claim, and its volume", |client| async move {
            create::<PersistentVolumeClaim>(&client, claim("two")).await?;
            create::<PersistentVolume>(&client, volume("deleted", "Delete")).await
        })
        .step("it is bound, too", |client| async move { until_bound(&client, "two").await })
        .step("the claims are deleted", |client| async move {
            for name in ["one", "two"] {
                let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                client.patch::<PersistentVolumeClaim>(name, free).await?;
                client.delete::<PersistentVolumeClaim>(name).await?;
            }
            Ok(())
        })
        .always("a volume has one claim", is_consistent)
        .settled("one volume is released, the other is being deleted", |state| {
            let deleted = state.get::<PersistentVolume>("deleted");
            phase(state, "kept").as_deref() == Some("Released") && deleted.is_none_or(|volume| volume.is_deleting())
        });
    explore(scenario).assert();
}

#[test]
fn claims_of_a_class_request_its_provisioner() {
    let scenario = of(BuiltIn::PersistentVolume)
        .step("a claim, and its class", |client| async move {
            let mut classed = claim("data");
            classed["spec"]["storageClassName"] = json!("fast");
            create::<PersistentVolumeClaim>(&client, classed).await?;
            let class = json!({"metadata": {"name": "fast"}, "provisioner": "example.com/disks"});
            create::<StorageClass>(&client, class).await
        })
        .settled("the provisioner is requested", |state| {
            let claim = state.get::<PersistentVolumeClaim>("data");
            let asked =
                claim.and_then(|claim| claim.annotations().get("volume.kubernetes.io/storage-provisioner").cloned());
            asked.as_deref() == Some("example.com/disks")
        });
    explore(scenario).assert();
}

/// Creates a scenario with the storage controllers and one node.
fn storage(name: &str) -> Scenario {
    let controllers = [BuiltIn::PersistentVolume, BuiltIn::StorageProtection, BuiltIn::Nodes];
    Scenario::new(name).controller(move |manager| Controllers::of(controllers).nodes(1).add_to(manager))
}

#[test]
fn claims_get_volumes_of_the_default_class() {
    let scenario = storage("default class")
        .step("the default class is created", |client| async move {
            until::<StorageClass>(&client, "standard", |_| true).await
        })
        .step("a claim without a class", |client| async move {
            let mut plain = claim("data");
            plain["spec"]["storageClassName"] = Value::Null;
            create::<PersistentVolumeClaim>(&client, plain).await
        })
        .step("it is bound", |client| async move { until_bound(&client, "data").await })
        .step("it requests more", |client| async move {
            let more = Patch::Merge(json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}));
            client.patch::<PersistentVolumeClaim>("data", more).await?;
            Ok(())
        })
        .step(
            "it gets more",
            |client| async move { until(&client, "data", |claim| size_of(claim) == Some("2Gi")).await },
        )
        .step("it is deleted", |client| async move {
            client.delete::<PersistentVolumeClaim>("data").await?;
            Ok(())
        })
        .always("there is one volume at most", |state| state.all::<PersistentVolume>().len() <= 1)
        .settled("the volume was deleted with its claim", |state| {
            state.all::<PersistentVolume>().is_empty() && state.all::<PersistentVolumeClaim>().is_empty()
        });
    explore(scenario).assert();
}

#[test]
fn claims_that_wait_for_a_consumer_are_bound_for_its_node() {
    let scenario = storage("first consumer")
        .step("a class, a claim and a pod", |client| async move {
            let class = json!({
                "metadata": {"name": "late"}, "provisioner": "windlass.dev/simulated",
                "volumeBindingMode": "WaitForFirstConsumer",
            });
            create::<StorageClass>(&client, class).await?;
            let mut late = claim("data");
            late["spec"]["storageClassName"] = json!("late");
            create::<PersistentVolumeClaim>(&client, late).await?;
            let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
            let spec = json!({"containers": [{"name": "c", "image": "a"}], "volumes": volumes});
            create::<Pod>(&client, json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})).await
        })
        // Their names contain UIDs, which differ between runs.
        .ignoring::<PersistentVolume>()
        .ignoring_field::<PersistentVolumeClaim>("/spec/volumeName")
        .ignoring_field::<Pod>("/status/containerStatuses")
        .always("there is one volume at most", |state| state.all::<PersistentVolume>().len() <= 1)
        .always("a pod with a node has its volume", |state| {
            let has_node = |pod: Pod| pod.spec.is_some_and(|spec| spec.node_name.is_some());
            let has_volume = |claim: PersistentVolumeClaim| claim.spec.is_some_and(|spec| spec.volume_name.is_some());
            !state.get::<Pod>("web").is_some_and(has_node)
                || state.get::<PersistentVolumeClaim>("data").is_some_and(has_volume)
        })
        .settled("the claim is bound for the node", |state| {
            let claim = state.get::<PersistentVolumeClaim>("data");
            claim.is_some_and(|claim| {
                is_bound(&claim) && claim.annotations()["volume.kubernetes.io/selected-node"] == "node-0"
            })
        })
        .settled("the volume is bound", |state| {
            state.all::<PersistentVolume>().iter().all(|volume| phase(state, volume.name()).as_deref() == Some("Bound"))
        })
        .settled("the pod runs", |state| {
            let phase = state.get::<Pod>("web").and_then(|pod| pod.status?.phase);
            phase.as_deref() == Some("Running")
        });
    explore(scenario).assert();
}

/// Builds a pod with one volume.
fn consumer(name: &str, volume: &Value) -> Value {
    let mut volume = volume.clone();
    volume["name"] = json!("v");
    let spec = json!({"containers": [{"name": "c", "image": "a"}], "volumes": [volume]});
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// Starts an environment with these controllers and one node.
async fn environment(controllers: impl IntoIterator<Item = BuiltIn>) -> Environment {
    let env = Environment::start().await;
    let mut manager = env.manager();
    Controllers::of(controllers).nodes(1).add_to(&mut manager);
    env.run(manager);
    env
}

fn runs(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

#[tokio::test(start_paused = true)]
async fn pod_with_unbound_claim_reports_the_claim() {
    let env = environment([BuiltIn::PersistentVolume, BuiltIn::Nodes]).await;
    let client = env.client();
    env.eventually::<Node>("node-0", |_| true).await;
    let waits = |why: &str| {
        let preemption = "0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
        let message = format!("0/1 nodes are available: {why}. preemption: {preemption}");
        move |pod: &Pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|condition| {
                condition.type_ == "PodScheduled"
                    && condition.reason.as_deref() == Some("Unschedulable")
                    && condition.message.as_deref() == Some(&message)
            })
        }
    };
    let claimed = |claim: &str| json!({"persistentVolumeClaim": {"claimName": claim}});
    create::<Pod>(&client, consumer("web", &claimed("data"))).await.unwrap();
    env.eventually::<Pod>("web", waits("persistentvolumeclaim \"data\" not found")).await;
    create::<PersistentVolumeClaim>(&client, claim("data")).await.unwrap();
    env.eventually::<Pod>("web", waits("pod has unbound immediate PersistentVolumeClaims")).await;
    create::<PersistentVolume>(&client, volume("disk", "Retain")).await.unwrap();
    env.eventually::<Pod>("web", runs).await;
    // A volume that no node can reach.
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]);
    let mut far = volume("far", "Retain");
    far["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    create::<PersistentVolume>(&client, far).await.unwrap();
    create::<PersistentVolumeClaim>(&client, claim("remote")).await.unwrap();
    create::<Pod>(&client, consumer("lost", &claimed("remote"))).await.unwrap();
    env.eventually::<Pod>("lost", waits("1 node(s) didn't match PersistentVolume's node affinity")).await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pods_do_not_wait_for_claims_that_no_controller_binds() {
    let env = environment([BuiltIn::Nodes]).await;
    let client = env.client();
    create::<PersistentVolumeClaim>(&client, claim("data")).await.unwrap();
    let data = json!({"persistentVolumeClaim": {"claimName": "data"}});
    create::<Pod>(&client, consumer("web", &data)).await.unwrap();
    env.eventually::<Pod>("web", runs).await;
    assert!(client.list::<StorageClass>().await.unwrap().items.is_empty(), "these nodes have no storage");
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_an_ephemeral_volume_runs_with_its_claim() {
    let env = environment([BuiltIn::PersistentVolume, BuiltIn::EphemeralVolume, BuiltIn::Nodes]).await;
    let client = env.client();
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let scratch = json!({"ephemeral": {"volumeClaimTemplate": {"spec": spec}}});
    create::<Pod>(&client, consumer("web", &scratch)).await.unwrap();
    env.eventually::<Pod>("web", runs).await;
    let claim = client.get::<PersistentVolumeClaim>("web-v").await.unwrap();
    assert!(is_bound(&claim) && claim.owner_references()[0].kind == "Pod", "{claim:?}");
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pod_is_scheduled_once_another_program_has_bound_its_claim() {
    let env = Environment::start().await;
    for controllers in
        [Controllers::of([BuiltIn::Nodes]).nodes(1).binder_elsewhere(), Controllers::of([BuiltIn::PersistentVolume])]
    {
        let mut manager = env.manager();
        controllers.add_to(&mut manager);
        env.run(manager);
    }
    let client = env.client();
    env.eventually::<StorageClass>("standard", |_| true).await;
    let spec = json!({
        "containers": [{"name": "db", "image": "db"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    });
    create::<Pod>(&client, json!({"metadata": {"name": "db", "namespace": "default"}, "spec": spec})).await.unwrap();
    let is_unschedulable = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|conditions| conditions.iter().any(|condition| condition.status == "False"))
    };
    env.eventually::<Pod>("db", is_unschedulable).await;
    let mut claim = claim("data");
    claim["spec"]["storageClassName"] = json!("standard");
    create::<PersistentVolumeClaim>(&client, claim).await.unwrap();
    let runs = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
    env.eventually::<Pod>("db", runs).await;
    env.stop().await.unwrap();
}
