//! The acts of the walk-through, and the expected observations after each.

use std::{error::Error, io::Write, time::Duration};

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Pod, ServiceAccount},
};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};
use windlass_api::{EventType, ObjectExt as _, ObjectKey, ObjectRef, Patch};
use windlass_cache::{Lister, Notification, Registrations};
use windlass_client::{Client, Verb};
use windlass_runtime::{Change, Manager, Watch};

use super::{
    super::view::{Line, Step, View},
    log::{Entry, Log, Observed},
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const NAMESPACE: &str = "ns-a";
const NAME: &str = "rs-a";
const BEFORE: i32 = 2;
const AFTER: i32 = 3;
const CONTROLLER: &str = "replicaset";
/// The timeout for a step. Far longer than required: it only detects failures.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) struct Walk<W> {
    client: Client,
    log: Log,
    view: View<W>,
    pause: Duration,
    sets: Lister<ReplicaSet>,
    pods: Lister<Pod>,
    /// Keeps the handlers registered.
    _registrations: [Registrations; 2],
}

impl<W: Write> Walk<W> {
    pub(super) fn new(client: Client, manager: &Manager, log: Log, view: View<W>, pause: Duration) -> Self {
        // The controllers use the same informers: one watch for each kind.
        let sets = manager.cluster().informer::<ReplicaSet>(&Watch::all());
        let pods = manager.cluster().informer::<Pod>(&Watch::all());
        let (of_sets, of_pods) = (log.clone(), log.clone());
        let set_changed = move |event: Notification<ReplicaSet>| of_sets.stored_set(event.object());
        let pod_changed = move |event: Notification<Pod>| {
            if matches!(event, Notification::Added { .. }) {
                of_pods.stored_pod(event.object());
            }
        };
        let registrations = [sets.add_handler(|| set_changed.clone()), pods.add_handler(|| pod_changed.clone())];
        Self { client, log, view, pause, sets: sets.store(), pods: pods.store(), _registrations: registrations }
    }

    /// Runs all steps, up to the first one that is not observed.
    pub(super) async fn run(mut self) -> Outcome {
        self.act("A control plane starts in this process: API server, controllers, simulated nodes.")?;
        let uid = self.set_up().await?;

        self.act(&format!("{NAME} scales from {BEFORE} replicas to {AFTER}."))?;
        let start = self.log.position();
        self.line(&Line::Command(format!("kubectl scale replicaset {NAME} -n {NAMESPACE} --replicas={AFTER}")))?;
        let patch = Patch::Merge(json!({"spec": {"replicas": AFTER}}));
        let written = self.client.patch::<ReplicaSet>(NAME, patch).within(NAMESPACE).await?;
        let version = written.resource_version().unwrap_or_default().to_owned();
        let key = self.scale_up(start, &version).await?;
        self.pod_arrives(key, &uid).await?;
        self.settles(start).await?;
        sleep(self.pause).await;
        self.act("The loop works: the status matches the spec.")?;
        Ok(())
    }

    /// Creates a namespace with a ReplicaSet and waits for its replicas. Returns the UID of the ReplicaSet.
    async fn set_up(&mut self) -> Outcome<String> {
        for kind in ["ReplicaSet", "Pod"] {
            let what = format!("{kind}s are watched");
            self.until(&what, |walk| walk.log.count(0, |seen| is_watch(seen, kind)) > 0).await?;
        }
        let watches = ["ReplicaSet", "Pod"].map(|kind| self.log.count(0, |seen| is_watch(seen, kind)));
        let text = format!(
            "ReplicaSets and Pods are watched, {} and {} time, shared by all controllers",
            watches[0], watches[1]
        );
        self.line(&Line::Step(Step::Watch, text))?;
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
        self.client.create(&namespace).await?;
        // Pods require the service account that a controller creates in each namespace.
        let client = self.client.clone();
        let deadline = Instant::now() + PATIENCE;
        while client.get_opt::<ServiceAccount>("default").within(NAMESPACE).await?.is_none() {
            if Instant::now() >= deadline {
                return self.missed("the namespace has a service account");
            }
            sleep(Duration::from_millis(10)).await;
        }
        self.line(&Line::Command(format!("kubectl create -n {NAMESPACE} -f {NAME}.yaml     # replicas: {BEFORE}")))?;
        let set = self.client.create(&replica_set()?).await?;
        let what = format!("{NAME} has {BEFORE} ready replicas");
        self.until(&what, |walk| walk.ready() == BEFORE).await?;
        self.line(&Line::Seen(what))?;
        sleep(self.pause).await;
        Ok(set.uid().unwrap_or_default().to_owned())
    }

