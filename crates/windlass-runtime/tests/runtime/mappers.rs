//! Asynchronous mappers: keys by index, their retries, and their limits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::sleep};
use windlass_api::{
    ObjectRef,
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
};
use windlass_cache::{Cached, Index, Notification};
use windlass_runtime::{Context, Controller, Error, Result, Watch};

use crate::{
    fake::{Fake, MS, Run, config, eventually},
    seen::Seen,
};

fn secret(name: &str, version: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.namespace = Some("ns".to_owned());
    secret.string_data = Some([("version".to_owned(), version.to_owned())].into());
    secret
}

fn using(name: &str, secret: &str) -> ConfigMap {
    let mut config = config(name);
    config.data = Some([("secret".to_owned(), secret.to_owned())].into());
    config
}

/// A controller of ConfigMaps with an index of the Secrets that they name.
fn indexed() -> Controller<ConfigMap> {
    Controller::watching(Watch::<ConfigMap>::all().index(Index::on_path("secret", ["data", "secret"])))
}

#[tokio::test(start_paused = true)]
async fn secret_leads_to_the_objects_that_refer_to_it_by_index() {
    #[allow(clippy::unused_async, reason = "mappers are asynchronous")]
    async fn users_of(change: Notification<Secret>, cx: Context) -> Result<Vec<ObjectRef<ConfigMap>>> {
        let users = cx.store::<ConfigMap>().by_index("secret", &change.key().name)?;
        Ok(users.iter().map(Cached::object_ref).collect())
    }

    let (fake, seen) = (Fake::new(), Seen::default());
    for (name, secret) in [("a", "blue"), ("b", "red"), ("c", "blue")] {
        fake.put(&using(name, secret));
    }
    let mut manager = fake.manager().build();
    manager.add(indexed().watches_async(Watch::all(), users_of).reconcile(seen.reconciler()));
    let run = Run::start(manager);
    eventually("the initial reconciles", || seen.len() == 3).await;
    fake.put(&secret("blue", "1"));
    eventually("the users of the secret", || seen.len() == 5).await;
    fake.put(&using("b", "blue"));
    eventually("the changed user", || seen.len() == 6).await;
    fake.delete(&secret("blue", "1"));
    eventually("the users of the deleted secret", || seen.len() == 9).await;
    let mut last = seen.names()[6..].to_vec();
    last.sort();
    assert_eq!(last, ["a", "b", "c"]);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mapper_gets_the_event_with_the_object_before_it() {
    let (fake, seen) = (Fake::new(), Seen::default());
    let log = Seen::default();
    let events = log.clone();
    let mut manager = fake.manager().build();
    manager.add(
        Controller::<ConfigMap>::new()
            .watches_async(Watch::<Secret>::all(), move |change, _| {
                let version =
                    |secret: &Cached<Secret>| secret.get().unwrap().string_data.as_ref().unwrap()["version"].clone();
                events.push(match &change {
                    Notification::Added { object, .. } => format!("added {}", version(object)),
                    Notification::Updated { old, new } => format!("updated {} to {}", version(old), version(new)),
                    Notification::Deleted(deleted) => format!("deleted {}", version(&deleted.object)),
                });
                async { Ok::<_, Error>(None) }
            })
            .reconcile(seen.reconciler()),
    );
    let run = Run::start(manager);
    fake.put(&secret("s", "1"));
    eventually("the creation", || log.len() == 1).await;
    fake.put(&secret("s", "2"));
    eventually("the update", || log.len() == 2).await;
    fake.delete(&secret("s", "2"));
    eventually("the deletion", || log.len() == 3).await;
    assert_eq!(log.names(), ["added 1", "updated 1 to 2", "deleted 2"]);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failing_mapper_is_retried_and_its_panic_is_contained() {
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    let attempts: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = attempts.clone();
    let mapper = move |change: Notification<Secret>, _: Context| {
        let name = change.key().name.to_string();
        log.lock().push(name.clone());
        let attempt = log.lock().iter().filter(|other| **other == name).count();
        async move {
            match (&*name, attempt) {
                ("panics", _) => panic!("scripted"),
                ("hangs", _) => std::future::pending().await,
                ("flaky", 1 | 2) | ("fails", _) => Err("scripted"),
                _ => Ok(Some(ObjectRef::<ConfigMap>::new("a").within("ns"))),
            }
        }
    };
    let mut manager = fake.manager().build();
    manager.add(Controller::<ConfigMap>::new().watches_async(Watch::all(), mapper).reconcile(seen.reconciler()));
    let run = Run::start(manager);
    eventually("the initial reconcile", || seen.len() == 1).await;
    for name in ["panics", "fails", "hangs", "flaky"] {
        fake.put(&secret(name, "1"));
    }
    eventually("the flaky mapper's key", || seen.len() == 2).await;
    sleep(Duration::from_mins(5)).await;
    assert_eq!(seen.len(), 2, "the others lead to no keys");
    let count = |name: &str| attempts.lock().iter().filter(|other| *other == name).count();
    assert_eq!(["panics", "fails", "hangs", "flaky"].map(count), [1, 5, 5, 3]);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn slow_mapper_is_bounded_and_delays_no_other_watch() {
    let (fake, seen) = (Fake::new(), Seen::default());
    let (gate, running, most) =
        (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (entry, now, peak) = (gate.clone(), running.clone(), most.clone());
    let mapper = move |change: Notification<Secret>, _: Context| {
        let (entry, now, peak) = (entry.clone(), now.clone(), peak.clone());
        async move {
            peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            entry.acquire().await?.forget();
            now.fetch_sub(1, SeqCst);
            Ok::<_, Error>([ObjectRef::new(Arc::clone(&change.key().name)).within("ns")])
        }
    };
    let mut manager = fake.manager().build();
    manager.add(Controller::<ConfigMap>::new().watches_async(Watch::all(), mapper).reconcile(seen.reconciler()));
    let run = Run::start(manager);
    for number in 0..20 {
        fake.put(&secret(&format!("s{number}"), "1"));
    }
    eventually("the first calls", || running.load(SeqCst) == 8).await;
    fake.put(&config("a"));
    eventually("another watch's key", || seen.names() == ["a"]).await;
    for number in 0..20 {
        fake.put(&config(&format!("s{number}")));
    }
    eventually("the configs", || seen.len() == 21).await;
    gate.add_permits(20);
    eventually("all mapped keys", || seen.len() == 41).await;
    assert_eq!(most.load(SeqCst), 8);
    // A call that waits does not delay the stop.
    fake.put(&secret("late", "1"));
    eventually("the late call", || running.load(SeqCst) == 1).await;
    let stopping = tokio::time::Instant::now();
    run.stop().await.unwrap();
    assert!(stopping.elapsed() < MS * 100, "{:?}", stopping.elapsed());
}
