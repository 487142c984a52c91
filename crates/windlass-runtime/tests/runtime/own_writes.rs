//! Tests that cached reads show the manager's own writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass_api::{
    BoxError, ObjectExt as _, ObjectRef, PartialObject, Patch, Resource as _,
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
};
use windlass_cache::InformerOptions;
use windlass_client::{Body, Client, Error};
use windlass_runtime::{Action, CachedClient, Context, Controller, Manager};

use crate::fake::{Fake, Run, config, eventually};

/// A server that answers writes with the next version of the caches, and does not notify the caches.
#[derive(Clone)]
struct Writes(Arc<AtomicU64>);

impl Writes {
    fn client(&self) -> Client {
        let writes = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let writes = writes.clone();
            async move {
                let (head, body) = request.into_parts();
                let mut body: Value =
                    serde_json::from_slice(&BodyExt::collect(body).await?.to_bytes()).unwrap_or_default();
                let is_dry = head.uri.query().is_some_and(|query| query.contains("dryRun"));
                let version = writes.0.load(SeqCst).to_string();
                let path: Vec<_> = head.uri.path().trim_start_matches('/').split('/').collect();
                match (&head.method, path.len()) {
                    (&Method::DELETE, 5) => {
                        let metadata = json!({"namespace": "ns", "name": "a", "uid": "uid-a"});
                        body = json!({"kind": "ConfigMapList", "items": [{"metadata": metadata}]});
                    }
                    (&Method::DELETE, _) => {
                        let details = json!({"name": path[5], "uid": format!("uid-{}", path[5])});
                        body = json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": details});
                    }
                    _ => {
                        let name = path.get(5).map_or_else(|| body["metadata"]["name"].clone(), |name| json!(name));
                        body["metadata"]["name"] = name;
                        body["metadata"]["namespace"] = json!(path[3]);
                        body["metadata"]["uid"] = json!("uid");
                        body["metadata"]["resourceVersion"] = json!(if is_dry { "999" } else { &version });
                    }
                }
                let answer = Response::builder().header("content-type", "application/json");
                Ok::<_, BoxError>(answer.body(Full::new(bytes::Bytes::from(body.to_string())))?)
            }
        });
        Client::from_service(service, "ns")
    }
}

/// Creates a manager whose caches show `a` at version 1. The server stores the next write at version 2.
async fn rig() -> (Fake, Run, CachedClient) {
    let fake = Fake::new();
    fake.put(&named("a"));
    let manager: Manager = fake.manager_of(Writes(Arc::new(AtomicU64::new(2))).client()).build();
    let client = manager.cluster().cached_client();
    let run = Run::start(manager);
    client.list::<ConfigMap>().await.unwrap();
    (fake, run, client)
}

fn named(name: &str) -> ConfigMap {
    let mut object = config(name);
    object.metadata.uid = Some(format!("uid-{name}"));
    object
}

fn key(name: &str) -> ObjectRef<ConfigMap> {
    ObjectRef::new(name).within("ns")
}

/// Returns the result of a read and its duration.
async fn waited<T>(read: impl IntoFuture<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    let read = read.await;
    (read, began.elapsed())
}

/// Applies a change to the caches after one second.
fn later(change: impl FnOnce() + Send + 'static) {
    tokio::spawn(async move {
        sleep(Duration::from_secs(1)).await;
        change();
    });
}