    /// The change becomes a delta, then a state in the store and a key. A worker creates one pod and expects its event.
    /// Returns the position of the key.
    async fn scale_up(&mut self, start: usize, version: &str) -> Outcome<usize> {
        let is_delta = |seen: &Observed| {
            matches!(seen, Observed::Delta { kind, event: EventType::Modified, key, version: of, .. }
                if kind == "ReplicaSet" && *key == set_key() && of == version)
        };
        let what = format!("Updated ReplicaSet {NAMESPACE}/{NAME}, version {version}");
        let (delta, _) = self.step(Step::Delta, start, is_delta, |_| what.clone()).await?;

        let is_stored = |seen: &Observed| is_set(seen, AFTER, BEFORE);
        let sets = self.sets.within(NAMESPACE);
        let what = |_: &Observed| {
            let indexed = sets.len();
            format!(
                "ReplicaSet {NAMESPACE}/{NAME}: spec.replicas {AFTER}, status.replicas {BEFORE}; \
                 the index has {indexed} under the namespace {NAMESPACE}"
            )
        };
        self.step(Step::Store, delta, is_stored, what).await?;

        let is_key = |seen: &Observed| {
            matches!(seen, Observed::Key { controller, kind, change: Change::Updated, key, .. }
                if controller == CONTROLLER && kind == "ReplicaSet" && *key == set_key())
        };
        let what = |_: &Observed| format!("{NAMESPACE}/{NAME}, because a ReplicaSet was updated");
        let (key, _) = self.step(Step::Key, delta, is_key, what).await?;

        let what = |_: &Observed| format!("create pods in {NAMESPACE}: 201, with an owner reference to {NAME}");
        let (created, entry) = self.step(Step::Write, key, is_pod_creation, what).await?;
        let Observed::Wrote { reconcile: of, .. } = entry.observed else { unreachable!("the step looks for a write") };

        let is_waiting =
            |seen: &Observed| matches!(seen, Observed::Done { reconcile, again: Some(_) } if *reconcile == of);
        let what = |seen: &Observed| {
            let Observed::Done { again: Some(at_most), .. } = seen else { return String::new() };
            let seconds = at_most.as_secs();
            format!("1 pod: {NAME} creates no other until the store shows it, for at most {seconds} s")
        };
        self.step(Step::Expectation, created, is_waiting, what).await?;
        Ok(key)
    }

    /// The pod becomes a delta, a state in the store and, through its owner reference, the key of its owner.
    async fn pod_arrives(&mut self, from: usize, uid: &str) -> Outcome {
        let is_delta = |seen: &Observed| {
            matches!(seen, Observed::Delta { kind, event: EventType::Added, owner: Some(owner), .. }
                if kind == "Pod" && **owner == *uid)
        };
        let what = |seen: &Observed| {
            let Observed::Delta { key, version, .. } = seen else { return String::new() };
            format!("Added Pod {key}, version {version}, owned by {NAME}")
        };
        let (delta, entry) = self.step(Step::Delta, from, is_delta, what).await?;
        let Observed::Delta { key: pod, .. } = entry.observed else { unreachable!("the step looks for a delta") };

        let is_stored = |seen: &Observed| matches!(seen, Observed::StoredPod { key } if *key == pod);
        let pods = self.pods.within(NAMESPACE);
        let what = |_: &Observed| {
            let indexed = pods.len();
            format!("Pod {pod}; the index has {indexed} under the namespace {NAMESPACE}")
        };
        self.step(Step::Store, delta, is_stored, what).await?;

        let is_key = |seen: &Observed| {
            matches!(seen, Observed::Key { controller, kind, change: Change::Added, object, key }
                if controller == CONTROLLER && kind == "Pod" && *object == pod && *key == set_key())
        };
        let what = |_: &Observed| format!("{NAMESPACE}/{NAME}, because an owned Pod was added");
        let (key, _) = self.step(Step::Key, delta, is_key, what).await?;

        let is_status = |seen: &Observed| {
            matches!(seen, Observed::Wrote { controller, key, write, .. }
                if controller == CONTROLLER && *key == set_key()
                    && write.verb == Verb::Update && write.resource == "replicasets.apps/status" && write.status == 200)
        };
        let what =
            |_: &Observed| format!("update replicasets.apps/status {NAMESPACE}/{NAME}: 200; the expectation is met");
        self.step(Step::Write, key, is_status, what).await?;

        let is_stored = |seen: &Observed| is_set(seen, AFTER, AFTER);
        let what =
            |_: &Observed| format!("ReplicaSet {NAMESPACE}/{NAME}: spec.replicas {AFTER}, status.replicas {AFTER}");
        self.step(Step::Store, key, is_stored, what).await.map(drop)
    }

