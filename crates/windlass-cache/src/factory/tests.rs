use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use serde_json::json;
use windlass_api::{GroupVersionKind, Nested as _};

use super::*;
use crate::{
    Notification, Transform,
    testing::{FakeListWatch, Request, soon},
};

type Requested = Arc<Mutex<Vec<String>>>;

fn factory() -> (InformerFactory, FakeListWatch, Requested) {
    let (fake, asked) = (FakeListWatch::new(), Requested::default());
    let (server, log) = (fake.clone(), Arc::clone(&asked));
    let list_watch = move |resource: &ApiResource, namespace: Option<&str>| -> Arc<dyn ListWatch> {
        log.lock().push(resource.path(namespace));
        Arc::new(server.clone())
    };
    (InformerFactory::new(list_watch, InformerOptions::default()), fake, asked)
}

#[tokio::test(start_paused = true)]
async fn equal_requests_share_an_informer() {
    let (factory, fake, asked) = factory();
    fake.apply(&json!({"metadata": {"name": "a", "namespace": "n"}}));
    let first = factory.informer::<ConfigMap>();
    let second = factory.clone().informer::<ConfigMap>();
    let dynamic = factory.dynamic(ConfigMap::api_resource());
    let partial = factory.metadata(ConfigMap::api_resource());
    let narrow = factory.select::<ConfigMap>(Selection::default().within("n").labels("a=b").fields("c=d"));
    assert_eq!(factory.synced().len(), 4);
    factory.start();
    factory.start();
    soon(factory.wait_for_sync()).await.unwrap();
    assert_eq!((first.store().len(), second.store().len(), fake.requests().len()), (1, 1, 4));
    assert_eq!(dynamic.store().list()[0].get().unwrap().types.as_ref().unwrap().kind, "ConfigMap");
    assert_eq!(partial.store().list()[0].get().unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(narrow.store().len(), 1);
    let all = "/api/v1/configmaps";
    assert_eq!(*asked.lock(), [all, all, all, "/api/v1/namespaces/n/configmaps"]);
    let requests = fake.requests();
    let selected = requests.iter().filter(|request| {
        matches!(request, Request::Watch(options)
            if options.labels.as_deref() == Some("a=b") && options.fields.as_deref() == Some("c=d"))
    });
    assert_eq!(selected.count(), 1);
    soon(factory.shutdown()).await;
}

#[tokio::test(start_paused = true)]
async fn dynamic_and_metadata_informers_follow_any_resource() {
    let (factory, fake, asked) = factory();
    let resource = ApiResource::namespaced(GroupVersionKind::new("x.io", "v1", "Foo"), "foos");
    let foo =
        |size: u32| json!({"metadata": {"name": "a", "namespace": "n", "labels": {"l": "v"}}, "spec": {"size": size}});
    fake.apply(&foo(1));
    let dynamic = factory.dynamic(resource.clone());
    let metadata = factory.metadata(resource.clone());
    // Equal requests share an informer, and the two forms do not.
    let (again, partial) = (factory.dynamic(resource.clone()), factory.metadata(resource.clone()));
    factory.start();
    soon(factory.wait_for_sync()).await.unwrap();
    assert_eq!(*asked.lock(), ["/apis/x.io/v1/foos"; 2]);
    fake.apply(&foo(2));
    tokio::time::sleep(Duration::from_millis(1)).await;
    for store in [dynamic.store(), again.store()] {
        let object = store.list()[0].get().unwrap();
        assert_eq!(object.nested_i64(&["spec", "size"]), Ok(Some(2)));
        assert_eq!(object.types.as_ref().unwrap().gvk(), resource.gvk());
    }
    for store in [metadata.store(), partial.store()] {
        let object = store.list()[0].get().unwrap();
        assert_eq!(object.metadata.labels.as_ref().unwrap()["l"], "v");
    }
    let contents: std::collections::BTreeSet<_> = fake
        .requests()
        .iter()
        .map(|request| match request {
            Request::List(options) => format!("{:?}", options.content),
            Request::Watch(options) => format!("{:?}", options.content),
        })
        .collect();
    assert_eq!(contents.into_iter().collect::<Vec<_>>(), ["AllFields", "Metadata"]);
    soon(factory.shutdown()).await;
}

#[tokio::test(start_paused = true)]
async fn factory_restarts_for_new_informers_until_shutdown() {
    let (factory, fake, _) = factory();
    let _maps = factory.informer::<ConfigMap>();
    factory.start();
    let secrets = factory.informer::<Secret>();
    soon(factory.wait_for_sync()).await.unwrap();
    let ready: Vec<_> = factory.synced().into_iter().map(|(resource, synced)| (resource.kind, synced)).collect();
    assert_eq!(ready, [("ConfigMap".into(), true), ("Secret".into(), false)]);
    factory.start();
    soon(secrets.has_synced()).await.unwrap();
    soon(factory.shutdown()).await;
    assert_eq!((fake.open_streams(), secrets.is_stopped()), (0, true));
    let late = factory.select::<Secret>(Selection::default().within("n"));
    factory.start();
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert!(!late.has_synced().is_synced());
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn resource_can_have_its_own_transform_and_resync() {
    let (factory, fake, _) = factory();
    fake.apply(&json!({"metadata": {"name": "a", "namespace": "n"}, "data": {"k": "dg=="}}));
    factory.configure(ConfigMap::api_resource(), |options| options.transform(Transform::without(["/data"])));
    factory.configure(ConfigMap::api_resource(), |options| options.resync(Duration::from_mins(1)));
    let (maps, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    let counts = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
    let [of_maps, of_secrets] = counts.clone();
    let _maps = maps.add_handler(move |_: Notification<ConfigMap>| _ = of_maps.fetch_add(1, Ordering::Relaxed));
    let _secrets = secrets.add_handler(move |_: Notification<Secret>| _ = of_secrets.fetch_add(1, Ordering::Relaxed));
    factory.start();
    soon(factory.wait_for_sync()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!(counts.map(|count| count.load(Ordering::Relaxed)), [3, 1], "two resyncs, and none");
    assert!(maps.store().list()[0].get().unwrap().data.is_none());
    assert!(secrets.store().list()[0].get().unwrap().data.is_some());
    soon(factory.shutdown()).await;
}

#[tokio::test(start_paused = true)]
async fn a_handle_on_one_namespace_shares_the_factory() {
    let (factory, _, asked) = factory();
    let team = factory.within("team");
    let _maps = team.informer::<ConfigMap>();
    let _same = factory.select::<ConfigMap>(Selection::default().within("team"));
    let _other = team.metadata(Secret::api_resource());
    let _elsewhere = team.select::<ConfigMap>(Selection::default().within("elsewhere"));
    let _nodes = team.informer::<Node>();
    let namespaced = |namespace, plural| format!("/api/v1/namespaces/{namespace}/{plural}");
    let expected = [
        namespaced("team", "configmaps"),
        namespaced("team", "secrets"),
        namespaced("elsewhere", "configmaps"),
        "/api/v1/nodes".to_owned(),
    ];
    assert_eq!(*asked.lock(), expected);
    assert_eq!(factory.synced().len(), 4, "all handles share one factory");
}

#[tokio::test(start_paused = true)]
async fn removed_informer_can_be_created_again() {
    let (factory, fake, _) = factory();
    fake.apply(&json!({"metadata": {"name": "a", "namespace": "n"}}));
    let (maps, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    factory.start();
    soon(factory.wait_for_sync()).await.unwrap();
    let all = || (ConfigMap::api_resource(), Selection::default());
    let remove = async || soon(factory.remove::<ConfigMap>(all().0, all().1)).await;
    assert!(remove().await);
    assert_eq!((maps.is_stopped(), secrets.is_stopped(), fake.open_streams()), (true, false, 1));
    assert_eq!(maps.store().len(), 1, "the old handle keeps its content");
    assert!(!remove().await, "it was already removed");
    let anew = factory.informer::<ConfigMap>();
    assert!(remove().await, "an informer that was not started can be removed");
    let anew_again = factory.informer::<ConfigMap>();
    factory.start();
    soon(anew_again.has_synced()).await.unwrap();
    assert_eq!((fake.open_streams(), anew.has_synced().is_synced()), (2, false));
    soon(factory.shutdown()).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_factory_that_is_dropped_takes_its_informers_with_it() {
    let (factory, fake, _) = factory();
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    soon(factory.wait_for_sync()).await.unwrap();
    assert_eq!(fake.open_streams(), 1);
    drop(factory);
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert_eq!((fake.open_streams(), maps.is_stopped()), (0, true));
}