#[tokio::test(start_paused = true)]
async fn read_after_create_waits_for_the_object() {
    let (fake, run, client) = rig().await;
    client.create(&named("b")).await.unwrap();
    let (_, of_another) = waited(client.get::<ConfigMap>(key("a"))).await;
    let (_, elsewhere) = waited(client.list::<ConfigMap>().within("other")).await;
    let (_, of_another_kind) = waited(client.list::<Secret>()).await;
    assert_eq!([of_another, elsewhere, of_another_kind], [Duration::ZERO; 3], "unrelated reads do not wait");
    later(move || fake.put(&named("b")));
    let (found, took) = waited(client.get::<ConfigMap>(key("b"))).await;
    assert_eq!((found.unwrap().name(), took), ("b", Duration::from_secs(1)));
    let (found, took) = waited(client.list::<ConfigMap>()).await;
    assert_eq!((found.unwrap().len(), took), (2, Duration::ZERO), "nothing is pending any more");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn read_after_each_kind_of_write_waits_for_its_version() {
    let patch = || Patch::Merge(json!({}));
    for write in 0..7 {
        let (fake, run, client) = rig().await;
        match write {
            0 => drop(client.update(&named("a")).await.unwrap()),
            1 => drop(client.update_status(&named("a")).await.unwrap()),
            2 => drop(client.patch::<ConfigMap>(key("a"), patch()).await.unwrap()),
            3 => drop(client.apply(&named("a")).await.unwrap()),
            4 => client.update(&named("a")).discard_response().await.unwrap(),
            5 => drop(client.live().patch_scale::<ConfigMap>(key("a"), patch()).await.unwrap()),
            _ => drop(client.live().update(&named("a")).await.unwrap()),
        }
        later(move || fake.put(&named("a")));
        // Several caches of one kind are followed separately.
        let metadata = client.metadata_of::<ConfigMap>();
        let listed = waited(client.list::<ConfigMap>().within("ns")).await;
        assert_eq!(listed.1, Duration::from_secs(1), "write {write}");
        assert_eq!(listed.0.unwrap()[0].resource_version(), Some("2"));
        let of_metadata = metadata.get(ObjectRef::<PartialObject>::new("a").within("ns")).await.unwrap();
        assert_eq!(of_metadata.resource_version(), Some("2"));
        run.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn dry_run_is_not_waited_for() {
    let (_fake, run, client) = rig().await;
    client.update(&named("a")).dry_run().await.unwrap();
    client.delete::<ConfigMap>(key("a")).dry_run().await.unwrap();
    let (found, took) = waited(client.list::<ConfigMap>()).await;
    assert_eq!((found.unwrap().len(), took), (1, Duration::ZERO));
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn read_after_delete_shows_the_object_gone_or_terminating() {
    for way in 0..3 {
        let (fake, run, client) = rig().await;
        if way == 2 {
            client.delete_collection::<ConfigMap>().await.unwrap();
        } else {
            client.delete::<ConfigMap>(key("a")).await.unwrap();
        }
        later(move || {
            if way == 1 {
                let mut going = serde_json::to_value(named("a")).unwrap();
                going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                fake.put(&serde_json::from_value::<ConfigMap>(going).unwrap());
            } else {
                fake.delete(&named("a"));
            }
        });
        let (found, took) = waited(client.get_opt::<ConfigMap>(key("a"))).await;
        let is_gone = found.unwrap().is_none_or(|object| object.metadata.deletion_timestamp.is_some());
        assert!(is_gone && took == Duration::from_secs(1), "{way}: {took:?}");
        run.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn cache_that_stays_behind_fails_the_read_unless_it_is_stale() {
    let (_fake, run, client) = rig().await;
    client.update(&named("a")).await.unwrap();
    let (error, took) = waited(client.get::<ConfigMap>(key("a"))).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Stale { .. }) && error.is_timeout());
    assert_eq!(took, Duration::from_secs(10));
    let told = r#"get configmaps "ns/a": the cache does not show an own write to ns/a after 10s; read with `live()`, or with `stale()` for what it shows"#;
    assert_eq!(error.to_string(), told);
    for stale in [
        client.stale().get::<ConfigMap>(key("a")).await.unwrap(),
        client.kind::<ConfigMap>().stale().get(key("a")).await.unwrap(),
        client.list::<ConfigMap>().stale().await.unwrap().remove(0),
    ] {
        assert_eq!(stale.resource_version(), Some("1"));
    }
    // If the server never shows the write, reads do not wait forever.
    sleep(Duration::from_mins(6)).await;
    assert_eq!(client.get::<ConfigMap>(key("a")).await.unwrap().resource_version(), Some("1"));
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn object_that_the_cache_does_not_select_is_not_waited_for() {
    let fake = Fake::new();
    let of_blue = InformerOptions::default().labels("color=blue");
    let builder = fake.manager_of(Writes(Arc::new(AtomicU64::new(2))).client());
    let manager = builder.cache_of(ConfigMap::api_resource(), of_blue).build();
    let client = manager.cluster().cached_client();
    let run = Run::start(manager);
    client.list::<ConfigMap>().await.unwrap();
    let painted = |name: &str, color: &str| {
        let mut object = named(name);
        object.metadata.labels = Some([("color".to_owned(), color.to_owned())].into());
        object
    };
    client.create(&painted("red", "red")).await.unwrap();
    assert_eq!(waited(client.list::<ConfigMap>()).await.1, Duration::ZERO);
    client.create(&painted("b", "blue")).await.unwrap();
    fake.put(&painted("other", "blue"));
    later(move || fake.put(&painted("b", "blue")));
    assert_eq!(waited(client.get::<ConfigMap>(key("b"))).await.1, Duration::from_secs(1));
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reconcile_begins_with_its_own_last_write() {
    let fake = Fake::new();
    fake.put(&named("a"));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut manager = fake.manager_of(Writes(Arc::new(AtomicU64::new(2))).client()).build();
    let observed = Arc::clone(&seen);
    manager.add(Controller::<ConfigMap>::new().reconcile(move |object: Arc<ConfigMap>, cx: Context| {
        let observed = Arc::clone(&observed);
        async move {
            let version = object.resource_version().unwrap_or_default().to_owned();
            observed.lock().push(version.clone());
            if version == "1" {
                cx.client().update(&*object).await?;
                return Ok(Action::requeue_after(Duration::from_millis(1)));
            }
            Ok::<_, windlass_runtime::Error>(Action::await_change())
        }
    }));
    let run = Run::start(manager);
    eventually("the first reconcile", || !seen.lock().is_empty()).await;
    // Longer than a reconcile waits: it fails and is retried.
    sleep(Duration::from_secs(15)).await;
    assert_eq!(*seen.lock(), ["1"]);
    fake.put(&named("a"));
    eventually("the second", || seen.lock().len() > 1).await;
    assert_eq!(seen.lock()[1], "2");
    run.stop().await.unwrap();
}