    /// At the end, there is exactly one additional pod, and no other was created in between.
    async fn settles(&mut self, start: usize) -> Outcome {
        let what = format!("{NAME} has {AFTER} ready replicas");
        self.until(&what, |walk| walk.ready() == AFTER).await?;
        self.line(&Line::Seen(what))?;
        let created = self.log.count(start, is_pod_creation);
        if created != 1 {
            return self.missed(&format!("exactly one pod was created, not {created}"));
        }
        self.line(&Line::Seen("exactly one pod was created".to_owned()))
    }

    /// Waits for an observation after a position and shows it. Returns its position.
    async fn step(
        &mut self,
        step: Step,
        from: usize,
        matches: impl Fn(&Observed) -> bool,
        text: impl Fn(&Observed) -> String,
    ) -> Outcome<(usize, Entry)> {
        let what = format!("the step {step}");
        self.until(&what, |walk| walk.log.find(from, &matches).is_some()).await?;
        let Some((position, entry)) = self.log.find(from, &matches) else { return self.missed(&what) };
        self.view.line(entry.at, &Line::Step(step, text(&entry.observed)))?;
        Ok((position, entry))
    }

    /// Waits until a condition holds, checking it after each observation.
    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        let mut changes = self.log.changes();
        loop {
            changes.mark_unchanged();
            if holds(self) {
                return Ok(());
            }
            if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                return self.missed(what);
            }
        }
    }

    fn missed<T>(&mut self, what: &str) -> Outcome<T> {
        self.line(&Line::Missed(what.to_owned()))?;
        Err(format!("not seen within {} s: {what}", PATIENCE.as_secs()).into())
    }

    fn act(&mut self, text: &str) -> Outcome {
        self.line(&Line::Act(text.to_owned()))
    }

    fn line(&mut self, line: &Line) -> Outcome {
        Ok(self.view.line(self.log.now(), line)?)
    }

    /// Returns the number of ready replicas in the status.
    fn ready(&self) -> i32 {
        let set = self.sets.get(&ObjectRef::new(NAME).within(NAMESPACE)).and_then(|set| set.get().ok());
        set.and_then(|set| set.status.as_ref()?.ready_replicas).unwrap_or(0)
    }
}

fn set_key() -> ObjectKey {
    ObjectKey::new(NAME).within(NAMESPACE)
}

fn is_watch(seen: &Observed, wanted: &str) -> bool {
    matches!(seen, Observed::Watching { kind } if kind == wanted)
}

fn is_set(seen: &Observed, wanted: i32, reported: i32) -> bool {
    *seen == Observed::StoredSet { key: set_key(), spec: wanted, status: reported }
}

fn is_pod_creation(seen: &Observed) -> bool {
    matches!(seen, Observed::Wrote { controller, key, write, .. }
        if controller == CONTROLLER && *key == set_key()
            && write.verb == Verb::Create && write.resource == "pods" && write.status == 201)
}

fn replica_set() -> Outcome<ReplicaSet> {
    let labels = json!({"app": NAME});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": BEFORE,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:1.25"}]},
            },
        },
    }))?)
}
