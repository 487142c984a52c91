//! A ReplicaSet is scaled from 2 replicas to 3: each step is observed.

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use windlass_api::{ObjectExt, Patch};
use windlass_cache::Notification;
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers};
use windlass_runtime::{Change, Watch};

use super::{Observed, Step, namespace};
use conformance::{Target, eventually, on_each_target};

/// The state at the time of an update notification.
#[derive(Clone, Debug)]
struct Update {
    replicas: Option<i32>,
    /// The cached replicas at that moment, looked up in the namespace.
    cached: Option<i32>,
}

#[tokio::test]
async fn replicaset_scales_from_two_to_three_step_by_step() {
    on_each_target(|target| async {
        walk_through(&target).await;
        target
    })
    .await;
}

async fn walk_through(target: &Target) {
    let ns = namespace(target, "walk").await;
    let client = &target.client;
    let updates = Arc::new(Mutex::new(Vec::new()));
    let (observed, _registration) = Observed::start(client, &Controllers::of([BuiltIn::ReplicaSet]), |manager| {
        let informer = manager.cluster().informer::<ReplicaSet>(&Watch::all());
        let (store, updates, ns) = (informer.store(), updates.clone(), ns.clone());
        let note = move |notification: Notification<ReplicaSet>| {
            let Notification::Updated { new, .. } = notification else { return };
            if new.meta().namespace().map(|namespace| &**namespace) != Some(&ns) {
                return;
            }
            let replicas = |set: &ReplicaSet| set.spec.as_ref().and_then(|spec| spec.replicas);
            let in_namespace = store.within(ns.as_str()).list();
            let cached =
                in_namespace.iter().find(|set| set.key() == new.key()).and_then(|set| replicas(&*set.get().ok()?));
            updates.lock().push(Update { replicas: new.get().ok().and_then(|set| replicas(&set)), cached });
        };
        informer.add_handler(move || note.clone())
    })
    .await;

    // Two replicas, and an idle control loop.
    client.create(&replica_set(&ns)).await.unwrap();
    let key = format!("{ns}/rs-a");
    eventually("two replicas in the status", || async { (status_replicas(client, &ns).await == 2).then_some(()) })
        .await;
    let before = pods(client, &ns).await;
    assert_eq!(before.len(), 2);

    // (a) The controller watches ReplicaSets and pods.
    assert!(["replicasets", "pods"].iter().all(|resource| observed.watched.lock().contains(*resource)));

    let start = observed.steps().len();
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    client.patch::<ReplicaSet>("rs-a", patch).within(&ns).await.unwrap();

    // (b) The update arrives. (c) When handlers are notified, the cache has it in its namespace.
    let seen = eventually("the update reaches the handlers", || async {
        updates.lock().iter().find(|update| update.replicas == Some(3)).cloned()
    })
    .await;
    assert_eq!(seen.cached, Some(3));

    // (d) The update becomes the key of the ReplicaSet.
    let enqueued = eventually("the key is enqueued", || async {
        observed.position(start, |step| {
            matches!(step, Step::Enqueued { kind, change: Change::Updated, key: of, .. } if kind == "ReplicaSet" && *of == key)
        })
    })
    .await;

    // (e) A worker takes the key, compares, and creates one pod with the ReplicaSet as its owner.
    let started = eventually("a worker takes the key", || async {
        observed.position(enqueued, |step| matches!(step, Step::Started { key: of, .. } if *of == key))
    })
    .await;
    eventually("a third pod", || async { (pods(client, &ns).await.len() == 3).then_some(()) }).await;
    let set = client.get::<ReplicaSet>("rs-a").within(&ns).await.unwrap();
    let after = pods(client, &ns).await;
    let new: Vec<_> = after.iter().filter(|pod| before.iter().all(|old| old.uid() != pod.uid())).collect();
    assert_eq!(new.len(), 1, "exactly one pod is created");
    assert!(new[0].is_controlled_by(&set));
    let owner = new[0].controller().unwrap();
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.block_owner_deletion),
        ("ReplicaSet", "rs-a", Some(true))
    );

    // (f) The event of the new pod becomes the key of its owner.
    let name = new[0].name().to_owned();
    let by_pod = eventually("the pod's owner is enqueued", || async {
        observed.position(started, |step| {
            matches!(step, Step::Enqueued { kind, name: of_pod, change: Change::Added, key: of, .. }
                if kind == "Pod" && *of_pod == name && *of == key)
        })
    })
    .await;

    // (g) The worker counts the pods and updates the status.
    eventually("the key is worked off again", || async {
        observed.position(by_pod, |step| matches!(step, Step::Succeeded { key: of, .. } if *of == key))
    })
    .await;
    eventually("three replicas in the status", || async { (status_replicas(client, &ns).await == 3).then_some(()) })
        .await;
    let set = client.get::<ReplicaSet>("rs-a").within(&ns).await.unwrap();
    assert_eq!(set.status.unwrap().observed_generation, set.metadata.generation);
    assert_eq!(pods(client, &ns).await.len(), 3, "and no pod too many");
    observed.stop().await;
}

fn replica_set(namespace: &str) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": "rs-a", "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap()
}

async fn pods(client: &Client, namespace: &str) -> Vec<Pod> {
    client.list::<Pod>().within(namespace).await.unwrap().items
}

async fn status_replicas(client: &Client, namespace: &str) -> i32 {
    let set = client.get::<ReplicaSet>("rs-a").within(namespace).await.unwrap();
    set.status.map_or(0, |status| status.replicas)
}
