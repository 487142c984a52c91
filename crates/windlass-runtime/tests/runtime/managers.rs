//! Tests of the order of start and stop, and of clean-up.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};
use windlass_api::{
    ObjectRef, Resource,
    k8s_openapi::{
        api::{core, core::v1::ConfigMap, events},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
};
use windlass_runtime::{
    Action, Context, Controller, Error, Group, ReconcileEvent, RunnableContext, Task, metrics::Registry,
};

use crate::fake::{Fake, MS, Run, config, eventually};

type Log = Arc<Mutex<Vec<String>>>;

/// Returns a controller that records its reconciles, each of which takes `time`. The first reconcile of each key fails,
/// so that the queue's timer runs.
fn slow(log: &Log, time: Duration) -> impl windlass_runtime::Runnable + use<> {
    let log = log.clone();
    Controller::<ConfigMap>::new().concurrency(2).reconcile_keys(move |key: ObjectRef<ConfigMap>, _: Context| {
        let log = log.clone();
        async move {
            log.lock().push(format!("start {key}"));
            sleep(time).await;
            log.lock().push(format!("end {key}"));
            if log.lock().len() < 4 { Err(Error::other("once")) } else { Ok(Action::await_change()) }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn stop_finishes_running_reconciles_and_leaves_no_task() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (fake, log) = (Fake::new(), Log::default());
    for name in ["a", "b", "c", "d", "e"] {
        fake.put(&config(name));
    }
    let mut manager = fake.manager().build();
    manager.add(slow(&log, Duration::from_secs(10)));
    let mut run = Run::start(manager);
    eventually("two in progress", || log.lock().len() == 2).await;
    assert!(Handle::current().metrics().num_alive_tasks() > before + 3);
    run.ask_to_stop();
    sleep(Duration::from_secs(1)).await;
    assert!(!run.is_finished());
    run.result().await.unwrap();
    assert_eq!(*log.lock(), ["start ns/a", "start ns/b", "end ns/a", "end ns/b"]);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
    assert_eq!(fake.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn runnable_is_aborted_after_the_grace_period() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (fake, log) = (Fake::new(), Log::default());
    fake.put(&config("a"));
    let mut manager = fake.manager().grace_period(Duration::from_secs(5)).build();
    manager.add(slow(&log, Duration::from_hours(100)));
    let run = Run::start(manager);
    eventually("one in progress", || log.lock().len() == 1).await;
    let start = Instant::now();
    let error = run.stop().await.unwrap_err();
    assert!(start.elapsed() >= Duration::from_secs(5) && start.elapsed() < Duration::from_secs(6));
    assert_eq!(error.to_string(), "aborted after the grace period of 5s: configmap");
    assert_eq!(log.lock().len(), 1);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn first_error_stops_the_manager_and_is_returned() {
    let (fake, log) = (Fake::new(), Log::default());
    let mut manager = fake.manager().build();
    manager.add(slow(&log, MS));
    manager.add(Task::new("early", async |_: RunnableContext| Ok(())));
    manager.add(Task::new("failing", async |_: RunnableContext| {
        sleep(Duration::from_secs(3)).await;
        Err(Error::other("no more"))
    }));
    let start = Instant::now();
    let error = Run::start(manager).result().await.unwrap_err();
    assert!(start.elapsed() >= Duration::from_secs(3), "a runnable that ends without an error stops nothing");
    assert_eq!(error.to_string(), "failing failed");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no more");
    assert_eq!(fake.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn panicking_runnable_stops_the_manager_with_an_error() {
    let fake = Fake::new();
    let mut manager = fake.manager().build();
    manager.add(Task::new("bad", async |_: RunnableContext| panic!("out of {}", "ideas")));
    let error = Run::start(manager).result().await.unwrap_err();
    assert_eq!(error.to_string(), "bad panicked: out of ideas");
}

#[tokio::test(start_paused = true)]
async fn groups_start_in_order_and_stop_in_the_opposite_one() {
    let (fake, log) = (Fake::new(), Log::default());
    let mut manager = fake.manager().build();
    for group in [Group::Controllers, Group::Servers, Group::Others, Group::Webhooks] {
        let log = log.clone();
        let task = Task::new(format!("{group:?}"), async move |running: RunnableContext| {
            log.lock().push(format!("start {group:?}"));
            running.stop().requested().await;
            // If they were stopped together, they would end in the order of these pauses.
            sleep(Duration::from_secs(4 - group as u64)).await;
            log.lock().push(format!("stop {group:?}"));
            Ok(())
        });
        manager.add(task.in_group(group));
    }
    let run = Run::start(manager);
    eventually("all started", || log.lock().len() == 4).await;
    run.stop().await.unwrap();
    let expected = ["start Servers", "start Webhooks", "start Others", "start Controllers"];
    assert_eq!(log.lock()[..4], expected);
    assert_eq!(log.lock()[4..], ["stop Controllers", "stop Others", "stop Webhooks", "stop Servers"]);
}

#[tokio::test(start_paused = true)]
async fn two_runnables_cannot_have_one_name() {
    let (fake, log) = (Fake::new(), Log::default());
    let mut manager = fake.manager().build();
    manager.add(slow(&log, MS)).add(slow(&log, MS));
    let error = manager.run(std::future::pending()).await.unwrap_err();
    assert!(matches!(error, Error::DuplicateName { name } if name == "configmap"));
}

#[tokio::test(start_paused = true)]
async fn kinds_with_one_name_in_two_groups_need_a_name() {
    fn nothing<K: Resource>() -> impl windlass_runtime::Reconciler<K> {
        async |_: Arc<K>, _: Context| Ok::<_, Error>(Action::await_change())
    }
    let core = || Controller::<core::v1::Event>::new().reconcile(nothing());
    let newer = || Controller::<events::v1::Event>::new().reconcile(nothing());
    let fake = Fake::new();
    let mut manager = fake.manager().build();
    manager.add(core()).add(newer());
    let error = manager.run(std::future::pending()).await.unwrap_err();
    let expected = "two runnables have the name \"event\": rename one of them with `.named(..)`";
    assert_eq!(error.to_string(), expected);

    let (registry, log) = (Registry::new(), Log::default());
    let mut manager = fake.manager().registry(&registry).build();
    manager.add(core()).add(newer().named("event.events.k8s.io"));
    let started = log.clone();
    manager.on_reconcile(move |event: &ReconcileEvent<'_>| {
        if let ReconcileEvent::Started(reconcile) = event {
            started.lock().push(format!("{} {}", reconcile.controller, reconcile.key));
        }
    });
    let run = Run::start(manager);
    let named =
        |name: &str| ObjectMeta { name: Some(name.into()), namespace: Some("ns".into()), ..ObjectMeta::default() };
    fake.put(&core::v1::Event { metadata: named("a"), ..core::v1::Event::default() });
    eventually("a reconcile of each controller", || log.lock().len() == 2).await;
    log.lock().sort();
    assert_eq!(*log.lock(), ["event ns/a", "event.events.k8s.io ns/a"]); // the fake server stores objects by plural
    let text = registry.text();
    for metric in ["controller_runtime_reconcile_total", "workqueue_depth"] {
        for name in ["event", "event.events.k8s.io"] {
            let label = format!("controller=\"{name}\"");
            assert!(text.lines().any(|line| line.starts_with(metric) && line.contains(&label)), "{metric} {text}");
        }
    }
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manager_can_be_stopped_while_caches_fill() {
    let (fake, log) = (Fake::new(), Log::default());
    fake.hold("configmaps");
    let mut manager = fake.manager().build();
    manager.add(slow(&log, MS));
    let run = Run::start(manager);
    sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    run.stop().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_is_dropped_ends_all_of_its_tasks() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (fake, log) = (Fake::new(), Log::default());
    fake.put(&config("a"));
    let mut manager = fake.manager().build();
    let cluster = manager.cluster().clone(); // a handle outside keeps nothing alive
    manager.add(slow(&log, Duration::from_hours(1)));
    let run = Run::start(manager);
    eventually("one in progress", || log.lock().len() == 1).await;
    run.drop_future();
    eventually("all tasks gone", || Handle::current().metrics().num_alive_tasks() == before).await;
    assert_eq!(fake.open(), 0);
    drop(cluster);
}

#[tokio::test(start_paused = true)]
async fn a_task_can_use_the_shared_caches() {
    let (fake, log) = (Fake::new(), Log::default());
    fake.put(&config("a"));
    let mut manager = fake.manager().build();
    let seen = log.clone();
    manager.add(Task::new("reader", async move |running: RunnableContext| {
        let informer = running.cluster().informer(&windlass_runtime::Watch::<ConfigMap>::all());
        informer.has_synced().await.unwrap();
        seen.lock().extend(informer.store().list().iter().map(|object| object.key().to_string()));
        Ok(())
    }));
    let run = Run::start(manager);
    eventually("the list", || *log.lock() == ["ns/a"]).await;
    run.stop().await.unwrap();
}
