//! Sharding with each server: replicas that divide objects, and start, stop, crash, are paused and disconnected.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, mpsc as blocking},
    time::Duration,
};

use conformance::{PATIENCE, Target, eventually, on_each_target, unique};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use windlass_api::{
    ObjectBuilder as _, ObjectRef,
    k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap},
};
use windlass_runtime::{Action, Context, Controller, Error, Manager, Sharding, Watch};

use crate::process::{Order, Process};

const OBJECTS: usize = 24;
const LEASE: Duration = Duration::from_secs(4);
const DEADLINE: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_secs(1);
const MARGIN: Duration = Duration::from_secs(1);
/// Additional time for the requests of a handover on a busy machine.
const SLACK: Duration = Duration::from_secs(2);
/// The duration of a reconcile before its write.
const WORK: Duration = Duration::from_millis(30);

/// The objects, the group of replicas, and the log of reconciles.
struct Stage {
    target: Target,
    group: String,
    log: Log,
    /// The number of requested changes of every object.
    wanted: usize,
}

type Log = Arc<Mutex<Vec<Entry>>>;

/// A reconcile that changed an object.
#[derive(Clone, Debug)]
struct Entry {
    replica: String,
    object: String,
    began: Instant,
    /// `None` if the reconcile is running, or was dropped.
    ended: Option<Instant>,
}

impl Stage {
    async fn new(target: Target) -> Self {
        let stage = Self { target, group: unique("painter"), log: Log::default(), wanted: 0 };
        for n in 0..OBJECTS {
            let object = ConfigMap::named(stage.name(n)).in_namespace("default").label("group", stage.group.as_str());
            stage.target.client.create(&object).await.unwrap();
        }
        stage
    }

    fn name(&self, n: usize) -> String {
        format!("{}-object-{n}", self.group)
    }

    async fn join(&self, name: &str) -> Process {
        let sharding = Sharding::new(self.group.as_str())
            .namespace("default")
            .identity(name)
            .lease_duration(LEASE)
            .renew_deadline(DEADLINE)
            .retry_period(RETRY)
            .margin(MARGIN);
        let watch = Watch::<ConfigMap>::within("default").labels(format!("group={}", self.group));
        let (log, replica) = (Arc::clone(&self.log), name.to_owned());
        let make = move |client| {
            let mut manager = Manager::builder(client).sharding(sharding).build();
            let paint = move |object, cx| paint(Arc::clone(&log), replica.clone(), object, cx);
            manager.add(Controller::watching(watch).sharded().concurrency(3).reconcile(paint));
            manager
        };
        Process::start(&self.target, name, make).await
    }

    async fn objects(&self) -> Vec<ConfigMap> {
        let selector = format!("group={}", self.group);
        let listed = self.target.client.list::<ConfigMap>().within("default").labels(selector).await;
        listed.unwrap().into_iter().collect()
    }

    /// Requests a change of every object.
    async fn ask(&mut self) -> Instant {
        self.wanted += 1;
        let asked = Instant::now();
        for n in 0..OBJECTS {
            let wanted = serde_json::json!({"data": {"wanted": self.wanted.to_string()}});
            let target = ObjectRef::<ConfigMap>::new(self.name(n)).within("default");
            self.target.client.patch(target, windlass_api::Patch::Merge(wanted)).await.unwrap();
        }
        asked
    }

    /// Waits until all changes are done. Returns the replica for each object.
    async fn done(&self) -> BTreeMap<String, String> {
        let wanted = self.wanted.to_string();
        eventually("all is done", || async {
            let objects = self.objects().await;
            let painter = |object: &ConfigMap| {
                let data = object.data.as_ref()?;
                (data.get("done") == Some(&wanted))
                    .then(|| (object.metadata.name.clone().unwrap(), data.get("by").cloned().unwrap_or_default()))
            };
            objects.iter().map(painter).collect()
        })
        .await
    }

    /// Waits until this number of members exists and all replicas count the same.
    async fn settled(&self, members: usize) {
        let selector = format!("sharding.windlass.dev/group={}", self.group);
        eventually("the members agree", || async {
            let leases = self.target.client.list::<Lease>().within("default").labels(selector.as_str()).await.unwrap();
            let shown =
                |lease: &Lease| lease.metadata.annotations.clone().unwrap()["sharding.windlass.dev/members"].clone();
            let shown: BTreeSet<_> = leases.iter().map(shown).collect();
            let agree = leases.len() == members && shown.len() == 1;
            (agree && shown.iter().all(|ring| ring.split(',').count() == members)).then_some(())
        })
        .await;
        // All replicas have read the leases since then.
        sleep(RETRY * 2).await;
    }

    /// Returns the owner of each object: each change must be done once, by one replica.
    async fn owners(&mut self) -> BTreeMap<String, String> {
        let asked = self.ask().await;
        let owners = self.done().await;
        let log = self.log.lock();
        for entry in log.iter().filter(|entry| entry.began >= asked) {
            assert_eq!(entry.replica, owners[&entry.object], "{entry:?}");
        }
        owners
    }

    /// Checks that no two replicas reconciled one object at the same time.
    fn nothing_overlaps(&self) {
        let log = self.log.lock();
        for (at, one) in log.iter().enumerate() {
            for other in log[at + 1..].iter().filter(|other| other.object == one.object && other.replica != one.replica)
            {
                let before = |a: &Entry, b: &Entry| a.ended.is_some_and(|ended| ended <= b.began);
                // A dropped reconcile has ended at its owner's deadline, which other replicas wait for.
                let dropped = |a: &Entry, b: &Entry| a.ended.is_none() && b.began >= a.began + WORK;
                let apart = before(one, other) || before(other, one) || dropped(one, other) || dropped(other, one);
                assert!(apart, "{one:?} {other:?}");
            }
        }
    }

