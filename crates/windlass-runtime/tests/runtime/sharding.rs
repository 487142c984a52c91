//! Tests of managers with sharding, under paused time. The model of the protocol is in the module `sharding`.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use windlass_api::{ObjectExt as _, ObjectRef, Patch, k8s_openapi::api::core::v1::ConfigMap};
use windlass_client::ContentType;
use windlass_runtime::{
    Action, Context, Controller, Error, Group, LeaderElection, ManagerBuilder, RunnableContext, Sharding, Task,
    metrics::Registry, sharding::InvalidSharding,
};

use crate::{
    fake::{Fake, MS, Run, config, eventually},
    leases::{Leases, Line},
};

const OBJECTS: usize = 40;
const LEASE: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);
const MARGIN: Duration = Duration::from_secs(2);

/// A cluster with a record of its reconciles.
#[derive(Clone)]
struct Stage {
    fake: Fake,
    leases: Leases,
    log: Arc<Mutex<Vec<Entry>>>,
    /// Reconciles end when the value is `true`.
    gate: Arc<watch::Sender<bool>>,
}

/// A reconcile.
#[derive(Clone, Debug)]
struct Entry {
    replica: &'static str,
    object: String,
    began: Instant,
    /// `None`: it is running, or was dropped.
    ended: Option<Instant>,
}

impl Stage {
    fn new() -> Self {
        let stage = Self {
            fake: Fake::new(),
            leases: Leases::default(),
            log: Arc::default(),
            gate: Arc::new(watch::Sender::new(true)),
        };
        for n in 0..OBJECTS {
            stage.fake.put(&config(&format!("object-{n}")));
        }
        stage
    }

    fn sharding(replica: &str) -> Sharding {
        Sharding::new("painter").identity(replica)
    }

    fn builder(&self, replica: &str) -> ManagerBuilder {
        self.fake.manager_of(self.leases.client(replica))
    }

    fn start(&self, replica: &'static str) -> Run {
        self.start_with(replica, Self::sharding(replica))
    }

    fn start_with(&self, replica: &'static str, sharding: Sharding) -> Run {
        let mut manager = self.builder(replica).sharding(sharding).build();
        manager.add(Controller::<ConfigMap>::new().sharded().concurrency(4).reconcile(self.reconciler(replica)));
        Run::start(manager)
    }

    fn reconciler(
        &self,
        replica: &'static str,
    ) -> impl Fn(Arc<ConfigMap>, Context) -> futures::future::BoxFuture<'static, Result<Action, Error>> + Send + Sync + 'static
    {
        let stage = self.clone();
        move |object, _| {
            let stage = stage.clone();
            Box::pin(async move {
                let at = {
                    let mut log = stage.log.lock();
                    let object = object.metadata.name.clone().unwrap();
                    log.push(Entry { replica, object, began: Instant::now(), ended: None });
                    log.len() - 1
                };
                stage.gate.subscribe().wait_for(|open| *open).await.unwrap();
                stage.log.lock()[at].ended = Some(Instant::now());
                Ok(Action::await_change())
            })
        }
    }

    /// Returns the number of reconciles since a time, per replica and object.
    fn since(&self, since: Instant) -> BTreeMap<&'static str, BTreeMap<String, usize>> {
        let mut counts: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for entry in self.log.lock().iter().filter(|entry| entry.began >= since) {
            *counts.entry(entry.replica).or_default().entry(entry.object.clone()).or_insert(0) += 1;
        }
        counts
    }

    /// Touches every object and returns its replica. Each object must be reconciled once, by one replica.
    async fn owners(&self) -> BTreeMap<String, &'static str> {
        let start = Instant::now();
        for n in 0..OBJECTS {
            let mut object = config(&format!("object-{n}"));
            object.data = Some([("at".to_owned(), format!("{start:?}"))].into());
            self.fake.put(&object);
        }
        sleep(MS * 100).await;
        let mut owners = BTreeMap::new();
        for (replica, objects) in self.since(start) {
            for (object, times) in objects {
                assert_eq!(times, 1, "{replica} reconciles {object}");
                assert_eq!(owners.insert(object.clone(), replica), None, "{object} has two owners");
            }
        }
        owners
    }

    fn members(&self) -> Vec<String> {
        let name = |lease: &serde_json::Value| lease["metadata"]["name"].as_str().unwrap().to_owned();
        self.leases.all().iter().map(name).collect()
    }
}

