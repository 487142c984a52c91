//! The states of pods that the status of a replica set depends on.

use std::time::Duration;

use hashbrown::HashMap;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde::Deserialize;
use windlass_api::{Meta, ObjectKey, ResourceVersion, Uid};
use windlass_cache::{Cached, DecodeError};

/// A pod of a replica set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replica<'p> {
    pub(super) meta: &'p Meta,
    pub(super) readiness: Readiness,
}

/// The part of a pod's status that the status of its replica set depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Readiness {
    /// `true` if the pod has succeeded or failed.
    pub(super) finished: bool,
    pub(super) ready: bool,
    /// The last transition of the condition `Ready`.
    pub(super) since: Option<Timestamp>,
}

/// The readiness of the pods of each replica set, by their versions. With it, a reconcile decodes only the pods that have
/// changed since the last one, however many pods the set has.
#[derive(Debug, Default)]
pub(super) struct KnownReadiness(Mutex<HashMap<ObjectKey, OfSet>>);

type OfSet = HashMap<Uid, (ResourceVersion, Readiness)>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusView {
    phase: Option<String>,
    conditions: Option<Vec<ConditionView>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConditionView {
    r#type: String,
    status: String,
    last_transition_time: Option<Timestamp>,
}

impl Replica<'_> {
    /// Returns `true` if the pod counts as a replica: neither finished nor terminating.
    pub(super) fn is_active(&self) -> bool {
        !self.readiness.finished && !self.meta.is_deleting()
    }

    /// Returns `true` if the pod is being deleted and has not finished yet.
    pub(super) fn is_terminating(&self) -> bool {
        !self.readiness.finished && self.meta.is_deleting()
    }

    /// Returns `true` if the pod has been ready for at least `min_ready_seconds`.
    pub(super) fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.readiness.ready
            && (min_ready_seconds <= 0 || self.available_at(min_ready_seconds).is_some_and(|at| at <= now))
    }

    /// Returns the time when a ready pod becomes available, if it stays ready.
    pub(super) fn available_at(&self, min_ready_seconds: i32) -> Option<Timestamp> {
        self.readiness.since?.checked_add(SignedDuration::from_secs(min_ready_seconds.into())).ok()
    }
}

/// Returns the time until the next ready pod becomes available.
pub(super) fn next_available(replicas: &[Replica<'_>], min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let waiting = replicas.iter().filter(|pod| pod.readiness.ready && !pod.is_available(min_ready_seconds, now));
    let next = waiting.filter_map(|pod| pod.available_at(min_ready_seconds)).min();
    next.and_then(|at| Duration::try_from(at.duration_since(now)).ok())
}

impl Readiness {
    fn of(pod: &Cached<Pod>) -> Result<Self, DecodeError> {
        let Some(status) = pod.at::<StatusView>(&["status"])? else { return Ok(Self::default()) };
        let ready = status.conditions.iter().flatten().find(|condition| condition.r#type == "Ready");
        Ok(Self {
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            ready: ready.is_some_and(|ready| ready.status == "True"),
            since: ready.and_then(|ready| ready.last_transition_time),
        })
    }
}

impl KnownReadiness {
    /// Returns the replicas of a set, in the order of `pods`. They replace the known ones of the set.
    pub(super) fn replicas<'p>(
        &self,
        set: &ObjectKey,
        pods: &'p [Cached<Pod>],
    ) -> Result<Vec<Replica<'p>>, DecodeError> {
        let before = self.0.lock().remove(set).unwrap_or_default();
        let mut after = OfSet::with_capacity(pods.len());
        let mut replicas = Vec::with_capacity(pods.len());
        for pod in pods {
            let meta = pod.meta();
            let readiness = match before.get(meta.uid()) {
                Some((version, readiness)) if version == meta.resource_version() => *readiness,
                _ => Readiness::of(pod)?,
            };
            after.insert(meta.uid().clone(), (meta.resource_version().clone(), readiness));
            replicas.push(Replica { meta, readiness });
        }
        if !after.is_empty() {
            self.0.lock().insert(set.clone(), after);
        }
        Ok(replicas)
    }

    /// Drops the pods of a deleted set.
    pub(super) fn forget(&self, set: &ObjectKey) {
        self.0.lock().remove(set);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_api::Resource as _;
    use windlass_cache::testing::cached;

    use super::*;

    fn pod(name: &str, version: u64, status: &Value) -> Cached<Pod> {
        let metadata = json!({"name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string()});
        cached(Pod::api_resource(), &json!({"metadata": metadata, "status": status})).unwrap()
    }

    fn ready_since(time: &str) -> Value {
        json!({"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True", "lastTransitionTime": time},
        ]})
    }

    fn readiness(known: &KnownReadiness, pods: &[Cached<Pod>]) -> Vec<Readiness> {
        let replicas = known.replicas(&ObjectKey::new("set").within("n"), pods).unwrap();
        replicas.iter().map(|replica| replica.readiness).collect()
    }

    #[test]
    fn readiness_is_that_of_the_status() {
        let since = Timestamp::from_second(100).unwrap();
        let pods = [
            pod("none", 1, &Value::Null),
            pod("ready", 1, &ready_since("1970-01-01T00:01:40Z")),
            pod("done", 1, &json!({"phase": "Succeeded"})),
        ];
        let expected = [
            Readiness::default(),
            Readiness { ready: true, since: Some(since), ..Readiness::default() },
            Readiness { finished: true, ..Readiness::default() },
        ];
        assert_eq!(readiness(&KnownReadiness::default(), &pods), expected);
    }

    #[test]
    fn only_changed_pods_are_decoded() {
        let known = KnownReadiness::default();
        let ready = ready_since("1970-01-01T00:01:40Z");
        assert!(readiness(&known, &[pod("a", 1, &ready), pod("b", 1, &json!({}))])[0].ready);
        // The server never changes an object without its version, so the known readiness is used.
        let again = readiness(&known, &[pod("b", 2, &ready), pod("a", 1, &json!({}))]);
        assert_eq!(again.iter().map(|pod| pod.ready).collect::<Vec<_>>(), [true, true]);
        assert!(!readiness(&known, &[pod("a", 2, &json!({}))])[0].ready);
    }

    #[test]
    fn pods_that_are_gone_are_forgotten() {
        let known = KnownReadiness::default();
        let set = ObjectKey::new("set").within("n");
        readiness(&known, &[pod("a", 1, &json!({})), pod("b", 1, &json!({}))]);
        readiness(&known, &[pod("b", 1, &json!({}))]);
        assert_eq!(known.0.lock()[&set].len(), 1);
        readiness(&known, &[]);
        assert!(known.0.lock().is_empty());
        readiness(&known, &[pod("b", 1, &json!({}))]);
        known.forget(&set);
        assert!(known.0.lock().is_empty());
    }

    #[test]
    fn availability_waits_for_min_ready_seconds() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let meta = Meta::new(ObjectKey::new("pod"));
        let replica =
            Replica { meta: &meta, readiness: Readiness { finished: false, ready: true, since: Some(at(100)) } };
        assert!(replica.is_available(0, at(100)));
        assert!(!replica.is_available(10, at(109)) && replica.is_available(10, at(110)));
        assert_eq!(next_available(&[replica], 10, at(103)), Some(Duration::from_secs(7)));
        assert_eq!(next_available(&[replica], 10, at(110)), None);
    }
}
