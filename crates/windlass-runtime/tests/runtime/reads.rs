//! Tests of the manager's client: reads come from the caches, writes go to the server.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};
use windlass_api::{
    DynamicObject, ObjectExt as _, ObjectRef, PartialObject, Resource as _,
    k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Node, Secret},
    },
};
use windlass_cache::{Index, InformerOptions, Transform};
use windlass_client::Client;
use windlass_runtime::{
    Action, CacheOptions, CachedClient, Context, Controller, Error, Manager, ManagerBuilder, Watch,
};

use crate::fake::{Fake, Run, config, deployment, eventually};

fn painted(name: &str, color: &str) -> ConfigMap {
    let mut object = config(name);
    object.metadata.labels = Some(BTreeMap::from([("color".to_owned(), color.to_owned())]));
    object.data = Some(BTreeMap::from([("color".to_owned(), color.to_owned())]));
    object
}

/// Returns a running manager and its client.
fn running(builder: ManagerBuilder) -> (Run, CachedClient) {
    let manager: Manager = builder.build();
    let client = manager.cluster().cached_client();
    (Run::start(manager), client)
}

fn names<K: windlass_api::Object>(objects: &[Arc<K>]) -> Vec<&str> {
    let mut names: Vec<_> = objects.iter().map(|object| object.name()).collect();
    names.sort_unstable();
    names
}

