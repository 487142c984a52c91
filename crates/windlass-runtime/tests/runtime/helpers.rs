//! Tests of the helpers for reconcilers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use parking_lot::Mutex;
use serde_json::json;
use windlass_api::{
    ObjectExt as _,
    k8s_openapi::{
        api::{apps::v1::Deployment, core::v1::ConfigMap},
        apimachinery::pkg::apis::meta::v1::Time,
        jiff::Timestamp,
    },
};
use windlass_runtime::{
    Action, Context, Controller, Error,
    finalizers::{Finalized, Finalizers},
    status::{StatusWrite, update_status},
    upsert::{Upserted, create_if_absent, create_or_patch, create_or_update},
};

use crate::{
    fake::{Fake, Run, config, deployment, eventually},
    objects::Objects,
};

const MAP: &str = "/api/v1/namespaces/ns/configmaps/a";

fn paint(map: &mut ConfigMap, color: &str) {
    map.data.get_or_insert_default().insert("color".to_owned(), color.to_owned());
}

#[tokio::test]
async fn upsert_creates_changes_or_keeps_the_object() {
    let server = Objects::default();
    let client = server.client();
    let made = create_or_update(&client, config("a"), |map| paint(map, "blue")).await.unwrap();
    assert!(matches!(made, Upserted::Created(_)));
    let same = create_or_update(&client, config("a"), |map| paint(map, "blue")).await.unwrap();
    assert!(matches!(same, Upserted::Unchanged(_)));
    let changed = create_or_update(&client, config("a"), |map| paint(map, "red")).await.unwrap();
    let Upserted::Changed(map) = changed else { panic!("{changed:?}") };
    assert_eq!(map.data.unwrap()["color"], "red");
    let writes = server.writes();
    let requests: Vec<_> = writes.iter().map(|write| write.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(requests, ["POST /api/v1/namespaces/ns/configmaps", &format!("PUT {MAP}")]);
}

#[tokio::test]
async fn upsert_reports_conflicts_and_rejects_renames() {
    let server = Objects::default();
    let client = server.client();
    create_or_update(&client, config("a"), |map| paint(map, "blue")).await.unwrap();
    let error = create_or_update(&client, config("a"), |map| {
        paint(map, "red");
        let mut others = server.at(MAP).unwrap();
        others["data"]["size"] = json!("large");
        server.put(MAP, others);
    });
    let Err(Error::Client(error)) = error.await else { panic!("expected a conflict") };
    assert!(error.is_conflict());
    let error = create_or_patch(&client, config("a"), |map| map.metadata.name = Some("b".to_owned())).await;
    assert_eq!(error.unwrap_err().to_string(), "a change of ns/a must not rename it to ns/b");
}

#[tokio::test]
async fn patch_sends_differences_and_status_separately() {
    let server = Objects::default();
    let client = server.client();
    let ready = |deployment: &mut Deployment, ready: i32| {
        deployment.status.get_or_insert_default().ready_replicas = Some(ready);
    };
    let made = create_or_patch(&client, deployment("d", None), |d| d.metadata.uid = None).await.unwrap();
    assert!(matches!(made, Upserted::Created(_)));
    server.writes();
    let path = "/apis/apps/v1/namespaces/ns/deployments/d";

    create_or_patch(&client, deployment("d", None), |d| ready(d, 3)).await.unwrap();
    assert_eq!(server.writes(), [format!("PATCH {path}/status status")]);
    let both = create_or_patch(&client, deployment("d", None), |d| {
        ready(d, 4);
        d.labels_mut().insert("a".to_owned(), "b".to_owned());
        // Another client's write to another field is no conflict.
        let mut others = server.at(path).unwrap();
        others["spec"] = json!({"paused": true, "selector": {}, "template": {}});
        server.put(path, others);
    });
    let both = both.await.unwrap().into_object();
    assert_eq!(server.writes(), [format!("PATCH {path} metadata"), format!("PATCH {path}/status status")]);
    assert_eq!((both.labels()["a"].as_str(), both.status.as_ref().unwrap().ready_replicas), ("b", Some(4)));
    assert_eq!(both.spec.unwrap().paused, Some(true));
    let same = create_or_patch(&client, deployment("d", None), |d| ready(d, 4)).await.unwrap();
    assert!(matches!(same, Upserted::Unchanged(_)) && server.writes().is_empty());
}

#[tokio::test]
async fn create_if_absent_returns_the_object_that_exists() {
    let server = Objects::default();
    let client = server.client();
    let wanted = || {
        let mut map = config("a");
        paint(&mut map, "blue");
        map
    };
    assert!(matches!(create_if_absent(&client, &wanted()).await.unwrap(), Upserted::Created(_)));
    let mut theirs = server.at(MAP).unwrap();
    theirs["data"]["color"] = json!("red");
    server.put(MAP, theirs);
    server.refuse_existing();
    let found = create_if_absent(&client, &wanted()).await.unwrap();
    let Upserted::Unchanged(found) = found else { panic!("{found:?}") };
    assert_eq!(found.data.unwrap()["color"], "red", "the existing object is unchanged");
}

#[tokio::test]
async fn status_is_written_on_change_and_retried_on_conflict() {
    let server = Objects::default();
    let client = server.client();
    let path = "/apis/apps/v1/namespaces/ns/deployments/d";
    let mut first = client.create(&deployment("d", None)).await.unwrap();
    first.status.get_or_insert_default().ready_replicas = Some(1);
    let first = client.update(&first).await.unwrap();
    server.writes();
    // The cached object is stale: another client has labeled it.
    let mut theirs = server.at(path).unwrap();
    theirs["metadata"]["labels"] = json!({"a": "b"});
    server.put(path, theirs);
    let report = |deployment: &mut Deployment| {
        let status = deployment.status.get_or_insert_default();
        (status.ready_replicas, status.replicas) = (None, Some(2));
    };
    let written = update_status(&client, &first, report).await.unwrap();
    assert!(written.is_written());
    assert_eq!(server.at(path).unwrap()["status"], json!({"replicas": 2}), "omitted fields are cleared");
    assert_eq!(server.writes().len(), 2, "a conflict and a retry");
    let StatusWrite::Written(now) = written else { panic!("{written:?}") };
    assert_eq!(update_status(&client, &*now, report).await.unwrap(), StatusWrite::Unchanged);
    assert!(server.writes().is_empty());
    let gone = deployment("e", None);
    assert_eq!(update_status(&client, &gone, report).await.unwrap(), StatusWrite::Gone);
}

#[tokio::test(start_paused = true)]
async fn finalizers_are_added_first_and_cleaned_up_in_order() {
    let (fake, server) = (Fake::new(), Objects::default());
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let failures = Arc::new(AtomicUsize::new(1));
    let clean_up = |name: &'static str, failures: Arc<AtomicUsize>| {
        let log = log.clone();
        move |_: Arc<ConfigMap>, _: Context| {
            let (log, failures) = (log.clone(), failures.clone());
            async move {
                let fails = failures.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
                log.lock().push(format!("{name} {}", if fails { "fails" } else { "cleaned" }));
                if fails { Err(Error::other("not yet")) } else { Ok(()) }
            }
        }
    };
    let finalizers = Arc::new(
        Finalizers::new()
            .then("ours/first", clean_up("first", failures))
            .then("ours/second", clean_up("second", Arc::default())),
    );
    let mut manager = fake.manager_of(server.client()).build();
    let reconciled = log.clone();
    manager.add(Controller::<ConfigMap>::new().reconcile(move |object: Arc<ConfigMap>, cx: Context| {
        let (finalizers, log) = (finalizers.clone(), reconciled.clone());
        async move {
            if let Finalized::Live(object) = finalizers.finalize(object, &cx).await? {
                log.lock().push(format!("live {}", object.finalizers().join(" ")));
            }
            Ok::<_, Error>(Action::await_change())
        }
    }));
    let run = Run::start(manager);
    let mut object = config("a");
    object.metadata.finalizers = Some(vec!["theirs".to_owned()]);
    let encoded = serde_json::to_value(&object).unwrap();
    server.put(MAP, encoded);
    object.metadata.resource_version = Some("1".to_owned());
    fake.put(&object);
    eventually("the first reconcile", || log.lock().len() == 1).await;
    assert_eq!(log.lock().remove(0), "live theirs ours/first ours/second");
    assert_eq!(server.at(MAP).unwrap()["metadata"]["finalizers"], json!(["theirs", "ours/first", "ours/second"]));

    object.metadata.deletion_timestamp = Some(Time(Timestamp::from_second(1_700_000_000).unwrap()));
    object.metadata.finalizers = Some(["theirs", "ours/first", "ours/second"].map(str::to_owned).to_vec());
    server.put(MAP, serde_json::to_value(&object).unwrap());
    // Version 3 of the server is version 3 of the cache.
    fake.put(&config("unrelated"));
    fake.put(&object);
    eventually("both are cleaned up", || log.lock().iter().any(|line| line == "second cleaned")).await;
    eventually("both are gone", || server.at(MAP).unwrap()["metadata"]["finalizers"] == json!(["theirs"])).await;
    let cleaned: Vec<_> = log.lock().iter().filter(|line| !line.starts_with("live")).cloned().collect();
    assert_eq!(cleaned, ["first fails", "first cleaned", "second cleaned"]);
    run.stop().await.unwrap();
}
