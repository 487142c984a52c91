//! Tests of decisions on small clusters.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

mod between_pods;
mod filters;
mod preemption;
mod queueing;
mod requests;
mod scores;
mod speed;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use windlass_api::ObjectExt as _;

use super::*;

/// A cluster without a server.
#[derive(Debug, Default)]
struct Cluster {
    core: Core,
    profiles: Profiles,
}

/// Returns a node with 2 CPUs, 1 GiB of memory and room for 5 pods.
fn node(name: &str, labels: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "5"}},
    })
}

/// Returns a pod in the namespace `n` with the label `app: NAME`, that requests this CPU.
fn pod(name: &str, cpu: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
    json!({"metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": name}}, "spec": spec})
}

fn decoded(pod: &Value) -> (ObjectKey, Pod) {
    let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    (ObjectKey::new(pod.name()).within(pod.namespace().unwrap()), pod)
}

impl Cluster {
    /// Creates a cluster of nodes.
    fn of(nodes: impl IntoIterator<Item = Value>) -> Self {
        let mut cluster = Self::default();
        for node in nodes {
            cluster.core.snapshot.set_node(&serde_json::from_value::<Node>(node).unwrap());
        }
        cluster
    }

    /// Places a pod on a node.
    fn place(&mut self, pod: &Value, node: &str) {
        let (key, pod) = decoded(pod);
        let placed = Placed {
            uid: pod.uid().unwrap_or_default().into(),
            slot: 0,
            profile: self.profiles.of(&pod),
            terminating: pod.is_deleting(),
            assumed: false,
            preempted: false,
            started: pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            generation: None,
        };
        self.core.snapshot.place(&key, node, placed);
    }

    fn decide(&mut self, pod: &Value) -> std::result::Result<String, Failure> {
        let (key, pod) = decoded(pod);
        let profile = self.profiles.of(&pod);
        let candidate = Candidate { key: &key, profile: &profile, claims: None, preferred: None };
        self.core.decide(candidate).map(|slot| self.core.snapshot.node(slot).name.to_string())
    }

    /// Returns the name of the selected node, or the message.
    fn outcome(&mut self, pod: &Value) -> String {
        self.decide(pod).unwrap_or_else(|failure| failure.message)
    }

    /// Schedules a pod. Returns the name of the node, or the message.
    fn schedule(&mut self, pod: &Value) -> String {
        let outcome = self.decide(pod);
        if let Ok(node) = &outcome {
            self.place(pod, node);
        }
        outcome.unwrap_or_else(|failure| failure.message)
    }

    /// Returns the filter's part of the message of a pod that fits on no node.
    fn reasons(&mut self, pod: &Value) -> String {
        let message = self.decide(pod).unwrap_err().message;
        let start = message.find(": ").unwrap() + 2;
        message[start..message.find(". preemption").unwrap()].to_owned()
    }
}
