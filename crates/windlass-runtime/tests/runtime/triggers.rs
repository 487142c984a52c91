//! Tests of the way from a change to a key: debounced changes, combined predicates, and informers as sources.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use tokio::time::{Instant, sleep};
use windlass_api::{
    ObjectExt as _, ObjectRef,
    k8s_openapi::{
        ByteString,
        api::core::v1::{ConfigMap, Secret},
    },
};
use windlass_cache::{Cached, InformerFactory, InformerOptions};
use windlass_runtime::{
    Action, Context, Controller, Error, Watch,
    predicate::{self, Predicate},
};

use crate::{
    fake::{Fake, MS, Run, config, eventually},
    seen::Seen,
};

fn numbered(number: u32) -> ConfigMap {
    let mut object = config("a");
    object.data = Some([("n".to_owned(), number.to_string())].into());
    object
}

#[tokio::test(start_paused = true)]
async fn debounced_changes_are_reconciled_once_per_window() {
    let (fake, seen, start) = (Fake::new(), Seen::default(), Instant::now());
    let (send, keys) = futures::channel::mpsc::unbounded();
    let mut manager = fake.manager().build();
    let observed = seen.clone();
    let controller = Controller::<ConfigMap>::new().debounce(10_250 * MS).triggered_by(keys);
    manager.add(controller.reconcile(move |object: Arc<ConfigMap>, _: Context| {
        let newest = &object.data.as_ref().unwrap()["n"];
        observed.push(format!("{newest} after {} s", start.elapsed().as_secs()));
        async { Ok::<_, Error>(Action::await_change()) }
    }));
    let run = Run::start(manager);
    sleep(500 * MS).await;
    // One change per second: at 0.5 s, 1.5 s and so on.
    for number in 0..25 {
        fake.put(&numbered(number));
        sleep(Duration::from_secs(1)).await;
    }
    sleep(Duration::from_mins(1)).await;
    // The windows of 10.25 s begin at 0.5 s, 11.5 s and 22.5 s, each with the first change after a reconcile.
    let seen_so_far = seen.names();
    assert_eq!(seen_so_far.len(), 3, "{seen_so_far:?}");
    assert!(seen_so_far[0].ends_with("after 10 s"), "{seen_so_far:?}");
    assert_eq!(seen_so_far[2], "24 after 32 s");
    for _ in 0..3 {
        send.unbounded_send(ObjectRef::new("a").within("ns")).unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    sleep(Duration::from_secs(10)).await;
    assert_eq!(seen.len(), 4, "triggers are debounced as well");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn predicates_are_combined_and_distinguish_events() {
    struct Creations;
    impl Predicate<ConfigMap> for Creations {
        fn updated(&self, _: &Cached<ConfigMap>, _: &Cached<ConfigMap>) -> bool {
            false
        }

        fn deleted(&self, _: &Cached<ConfigMap>) -> bool {
            false
        }
    }
    let (fake, web, created) = (Fake::new(), Seen::default(), Seen::default());
    let mut manager = fake.manager().build();
    let labeled = |selector: &str| predicate::labeled(selector.parse().unwrap());
    let both = predicate::and(labeled("app=web"), predicate::not(labeled("ignore")));
    let key_of = |seen: &Seen| {
        let seen = seen.clone();
        move |key: ObjectRef<ConfigMap>, _: Context| {
            seen.push(key.name());
            async { Ok::<_, Error>(Action::await_change()) }
        }
    };
    let watch = || Watch::<ConfigMap>::all();
    manager.add(Controller::watching(watch().filter(both)).named("web").reconcile_keys(key_of(&web)));
    manager.add(Controller::watching(watch().filter(Creations)).named("created").reconcile_keys(key_of(&created)));
    let run = Run::start(manager);
    let mut object = config("a");
    fake.put(&object);
    eventually("the creation", || created.len() == 1).await;
    assert_eq!(web.len(), 0);
    object.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    fake.put(&object);
    eventually("the label", || web.len() == 1).await;
    object.metadata.labels.as_mut().unwrap().insert("ignore".to_owned(), String::new());
    fake.put(&object);
    fake.delete(&object);
    sleep(Duration::from_secs(1)).await;
    assert_eq!((web.len(), created.len()), (1, 1), "neither updates nor deletions pass the second predicate");
    run.stop().await.unwrap();
}

fn secret(size: u8) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some("a".to_owned());
    secret.metadata.namespace = Some("ns".to_owned());
    secret.data = Some([("size".to_owned(), ByteString(vec![size]))].into());
    secret
}

#[tokio::test(start_paused = true)]
async fn controller_watches_and_reads_another_cluster() {
    let (here, there, seen) = (Fake::new(), Fake::new(), Seen::default());
    here.put(&config("a"));
    there.put(&config("a"));
    let (mut manager, other) = (here.manager().build(), there.manager().build());
    let (cluster, observed) = (other.cluster().clone(), seen.clone());
    let reader = cluster.cached_client();
    let controller = Controller::<ConfigMap>::new()
        .watches_in(&cluster, Watch::<Secret>::all(), |secret| [ObjectRef::new(&*secret.key().name).within("ns")]);
    manager.add(controller.reconcile(move |object: Arc<ConfigMap>, cx: Context| {
        let (observed, reader) = (observed.clone(), reader.clone());
        async move {
            let (there, here) = (reader.list::<Secret>().await?, cx.client().list::<ConfigMap>().await?);
            observed.push(format!("{} {} {}", object.name(), there.len(), here.len()));
            Ok::<_, Error>(Action::await_change())
        }
    }));
    manager.add(other.into_runnable("there"));
    let run = Run::start(manager);
    eventually("the initial reconcile", || seen.names() == ["a 0 1"]).await;
    here.put(&secret(1));
    sleep(Duration::from_secs(1)).await;
    there.put(&secret(1));
    eventually("the change in the other cluster", || seen.names() == ["a 0 1", "a 1 1"]).await;
    there.delete(&secret(1));
    eventually("the deletion in the other cluster", || seen.len() == 3).await;
    assert_eq!(seen.names()[2], "a 0 1");
    let kinds = |fake: &Fake| fake.opened().into_iter().map(|(plural, ..)| plural).collect::<Vec<_>>();
    assert_eq!((kinds(&here), kinds(&there)), (vec!["configmaps".to_owned()], vec!["secrets".to_owned()]));
    run.stop().await.unwrap();
    assert_eq!((here.open(), there.open()), (0, 0), "the caches of both clusters have ended");
}

#[tokio::test(start_paused = true)]
async fn informer_triggers_reconciles_of_another_kind() {
    let (fake, other, seen) = (Fake::new(), Fake::new(), Seen::default());
    fake.put(&config("a"));
    let list_watch = {
        let other = other.clone();
        move |resource: &windlass_api::ApiResource, namespace: Option<&str>| other.list_watch(resource, namespace)
    };
    let informers = InformerFactory::new(list_watch, InformerOptions::default());
    let secrets = informers.informer::<Secret>();
    informers.start();
    let keys = secrets.events().touched().map(|secret| ObjectRef::new(&*secret.key().name).within("ns"));
    let mut manager = fake.manager().build();
    manager.add(Controller::<ConfigMap>::new().triggered_by(keys).reconcile(seen.reconciler()));
    let run = Run::start(manager);
    eventually("the initial reconcile", || seen.len() == 1).await;
    for (count, change) in [(2, Some(1)), (3, Some(2)), (4, None)] {
        match change {
            Some(size) => other.put(&secret(size)),
            None => other.delete(&secret(0)),
        }
        eventually("each change of the other kind", || seen.len() == count).await;
    }
    let opened = fake.opened();
    assert_eq!(opened.iter().map(|(plural, ..)| plural.as_str()).collect::<Vec<_>>(), ["configmaps"]);
    run.stop().await.unwrap();
    informers.shutdown().await;
}
