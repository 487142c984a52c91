//! The watches of a run: the state of its objects, the startup of its pods, and the latency of events.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use windlass_api::{ApiResource, Clock, DynamicObject, parse_time};
use windlass_client::{Client, WatchEvent};

use crate::{
    cluster::{Cluster, OBJECT, is_pods},
    number::{micros, seconds},
    samples::{PodSample, Recorder},
    tracker::{Key, Observed, Tracker},
    workload::Scaled,
};

/// The delay before a watch that failed lists again.
const RELIST: Duration = Duration::from_secs(1);
/// The page size of lists.
const PAGE: u32 = 500;

/// Follows the objects of one resource.
pub(crate) struct Watcher {
    pub(crate) client: Client,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) scaled: Arc<Scaled>,
    pub(crate) tracker: Arc<Tracker>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) clock: Clock,
    pub(crate) resource: ApiResource,
    /// The number of the resource, which identifies it in versions.
    pub(crate) number: usize,
}

/// The startup of a pod.
#[derive(Debug)]
struct Startup {
    key: Key,
    seen: Instant,
    /// The pod was unschedulable at some time.
    unschedulable: bool,
    started: bool,
}

impl Watcher {
    /// Watches until the future is dropped. Sends `true` when the first list has been read.
    pub(crate) async fn run(self, started: watch::Sender<bool>) {
        let mut pods = HashMap::new();
        loop {
            if let Err(error) = self.follow(&mut pods, &started).await {
                tracing::warn!(resource = %self.resource.plural, error = error.chain(), "the watch failed; listing again");
            }
            self.recorder.relist();
            sleep(RELIST).await;
        }
    }

    /// Lists and watches until the watch ends.
    async fn follow(
        &self,
        pods: &mut HashMap<String, Startup>,
        started: &watch::Sender<bool>,
    ) -> windlass_client::Result<()> {
        let objects = self.client.dynamic(&self.resource);
        let mut list = objects.list().labels(self.cluster.selector()).limit(PAGE);
        let mut missing = self.known();
        let mut missing_pods: Vec<String> = pods.keys().cloned().collect();
        let version = loop {
            let page = list.await?;
            let (version, next) = (page.metadata.resource_version.clone(), page.metadata.continue_token.clone());
            for object in page {
                let key = self.key(&object);
                missing.retain(|known| Some(*known) != key);
                missing_pods.retain(|uid| Some(uid) != object.metadata.uid.as_ref());
                self.update(pods, &object);
            }
            match next {
                Some(next) if !next.is_empty() => {
                    list = objects.list().labels(self.cluster.selector()).limit(PAGE).continue_from(next);
                }
                _ => break version,
            }
        };
        for key in missing {
            self.tracker.observe_deleted(key);
        }
        for uid in missing_pods {
            self.pod_deleted(pods, &uid);
        }
        // The receiver is gone if the run has stopped.
        let _ = started.send(true);
        let mut events = objects.watch().labels(self.cluster.selector()).resource_version(version.as_str()).retrying();
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.pair(&object);
                    self.update(pods, &object);
                }
                WatchEvent::Deleted(object) => self.delete(pods, &object),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the objects of this resource of which anything is known.
    fn known(&self) -> Vec<Key> {
        let sets = self.cluster.resources.iter().enumerate().filter(|(_, resource)| **resource == self.resource);
        let sets: Vec<usize> = sets.map(|(set, _)| set).collect();
        self.tracker.known(&sets)
    }

    /// Returns the object of the workload, if it is one and does not only belong to one.
    fn key(&self, object: &DynamicObject) -> Option<Key> {
        let key = self.owner(object)?;
        let is_own = self.cluster.resources[key.set] == self.resource
            && object.metadata.name.as_deref() == Some(self.cluster.name(&self.scaled, key).as_str());
        is_own.then_some(key)
    }

    /// Returns the object of the workload that an object is or belongs to.
    fn owner(&self, object: &DynamicObject) -> Option<Key> {
        let label = object.metadata.labels.as_ref()?.get(OBJECT)?;
        let key = self.cluster.key(label, object.metadata.namespace.as_deref())?;
        // The pods of cluster-scoped objects are in any namespace.
        Some(if self.cluster.is_namespaced(key.set) { key } else { Key { namespace: 0, ..key } })
    }

    /// Records the latency of an event whose write this program sent.
    fn pair(&self, object: &DynamicObject) {
        if self.number == self.cluster.resources.len() {
            return; // Only controllers write these pods.
        }
        let Some(version) = object.metadata.resource_version.clone() else { return };
        if let Some(latency) = self.tracker.event((self.number, version), Instant::now()) {
            self.recorder.watch(&self.resource.group_resource().to_string(), latency);
        }
    }

    fn update(&self, pods: &mut HashMap<String, Startup>, object: &DynamicObject) {
        if let Some(key) = self.key(object) {
            let generation = object.metadata.generation.unwrap_or_default();
            let ready = is_ready(&self.resource.kind, generation, &object.data);
            self.tracker.observe(key, Observed { ready, generation });
        }
        if is_pods(&self.resource)
            && let Some(key) = self.owner(object)
        {
            self.pod(pods, key, object);
        }
    }

    fn delete(&self, pods: &mut HashMap<String, Startup>, object: &DynamicObject) {
        if let Some(key) = self.key(object) {
            self.tracker.observe_deleted(key);
        }
        if let Some(uid) = &object.metadata.uid {
            self.pod_deleted(pods, uid);
        }
    }

    fn pod_deleted(&self, pods: &mut HashMap<String, Startup>, uid: &str) {
        if let Some(pod) = pods.remove(uid) {
            self.tracker.pod_gone(pod.key);
        }
    }

