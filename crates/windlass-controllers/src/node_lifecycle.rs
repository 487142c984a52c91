//! NodeLifecycle: maintains node metadata that the control plane is responsible for. It records the registration event,
//! sets the TTL annotation for kubelets, and copies the well-known labels to their older names. It also sets the taints
//! that correspond to the node's conditions. [`health`] detects nodes without heartbeats, [`zones`] limits the rate of
//! taints that evict pods, and [`eviction`] evicts the pods of nodes with `NoExecute` taints.

mod eviction;
mod health;
mod zones;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, ObjectReference, Pod, Taint},
    apimachinery::pkg::apis::meta::v1::Time,
};
use parking_lot::Mutex;
use serde_json::json;
use windlass_api::{ObjectExt, ObjectKey, ObjectRef, Patch};
use windlass_cache::Lister;
use windlass_runtime::{
    Action, Context, Controller, Group, Manager, Task,
    events::{Note, Recorder},
};

pub use self::zones::EvictionRates;
use self::zones::{EXCLUDED, Zones};
use crate::{
    error::{ReconcileError, await_newer_state},
    nodes::fit::is_ready,
    pods, pods_by_node,
};

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
/// The interval between two looks at an unready node.
const DISRUPTION_PERIOD: Duration = Duration::from_secs(5);
/// The effect of the taints of the first two conditions that also evict pods.
const NO_EXECUTE: &str = "NoExecute";

/// The nodes seen so far.
struct Register {
    /// The UIDs of the nodes whose registration was recorded.
    known: Mutex<HashSet<String>>,
    ready: Mutex<ReadyNodes>,
    zones: Zones,
    recorder: Recorder,
}

/// The nodes that were ready when they were last seen, by UID.
#[derive(Debug, Default)]
struct ReadyNodes {
    nodes: HashMap<String, ReadyNode>,
    /// `true` once the nodes that existed at startup were looked at.
    is_complete: bool,
}

#[derive(Debug)]
struct ReadyNode {
    key: ObjectKey,
    /// `true` if the node does not count as a ready one of the cluster.
    is_excluded: bool,
}

/// Adds the controllers to a manager. `grace` is the time without heartbeats after which a node is unreachable.
pub(crate) fn add_to(manager: &mut Manager, grace: Duration, rates: EvictionRates) {
    let recorder = manager.cluster().recorder("node-controller");
    let register = Arc::new(Register::new(recorder, rates));
    manager.add(Controller::<Node>::new().named("nodelifecycle").reads_with(pods_by_node::watch()).reconcile(
        move |node, cx| {
            let register = Arc::clone(&register);
            async move { await_newer_state(reconcile(node, cx, &register).await) }
        },
    ));
    manager.add(Task::new("node-monitor", move |running| health::run(running, grace)).in_group(Group::Controllers));
    eviction::add_to(manager);
}

async fn reconcile(node: Arc<Node>, cx: Context, register: &Register) -> Result<Action, ReconcileError> {
    register.record(&node);
    if node.is_deleting() {
        return Ok(Action::await_change());
    }
    if register.has_failed(&node) {
        mark_pods_unready(&node, &cx, register).await?;
        register.forget_ready(&node);
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
    let (evicts, next) = register.evicts(&node, &cx.store::<Node>());
    if let Some(taints) = taints(&node, evicts, cx.clock().now()) {
        // A merge patch replaces the whole list, so it carries the resource version of the cached node.
        patch["metadata"]["resourceVersion"] = json!(node.resource_version());
        patch["spec"] = json!({ "taints": taints });
    }
    if patch != json!({"metadata": {}}) {
        cx.client().patch::<Node>(ObjectRef::new(node.name()), Patch::Merge(patch)).await?;
    }
    // The taints of an unready node depend on the other nodes.
    Ok(if is_ready(&node) { Action::await_change() } else { Action::requeue_after(next) })
}

/// Sets the condition `Ready` of a node's pods to `False`, so that services do not use them.
async fn mark_pods_unready(node: &Node, cx: &Context, register: &Register) -> Result<(), ReconcileError> {
    for pod in pods_by_node::on(&cx.store::<Pod>(), node.name()) {
        let pod = pod.get()?;
        if !pods::is_ready(&pod) {
            continue;
        }
        let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": Time(cx.clock().now())});
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
        let request = cx.client().patch::<Pod>(pod.object_ref(), Patch::Strategic(patch)).subresource("status");
        match request.discard_response().await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => return Err(error.into()),
            _ => register.recorder.record(&*pod, Note::warning("NodeNotReady", "Node is not ready")),
        }
    }
    Ok(())
}