#[tokio::test(start_paused = true)]
async fn first_read_starts_the_cache_and_waits_for_sync() {
    let fake = Fake::new();
    fake.put(&config("a"));
    fake.hold("configmaps");
    let (run, client) = running(fake.manager());
    let key = ObjectRef::<ConfigMap>::new("a").within("ns");
    assert!(timeout(Duration::from_secs(5), client.get(key.clone())).await.is_err(), "it waits");
    fake.release("configmaps");
    assert_eq!(client.get(key.clone()).await.unwrap().name(), "a");
    assert_eq!(client.get(key.clone()).await.unwrap().name(), "a");
    assert_eq!(fake.opened().len(), 1, "one watch for all reads");
    assert_eq!(client.list::<ConfigMap>().await.unwrap().len(), 1);
    // Typed, dynamic and metadata-only reads have separate caches.
    let resource = ConfigMap::api_resource();
    let dynamic = client.kind_of::<DynamicObject>(resource.clone()).list().await.unwrap();
    let partial = client.kind_of::<PartialObject>(resource).list().await.unwrap();
    assert_eq!((names(&dynamic), names(&partial)), (vec!["a"], vec!["a"]));
    assert_eq!(fake.opened().len(), 3);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn undeclared_read_fails_if_caches_are_declared_only() {
    let fake = Fake::new();
    fake.put(&config("a"));
    let mut manager = fake.manager().declared_caches_only().build();
    let client = manager.cluster().cached_client();
    manager.add(
        Controller::<ConfigMap>::new()
            .reads::<Deployment>()
            .reconcile(async |_: Arc<ConfigMap>, _: Context| Ok::<_, Error>(Action::await_change())),
    );
    let run = Run::start(manager);
    eventually("both caches", || fake.opened().len() == 2).await;
    assert_eq!(client.list::<ConfigMap>().await.unwrap().len(), 1);
    assert!(client.list::<Deployment>().await.unwrap().is_empty());
    let error = client.list::<Secret>().await.unwrap_err();
    let expected =
        "the server answered 400 BadRequest: the manager has no cache of secrets, and reads do not start one";
    assert!(error.chain().ends_with(expected), "{}", error.chain());
    let metadata = client.metadata_of::<ConfigMap>().get(ObjectRef::new("a").within("ns")).await;
    assert!(metadata.unwrap_err().is_bad_request(), "the metadata would have a cache of their own");
    assert_eq!(fake.opened().len(), 2, "no read has started a cache");
    let secrets = client.cluster().informer(&Watch::<Secret>::all());
    secrets.has_synced().await.unwrap();
    assert!(client.list::<Secret>().await.unwrap().is_empty(), "declared meanwhile");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn missing_object_has_the_servers_not_found_error() {
    let fake = Fake::new();
    fake.put(&config("a"));
    let (run, client) = running(fake.manager());
    let error = client.get::<ConfigMap>(ObjectRef::new("b").within("ns")).await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.chain(), r#"get configmaps "ns/b": the server answered 404 NotFound: configmaps "b" not found"#);
    assert!(client.get_opt::<ConfigMap>(ObjectRef::new("b").within("ns")).await.unwrap().is_none());
    // The namespace defaults to the client's.
    assert_eq!(
        client.get::<ConfigMap>("a").await.unwrap_err().operation().unwrap().namespace.as_deref(),
        Some("default")
    );
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cached_lists_select_by_namespace_label_and_index() {
    let fake = Fake::new();
    for (name, color) in [("a", "blue"), ("b", "red"), ("c", "blue")] {
        fake.put(&painted(name, color));
    }
    let mut elsewhere = painted("d", "blue");
    elsewhere.metadata.namespace = Some("other".into());
    fake.put(&elsewhere);
    let manager = fake.manager().build();
    let by_color = || Index::<ConfigMap>::on_path("data.color", ["data", "color"]);
    manager.cluster().index(by_color()).await.unwrap();
    let client = manager.cluster().cached_client();
    let cluster = manager.cluster().clone();
    let run = Run::start(manager);
    let list = || client.list::<ConfigMap>();

    assert_eq!(names(&list().await.unwrap()), ["a", "b", "c", "d"]);
    assert_eq!(names(&list().within("ns").await.unwrap()), ["a", "b", "c"]);
    assert_eq!(names(&list().labels("color in (red)").await.unwrap()), ["b"]);
    assert_eq!(names(&list().fields("data.color=blue").await.unwrap()), ["a", "c", "d"]);
    assert_eq!(names(&list().within("other").fields("data.color==blue").await.unwrap()), ["d"]);
    assert_eq!(names(&list().fields("metadata.name=c,data.color=blue").await.unwrap()), ["c"]);
    assert_eq!(
        names(&list().fields("data.color=blue,metadata.namespace=ns").labels("color").await.unwrap()),
        ["a", "c"]
    );
    assert_eq!(list().limit(2).await.unwrap().len(), 2);
    assert_eq!(list().fields("data.color=red").cached().await.unwrap()[0].key().name.as_ref(), "b");

    let refused = async |fields: &str| list().fields(fields).await.unwrap_err().status().unwrap().message.clone();
    assert_eq!(
        refused("data.color!=blue").await,
        "cached lists support only equality in field selectors, not data.color!=blue"
    );
    assert!(refused("data.size=1").await.contains("data.size"));
    assert!(list().labels("a in").await.unwrap_err().is_bad_request());

    // C-13.32: indices can be added later as well, but only once.
    let error = cluster.index(by_color()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot add an index to the cache of configmaps (v1)");
    cluster.index(Index::<ConfigMap>::on_path("kind", ["data", "color"])).await.unwrap();
    assert_eq!(names(&list().fields("kind=red").await.unwrap()), ["b"]);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn list_by_owner_finds_the_objects_that_name_it() {
    let fake = Fake::new();
    let mut owner = config("owner");
    owner.metadata.uid = Some("uid-1".to_owned());
    fake.put(&owner);
    for (name, namespace, uid) in [("mine", "ns", "uid-1"), ("theirs", "ns", "uid-2"), ("far", "other", "uid-1")] {
        let mut owner = owner.clone();
        owner.metadata.uid = Some(uid.to_owned());
        let mut secret = Secret::default();
        (secret.metadata.name, secret.metadata.namespace) = (Some(name.to_owned()), Some(namespace.to_owned()));
        secret.metadata.owner_references = Some(vec![owner.controller_ref()]);
        fake.put(&secret);
    }
    let (run, client) = running(fake.manager());
    for _ in 0..2 {
        let owned = client.list::<Secret>().owned_by(&owner).await.unwrap();
        assert_eq!(names(&owned), ["mine"], "the owner in another namespace is a different object");
    }
    assert_eq!(
        client.list::<Secret>().within("other").owned_by(&owner).await.unwrap().len(),
        1,
        "the selected objects"
    );
    assert!(client.list::<Secret>().owned_by(&config("never stored")).await.unwrap().is_empty());
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cache_options_apply_to_all_kinds_or_one() {
    let fake = Fake::new();
    for (name, color) in [("a", "blue"), ("b", "red")] {
        fake.put(&painted(name, color));
    }
    fake.put(&deployment("d", None));
    let strip = Transform::without(["/data"]);
    let of_maps = CacheOptions::within("ns").informer(InformerOptions::default().labels("color=blue").transform(strip));
    let builder = fake.manager().caches(CacheOptions::within("ns")).cache_of(ConfigMap::api_resource(), of_maps);
    let (run, client) = running(builder);
    let maps = client.list::<ConfigMap>().await.unwrap();
    assert!(maps.iter().all(|map| map.data.is_none()), "transformed");
    client.list::<Deployment>().await.unwrap();
    let asked = fake.opened();
    let ns = || Some("ns".to_owned());
    assert_eq!(
        asked,
        [("configmaps".to_owned(), ns(), Some("color=blue".to_owned())), ("deployments".to_owned(), ns(), None)]
    );
    run.stop().await.unwrap();
    assert_eq!(fake.open(), 0, "all caches end with the manager");
}

#[tokio::test(start_paused = true)]
async fn reconciler_reads_from_cache_or_live() {
    let fake = Fake::new();
    fake.put(&config("a"));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let observed = seen.clone();
    let mut manager = fake.manager().build();
    manager.add(Controller::<ConfigMap>::new().reconcile(move |object: Arc<ConfigMap>, cx: Context| {
        let observed = observed.clone();
        async move {
            let again = cx.client().get::<ConfigMap>(object.object_ref()).await?;
            // The server of these tests rejects every request.
            let live = cx.live().get::<ConfigMap>(object.object_ref()).await.unwrap_err();
            let written = cx.client().create(&*again).await.unwrap_err();
            // An object that is decoded twice stays decoded, so that all reads share it.
            let same = Arc::ptr_eq(&again, &cx.client().get::<ConfigMap>(object.object_ref()).await?);
            observed.lock().push(format!("{} {same} {} {}", again.name(), live.is_not_found(), written.is_conflict()));
            Ok::<_, Error>(Action::await_change())
        }
    }));
    let run = Run::start(manager);
    eventually("the reconcile", || !seen.lock().is_empty()).await;
    assert_eq!(*seen.lock(), ["a true false false"]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fake.opened().len(), 1, "the controller's watch is the client's");
    run.stop().await.unwrap();
}

fn elsewhere(namespace: &str, name: &str) -> ConfigMap {
    let mut object = painted(name, "blue");
    object.metadata.namespace = Some(namespace.into());
    object
}

#[tokio::test(start_paused = true)]
async fn namespaced_informers_are_read_as_one_cache() {
    let fake = Fake::new();
    for namespace in ["a", "b", "c"] {
        fake.put(&elsewhere(namespace, "x"));
    }
    let node: Node = serde_json::from_value(serde_json::json!({"metadata": {"name": "n"}})).unwrap();
    fake.put(&node);
    let mut manager = fake.manager().caches(CacheOptions::within_each(["a", "b"])).build();
    manager.cluster().index(Index::<ConfigMap>::on_path("data.color", ["data", "color"])).await.unwrap();
    let (client, cluster) = (manager.cluster().cached_client(), manager.cluster().clone());
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = seen.clone();
    manager.add(Controller::<ConfigMap>::new().reconcile(move |object: Arc<ConfigMap>, cx: Context| {
        noted.lock().push(format!("{} of {}", object.object_ref(), cx.store::<ConfigMap>().len()));
        async { Ok::<_, Error>(Action::await_change()) }
    }));
    let run = Run::start(manager);
    eventually("both", || seen.lock().len() == 2).await;
    seen.lock().sort();
    assert_eq!(*seen.lock(), ["a/x of 2", "b/x of 2"]);
    fake.put(&elsewhere("b", "y"));
    eventually("the changed objects", || seen.lock().last().unwrap() == "b/y of 3").await;
    fake.delete(&elsewhere("a", "x"));
    fake.put(&elsewhere("c", "y"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.lock().len(), 3, "the third namespace is not watched");

    let list = || client.list::<ConfigMap>();
    assert_eq!(names(&list().await.unwrap()), ["x", "y"]);
    assert_eq!(names(&list().within("b").fields("data.color=blue,metadata.name=y").await.unwrap()), ["y"]);
    assert!(list().within("a").await.unwrap().is_empty());
    assert_eq!(client.get::<ConfigMap>(ObjectRef::new("x").within("b")).await.unwrap().name(), "x");
    let error = client.get::<ConfigMap>(ObjectRef::new("x").within("c")).await.unwrap_err();
    let expected = r#"get configmaps "c/x": the server answered 400 BadRequest: the cache of configmaps does not cover namespace c"#;
    assert_eq!(error.chain(), expected);
    assert!(list().within("c").await.unwrap_err().is_bad_request());
    assert_eq!(names(&client.list::<Node>().await.unwrap()), ["n"], "nodes are in no namespace");
    // A watch of one of the namespaces shares its cache. A watch of another namespace has its own.
    cluster.informer(&Watch::<ConfigMap>::within("a")).has_synced().await.unwrap();
    assert_eq!(fake.opened().len(), 3);
    let third = cluster.informer(&Watch::<ConfigMap>::within("c"));
    third.has_synced().await.unwrap();
    assert_eq!(third.store().len(), 2);

    assert!(cluster.forget(&Watch::<ConfigMap>::all()).await);
    assert_eq!(fake.open(), 2, "that of the nodes, and of the third namespace");
    run.stop().await.unwrap();
    assert_eq!(fake.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn namespace_options_exclude_it_from_the_other_watch() {
    let fake = Fake::new();
    let labels = |labels: &str| InformerOptions::default().labels(labels);
    let usual = CacheOptions::new().namespace("a", labels("tier=a")).others(labels("tier=b").fields("spec.x=1"));
    let (run, client) = running(fake.manager().caches(usual).cache_of(Secret::api_resource(), labels("kind=secret")));
    client.list::<ConfigMap>().await.unwrap();
    client.list::<Secret>().await.unwrap();
    let cluster = client.cluster().clone();
    let narrow = Watch::<ConfigMap>::all().fields("metadata.name=m");
    cluster.informer(&narrow).has_synced().await.unwrap();
    client.list::<ConfigMap>().within("elsewhere").await.unwrap();
    let mut opened: Vec<_> = fake
        .opened()
        .into_iter()
        .zip(fake.fields())
        .map(|((plural, namespace, labels), fields)| {
            let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            format!("{plural} {} {} {}", or(namespace), or(labels), or(fields))
        })
        .collect();
    opened.sort();
    let expected = [
        "configmaps - tier=b metadata.name=m,metadata.namespace!=a",
        "configmaps - tier=b spec.x=1,metadata.namespace!=a",
        "configmaps a tier=a -",
        "configmaps a tier=a metadata.name=m",
        "secrets - kind=secret metadata.namespace!=a",
        "secrets a kind=secret -",
    ];
    assert_eq!(opened, expected);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn namespaced_client_reads_no_other_namespace() {
    let fake = Fake::new();
    for namespace in ["a", "b"] {
        fake.put(&elsewhere(namespace, "x"));
    }
    let (run, client) = running(fake.manager());
    let of_a = client.with(|live| live.confined_to("a"));
    assert_eq!(of_a.get::<ConfigMap>("x").await.unwrap().namespace(), Some("a"));
    assert_eq!(of_a.list::<ConfigMap>().await.unwrap().len(), 1);
    assert_eq!(of_a.list::<ConfigMap>().within("a").cached().await.unwrap().len(), 1);
    let expected = r#"the client is confined to the namespace "a", and "b" is given"#;
    let error = of_a.get::<ConfigMap>(ObjectRef::new("x").within("b")).await.unwrap_err();
    assert!(error.chain().ends_with(expected), "{}", error.chain());
    assert!(of_a.list::<ConfigMap>().within("b").await.unwrap_err().chain().ends_with(expected));
    assert!(of_a.create(&elsewhere("b", "y")).await.unwrap_err().chain().ends_with(expected), "writes neither");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn write_response_omits_managed_fields_unless_live() {
    let server = tower::service_fn(|_| async {
        let answer = r#"{"metadata": {"name": "x", "managedFields": [{"manager": "m"}]}}"#;
        Ok::<_, Infallible>(http::Response::new(http_body_util::Full::<Bytes>::from(answer)))
    });
    let (run, client) = running(Fake::new().manager_of(Client::from_service(server, "default")));
    let written = client.create(&config("x")).await.unwrap();
    assert_eq!((written.name(), &written.metadata.managed_fields), ("x", &None));
    let written = client.live().create(&config("x")).await.unwrap();
    assert_eq!(written.metadata.managed_fields.map(|fields| fields.len()), Some(1));
    let dry = client.with(Client::with_dry_run);
    assert_eq!(dry.update(&config("x")).await.unwrap().metadata.managed_fields, None);
    run.stop().await.unwrap();
}