fn replicas(owners: &BTreeMap<String, &'static str>) -> HashSet<&'static str> {
    owners.values().copied().collect()
}

#[tokio::test(start_paused = true)]
async fn joining_and_leaving_replicas_transfer_keys() {
    let stage = Stage::new();
    let first = stage.start("a");
    sleep(RETRY).await;
    let alone = stage.since(Instant::now() - RETRY);
    assert_eq!(alone["a"].len(), OBJECTS, "a single replica owns every object");

    let came = Instant::now();
    let (second, third) = (stage.start("b"), stage.start("c"));
    sleep(RETRY * 3).await;
    let moved = stage.since(came);
    assert!(!moved.contains_key("a"), "nothing moves to it: {moved:?}");
    let among_three = stage.owners().await;
    assert_eq!((among_three.len(), replicas(&among_three).len()), (OBJECTS, 3));
    for replica in ["b", "c"] {
        let owned = among_three.values().filter(|owner| **owner == replica).count();
        assert_eq!(moved[replica].len(), owned, "{replica} reconciles gained objects at once");
    }

    let left = Instant::now();
    second.stop().await.unwrap();
    assert_eq!(stage.members(), ["painter-a", "painter-c"], "its lease is deleted");
    sleep(RETRY * 2).await;
    let gained: usize = stage.since(left).values().map(BTreeMap::len).sum();
    let among_two = stage.owners().await;
    assert_eq!(replicas(&among_two), HashSet::from(["a", "c"]));
    let from_b: Vec<_> = among_three.iter().filter(|(_, owner)| **owner == "b").map(|(object, _)| object).collect();
    assert_eq!(gained, from_b.len(), "only the keys of the one that left move");
    for (object, owner) in &among_three {
        assert!(*owner == "b" || among_two[object] == *owner, "{object} stays with {owner}");
    }

    // A crash releases nothing.
    let crashed = Instant::now();
    third.drop_future();
    sleep(LEASE).await;
    assert!(stage.since(crashed).is_empty(), "until its lease has expired");
    sleep(MARGIN + RETRY * 3).await;
    assert_eq!(stage.members(), ["painter-a"]);
    let gained = &stage.since(crashed)["a"];
    assert_eq!(gained.len(), among_two.values().filter(|owner| **owner == "c").count());
    first.stop().await.unwrap();
    assert!(stage.members().is_empty());
}

#[tokio::test(start_paused = true)]
async fn key_moves_after_its_reconcile_ends_or_is_dropped() {
    for (lasts, patience) in
        [(20, 30), (60, 25)].map(|(lasts, patience)| (Duration::from_secs(lasts), Duration::from_secs(patience)))
    {
        let stage = Stage::new();
        let first = stage.start_with("a", Stage::sharding("a").patience(patience));
        sleep(RETRY).await;
        let before = stage.owners().await;
        assert_eq!(replicas(&before), HashSet::from(["a"]));
        // All four workers are in the middle of a reconcile.
        stage.gate.send_replace(false);
        let held = Instant::now();
        for n in 0..OBJECTS {
            let mut object = config(&format!("object-{n}"));
            object.data = Some([("held".to_owned(), "yes".to_owned())].into());
            stage.fake.put(&object);
        }
        sleep(MS * 10).await;
        let running: HashSet<_> = stage.since(held)["a"].keys().cloned().collect();
        assert_eq!(running.len(), 4);
        let second = stage.start("b");
        sleep(lasts.min(patience).saturating_sub(MS * 500)).await;
        let of_b = stage.since(held).remove("b").unwrap_or_default();
        assert!(of_b.is_empty(), "the first owner has not released any key: {of_b:?}");
        sleep(lasts.saturating_sub(patience) + MS * 500).await;
        stage.gate.send_replace(true);
        sleep(RETRY * 3).await;

        let log = stage.log.lock().clone();
        let taken: HashSet<_> =
            log.iter().filter(|entry| entry.replica == "b").map(|entry| entry.object.clone()).collect();
        let moved: Vec<_> = running.intersection(&taken).collect();
        assert!(!moved.is_empty(), "one of four moves");
        for object in moved {
            let of_a = log.iter().rfind(|entry| entry.replica == "a" && entry.object == **object).unwrap();
            let of_b = log.iter().find(|entry| entry.replica == "b" && entry.object == **object).unwrap();
            match of_a.ended {
                Some(ended) => assert!(lasts < patience && ended <= of_b.began, "{of_a:?} {of_b:?}"),
                None => assert!(lasts > patience && of_b.began >= held + patience, "{of_a:?} {of_b:?}"),
            }
        }
        first.stop().await.unwrap();
        second.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn partitioned_replica_stops_at_deadline_and_rejoins() {
    let stage = Stage::new();
    let sent: Arc<Mutex<Vec<(Instant, Result<(), String>)>>> = Arc::default();
    let mut manager = stage.builder("a").sharding(Stage::sharding("a")).build();
    let sending = sent.clone();
    let endless = move |_: Arc<ConfigMap>, cx: Context| {
        let sending = sending.clone();
        async move {
            // Outlives the reconcile, because the reconcile does not await it.
            tokio::spawn(async move {
                loop {
                    let answer = cx.live().get::<ConfigMap>("x").await;
                    sending.lock().push((Instant::now(), answer.map(drop).map_err(|error| error.chain())));
                    sleep(Duration::from_secs(1)).await;
                }
            });
            std::future::pending::<Result<Action, Error>>().await
        }
    };
    manager.add(Controller::<ConfigMap>::new().sharded().reconcile(endless));
    let first = Run::start(manager);
    sleep(RETRY * 2).await;
    let second = stage.start("b");
    sleep(RETRY * 20).await;
    let of_b = stage.since(Instant::now() - RETRY * 20)["b"].len();
    assert!(of_b > 0 && of_b < OBJECTS);

    stage.leases.line("a", Line::Cut);
    let (cut, before) = (Instant::now(), sent.lock().len());
    sleep(DEADLINE).await;
    sleep(RETRY * 10).await;
    let since = stage.since(cut);
    let first_begin = stage.log.lock().iter().filter(|entry| entry.began > cut).map(|entry| entry.began).min();
    assert_eq!(since["b"].len(), OBJECTS - of_b, "the other has everything");
    assert!(first_begin.unwrap() >= cut + LEASE + MARGIN - RETRY, "after the lease and the margin");
    let refused = sent.lock()[before..].to_vec();
    let late = refused.iter().filter(|(at, _)| *at > cut + DEADLINE);
    let mut seen = 0;
    for (_, answer) in late {
        let error = answer.as_ref().unwrap_err();
        assert!(error.contains("no longer a member of its group") || error.contains("the gate closed"), "{error}");
        seen += 1;
    }
    assert!(seen > 0, "a write was attempted");

    stage.leases.line("a", Line::Up);
    sleep(RETRY * 20).await;
    assert_eq!(stage.members(), ["painter-a", "painter-b"], "it has joined again");
    second.stop().await.unwrap();
    first.drop_future();
}

#[tokio::test(start_paused = true)]
async fn sharded_write_without_precondition_is_rejected() {
    let outcomes: Arc<Mutex<Vec<String>>> = Arc::default();
    let cases = [
        (false, ContentType::Json),
        (false, ContentType::Protobuf),
        (false, ContentType::Cbor),
        (true, ContentType::Json),
    ];
    for (allowed, content_type) in cases {
        let stage = Stage::new();
        let mut sharding = Stage::sharding("a");
        if allowed {
            sharding = sharding.allow_unconditional_writes();
        }
        let noting = outcomes.clone();
        let write = move |object: Arc<ConfigMap>, cx: Context| {
            let noting = noting.clone();
            async move {
                if object.metadata.name.as_deref() != Some("object-0") {
                    return Ok::<_, Error>(Action::await_change());
                }
                let live = cx.live().clone().with_content_type(content_type);
                let at = object.object_ref();
                let (mut blind, mut nameless) = (config("object-0"), config("object-0"));
                (blind.metadata.uid, nameless.metadata.name) = (None, None);
                nameless.metadata.generate_name = Some("object-".to_owned());
                let uid = serde_json::json!({"metadata": {"uid": "uid-object-0"}, "data": {}});
                let none = serde_json::json!({"data": {}});
                let mut versioned = blind.clone();
                versioned.metadata.resource_version = Some("7".to_owned());
                let answers = [
                    ("get", live.get::<ConfigMap>(at.clone()).await.err()),
                    ("create", live.create(&blind).await.err()),
                    ("create with a version", live.update(&versioned).await.err()),
                    ("patch with a uid", live.patch::<ConfigMap>(at.clone(), Patch::Merge(uid)).await.err()),
                    ("delete with a uid", live.delete::<ConfigMap>(at.clone()).uid("u").await.err()),
                    ("create by prefix", live.create(&nameless).await.err()),
                    ("update", live.update(&blind).await.err()),
                    ("patch", live.patch::<ConfigMap>(at.clone(), Patch::Merge(none)).await.err()),
                    ("apply", live.apply(&blind).await.err()),
                    ("delete", live.delete::<ConfigMap>(at).await.err()),
                    ("delete all", live.delete_collection::<ConfigMap>().await.err()),
                ];
                for (what, error) in answers {
                    let is_refused = error.is_some_and(|error| error.chain().contains("needs a precondition"));
                    noting.lock().push(format!("{what}: {}", if is_refused { "refused" } else { "sent" }));
                }
                Ok(Action::await_change())
            }
        };
        let mut manager = stage.builder("a").sharding(sharding).build();
        manager.add(Controller::<ConfigMap>::new().sharded().reconcile(write));
        let run = Run::start(manager);
        eventually("all writes were attempted", || outcomes.lock().len() == 11).await;
        run.stop().await.unwrap();
        let outcomes = std::mem::take(&mut *outcomes.lock());
        let refused = if allowed { 11 } else { 5 };
        assert!(outcomes[..refused].iter().all(|outcome| outcome.ends_with(": sent")), "{outcomes:?}");
        assert!(outcomes[refused..].iter().all(|outcome| outcome.ends_with(": refused")), "{outcomes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_joins_when_its_caches_are_complete() {
    let stage = Stage::new();
    stage.fake.hold("configmaps");
    let run = stage.start("a");
    sleep(Duration::from_mins(1)).await;
    assert!(stage.members().is_empty(), "it could not act on its keys");
    stage.fake.release("configmaps");
    eventually("it has joined", || !stage.members().is_empty()).await;
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn restarted_replica_regains_its_keys_after_old_lease() {
    let stage = Stage::new();
    let (first, second) = (stage.start("a"), stage.start("b"));
    sleep(RETRY * 3).await;
    let before = stage.owners().await;
    second.drop_future();
    let crashed = Instant::now();
    sleep(MS).await;
    let again = stage.start("b");
    sleep(LEASE.saturating_sub(RETRY * 2)).await;
    assert!(!stage.since(crashed).contains_key("b"), "its former incarnation might still act");
    sleep(MARGIN + RETRY * 5).await;
    assert_eq!(stage.owners().await, before);
    first.stop().await.unwrap();
    again.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unsharded_controller_needs_election_with_sharding() {
    let stage = Stage::new();
    let noop = async |_: Arc<ConfigMap>, _: Context| Ok::<_, Error>(Action::await_change());
    let mut manager = stage.builder("a").sharding(Stage::sharding("a")).build();
    manager.add(Controller::<ConfigMap>::new().reconcile(noop));
    let error = manager.run(std::future::pending()).await.unwrap_err();
    let text = "configmap would run in every replica: shard it with `.sharded()`, or use leader election as well";
    assert_eq!(error.to_string(), text);
    let mut manager = stage.builder("a").sharding(Stage::sharding("a")).build();
    manager.add(Controller::<ConfigMap>::new().warm_up().reconcile(noop));
    let Error::Runnable { source, .. } = manager.run(std::future::pending()).await.unwrap_err() else {
        panic!("it runs")
    };
    assert_eq!(source.to_string(), text);

    // With an election, the leader runs it, and all replicas share the rest.
    let led: Arc<Mutex<Vec<&str>>> = Arc::default();
    let both = |replica: &'static str| {
        let election = LeaderElection::new("leader").identity(replica);
        let mut manager = stage.builder(replica).sharding(Stage::sharding(replica)).leader_election(election).build();
        let led = led.clone();
        let task = Task::new("single", async move |_: RunnableContext| {
            led.lock().push(replica);
            Ok(())
        });
        manager.add(task.in_group(Group::Controllers));
        manager.add(Controller::<ConfigMap>::new().sharded().reconcile(stage.reconciler(replica)));
        Run::start(manager)
    };
    let (first, second) = (both("a"), both("b"));
    sleep(RETRY * 5).await;
    assert_eq!(replicas(&stage.owners().await).len(), 2);
    assert_eq!(led.lock().len(), 1);
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn invalid_sharding_fails_before_start() {
    let stage = Stage::new();
    let cases = [
        (Sharding::new("painter").retry_period(Duration::ZERO), "retryPeriod must be greater than zero"),
        (Sharding::new(""), "the group \"\" is not a valid label value: "),
        (Sharding::new("a b"), "the group \"a b\" is not a valid label value: "),
        (Sharding::new("painter").identity("Pod_0"), "\"painter-Pod_0\" is not a valid lease name: "),
    ];
    for (sharding, expected) in cases {
        let mut manager = stage.builder("a").sharding(sharding).build();
        manager.add(Task::new("never", async |_: RunnableContext| panic!("it is started")));
        let Error::Sharding(error) = manager.run(std::future::pending()).await.unwrap_err() else { panic!("it runs") };
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(matches!(error, InvalidSharding::Timings(_)), expected.starts_with("retry"));
    }
    assert!(stage.members().is_empty());
}

#[tokio::test(start_paused = true)]
async fn metrics_report_shard_members_and_moved_keys() {
    let stage = Stage::new();
    let registry = Registry::new();
    let mut manager = stage.builder("a").sharding(Stage::sharding("a")).registry(&registry).build();
    manager.add(Controller::<ConfigMap>::new().sharded().reconcile(stage.reconciler("a")));
    let (tell, told) = tokio::sync::oneshot::channel();
    manager.add(Task::new("teller", async |running: RunnableContext| {
        drop(tell.send(running.shard().clone()));
        Ok(())
    }));
    let first = Run::start(manager);
    let shard = told.await.unwrap();
    sleep(RETRY).await;
    assert_eq!(shard.members(), ["painter-a".into()]);
    let second = stage.start("b");
    sleep(RETRY * 3).await;
    assert_eq!(shard.members().len(), 2);
    let owners = stage.owners().await;
    let owned = owners.values().filter(|owner| **owner == "a").count();
    for (object, owner) in &owners {
        let key = ObjectRef::<ConfigMap>::new(object.as_str()).within("ns");
        assert_eq!(shard.owns(&key), *owner == "a");
    }
    let text = registry.text();
    let (group, controller) = (r#"group="painter""#, r#"controller="configmap""#);
    for line in [
        format!("windlass_shard_members{{{group}}} 2"),
        format!("windlass_shard_keys{{{controller},{group}}} {owned}"),
        format!(r#"windlass_shard_keys_moved_total{{{controller},direction="gained",{group}}} {OBJECTS}"#),
        format!(r#"windlass_shard_keys_moved_total{{{controller},direction="lost",{group}}} {}"#, OBJECTS - owned),
        format!("windlass_shard_losses_total{{{group}}} 0"),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    assert!(text.contains(&format!("windlass_shard_handover_seconds_count{{{group}}}")), "{text}");
    second.stop().await.unwrap();
    first.stop().await.unwrap();
    assert!(registry.text().contains(&format!("windlass_shard_members{{{group}}} 0")));
}