/// Returns the taints that a node should have, or `None` if they are unchanged. Taints that do not correspond to
/// conditions are kept. Without `evicts`, no taint evicts pods.
fn taints(node: &Node, evicts: bool, now: Timestamp) -> Option<Vec<Taint>> {
    let spec = node.spec.as_ref();
    let before = spec.and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let conditions = || node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let holds = |type_: &str, status: &str| conditions().any(|found| found.type_ == type_ && found.status == status);
    let of_conditions = TAINTS.into_iter().filter(|(type_, status, _)| holds(type_, status));
    let of_conditions = of_conditions.flat_map(|(type_, _, key)| {
        let evicting = (evicts && type_ == "Ready").then_some((key, NO_EXECUTE));
        [Some((key, NO_SCHEDULE)), evicting].into_iter().flatten()
    });
    let closed = spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
    let wanted: Vec<_> = of_conditions.chain(closed.then_some((UNSCHEDULABLE, NO_SCHEDULE))).collect();
    let is_ours = |taint: &Taint| match &*taint.effect {
        NO_SCHEDULE => taint.key == UNSCHEDULABLE || TAINTS.iter().any(|(.., key)| *key == taint.key),
        NO_EXECUTE => is_of_readiness(&taint.key),
        _ => false,
    };
    let is_wanted = |taint: &Taint| wanted.contains(&(&*taint.key, &*taint.effect));
    let mut after: Vec<_> = before.iter().filter(|taint| !is_ours(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in wanted {
        if !after.iter().any(|taint| taint.key == key && taint.effect == effect) {
            let time_added = Some(Time(now));
            after.push(Taint { key: key.to_owned(), effect: effect.to_owned(), time_added, value: None });
        }
    }
    (after != before).then_some(after)
}

/// Reports whether a node is known not to be ready. A new node is not.
fn is_unready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|found| found.type_ == "Ready" && matches!(&*found.status, "False" | "Unknown"))
}

/// Reports whether a node has a taint of its condition that evicts pods.
fn has_evicting_taint(node: &Node) -> bool {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| is_of_readiness(&taint.key) && taint.effect == NO_EXECUTE)
}

/// Reports whether a taint corresponds to the condition `Ready`.
fn is_of_readiness(key: &str) -> bool {
    TAINTS.iter().any(|(type_, _, taint)| *type_ == "Ready" && *taint == key)
}

impl Register {
    fn new(recorder: Recorder, rates: EvictionRates) -> Self {
        Self { known: Mutex::default(), ready: Mutex::default(), zones: Zones::new(rates), recorder }
    }

    /// Reports whether an unready node gets the taint that evicts its pods, and the time after which to ask again. A node
    /// with such a taint keeps it, as long as a node of the cluster is ready.
    fn evicts(&self, node: &Node, nodes: &Lister<Node>) -> (bool, Duration) {
        if !is_unready(node) || !self.has_ready_node(nodes) {
            self.zones.forget(node);
            return (false, DISRUPTION_PERIOD);
        }
        if has_evicting_taint(node) {
            return (true, DISRUPTION_PERIOD);
        }
        match self.zones.admit(node, nodes) {
            Ok(()) => (true, DISRUPTION_PERIOD),
            Err(wait) => (false, wait),
        }
    }

