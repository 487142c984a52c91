//! Tests of controllers: events, keys, reconciles and their outcomes.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};
use windlass_api::{
    ApiResource, DynamicObject, Meta, Object, ObjectExt, ObjectRef, Resource,
    k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Secret},
    },
};
use windlass_cache::Index;
use windlass_runtime::{
    Action, Context, Controller, ControllerMetrics, Error, Outcome, ReconcileEvent, Reconciler, Result, Retry, Watch,
    layer::{Failure, ReconcileCall, ReconcileFuture},
    predicate,
};

use crate::{
    fake::{Fake, MS, Run, config, deployment, eventually},
    seen::Seen,
};

fn controller() -> Controller<ConfigMap> {
    Controller::<ConfigMap>::new()
}

#[tokio::test(start_paused = true)]
async fn observer_sees_event_key_and_reconcile() {
    let (fake, seen, steps) = (Fake::new(), Seen::default(), Seen::default());
    fake.put(&config("old"));
    let mut manager = fake.manager().build();
    manager.add(controller().reconcile(seen.reconciler()));
    let observed = steps.clone();
    manager.on_reconcile(move |event: &ReconcileEvent<'_>| {
        observed.push(match event {
            ReconcileEvent::Triggered(t) => {
                format!("{} {} {:?} {} -> {}", t.controller, t.resource.plural, t.change, t.object, t.key)
            }
            ReconcileEvent::Started(s) => format!("start {}", s.key),
            ReconcileEvent::Finished(f) => format!("finish {} {:?}", f.key, f.outcome),
            _ => "?".into(),
        });
    });
    let run = Run::start(manager);
    eventually("the listed object", || seen.names() == ["old"]).await;
    fake.put(&config("new"));
    eventually("the new object", || seen.names() == ["old", "new"]).await;
    let mut changed = config("new");
    changed.data = Some([("k".to_owned(), "v".to_owned())].into());
    fake.put(&changed);
    eventually("the changed object", || seen.names() == ["old", "new", "new"]).await;
    run.stop().await.unwrap();
    let done = format!("{:?}", Outcome::Done(Action::await_change()));
    let steps = steps.names();
    assert_eq!(
        steps[3..],
        [
            "configmap configmaps Added ns/new -> ns/new".to_owned(),
            "start ns/new".to_owned(),
            format!("finish ns/new {done}"),
            "configmap configmaps Updated ns/new -> ns/new".to_owned(),
            "start ns/new".to_owned(),
            format!("finish ns/new {done}"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn workers_start_after_all_caches_have_synced() {
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    fake.put(&deployment("d", None));
    fake.hold("deployments");
    let in_store = Arc::new(AtomicUsize::new(0));
    let mut manager = fake.manager().build();
    let (observed, stored) = (seen.clone(), in_store.clone());
    manager.add(controller().reads::<Deployment>().reconcile(move |object: Arc<ConfigMap>, cx: Context| {
        observed.push(object.name());
        stored.store(cx.store::<Deployment>().list().len(), SeqCst);
        async { Ok::<_, Error>(Action::await_change()) }
    }));
    let run = Run::start(manager);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(seen.len(), 0);
    fake.release("deployments");
    eventually("the reconcile", || seen.names() == ["a"]).await;
    assert_eq!(in_store.load(SeqCst), 1);
    fake.put(&deployment("e", None));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.len(), 1, "a kind that is only read triggers nothing");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cache_sync_timeout_error_names_the_cache() {
    let fake = Fake::new();
    fake.hold("configmaps");
    let mut manager = fake.manager().build();
    manager.add(controller().sync_timeout(Duration::from_secs(5)).reconcile(Seen::default().reconciler()));
    let start = Instant::now();
    let error = Run::start(manager).result().await.unwrap_err();
    assert!(start.elapsed() >= Duration::from_secs(5) && start.elapsed() < Duration::from_secs(7));
    assert_eq!(error.to_string(), "configmap failed");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "the cache of configmaps (v1) did not sync within 5s");
}

#[tokio::test(start_paused = true)]
async fn one_key_is_reconciled_once_at_a_time() {
    let fake = Fake::new();
    let in_hand: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let (most_keys, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut manager = fake.manager().build();
    let (hand, most, count) = (in_hand.clone(), most_keys.clone(), runs.clone());
    manager.add(controller().concurrency(4).reconcile(move |object: Arc<ConfigMap>, _: Context| {
        let (hand, most, count) = (hand.clone(), most.clone(), count.clone());
        async move {
            let name = object.name().to_owned();
            {
                let mut hand = hand.lock();
                let here = hand.entry(name.clone()).or_insert(0);
                *here += 1;
                assert_eq!(*here, 1, "{name} is reconciled twice at once");
                most.fetch_max(hand.values().sum(), SeqCst);
            }
            sleep(MS * 50).await;
            *hand.lock().get_mut(&name).unwrap() -= 1;
            count.fetch_add(1, SeqCst);
            Ok::<_, Error>(Action::await_change())
        }
    }));
    let run = Run::start(manager);
    for round in 0..20 {
        for name in ["a", "b", "c", "d", "e", "f"] {
            let mut object = config(name);
            object.data = Some([("round".to_owned(), round.to_string())].into());
            fake.put(&object);
        }
        sleep(MS * 10).await;
    }
    sleep(Duration::from_secs(1)).await;
    run.stop().await.unwrap();
    assert_eq!(most_keys.load(SeqCst), 4);
    let runs = runs.load(SeqCst);
    assert!((6..60).contains(&runs), "120 changes led to {runs} reconciles");
}

/// Records its calls, performs the steps of a script, then succeeds.
struct Scripted {
    calls: Arc<Mutex<Vec<Instant>>>,
    script: Mutex<Vec<Step>>,
    retry: Retry,
}

enum Step {
    Fail,
    Panic,
    After(Duration),
}

impl Reconciler<ConfigMap> for Scripted {
    type Error = Error;

    async fn reconcile(&self, _: Arc<ConfigMap>, _: Context) -> Result<Action> {
        self.calls.lock().push(Instant::now());
        let step = {
            let mut script = self.script.lock();
            if script.is_empty() { None } else { Some(script.remove(0)) }
        };
        match step {
            Some(Step::Fail) => Err(Error::other("scripted")),
            Some(Step::Panic) => panic!("scripted"),
            Some(Step::After(delay)) => Ok(Action::requeue_after(delay)),
            None => Ok(Action::await_change()),
        }
    }

    fn retry(&self, _: &Error) -> Retry {
        self.retry
    }
}

/// Runs a script for one object for an hour. Returns the pauses between the calls in milliseconds, and the outcomes.
async fn play(script: Vec<Step>, retry: Retry) -> (Vec<u128>, Vec<Outcome>) {
    let fake = Fake::new();
    fake.put(&config("a"));
    let calls: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let outcomes: Arc<Mutex<Vec<Outcome>>> = Arc::default();
    let mut manager = fake.manager().build();
    manager.add(controller().reconcile(Scripted { calls: calls.clone(), script: script.into(), retry }));
    let observed = outcomes.clone();
    manager.on_reconcile(move |event: &ReconcileEvent<'_>| {
        if let ReconcileEvent::Finished(finished) = event {
            observed.lock().push(finished.outcome.clone());
        }
    });
    let run = Run::start(manager);
    sleep(Duration::from_hours(1)).await;
    run.stop().await.unwrap();
    let calls = calls.lock();
    let pauses = calls.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    (pauses, outcomes.lock().clone())
}

fn roughly(actual: &[u128], expected: &[u128]) {
    assert_eq!(actual.len(), expected.len(), "{actual:?}, expected about {expected:?}");
    for (actual, expected) in actual.iter().zip(expected) {
        assert!((*expected..=expected + 2).contains(actual), "{actual}, expected about {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_come_back_with_back_off_and_a_success_forgets_them() {
    let minute = Duration::from_mins(1);
    let script = vec![Step::Fail, Step::Fail, Step::Panic, Step::After(minute), Step::Fail];
    let (pauses, outcomes) = play(script, Retry::Backoff).await;
    roughly(&pauses, &[5, 10, 20, 60_000, 5]);
    assert_eq!(
        outcomes[1..4],
        [
            Outcome::Failed { message: "scripted".into(), retry: Retry::Backoff },
            Outcome::Panicked { message: "scripted".into() },
            Outcome::Done(Action::requeue_after(minute)),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn non_retryable_error_is_not_retried() {
    let (pauses, outcomes) = play(vec![Step::Fail], Retry::Never).await;
    assert!(pauses.is_empty(), "{pauses:?}");
    assert_eq!(outcomes, [Outcome::Failed { message: "scripted".into(), retry: Retry::Never }]);
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_fails_without_retry() {
    let fake = Fake::new();
    let outcomes: Arc<Mutex<Vec<Outcome>>> = Arc::default();
    let mut manager = fake.manager().build();
    // Served as config maps, decoded as deployments, whose `spec` must be an object.
    let resource = ConfigMap::api_resource();
    manager.add(
        Controller::watching(Watch::<Deployment>::dynamic(resource))
            .reconcile(async |_: Arc<Deployment>, _: Context| Ok::<_, Error>(Action::await_change())),
    );
    let observed = outcomes.clone();
    manager.on_reconcile(move |event: &ReconcileEvent<'_>| {
        if let ReconcileEvent::Finished(finished) = event {
            observed.lock().push(finished.outcome.clone());
        }
    });
    let run = Run::start(manager);
    fake.put(&config("a"));
    sleep(Duration::from_hours(1)).await;
    run.stop().await.unwrap();
    let outcomes = outcomes.lock();
    assert!(matches!(&outcomes[..], [Outcome::Failed { retry: Retry::Never, .. }]), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn owned_objects_trigger_the_owner_that_manages_them() {
    let (fake, seen) = (Fake::new(), Seen::default());
    for name in ["a", "b"] {
        fake.put(&config(name));
    }
    let mut manager = fake.manager().build();
    manager.add(controller().owns::<Deployment>().reconcile(seen.reconciler()));
    let run = Run::start(manager);
    eventually("the initial reconciles", || seen.len() == 2).await;

    let owner = config("a").controller_ref();
    let child = deployment("owned", Some(owner.clone()));
    fake.put(&child);
    eventually("the owner of a new object", || seen.len() == 3).await;
    fake.delete(&child);
    eventually("the owner of a deleted object", || seen.len() == 4).await;
    // Moved from one owner to another: both are reconciled.
    fake.put(&deployment("moved", Some(owner.clone())));
    eventually("the first owner", || seen.len() == 5).await;
    fake.put(&deployment("moved", Some(config("b").controller_ref())));
    eventually("both owners", || seen.len() == 7).await;
    assert_eq!(seen.names()[2..], ["a", "a", "a", "a", "b"]);

    let mut other_version = owner.clone();
    other_version.api_version = "v2".into();
    fake.put(&deployment("other-version", Some(other_version)));
    eventually("another version of the same kind", || seen.len() == 8).await;

    let mut not_the_controller = owner.clone();
    not_the_controller.controller = None;
    let mut other_group = owner.clone();
    other_group.api_version = "other.io/v1".into();
    let mut other_kind = owner;
    other_kind.kind = "Secret".into();
    for (name, reference) in [("not", not_the_controller), ("group", other_group), ("kind", other_kind)] {
        fake.put(&deployment(name, Some(reference)));
    }
    fake.put(&deployment("orphan", None));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.len(), 8);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mapper_keys_are_reconciled_and_its_panic_is_contained() {
    let (fake, seen) = (Fake::new(), Seen::default());
    for name in ["a", "b"] {
        fake.put(&config(name));
    }
    let mut manager = fake.manager().build();
    let refer = |object: &Deployment| -> Option<ObjectRef<ConfigMap>> {
        let name = object.labels().get("config")?;
        assert_ne!(name, "panic");
        Some(ObjectRef::new(name.as_str()).within("ns"))
    };
    manager.add(controller().watches(refer).reconcile(seen.reconciler()));
    let run = Run::start(manager);
    eventually("the initial reconciles", || seen.len() == 2).await;
    let labeled = |name: &str, label: &str| {
        let mut object = deployment(name, None);
        object.labels_mut().insert("config".into(), label.into());
        object
    };
    fake.put(&deployment("none", None));
    fake.put(&labeled("bad", "panic"));
    fake.put(&labeled("x", "b"));
    eventually("the mapped key", || seen.len() == 3).await;
    fake.put(&labeled("x", "a"));
    eventually("the old and the new key", || seen.len() == 5).await;
    assert_eq!(seen.names()[2..], ["b", "b", "a"]);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn predicates_decide_which_events_count() {
    let (fake, seen) = (Fake::new(), Seen::default());
    let mut manager = fake.manager().build();
    let watch = Watch::<ConfigMap>::all()
        .filter(predicate::or(predicate::labels_changed(), predicate::generation_changed()))
        .filter_updates(|_, new| new.meta().label("ignore").is_none());
    manager.add(Controller::watching(watch).reconcile(seen.reconciler()));
    let run = Run::start(manager);
    let mut object = config("a");
    fake.put(&object);
    eventually("the creation", || seen.len() == 1).await;
    object.data = Some([("k".to_owned(), "v".to_owned())].into());
    fake.put(&object);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.len(), 1, "a change of data changes neither labels nor generation");
    object.metadata.generation = Some(2);
    fake.put(&object);
    eventually("the generation", || seen.len() == 2).await;
    object.labels_mut().insert("app".into(), "x".into());
    fake.put(&object);
    eventually("the labels", || seen.len() == 3).await;
    object.labels_mut().insert("ignore".into(), "yes".into());
    fake.put(&object);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.len(), 3, "the second filter holds as well");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn views_filter_events_and_map_them_to_keys() {
    let (fake, seen) = (Fake::new(), Seen::default());
    let mut manager = fake.manager().build();
    let watch = Watch::<Secret>::all()
        .filter_view(|secret| secret.type_().as_deref() == Some("used"))
        .filter_view_changes(|secret| secret.string_data().get("user").map(Cow::into_owned));
    let mapped = Controller::<ConfigMap>::new().watches_view(watch, |secret| {
        let namespace = secret.metadata().namespace().unwrap_or_default();
        secret.string_data().get("user").map(|user| ObjectRef::new(&*user).within(&*namespace))
    });
    manager.add(mapped.reconcile(seen.reconciler()));
    for name in ["a", "b"] {
        fake.put(&config(name));
    }
    let run = Run::start(manager);
    eventually("the initial reconciles", || seen.len() == 2).await;
    let mut secret = Secret::default();
    secret.metadata.name = Some("s".to_owned());
    secret.metadata.namespace = Some("ns".to_owned());
    secret.type_ = Some("used".to_owned());
    secret.string_data = Some([("user".to_owned(), "a".to_owned())].into());
    fake.put(&secret);
    eventually("the mapped key", || seen.len() == 3).await;
    secret.metadata.generation = Some(2);
    fake.put(&secret);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.len(), 3, "the user is the same");
    secret.string_data = Some([("user".to_owned(), "b".to_owned())].into());
    fake.put(&secret);
    eventually("the old and the new key", || seen.len() == 5).await;
    secret.metadata.name = Some("other".to_owned());
    secret.type_ = Some("unused".to_owned());
    fake.put(&secret);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.len(), 5, "the type does not match");
    let mut last = seen.names()[3..].to_vec();
    last.sort();
    assert_eq!((seen.names()[2].as_str(), last), ("a", vec!["a".to_owned(), "b".to_owned()]));
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deletion_reaches_key_reconcilers_only() {
    let (fake, objects, keys) = (Fake::new(), Seen::default(), Seen::default());
    let outcomes = Seen::default();
    let mut manager = fake.manager().build();
    manager.add(controller().named("objects").reconcile(objects.reconciler()));
    let seen = keys.clone();
    manager.add(controller().named("keys").reconcile_keys(move |key: ObjectRef<ConfigMap>, cx: Context| {
        let found = cx.store::<ConfigMap>().get(&key).is_some();
        seen.push(format!("{key} {}", if found { "there" } else { "gone" }));
        async { Ok::<_, Error>(Action::await_change()) }
    }));
    let observed = outcomes.clone();
    manager.on_reconcile(move |event: &ReconcileEvent<'_>| {
        if let ReconcileEvent::Finished(finished) = event
            && finished.controller == "objects"
        {
            observed.push(format!("{:?}", finished.outcome));
        }
    });
    let run = Run::start(manager);
    fake.put(&config("a"));
    eventually("the creation", || keys.len() == 1 && objects.len() == 1).await;
    fake.delete(&config("a"));
    eventually("the deletion", || keys.len() == 2 && outcomes.len() == 2).await;
    assert_eq!(keys.names(), ["ns/a there", "ns/a gone"]);
    assert_eq!((objects.len(), &*outcomes.names()[1]), (1, "Gone"));
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn controllers_share_watches_with_equal_selection() {
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    let mut manager = fake.manager().build();
    manager.add(controller().named("one").owns::<Deployment>().reconcile(seen.reconciler()));
    manager.add(controller().named("two").owns::<Deployment>().reconcile(seen.reconciler()));
    let selected = Watch::<ConfigMap>::within("ns").labels("app=x");
    manager.add(Controller::watching(selected).named("three").reconcile(seen.reconciler()));
    let run = Run::start(manager);
    eventually("a reconcile by each", || seen.len() == 3).await;
    let mut opened = fake.opened();
    opened.sort();
    let all = |plural: &str| (plural.to_owned(), None, None);
    let some = ("configmaps".to_owned(), Some("ns".to_owned()), Some("app=x".to_owned()));
    assert_eq!(opened, [all("configmaps"), some, all("deployments")]);
    run.stop().await.unwrap();
    assert_eq!(fake.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn watch_adds_its_index_and_duplicate_name_is_an_error() {
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    fake.put(&deployment("d", Some(config("a").controller_ref())));
    fake.put(&deployment("e", None));
    let by_owner = || Watch::<Deployment>::all().index(owner_index());
    let mut manager = fake.manager().build();
    let observed = seen.clone();
    manager.add(controller().owns_with(by_owner()).reconcile(move |object: Arc<ConfigMap>, cx: Context| {
        let owned = cx.store::<Deployment>().by_index("owner", object.uid().unwrap()).unwrap();
        observed.push(owned.iter().map(|owned| owned.key().to_string()).collect::<Vec<_>>().join(" "));
        async { Ok::<_, Error>(Action::await_change()) }
    }));
    let run = Run::start(manager);
    eventually("the reconcile", || seen.len() > 0).await;
    assert_eq!(seen.names()[0], "ns/d");
    run.stop().await.unwrap();

    let mut manager = fake.manager().build();
    manager.add(controller().named("one").owns_with(by_owner()).reconcile(seen.reconciler()));
    manager.add(controller().named("two").owns_with(by_owner()).reconcile(seen.reconciler()));
    let error = Run::start(manager).result().await.unwrap_err();
    assert_eq!(error.to_string(), "two failed");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "cannot add an index to the cache of deployments (apps/v1)");
}

fn owner_index() -> Index<Deployment> {
    Index::on_meta("owner", |meta: &Meta| meta.controller().map(|owner| owner.uid.clone()))
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_are_reconciled() {
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    let resource: ApiResource = ConfigMap::api_resource();
    let mut manager = fake.manager().build();
    let observed = seen.clone();
    let (root, again) = (resource.clone(), resource);
    manager.add(Controller::watching(Watch::<DynamicObject>::dynamic(root)).reconcile(
        move |object: Arc<DynamicObject>, cx: Context| {
            assert!(cx.store_of::<DynamicObject>(&again).get(&object.object_ref()).is_some());
            observed.push(object.metadata().name.clone().unwrap_or_default());
            async { Ok::<_, Error>(Action::await_change()) }
        },
    ));
    let run = Run::start(manager);
    eventually("the reconcile", || seen.names() == ["a"]).await;
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn undeclared_store_panics() {
    let (fake, outcomes) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    let mut manager = fake.manager().build();
    manager.add(controller().reconcile(|_: Arc<ConfigMap>, cx: Context| {
        let _ = cx.store::<Deployment>();
        async { Ok::<_, Error>(Action::await_change()) }
    }));
    let observed = outcomes.clone();
    manager.on_reconcile(move |event: &ReconcileEvent<'_>| {
        if let ReconcileEvent::Finished(finished) = event {
            observed.push(format!("{:?}", finished.outcome));
        }
    });
    let run = Run::start(manager);
    eventually("the failure", || outcomes.len() > 0).await;
    run.stop().await.unwrap();
    let outcome = &outcomes.names()[0];
    assert!(outcome.starts_with("Panicked") && outcome.contains("controller configmap has no cache of"), "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn each_call_has_an_id_that_a_seed_repeats() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let (fake, ids) = (Fake::new(), Seen::default());
        fake.put(&config("a"));
        fake.put(&config("b"));
        let mut manager = fake.manager().entropy(windlass_api::Entropy::seeded(1)).build();
        let observed = ids.clone();
        manager.add(controller().reconcile(move |_: Arc<ConfigMap>, cx: Context| {
            assert_eq!(cx.controller(), "configmap");
            observed.push(cx.reconcile_id());
            async { Ok::<_, Error>(Action::await_change()) }
        }));
        let run = Run::start(manager);
        eventually("both reconciles", || ids.len() == 2).await;
        run.stop().await.unwrap();
        runs.push(ids.names());
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0][0], runs[0][1]);
}

#[tokio::test(start_paused = true)]
async fn metrics_count_starts_and_ends() {
    #[derive(Debug)]
    struct Counted(Mutex<Vec<String>>);
    #[derive(Clone, Debug)]
    struct Handle(Arc<Counted>);
    impl ControllerMetrics for Handle {
        fn controller(&self, controller: &str, workers: usize) -> Option<Arc<dyn windlass_queue::QueueMetrics>> {
            self.0.0.lock().push(format!("{controller} has {workers}"));
            None
        }

        fn started(&self, controller: &str) {
            self.0.0.lock().push(format!("{controller} started"));
        }

        fn finished(&self, controller: &str, outcome: &Outcome, duration: Duration) {
            let kind = if matches!(outcome, Outcome::Done(_)) { "done" } else { "?" };
            self.0.0.lock().push(format!("{controller} {kind} after {duration:?}"));
        }
    }
    let counted = Handle(Arc::new(Counted(Mutex::default())));
    let fake = Fake::new();
    fake.put(&config("a"));
    let mut manager = fake.manager().metrics(counted.clone()).build();
    manager.add(controller().named("c").concurrency(3).reconcile(async |_: Arc<ConfigMap>, _: Context| {
        sleep(MS * 7).await;
        Ok::<_, Error>(Action::await_change())
    }));
    let run = Run::start(manager);
    eventually("the end", || counted.0.0.lock().len() == 3).await;
    run.stop().await.unwrap();
    assert_eq!(*counted.0.0.lock(), ["c has 3", "c started", "c done after 7ms"]);
}

#[tokio::test(start_paused = true)]
async fn change_during_reconcile_leads_to_another_reconcile() {
    let (fake, seen) = (Fake::new(), Seen::default());
    let gate = Arc::new(Semaphore::new(0));
    let mut manager = fake.manager().build();
    let (observed, open) = (seen.clone(), gate.clone());
    manager.add(controller().reconcile(move |object: Arc<ConfigMap>, _: Context| {
        let (observed, open) = (observed.clone(), open.clone());
        async move {
            observed.push(format!("{:?}", object.data));
            open.acquire().await.unwrap().forget();
            Ok::<_, Error>(Action::await_change())
        }
    }));
    let run = Run::start(manager);
    let mut object = config("a");
    fake.put(&object);
    eventually("the first", || seen.len() == 1).await;
    for value in ["1", "2", "3"] {
        object.data = Some([("k".to_owned(), value.to_owned())].into());
        fake.put(&object);
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.len(), 1);
    gate.add_permits(10);
    eventually("the second", || seen.len() == 2).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.names()[1..], [r#"Some({"k": "3"})"#]);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn timed_out_reconcile_is_dropped_and_retried() {
    let (fake, seen, outcomes) = (Fake::new(), Seen::default(), Seen::default());
    fake.put(&config("a"));
    let mut manager = fake.manager().build();
    let observed = seen.clone();
    manager.add(controller().reconcile_timeout(Duration::from_secs(5)).reconcile(
        move |object: Arc<ConfigMap>, _: Context| {
            observed.push(object.name());
            let first = observed.len() == 1;
            async move {
                sleep(Duration::from_secs(if first { 6 } else { 4 })).await;
                Ok::<_, Error>(Action::await_change())
            }
        },
    ));
    let told = outcomes.clone();
    manager.on_reconcile(move |event: &ReconcileEvent<'_>| {
        if let ReconcileEvent::Finished(finished) = event {
            told.push(format!("{:?} {:?}", finished.duration.as_secs(), finished.outcome));
        }
    });
    let run = Run::start(manager);
    eventually("both", || outcomes.len() == 2).await;
    let late = Outcome::TimedOut { limit: Duration::from_secs(5) };
    assert_eq!(outcomes.names()[0], format!("5 {late:?}"));
    assert!(outcomes.names()[1].starts_with("4 Done"));
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_stream_trigger_reconciles_like_events() {
    let (fake, seen) = (Fake::new(), Seen::default());
    for name in ["a", "b"] {
        fake.put(&config(name));
    }
    let (send, keys) = futures::channel::mpsc::unbounded();
    let mut manager = fake.manager().build();
    manager.add(controller().triggered_by(keys).reconcile(seen.reconciler()));
    let run = Run::start(manager);
    eventually("the initial reconciles", || seen.len() == 2).await;
    let key = |name: &str| ObjectRef::<ConfigMap>::new(name).within("ns");
    send.unbounded_send(key("b")).unwrap();
    eventually("the triggered one", || seen.len() == 3).await;
    send.unbounded_send(key("a")).unwrap();
    eventually("another", || seen.len() == 4).await;
    assert_eq!(seen.names()[2..], ["b", "a"]);
    drop(send);
    fake.put(&config("c"));
    eventually("events continue", || seen.len() == 5).await;
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn layers_are_around_each_reconcile_the_last_given_outermost() {
    let (fake, seen) = (Fake::new(), Seen::default());
    fake.put(&config("a"));
    let noting = |name: &'static str| {
        let seen = seen.clone();
        move |call: ReconcileCall<'_>, inner: ReconcileFuture| -> ReconcileFuture {
            let (seen, key) = (seen.clone(), call.key.to_string());
            assert_eq!((call.controller, call.id.len()), ("configmap", 36));
            async move {
                seen.push(format!("{name} before {key}"));
                let result = inner.await;
                seen.push(format!("{name} after {}", result.is_ok()));
                result
            }
            .boxed()
        }
    };
    // Rejects all calls but the first.
    let calls = AtomicUsize::new(0);
    let refusing = move |_: ReconcileCall<'_>, inner: ReconcileFuture| -> ReconcileFuture {
        if calls.fetch_add(1, SeqCst) == 0 {
            return inner;
        }
        async { Err(Failure { error: "not now".into(), retry: Retry::Never }) }.boxed()
    };
    let mut manager = fake.manager().build();
    let layered = controller().layer(noting("inner")).layer(refusing).layer(noting("outer"));
    manager.add(layered.reconcile(seen.reconciler()));
    let run = Run::start(manager);
    eventually("the reconcile", || seen.len() == 5).await;
    assert_eq!(seen.names(), ["outer before ns/a", "inner before ns/a", "a", "inner after true", "outer after true"]);
    let mut object = config("a");
    object.data = Some([("k".to_owned(), "v".to_owned())].into());
    fake.put(&object);
    eventually("the refusal", || seen.len() == 7).await;
    assert_eq!(seen.names()[5..], ["outer before ns/a", "outer after false"]);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn predicates_compare_labels_and_annotations() {
    let (fake, labeled, annotated) = (Fake::new(), Seen::default(), Seen::default());
    let mut manager = fake.manager().build();
    let blue = Watch::<ConfigMap>::all().filter(predicate::labeled("color=blue".parse().unwrap()));
    manager.add(Controller::watching(blue).named("labeled").reconcile(labeled.reconciler()));
    let changed = Watch::<ConfigMap>::all().filter(predicate::annotations_changed());
    manager.add(Controller::watching(changed).named("annotated").reconcile(annotated.reconciler()));
    let run = Run::start(manager);
    let mut object = config("a");
    fake.put(&object);
    eventually("creations pass", || annotated.len() == 1).await;
    object.labels_mut().insert("color".into(), "blue".into());
    fake.put(&object);
    eventually("the label matches", || labeled.len() == 1).await;
    object.annotations_mut().insert("a".into(), "b".into());
    fake.put(&object);
    eventually("the annotation", || annotated.len() == 2 && labeled.len() == 2).await;
    object.labels_mut().insert("color".into(), "red".into());
    fake.put(&object);
    sleep(Duration::from_secs(1)).await;
    assert_eq!((labeled.len(), annotated.len()), (2, 2), "red is not blue, and no annotation has changed");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn priority_queue_puts_changes_before_listed_objects() {
    let (fake, seen, allowed) = (Fake::new(), Seen::default(), Arc::new(Semaphore::new(0)));
    for name in ["listed-1", "listed-2", "listed-3"] {
        fake.put(&config(name));
    }
    let mut manager = fake.manager().build();
    let (observed, gate) = (seen.clone(), allowed.clone());
    manager.add(controller().by_priority().reconcile(move |object: Arc<ConfigMap>, _: Context| {
        let first = !observed.names().iter().any(|name| name == object.name());
        observed.push(object.name());
        let gate = gate.clone();
        async move {
            gate.acquire().await.expect("it is never closed").forget();
            let again = first && object.name() == "new-1";
            Ok::<_, Error>(if again { Action::requeue_after(MS) } else { Action::await_change() })
        }
    }));
    let run = Run::start(manager);
    eventually("the first one", || seen.len() == 1).await;
    fake.put(&config("new-1"));
    fake.put(&config("new-2"));
    let mut changed = config("listed-3");
    changed.data = Some([("k".to_owned(), "v".to_owned())].into());
    fake.put(&changed);
    sleep(MS * 100).await;
    for _ in 1..=5 {
        allowed.add_permits(1);
        sleep(MS * 100).await; // longer than the delay of the one that comes back
    }
    assert_eq!(seen.names(), ["listed-1", "new-1", "new-2", "listed-3", "new-1", "listed-2"]);
    allowed.add_permits(1);
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requeued_key_has_the_priority_of_its_action() {
    let (fake, seen, allowed) = (Fake::new(), Seen::default(), Arc::new(Semaphore::new(0)));
    for name in ["a", "b", "c"] {
        fake.put(&config(name));
    }
    let mut manager = fake.manager().build();
    let (observed, gate) = (seen.clone(), allowed.clone());
    manager.add(controller().by_priority().reconcile(move |object: Arc<ConfigMap>, _: Context| {
        let first = !observed.names().iter().any(|name| name == object.name());
        observed.push(object.name());
        let gate = gate.clone();
        async move {
            gate.acquire().await.expect("it is never closed").forget();
            let again = match object.name() {
                "a" if first => Action::requeue_after(MS).at_priority(10),
                "b" if first => Action::requeue_after(MS).at_priority(-1000),
                _ => Action::await_change(),
            };
            Ok::<_, Error>(again)
        }
    }));
    let run = Run::start(manager);
    for _ in 1..=5 {
        sleep(MS * 100).await; // longer than the delay of what comes back
        allowed.add_permits(1);
    }
    sleep(MS * 100).await;
    assert_eq!(seen.names(), ["a", "b", "a", "c", "b"]);
    run.stop().await.unwrap();
}
