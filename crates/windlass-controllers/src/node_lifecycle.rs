//! NodeLifecycle: maintains node metadata that the control plane is responsible for. It records the registration event,
//! sets the TTL annotation for kubelets, and copies the well-known labels to their older names. It also sets the taints
//! that correspond to the node's conditions.
//!
//! Not implemented: marking unresponsive nodes, and evicting pods from nodes that are not ready.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, ObjectReference, Taint},
    apimachinery::pkg::apis::meta::v1::Time,
};
use parking_lot::Mutex;
use serde_json::json;
use windlass_api::{ObjectExt, ObjectRef, Patch};
use windlass_runtime::{
    Action, Context, Controller, Manager,
    events::{Note, Recorder},
};

use crate::error::{ReconcileError, await_newer_state};

/// The annotation with the time, in seconds, for which a kubelet may cache the Secrets and ConfigMaps of its pods.
const TTL: &str = "node.alpha.kubernetes.io/ttl";
/// The TTL by cluster size: up to this number of nodes, this number of seconds.
const TTLS: [(usize, u32); 4] = [(100, 0), (500, 15), (1000, 30), (2000, 60)];
/// The TTL in seconds for larger clusters.
const LONGEST_TTL: u32 = 300;

/// The well-known labels and their older names.
const LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];
/// The node conditions, with the status that causes a taint, and that taint.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];
/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";

/// The nodes seen so far.
struct Register {
    /// The UIDs of the nodes whose registration was recorded.
    known: Mutex<HashSet<String>>,
    recorder: Recorder,
}

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let recorder = manager.cluster().recorder("node-controller");
    let register = Arc::new(Register { known: Mutex::default(), recorder });
    manager.add(Controller::<Node>::new().named("nodelifecycle").reconcile(move |node, cx| {
        let register = Arc::clone(&register);
        async move { await_newer_state(reconcile(node, cx, &register).await) }
    }));
}

async fn reconcile(node: Arc<Node>, cx: Context, register: &Register) -> Result<Action, ReconcileError> {
    register.record(&node);
    if node.is_deleting() {
        return Ok(Action::await_change());
    }
    let ttl = ttl(cx.store::<Node>().len()).to_string();
    let mut metadata = json!({});
    if node.annotations().get(TTL) != Some(&ttl) {
        metadata["annotations"] = json!({TTL: ttl});
    }
    for (name, older) in LABELS {
        let value = node.labels().get(name).filter(|value| node.labels().get(older) != Some(value));
        if let Some(value) = value {
            metadata["labels"][older] = json!(value);
        }
    }
    let mut patch = json!({ "metadata": metadata });
    if let Some(taints) = taints(&node, cx.clock().now()) {
        // A merge patch replaces the whole list, so it carries the resource version of the cached node.
        patch["metadata"]["resourceVersion"] = json!(node.resource_version());
        patch["spec"] = json!({ "taints": taints });
    }
    if patch != json!({"metadata": {}}) {
        cx.client().patch::<Node>(ObjectRef::new(node.name()), Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}

/// Returns the taints that a node should have, or `None` if they are unchanged. Taints that do not correspond to
/// conditions are kept.
fn taints(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let spec = node.spec.as_ref();
    let before = spec.and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let conditions = || node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let holds = |type_: &str, status: &str| conditions().any(|found| found.type_ == type_ && found.status == status);
    let of_conditions = TAINTS.into_iter().filter(|(type_, status, _)| holds(type_, status)).map(|(.., key)| key);
    let closed = spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
    let wanted: Vec<_> = of_conditions.chain(closed.then_some(UNSCHEDULABLE)).collect();
    let is_ours = |taint: &Taint| {
        taint.effect == NO_SCHEDULE && (taint.key == UNSCHEDULABLE || TAINTS.iter().any(|(.., key)| *key == taint.key))
    };
    let mut after: Vec<_> =
        before.iter().filter(|taint| !is_ours(taint) || wanted.contains(&&*taint.key)).cloned().collect();
    for key in wanted {
        if !after.iter().any(|taint| taint.key == key && taint.effect == NO_SCHEDULE) {
            let time_added = Some(Time(now));
            after.push(Taint { key: key.to_owned(), effect: NO_SCHEDULE.to_owned(), time_added, value: None });
        }
    }
    (after != before).then_some(after)
}

impl Register {
    /// Records an event for a node seen for the first time.
    fn record(&self, node: &Node) {
        let uid = node.uid().unwrap_or_default();
        if !self.known.lock().insert(uid.to_owned()) {
            return;
        }
        let name = node.name();
        // `kubectl describe node` searches events by name and UID, without a resource version.
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let message = format!("Node {name} event: Registered Node {name} in Controller");
        self.recorder.record_about(about, Note::normal("RegisteredNode", message));
    }
}

fn ttl(nodes: usize) -> u32 {
    TTLS.into_iter().find(|(most, _)| nodes <= *most).map_or(LONGEST_TTL, |(_, seconds)| seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_event_is_recorded_once() {
        let (recorder, mut recorded) = Recorder::captured("node-controller");
        let register = Register { known: Mutex::default(), recorder };
        let mut node = Node::default();
        node.metadata.name = Some("a".to_owned());
        for uid in ["1", "1", "2"] {
            node.metadata.uid = Some(uid.to_owned());
            register.record(&node);
        }
        let told = "Normal RegisteredNode Node a event: Registered Node a in Controller";
        assert_eq!(recorded.lines(), [told, told]);
    }

    #[test]
    fn taints_follow_conditions_and_leave_others_alone() {
        let now = Timestamp::UNIX_EPOCH;
        let keys = |taints: Option<Vec<Taint>>| -> Vec<String> {
            taints.unwrap().into_iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
        };
        let mut node: Node = k8s_openapi::serde_json::from_value(json!({
            "spec": {"unschedulable": true, "taints": [{"key": "mine", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "PIDPressure", "status": "True"}]},
        }))
        .unwrap();
        let tainted = taints(&node, now);
        node.spec.as_mut().unwrap().taints.clone_from(&tainted);
        let [pids, closed] =
            ["node.kubernetes.io/pid-pressure:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"];
        assert_eq!(keys(tainted), ["mine:NoExecute", pids, closed]);
        assert_eq!(taints(&node, now), None);
        node.spec.as_mut().unwrap().unschedulable = None;
        node.status = None;
        assert_eq!(keys(taints(&node, now)), ["mine:NoExecute"]);
    }

    #[test]
    fn the_more_nodes_the_longer_they_remember() {
        assert_eq!([0, 100, 101, 2000, 2001].map(ttl), [0, 0, 15, 60, 300]);
    }
}