    /// Reports whether a node has just become unready. Records an event if so.
    fn has_failed(&self, node: &Node) -> bool {
        let uid = node.uid().unwrap_or_default();
        if is_ready(node) {
            let ready =
                ReadyNode { key: ObjectKey::new(node.name()), is_excluded: node.labels().contains_key(EXCLUDED) };
            self.ready.lock().nodes.insert(uid.to_owned(), ready);
            return false;
        }
        let has_failed = self.ready.lock().nodes.contains_key(uid);
        if has_failed {
            let name = node.name();
            let message = format!("Node {name} status is now: NodeNotReady");
            self.recorder.record_about(Self::about(node), Note::normal("NodeNotReady", message));
        }
        has_failed
    }

    /// Records that the pods of an unready node are marked.
    fn forget_ready(&self, node: &Node) {
        self.ready.lock().nodes.remove(node.uid().unwrap_or_default());
    }

    /// Reports whether a node of the cluster is ready. If none is, the nodes are probably not the cause, so pods are not
    /// evicted, as in kube-controller-manager.
    fn has_ready_node(&self, nodes: &Lister<Node>) -> bool {
        let mut ready = self.ready.lock();
        if !std::mem::replace(&mut ready.is_complete, true) {
            let found = nodes.list().into_iter().filter(|node| node.get().is_ok_and(|node| is_ready(&node)));
            let found = found.map(|node| {
                let is_excluded = node.meta().label(EXCLUDED).is_some();
                let ready = ReadyNode { key: node.key().clone(), is_excluded };
                (node.meta().uid().to_string(), ready)
            });
            ready.nodes.extend(found);
        }
        let mut deleted = Vec::new();
        let has_ready = ready.nodes.iter().filter(|(_, node)| !node.is_excluded).any(|(uid, node)| {
            let found = nodes.get(&ObjectRef::new(&*node.key.name));
            let exists = found.is_some_and(|node| node.meta().uid().to_string() == *uid);
            deleted.extend((!exists).then(|| uid.clone()));
            exists
        });
        for uid in deleted {
            ready.nodes.remove(&uid);
        }
        has_ready
    }

    /// Returns a reference without a resource version: `kubectl describe node` searches events by name and UID.
    fn about(node: &Node) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.name().to_owned()),
            uid: Some(node.uid().unwrap_or_default().to_owned()),
            ..ObjectReference::default()
        }
    }

    /// Records an event for a node seen for the first time.
    fn record(&self, node: &Node) {
        let uid = node.uid().unwrap_or_default();
        if !self.known.lock().insert(uid.to_owned()) {
            return;
        }
        let name = node.name();
        let message = format!("Node {name} event: Registered Node {name} in Controller");
        self.recorder.record_about(Self::about(node), Note::normal("RegisteredNode", message));
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
        let register = Register::new(recorder, EvictionRates::default());
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
        let tainted = taints(&node, true, now);
        node.spec.as_mut().unwrap().taints.clone_from(&tainted);
        let [pids, closed] =
            ["node.kubernetes.io/pid-pressure:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"];
        assert_eq!(keys(tainted), ["mine:NoExecute", pids, closed]);
        assert_eq!(taints(&node, true, now), None);
        node.spec.as_mut().unwrap().unschedulable = None;
        node.status = None;
        assert_eq!(keys(taints(&node, true, now)), ["mine:NoExecute"]);
    }

    #[test]
    fn unready_node_repels_and_evicts_pods() {
        let mut node: Node = k8s_openapi::serde_json::from_value(json!({
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        }))
        .unwrap();
        let tainted = taints(&node, true, Timestamp::UNIX_EPOCH).unwrap();
        let keys: Vec<_> = tainted.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
        assert_eq!(keys, ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]);
        let repelling = taints(&node, false, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((repelling.len(), &*repelling[0].effect), (1, NO_SCHEDULE));
        node.spec.get_or_insert_default().taints = Some(tainted);
        assert_eq!(taints(&node, true, Timestamp::UNIX_EPOCH), None);
        node.status = None;
        assert_eq!(taints(&node, true, Timestamp::UNIX_EPOCH), Some(Vec::new()));
    }

    #[test]
    fn the_more_nodes_the_longer_they_remember() {
        assert_eq!([0, 100, 101, 2000, 2001].map(ttl), [0, 0, 15, 60, 300]);
    }
}