    async fn end(self, replicas: impl IntoIterator<Item = Process>) -> Target {
        for mut replica in replicas {
            replica.stop().await;
        }
        self.nothing_overlaps();
        for n in 0..OBJECTS {
            let target = ObjectRef::<ConfigMap>::new(self.name(n)).within("default");
            self.target.client.delete(target).await.unwrap();
        }
        self.target
    }
}

/// Applies the requested change, unless it is done.
async fn paint(log: Log, replica: String, object: Arc<ConfigMap>, cx: Context) -> Result<Action, Error> {
    let mut object = ConfigMap::clone(&object);
    let data = object.data.get_or_insert_default();
    let Some(wanted) = data.get("wanted").cloned().filter(|wanted| data.get("done") != Some(wanted)) else {
        return Ok(Action::await_change());
    };
    let name = object.metadata.name.clone().unwrap();
    let at = {
        let mut log = log.lock();
        log.push(Entry { replica: replica.clone(), object: name, began: Instant::now(), ended: None });
        log.len() - 1
    };
    sleep(WORK).await;
    data.extend([("done".to_owned(), wanted), ("by".to_owned(), replica)]);
    // The update contains the resource version.
    let written = cx.client().update(&object).await;
    log.lock()[at].ended = Some(Instant::now());
    written?;
    Ok(Action::await_change())
}

fn painters(owners: &BTreeMap<String, String>) -> BTreeSet<&str> {
    owners.values().map(String::as_str).collect()
}

#[tokio::test]
async fn shards_have_one_owner_when_replicas_join_leave_or_die() {
    on_each_target(|target| async {
        let mut stage = Stage::new(target).await;
        let first = stage.join("a").await;
        let mut second = stage.join("b").await;
        stage.settled(2).await;
        let among_two = stage.owners().await;
        assert_eq!(painters(&among_two), BTreeSet::from(["a", "b"]));

        let mut third = stage.join("c").await;
        stage.settled(3).await;
        let among_three = stage.owners().await;
        assert_eq!(painters(&among_three), BTreeSet::from(["a", "b", "c"]));
        for (object, owner) in &among_three {
            assert!(owner == "c" || among_two[object] == *owner, "{object} has moved without need");
        }

        // A replica leaves while all have work.
        let asked = stage.ask().await;
        second.stop().await;
        assert_eq!(stage.done().await.len(), OBJECTS);
        let took = asked.elapsed();
        assert!(took <= RETRY * 3 + SLACK + WORK * 24, "not by expiry: {took:?}");
        stage.settled(2).await;

        third.order(Order::Die);
        assert!(third.end().await.is_none());
        let died = Instant::now();
        stage.ask().await;
        let of_one = stage.done().await;
        assert!(died.elapsed() + RETRY >= LEASE + MARGIN, "its objects are left alone until its lease has expired");
        assert!(died.elapsed() <= LEASE + MARGIN + RETRY * 3 + SLACK, "{:?}", died.elapsed());
        assert!(painters(&of_one).contains("a"));
        stage.end([first]).await
    })
    .await;
}

#[tokio::test]
async fn stalled_replica_stops_at_its_deadline_and_rejoins() {
    on_each_target(|target| async {
        let mut stage = Stage::new(target).await;
        let replicas = [stage.join("a").await, stage.join("b").await, stage.join("c").await];
        stage.settled(3).await;
        let before = stage.owners().await;
        assert_eq!(painters(&before).len(), 3);

        // A replica is paused during its work, for longer than its lease.
        let asked = stage.ask().await;
        let (thaw, frozen) = blocking::channel();
        replicas[0].order(Order::Freeze(frozen));
        assert_eq!(stage.done().await.len(), OBJECTS, "the others have done it");
        assert!(asked.elapsed() <= PATIENCE);
        drop(thaw);
        stage.settled(3).await;
        assert_eq!(stage.owners().await, before, "it has its objects again");

        replicas[1].wire.go_down().await;
        let cut = Instant::now();
        stage.ask().await;
        stage.done().await;
        let late = |entry: &&Entry| entry.replica == "b" && entry.began > cut + DEADLINE;
        assert!(stage.log.lock().iter().find(late).is_none(), "it begins nothing after its deadline");
        replicas[1].wire.come_up().await;
        stage.settled(3).await;
        assert_eq!(stage.owners().await, before);
        stage.end(replicas).await
    })
    .await;
}

#[tokio::test]
async fn late_renewal_neither_recreates_nor_deletes_the_lease() {
    on_each_target(|target| async {
        let client = target.client.clone();
        let name = unique("removed");
        let lease = client.create(&Lease::named(name.as_str()).in_namespace("default")).await.unwrap();
        let (uid, version) = (lease.metadata.uid.clone().unwrap(), lease.metadata.resource_version.clone().unwrap());
        let mut renewal = lease.clone();
        renewal.spec.get_or_insert_default().holder_identity = Some("somebody".to_owned());
        let renewed = client.update(&renewal).await.unwrap();

        let at = || ObjectRef::<Lease>::new(name.as_str()).within("default");
        let late = client.delete(at()).uid(uid.as_str()).resource_version(version).await;
        assert!(late.unwrap_err().is_conflict(), "it has been renewed");
        let version = renewed.metadata.resource_version.clone().unwrap();
        client.delete(at()).uid(uid).resource_version(version).await.unwrap();

        let error = client.update(&renewed).await.unwrap_err();
        assert!(error.is_conflict() || error.is_not_found(), "{error}");
        assert!(client.get_opt(at()).await.unwrap().is_none());
        target
    })
    .await;
}
