//! Detects nodes that stop sending heartbeats. Their conditions become `Unknown`.

use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, NodeCondition},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass_api::{ObjectExt, ObjectKey, ObjectRef, Patch};
use windlass_cache::Cached;
use windlass_runtime::{Result, RunnableContext, Watch};

/// The interval between two looks at all nodes.
const PERIOD: Duration = Duration::from_secs(5);
/// The time in which a new node has to report its first status.
const STARTUP_GRACE: Duration = Duration::from_mins(1);
/// The namespace of the nodes' leases.
const LEASES: &str = "kube-node-lease";
/// The conditions that a kubelet reports.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The heartbeats of the nodes.
#[derive(Debug, Default)]
struct Heartbeats(HashMap<ObjectKey, Heartbeat>);

#[derive(Debug, PartialEq)]
struct Heartbeat {
    uid: String,
    /// The time of the last renewal of the lease, as the node's clock shows it.
    renewal: Option<String>,
    /// The time of the last report of the status, by the same clock.
    report: Option<Timestamp>,
    /// The time when the last heartbeat was seen.
    seen: Instant,
}

/// Looks at the nodes until shutdown.
pub(super) async fn run(running: RunnableContext, grace: Duration) -> Result<()> {
    tokio::select! {
        biased;
        () = running.stop().requested() => {}
        () = monitor(&running, grace) => {}
    }
    Ok(())
}

async fn monitor(running: &RunnableContext, grace: Duration) {
    let cluster = running.cluster();
    let nodes = cluster.informer::<Node>(&Watch::all()).store();
    let leases = cluster.informer::<Lease>(&Watch::within(LEASES)).store();
    let mut heartbeats = Heartbeats::default();
    loop {
        let current = nodes.list();
        heartbeats.retain(&current);
        for node in &current {
            let lease = leases.get(&ObjectRef::new(&**node.meta().name()).within(LEASES));
            let renewal = lease.and_then(|lease| lease.at::<String>(&["spec", "renewTime"]).ok().flatten());
            let silence = heartbeats.silence(node, renewal, Instant::now());
            if silence < grace {
                continue;
            }
            let Ok(node) = node.get() else { continue };
            if heartbeats.has_reported(&node, Instant::now()) || (!has_reported(&node) && silence < STARTUP_GRACE) {
                continue;
            }
            let Some(conditions) = unknown(&node, cluster.clock().now()) else { continue };
            tracing::info!(node = node.name(), "the node has stopped sending heartbeats");
            let patch = Patch::Strategic(json!({
                "metadata": {"uid": node.uid()},
                "status": {"conditions": conditions},
            }));
            let request = cluster.client().patch::<Node>(node.name(), patch).subresource("status");
            if let Err(error) = request.discard_response().await {
                tracing::debug!(node = node.name(), error = error.chain(), "cannot report a silent node; trying again");
            }
        }
        sleep(PERIOD).await;
    }
}

impl Heartbeats {
    /// Drops deleted nodes.
    fn retain(&mut self, nodes: &[Cached<Node>]) {
        if self.0.len() > nodes.len() {
            let names: HashSet<_> = nodes.iter().map(Cached::key).collect();
            self.0.retain(|key, _| names.contains(key));
        }
    }

    /// Returns the time since the last heartbeat of a node was seen. The clock of the node does not matter.
    fn silence(&mut self, node: &Cached<Node>, renewal: Option<String>, now: Instant) -> Duration {
        let uid = node.meta().uid().to_string();
        match self.0.get_mut(node.key()) {
            Some(known) if known.uid == uid => {
                if known.renewal != renewal {
                    (known.renewal, known.seen) = (renewal, now);
                }
                now.duration_since(known.seen)
            }
            _ => {
                let report = node.get().ok().and_then(|node| last_report(&node));
                self.0.insert(node.key().clone(), Heartbeat { uid, renewal, report, seen: now });
                Duration::ZERO
            }
        }
    }

    /// Reports whether a node without renewals of its lease has reported its status meanwhile.
    fn has_reported(&mut self, node: &Node, now: Instant) -> bool {
        let Some(known) = self.0.get_mut(&ObjectKey::new(node.name())) else { return false };
        let report = last_report(node);
        let is_newer = known.report != report;
        if is_newer {
            (known.report, known.seen) = (report, now);
        }
        is_newer
    }
}

fn conditions(node: &Node) -> &[NodeCondition] {
    node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

fn has_reported(node: &Node) -> bool {
    conditions(node).iter().any(|condition| condition.type_ == CONDITIONS[0])
}

fn last_report(node: &Node) -> Option<Timestamp> {
    let ready = conditions(node).iter().find(|condition| condition.type_ == CONDITIONS[0])?;
    ready.last_heartbeat_time.as_ref().map(|time| time.0)
}

/// Returns the conditions of a silent node that are not `Unknown` yet, or `None` if all are.
fn unknown(node: &Node, now: Timestamp) -> Option<Vec<Value>> {
    let known = |type_: &str| conditions(node).iter().find(|condition| condition.type_ == type_);
    let changed = CONDITIONS.into_iter().filter_map(|type_| match known(type_) {
        Some(condition) if condition.status == "Unknown" => None,
        Some(_) => Some(json!({
            "type": type_,
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": Time(now),
        })),
        None => Some(json!({
            "type": type_,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": node.metadata.creation_timestamp,
            "lastTransitionTime": Time(now),
        })),
    });
    let changed: Vec<_> = changed.collect();
    (!changed.is_empty()).then_some(changed)
}
