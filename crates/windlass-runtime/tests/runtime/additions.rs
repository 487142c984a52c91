//! Additions and removals at run time: watches of a controller, runnables of a manager.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};
use windlass_api::{
    DynamicObject, GroupKind, ObjectExt, ObjectRef, Resource,
    k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Secret},
    },
};
use windlass_cache::Index;
use windlass_runtime::{
    Action, Context, Controller, ControllerDefaults, Error, LeaderElection, Owners, Running, Task, Watch,
};

use crate::{
    fake::{Fake, MS, Run, config, deployment, eventually},
    leases::{Leases, Line},
    seen::Seen,
};

const SECOND: Duration = Duration::from_secs(1);

fn deployments() -> Watch<DynamicObject> {
    Watch::dynamic(Deployment::api_resource())
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_added_to_a_running_controller_and_removed() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    fake.put(&deployment("old", Some(config("a").controller_ref())));
    let mut manager = fake.manager().build();
    let cluster = manager.cluster().clone();
    let controller = Controller::<ConfigMap>::new();
    let handle = controller.handle();
    manager.add(controller.reconcile(seen.reconciler()));
    let run = Run::start(manager);
    eventually("the first reconcile", || seen.len() == 1).await;
    fake.put(&deployment("unseen", Some(config("a").controller_ref())));
    sleep(SECOND).await;
    assert_eq!((seen.len(), fake.open()), (1, 1), "there is no watch of deployments yet");

    let watching = handle.owns_with(deployments()).await.unwrap();
    assert_eq!(watching.resource().plural, "deployments");
    eventually("the owner of an existing object", || seen.len() == 2).await;
    fake.put(&deployment("new", Some(config("a").controller_ref())));
    eventually("the owner of a new object", || seen.len() == 3).await;
    let secrets = handle.watches_with(Watch::<Secret>::all(), |_| [ObjectRef::new("a").within("ns")]).await.unwrap();
    let mut secret = Secret::default();
    secret.metadata.name = Some("s".into());
    fake.put(&secret);
    eventually("the mapped key", || seen.len() == 4).await;

    watching.remove().await;
    fake.put(&deployment("later", Some(config("a").controller_ref())));
    sleep(SECOND).await;
    assert_eq!((seen.len(), fake.open()), (4, 3), "the cache remains for other users");
    assert!(cluster.forget(&deployments()).await && !cluster.forget(&deployments()).await);
    assert_eq!(fake.open(), 2);
    drop(secrets); // … which goes on
    fake.delete(&secret);
    eventually("the watch whose handle was dropped", || seen.len() == 5).await;

    let again = handle.owns_with(deployments()).await.unwrap();
    eventually("from the beginning", || seen.len() == 6).await;
    run.stop().await.unwrap();
    again.remove().await;
    let error = handle.owns_with(deployments()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot watch deployments (apps/v1): the controller has stopped");
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn failed_watch_addition_is_an_error_for_the_caller() {
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.hold("deployments");
    let mut manager = fake.manager().build();
    let controller = Controller::<ConfigMap>::new().sync_timeout(5 * SECOND);
    let handle = controller.handle();
    manager.add(controller.reconcile(seen.reconciler()));
    // Called before the controller runs, so it waits.
    let early = handle.clone();
    let early = tokio::spawn(async move { early.owns_with(deployments()).await.map(drop) });
    sleep(10 * SECOND).await;
    assert!(!early.is_finished());
    let run = Run::start(manager);
    let error = early.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the cache of deployments (apps/v1) did not sync within 5s");
    // Cancelled: nothing remains of the watch when the cache syncs.
    assert!(timeout(SECOND, handle.owns_with(deployments())).await.is_err());
    fake.release("deployments");
    fake.put(&config("a"));
    fake.put(&deployment("d", Some(config("a").controller_ref())));
    eventually("the controller continues", || seen.len() == 1).await;
    sleep(SECOND).await;
    assert_eq!(seen.len(), 1);

    let index = || Index::on_meta("by", |_| [String::new()]);
    let _first = handle.owns_with(deployments().index(index())).await.unwrap();
    let error = handle.owns_with(deployments().index(index())).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot add an index to the cache of deployments (apps/v1)");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_owner_of_the_kind_is_triggered_by_choice() {
    let (fake, seen) = (Fake::new(), Seen::default());
    for name in ["a", "b"] {
        fake.put(&config(name));
    }
    let mut manager = fake.manager().build();
    let every = Watch::<Deployment>::all();
    manager.add(Controller::<ConfigMap>::new().owns_by(every, Owners::Every).reconcile(seen.reconciler()));
    let run = Run::start(manager);
    eventually("the initial reconciles", || seen.len() == 2).await;
    let mut shared = deployment("shared", Some(config("a").controller_ref()));
    let mut second = config("b").controller_ref();
    second.controller = None;
    let mut other_kind = second.clone();
    other_kind.kind = "Secret".into();
    other_kind.name = "c".into();
    shared.metadata.owner_references.as_mut().unwrap().extend([second, other_kind]);
    fake.put(&shared);
    eventually("both owners", || seen.len() == 4).await;
    sleep(SECOND).await;
    assert_eq!(seen.names()[2..], ["a", "b"]);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn metadata_controller_shares_cache_with_its_client() {
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    fake.put(&deployment("d", Some(config("a").controller_ref())));
    let mut manager = fake.manager().build();
    let noted = seen.clone();
    let controller = Controller::for_metadata::<ConfigMap>().owns_metadata::<Deployment>();
    let controller = controller.watches_metadata::<Secret, _>(|secret| {
        secret.meta().label("of").map(|name| ObjectRef::new(name).within("ns"))
    });
    manager.add(controller.reconcile(move |object: Arc<_>, cx: Context| {
        let noted = noted.clone();
        async move {
            let object: Arc<windlass_api::PartialObject> = object;
            let owned = cx.client().metadata_of::<Deployment>().list().await?;
            let itself = cx.client().metadata_of::<ConfigMap>().get(object.object_ref()).await?;
            noted.push(format!("{} {}", itself.name(), owned.len()));
            Ok::<_, Error>(Action::await_change())
        }
    }));
    let run = Run::start(manager);
    eventually("the first reconcile", || seen.names() == ["a 1"]).await;
    fake.put(&deployment("e", Some(config("a").controller_ref())));
    eventually("the owner of a changed object", || seen.len() == 2).await;
    let mut secret = Secret::default();
    secret.metadata.name = Some("s".into());
    secret.metadata.labels = Some([("of".to_owned(), "a".to_owned())].into());
    fake.put(&secret);
    eventually("the key mapped from a changed object", || seen.names() == ["a 1", "a 2", "a 2"]).await;
    assert_eq!(fake.opened().len(), 3, "one watch of each kind, for triggers and reads: {:?}", fake.opened());
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn controller_is_added_and_stopped_at_run_time() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    let mut manager = fake.manager().build();
    let handle = manager.handle();
    let inner = seen.clone();
    manager.add(Task::new("spawner", async move |running: Running| {
        // A runnable can add others.
        let added = running.manager().add(Task::new("added", async move |running: Running| {
            running.stop().requested().await;
            inner.push("added ends");
            Ok(())
        }))?;
        assert_eq!(added.name(), "added");
        Ok(())
    }));
    let run = Run::start(manager);
    let controller = || Controller::<ConfigMap>::new().reconcile(seen.reconciler());
    let added = handle.add(controller()).unwrap();
    eventually("its reconcile", || seen.names() == ["a"]).await;
    let error = handle.add(controller()).unwrap_err();
    assert!(matches!(error, Error::DuplicateName { name } if name == "configmap"));

    added.stop().await;
    fake.put(&config("b"));
    sleep(SECOND).await;
    assert_eq!(seen.names(), ["a"]);
    let again = handle.add(controller()).unwrap();
    eventually("the name can be reused", || seen.len() == 3).await;
    assert!(!run.is_finished());
    run.stop().await.unwrap();
    again.ended().await;
    assert_eq!(seen.names()[3..], ["added ends"]);
    let error = handle.add(controller()).unwrap_err();
    assert_eq!(error.to_string(), "cannot start configmap: the manager has stopped");
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn early_addition_waits_and_its_error_stops_manager() {
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    let manager = fake.manager().build();
    let handle = manager.handle();
    let added = handle.add(Controller::<ConfigMap>::new().reconcile(seen.reconciler())).unwrap();
    sleep(SECOND).await;
    assert_eq!(seen.len(), 0);
    let run = Run::start(manager);
    eventually("its reconcile", || seen.len() == 1).await;
    let failing = handle.add(Task::new("failing", async |_: Running| Err(Error::other("no more")))).unwrap();
    assert_eq!(run.result().await.unwrap_err().to_string(), "failing failed");
    added.ended().await;
    failing.stop().await;

    let manager = fake.manager().build();
    let never = manager.handle().add(Task::new("never", async |_: Running| Ok(()))).unwrap();
    drop(manager);
    never.ended().await;
}

#[tokio::test(start_paused = true)]
async fn added_runnable_waits_for_leadership_or_is_withdrawn() {
    let (fake, seen, leases) = (Fake::new(), Seen::default(), Leases::default());
    fake.put(&config("a"));
    leases.line("m", Line::Cut);
    let election = LeaderElection::new("election").identity("m");
    let manager = fake.manager_of(leases.client("m")).leader_election(election).build();
    let handle = manager.handle();
    let run = Run::start(manager);
    let controller = |name: &str| Controller::<ConfigMap>::new().named(name).reconcile(seen.reconciler());
    let _waiting = handle.add(controller("waiting")).unwrap();
    let withdrawn = handle.add(controller("withdrawn")).unwrap();
    sleep(10 * SECOND).await;
    withdrawn.stop().await;
    assert_eq!(seen.len(), 0);
    leases.line("m", Line::Up);
    eventually("it leads", || seen.names() == ["a"]).await;
    sleep(SECOND).await;
    let _at_once = handle.add(controller("at once")).unwrap();
    eventually("it leads already", || seen.names() == ["a", "a"]).await;
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn concurrency_of_kind_applies_unless_controller_sets_it() {
    let most_at_once = async |defaults: ControllerDefaults, own: Option<usize>| {
        let fake = Fake::new();
        for name in ["a", "b", "c", "d"] {
            fake.put(&config(name));
        }
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut manager = fake.manager().controllers(defaults).build();
        let controller = Controller::<ConfigMap>::new();
        let controller = match own {
            Some(own) => controller.concurrency(own),
            None => controller,
        };
        let (busy, peak) = (now.clone(), most.clone());
        manager.add(controller.reconcile(move |_: Arc<ConfigMap>, _: Context| {
            let (busy, peak) = (busy.clone(), peak.clone());
            async move {
                peak.fetch_max(busy.fetch_add(1, SeqCst) + 1, SeqCst);
                sleep(10 * MS).await;
                busy.fetch_sub(1, SeqCst);
                Ok::<_, Error>(Action::await_change())
            }
        }));
        let run = Run::start(manager);
        sleep(SECOND).await;
        run.stop().await.unwrap();
        most.load(SeqCst)
    };
    let defaults = || ControllerDefaults::new().concurrency(2);
    let of_kind = || defaults().concurrency_of(GroupKind::new("", "ConfigMap"), 3);
    assert_eq!(most_at_once(ControllerDefaults::new(), None).await, 1);
    assert_eq!(most_at_once(defaults(), None).await, 2);
    assert_eq!(most_at_once(of_kind(), None).await, 3);
    assert_eq!(most_at_once(of_kind(), Some(4)).await, 4);
}
