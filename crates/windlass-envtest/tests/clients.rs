//! Tests that other projects write with fake clients. Here, real clients talk to a real API server.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::time::Duration;

use serde_json::json;
use windlass_api::{
    ApiResource, DynamicObject, GroupVersionKind, ObjectBuilder as _, ObjectExt as _, Patch,
    k8s_openapi::api::{
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Event},
    },
};
use windlass_envtest::Environment;
use windlass_runtime::{LeaderElection, Task, events::Note};

fn deployment() -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]}}},
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn applied_fields_have_owners_and_conflicts() {
    let env = Environment::start().await;
    let (one, other) = (env.client().with_field_owner("one"), env.client().with_field_owner("other"));
    let color = |color: &str| ConfigMap {
        data: Some([("color".to_owned(), color.to_owned())].into()),
        ..ConfigMap::named("c").in_namespace("default")
    };
    one.apply(&color("red")).await.unwrap();
    assert!(other.apply(&color("blue")).await.unwrap_err().is_conflict());
    let forced = other.apply(&color("blue")).force().await.unwrap();
    let owners: Vec<_> =
        forced.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    assert_eq!(owners, ["other"]);
}

#[tokio::test(start_paused = true)]
async fn all_client_kinds_share_the_same_objects() {
    let env = Environment::start().await;
    let client = env.client();
    client.create(&deployment()).await.unwrap();
    let deployments = ApiResource::namespaced(GroupVersionKind::new("apps", "v1", "Deployment"), "deployments");
    let dynamic: DynamicObject = client.dynamic(&deployments).get("web").await.unwrap();
    assert_eq!(dynamic.data["spec"]["strategy"]["type"], "RollingUpdate");
    let metadata = client.metadata(&deployments).get("web").await.unwrap();
    assert_eq!(metadata.metadata.uid, dynamic.metadata.uid);
    let scale = client.patch_scale::<Deployment>("web", Patch::Merge(json!({"spec": {"replicas": 5}}))).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(5));
    assert_eq!(client.get::<Deployment>("web").await.unwrap().spec.unwrap().replicas, Some(5));
    let discovery = client.discovery().await.unwrap();
    assert!(discovery.is_enabled(&deployments.gvr()));
}

#[tokio::test(start_paused = true)]
async fn test_server_handles_versions_finalizers_and_status() {
    let env = Environment::start().await;
    let client = env.client();
    let named = client.create(&ConfigMap::with_generated_name("some-").in_namespace("default")).await.unwrap();
    assert!(named.name().len() > "some-".len());
    let stale = named.clone();
    client.update(&named.with(|config| config.data = Some([("a".to_owned(), "b".to_owned())].into()))).await.unwrap();
    assert!(client.update(&stale.with(|config| config.immutable = Some(true))).await.unwrap_err().is_conflict());

    let held = ConfigMap::named("held").in_namespace("default").finalizer("example.com/hold");
    client.create(&held).await.unwrap();
    client.delete::<ConfigMap>("held").await.unwrap();
    let ending = client.get::<ConfigMap>("held").await.unwrap();
    assert!(ending.metadata.deletion_timestamp.is_some());
    client.update(&ending.with(|config| config.metadata.finalizers = None)).await.unwrap();
    env.eventually_gone::<ConfigMap>("held").await;

    let mut made = client.create(&deployment()).await.unwrap();
    made.spec.as_mut().unwrap().replicas = Some(9);
    made.status.get_or_insert_default().ready_replicas = Some(1);
    made.status.get_or_insert_default().replicas = Some(1);
    let made = client.update_status(&made).await.unwrap();
    assert_eq!((made.spec.unwrap().replicas, made.status.unwrap().ready_replicas), (Some(2), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn events_are_read_back_and_elections_are_held() {
    let env = Environment::start().await;
    let map = env.client().create(&ConfigMap::named("painted").in_namespace("default")).await.unwrap();
    let election =
        LeaderElection::new("painters").namespace("default").identity("one").lease_duration(Duration::from_secs(15));
    let mut manager = env.manager_builder().leader_election(election).build();
    let recorder = manager.cluster().recorder("painter");
    manager.add(Task::new("painter", async move |running| {
        recorder.record(&map, Note::normal("Painted", "painted it blue"));
        running.stop().requested().await;
        Ok(())
    }));
    env.run(manager);
    let events = env.eventually_all::<Event>(|events| !events.is_empty()).await;
    assert_eq!(events[0].message.as_deref(), Some("painted it blue"));
    let lease = env.eventually::<Lease>("painters", |lease| lease.spec.is_some()).await;
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("one"));
    env.stop().await.unwrap();
}