    fn pod(&self, pods: &mut HashMap<String, Startup>, key: Key, object: &DynamicObject) {
        let now = Instant::now();
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let startup = pods.entry(uid).or_insert_with(|| {
            self.tracker.pod_seen(key);
            Startup { key, seen: now, unschedulable: false, started: false }
        });
        startup.unschedulable |= condition(&object.data, "PodScheduled")
            .is_some_and(|condition| condition["status"] == "False" && condition["reason"] == "Unschedulable");
        if startup.started {
            return;
        }
        let Some(last) = containers_started(&object.data) else { return };
        startup.started = true;
        let has_init_containers = object.data.get("spec").is_some_and(|spec| !spec["initContainers"].is_null());
        let Some(created) = object.metadata.creation_timestamp.as_ref().map(|time| time.0) else { return };
        if startup.unschedulable || has_init_containers {
            self.recorder.other_pod();
            return;
        }
        let scheduled =
            condition(&object.data, "PodScheduled").and_then(|condition| time(&condition["lastTransitionTime"]));
        let observed = self.clock.now();
        let between = |from: Timestamp, to: Timestamp| micros(seconds(to.duration_since(from).as_secs_f64()));
        let scheduled = scheduled.unwrap_or(created);
        self.recorder.pod(PodSample {
            at: self.recorder.millis(now),
            total: between(created, observed),
            schedule: between(created, scheduled),
            start: between(scheduled, last),
            watch: between(last, observed),
            observed: micros(now.saturating_duration_since(startup.seen)),
        });
    }
}

/// Returns the time at which the last container started, once all have started.
fn containers_started(pod: &Map<String, Value>) -> Option<Timestamp> {
    let containers = pod.get("spec")?["containers"].as_array()?.len();
    let statuses = pod.get("status")?["containerStatuses"].as_array()?;
    let started = |status: &Value| {
        let state = &status["state"];
        ["running", "terminated"].iter().find_map(|name| time(&state[*name]["startedAt"]))
    };
    let times: Option<Vec<Timestamp>> = statuses.iter().map(started).collect();
    let times = times.filter(|times| times.len() >= containers)?;
    times.into_iter().max()
}

fn time(value: &Value) -> Option<Timestamp> {
    parse_time(value.as_str()?).ok()
}

fn condition<'a>(object: &'a Map<String, Value>, wanted: &str) -> Option<&'a Value> {
    object.get("status")?["conditions"].as_array()?.iter().find(|condition| condition["type"] == wanted)
}

/// Reports whether the controllers have done what an object demands. Kinds without controllers are always ready.
fn is_ready(kind: &str, generation: i64, object: &Map<String, Value>) -> bool {
    let null = Value::Null;
    let (spec, status) = (object.get("spec").unwrap_or(&null), object.get("status").unwrap_or(&null));
    let number = |value: &Value, default: i64| value.as_i64().unwrap_or(default);
    let is_current = number(&status["observedGeneration"], 0) >= generation;
    let replicas = number(&spec["replicas"], 1);
    let has = |field: &str| number(&status[field], 0) == replicas;
    match kind {
        "Deployment" => is_current && has("replicas") && has("updatedReplicas") && has("readyReplicas"),
        "StatefulSet" | "ReplicaSet" | "ReplicationController" => is_current && has("replicas") && has("readyReplicas"),
        "DaemonSet" => is_current && number(&status["numberReady"], 0) == number(&status["desiredNumberScheduled"], -1),
        "Job" => number(&status["succeeded"], 0) >= number(&spec["completions"], 1),
        "Pod" => containers_started(object).is_some(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ready(kind: &str, generation: i64, object: Value) -> bool {
        is_ready(kind, generation, object.as_object().unwrap())
    }

    #[test]
    fn deployment_is_ready_when_its_status_matches_the_generation() {
        let deployment = |observed: i64, replicas: i64| {
            json!({ "spec": { "replicas": 2 }, "status": {
                "observedGeneration": observed, "replicas": replicas, "updatedReplicas": 2, "readyReplicas": 2,
            }})
        };
        assert!(ready("Deployment", 3, deployment(3, 2)));
        assert!(!ready("Deployment", 3, deployment(2, 2)), "the controller has not seen it");
        assert!(!ready("Deployment", 3, deployment(3, 3)), "an old pod remains");
    }

    #[test]
    fn kinds_have_their_own_conditions() {
        let daemons = |ready: i64| json!({ "status": { "numberReady": ready, "desiredNumberScheduled": 2 } });
        assert!(ready("DaemonSet", 0, daemons(2)) && !ready("DaemonSet", 0, daemons(1)));
        assert!(!ready("DaemonSet", 0, json!({})));
        let job = |succeeded: i64| json!({ "spec": { "completions": 3 }, "status": { "succeeded": succeeded } });
        assert!(ready("Job", 0, job(3)) && !ready("Job", 0, job(2)));
        assert!(ready("ConfigMap", 0, json!({})));
    }

    #[test]
    fn pod_has_started_when_all_containers_have() {
        let pod =
            |states: Value| json!({ "spec": { "containers": [{}, {}] }, "status": { "containerStatuses": states } });
        let running = |at: &str| json!({ "state": { "running": { "startedAt": at } } });
        let ended = |at: &str| json!({ "state": { "terminated": { "startedAt": at } } });
        let (one, two) = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z");
        let started = |states: Value| containers_started(pod(states).as_object().unwrap()).map(|time| time.to_string());
        assert_eq!(started(json!([running(two), ended(one)])).as_deref(), Some(two));
        assert_eq!(started(json!([running(one)])), None, "one status is missing");
        assert_eq!(started(json!([running(one), { "state": { "waiting": {} } }])), None);
    }
}
