//! The simulated Node objects: created, ready, and kept alive by leases.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{MicroTime, OwnerReference, Time},
    },
};
use serde_json::json;
use tokio::time::sleep;
use windlass_api::{Clock, Entropy, Meta, ObjectExt, ObjectRef, Patch, format_micro_time};
use windlass_cache::{Cached, Lister};
use windlass_client::{Client, Error};
use windlass_runtime::{
    Action, Context, Controller, Group, Manager, Predicate, Result, RunnableContext, Task, Watch, events::Recorder,
};

use super::{
    addresses::Host,
    stages::{
        Player, Scene,
        player::{Subject, Turn},
        steps::{Writers, play},
    },
};
use crate::{Identity, error::ReconcileError, identity::Identities};

/// The label that identifies the simulator's nodes.
const SIMULATED: &str = "windlass.dev/simulated";
/// The annotation that lets a node fail if its value is `true`.
const FAIL: &str = "windlass.dev/fail";
/// The taint that an API server adds to new nodes, and that a node lifecycle controller removes from ready ones.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The labels with the zone and the region of a node.
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
/// The namespace of the leases.
const LEASES: &str = "kube-node-lease";
/// The duration of a lease, in seconds.
const LEASE_SECONDS: i32 = 40;
/// The interval between lease renewals.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// The wait after a node could not be created.
const RETRY: Duration = Duration::from_secs(1);

/// The capacity of every node.
const CAPACITY: [(&str, &str); 4] = [("cpu", "32"), ("memory", "256Gi"), ("ephemeral-storage", "1Ti"), ("pods", "110")];

/// The nodes of the simulator.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) nodes: u16,
    /// The number of zones over which the nodes are spread; 0 for none.
    pub(crate) zones: u16,
    /// The stages of nodes.
    pub(crate) stages: Player,
    pub(crate) started: Timestamp,
}

/// Adds nodes to a manager.
pub(crate) fn add_to(manager: &mut Manager, fleet: Fleet, identities: &Identities) {
    let fleet = Arc::new(fleet);
    let (acting, running) = (identities.clone(), Arc::clone(&fleet));
    let recorder = manager.cluster().recorder("kubelet");
    manager.add(
        Controller::watching(Watch::<Node>::all().filter(Simulated))
            .named("nodes")
            .reconcile_keys(move |key, cx| reconcile(key, cx, Arc::clone(&fleet), acting.clone(), recorder.clone())),
    );
    let (acting, fleet) = (identities.clone(), running);
    let heartbeat = Task::new("node-heartbeat", move |running| run(running, fleet, acting));
    manager.add(heartbeat.in_group(Group::Controllers));
}

/// Returns `true` if a node belongs to the simulator.
pub(crate) fn is_simulated(node: &Meta) -> bool {
    node.label(SIMULATED) == Some("true")
}

fn is_labeled(node: &Node) -> bool {
    node.labels().get(SIMULATED).is_some_and(|value| value == "true")
}

/// Reports whether a node of the simulator is to behave as if its machine had failed.
pub(crate) fn has_failed(node: &Cached<Node>) -> bool {
    node.at::<String>(&["metadata", "annotations", FAIL]).is_ok_and(|value| value.as_deref() == Some("true"))
}

/// Selects nodes of the simulator.
#[derive(Debug)]
struct Simulated;

impl Predicate<Node> for Simulated {
    fn added(&self, object: &Cached<Node>) -> bool {
        is_simulated(object.meta())
    }

    fn updated(&self, _: &Cached<Node>, new: &Cached<Node>) -> bool {
        is_simulated(new.meta())
    }

    fn deleted(&self, object: &Cached<Node>) -> bool {
        is_simulated(object.meta())
    }
}

/// Creates a deleted node again, and makes a node ready that is not.
async fn reconcile(
    key: ObjectRef<Node>,
    cx: Context,
    fleet: Arc<Fleet>,
    identities: Identities,
    recorder: Recorder,
) -> Result<Action, ReconcileError> {
    let Some(host) = Host::named(key.name(), fleet.nodes) else { return Ok(Action::await_change()) };
    let client = identities.acting(cx.client(), Identity::Node(key.name()));
    let mut next = Action::await_change();
    let outcome = match cx.store::<Node>().get(&key) {
        None => {
            fleet.stages.forget(key.key());
            create(client.live(), &fleet, host, cx.clock(), cx.entropy()).await
        }
        // A failed node does nothing.
        Some(cached) if has_failed(&cached) => return Ok(next),
        Some(cached) => {
            let found = cached.get()?;
            let follows = follow_stages(&key, &found, host, &cx, &fleet, &identities, &recorder).await?;
            let is_following = follows.is_some();
            next = follows.unwrap_or(next);
            if !is_following && !has_reported(&found) {
                let mut node = (*found).clone();
                let new = status(host, cx.clock().now(), cx.entropy());
                match &mut node.status {
                    // A node that has recovered keeps its identity.
                    Some(known) if known.node_info.is_some() => known.conditions = new.conditions,
                    status => *status = Some(new),
                }
                client.update_status(&node).await.map(drop)
            } else if let Some(node) = without_not_ready(&found) {
                // A node may not change its own taints.
                let lifecycle = identities.acting(cx.client(), Identity::Controller("node-controller"));
                lifecycle.update(&node).await.map(drop)
            } else {
                Ok(())
            }
        }
    };
    match outcome {
        // The event of the newer state triggers another reconcile.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(next),
        other => Ok(other.map(|()| next)?),
    }
}

/// Moves a node through its stages. Returns `None` if no stage has selected it.
async fn follow_stages(
    key: &ObjectRef<Node>,
    node: &Node,
    host: Host,
    cx: &Context,
    fleet: &Fleet,
    identities: &Identities,
    recorder: &Recorder,
) -> Result<Option<Action>, ReconcileError> {
    let (uid, version) = (node.uid().unwrap_or_default(), node.resource_version().unwrap_or_default());
    let subject = Subject { key: key.key(), uid, version };
    let value = || serde_json::to_value(node).unwrap_or_default();
    let stage = match fleet.stages.turn(subject, value, cx.clock().now(), cx.entropy()) {
        Turn::Default => return Ok(None),
        Turn::Rest => return Ok(Some(Action::await_change())),
        Turn::Wait(wait) => return Ok(Some(Action::requeue_after(wait))),
        Turn::Play(stage) => stage,
    };
    let scene = Scene { now: cx.clock().now(), started: fleet.started, host, nodes: fleet.nodes, pod_ip: None };
    let identity = Identity::Node(key.name());
    let recorder = match identities.client(identity) {
        Some(client) => recorder.clone().with_credentials_of(&client),
        None => recorder.clone(),
    };
    let writers = Writers {
        node: identities.acting(cx.client(), identity),
        administrator: identities.acting(cx.client(), Identity::Administrator),
        recorder: recorder.on_host(key.name()),
    };
    match play(&stage, node, &value(), scene, &writers).await {
        // Outdated stages are not played again; the newer version enters its own.
        Err(ReconcileError::Client(error)) if error.is_not_found() || error.is_conflict() => {}
        outcome => outcome?,
    }
    fleet.stages.finish(subject);
    Ok(Some(Action::await_change()))
}

/// Creates the nodes, then renews their leases until shutdown.
async fn run(running: RunnableContext, fleet: Arc<Fleet>, identities: Identities) -> Result<()> {
    tokio::select! {
        biased;
        () = running.stop().requested() => {}
        () = live(&running, &fleet, &identities) => {}
    }
    Ok(())
}

async fn live(running: &RunnableContext, fleet: &Fleet, identities: &Identities) {
    let cluster = running.cluster();
    let client = cluster.client().clone().with_component("nodes");
    let store = cluster.informer::<Node>(&Watch::all()).store();
    let client_of = |host: Host| identities.acting_live(&client, Identity::Node(&host.name()));
    for host in Host::first(fleet.nodes) {
        while let Err(error) = create(&client_of(host), fleet, host, cluster.clock(), cluster.entropy()).await {
            tracing::warn!(node = host.name(), error = error.chain(), "cannot create a node; trying again");
            sleep(RETRY).await;
        }
    }
    loop {
        for host in Host::first(fleet.nodes) {
            if let Err(error) = renew(&client_of(host), &store, host, cluster.clock().now()).await {
                tracing::debug!(node = host.name(), error = error.chain(), "cannot renew a lease");
            }
        }
        sleep(HEARTBEAT).await;
    }
}

/// Creates a node that is ready from the start, unless one of that name exists.
async fn create(client: &Client, fleet: &Fleet, host: Host, clock: &Clock, entropy: &Entropy) -> Result<(), Error> {
    match client.create(&fleet.new_node(host, clock.now(), entropy)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_already_exists() => {
            let found = client.get_opt::<Node>(host.name()).await?;
            if found.is_some_and(|node| !is_labeled(&node)) {
                tracing::warn!(
                    node = host.name(),
                    "a node of this name exists that is not simulated; it is not changed"
                );
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

impl Fleet {
    /// Returns a new node: ready, or without conditions if a stage selects such a node.
    fn new_node(&self, host: Host, now: Timestamp, entropy: &Entropy) -> Node {
        let mut node = node(host, now, entropy);
        if self.zones > 0 {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert(ZONE.to_owned(), format!("zone-{}", host.number() % self.zones));
            labels.insert(REGION.to_owned(), "region-0".to_owned());
        }
        let mut bare = node.clone();
        if let Some(status) = &mut bare.status {
            status.conditions = None;
        }
        let value = || serde_json::to_value(&bare).unwrap_or_default();
        if self.stages.selects(value, entropy) { bare } else { node }
    }
}

async fn renew(client: &Client, nodes: &Lister<Node>, host: Host, now: Timestamp) -> Result<(), Error> {
    let name = host.name();
    let uid = match nodes.get(&ObjectRef::new(name.as_str())) {
        Some(node) => (is_simulated(node.meta()) && !has_failed(&node)).then(|| node.meta().uid().to_string()),
        // The cache does not show the node yet.
        None => client.get_opt::<Node>(name.as_str()).await?.filter(is_labeled).and_then(|node| node.metadata.uid),
    };
    let Some(uid) = uid else { return Ok(()) };
    let patch = Patch::Merge(json!({"spec": {"renewTime": format_micro_time(now)}}));
    match client.patch::<Lease>(ObjectRef::new(name.as_str()).within(LEASES), patch).await {
        Err(error) if error.is_not_found() => client.create(&lease(&name, uid, now)).await.map(drop),
        other => other.map(drop),
    }
}

fn lease(name: &str, node_uid: String, now: Timestamp) -> Lease {
    let mut lease = Lease {
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
        ..Lease::default()
    };
    lease.metadata.name = Some(name.to_owned());
    lease.metadata.namespace = Some(LEASES.to_owned());
    lease.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: node_uid,
        ..OwnerReference::default()
    }]);
    lease
}

fn node(host: Host, now: Timestamp, entropy: &Entropy) -> Node {
    let name = host.name();
    let mut node = Node {
        spec: Some(NodeSpec {
            pod_cidr: Some(host.pod_cidr()),
            pod_cidrs: Some(vec![host.pod_cidr()]),
            provider_id: Some(format!("windlass://{name}")),
            ..NodeSpec::default()
        }),
        status: Some(status(host, now, entropy)),
        ..Node::default()
    };
    let labels = [
        (SIMULATED, "true"),
        ("kubernetes.io/hostname", &*name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", "amd64"),
    ];
    node.metadata.labels = Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
    node.metadata.name = Some(name);
    node
}

fn status(host: Host, now: Timestamp, entropy: &Entropy) -> NodeStatus {
    let capacity: BTreeMap<_, _> =
        CAPACITY.iter().map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned()))).collect();
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let condition = |type_: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    let version = concat!("v", env!("CARGO_PKG_VERSION"), "-windlass");
    NodeStatus {
        addresses: Some(vec![address("InternalIP", host.ip().to_string()), address("Hostname", host.name())]),
        allocatable: Some(capacity.clone()),
        capacity: Some(capacity),
        conditions: Some(vec![
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "simulated memory is never short"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "simulated disks are never full"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "no processes are simulated"),
            condition("Ready", "True", "KubeletReady", "the simulated node is ready"),
        ]),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".to_owned(),
            boot_id: entropy.uuid(),
            container_runtime_version: concat!("windlass://", env!("CARGO_PKG_VERSION")).to_owned(),
            kernel_version: "simulated".to_owned(),
            kube_proxy_version: String::new(),
            kubelet_version: version.to_owned(),
            machine_id: entropy.uuid(),
            operating_system: "linux".to_owned(),
            os_image: "Windlass simulated node".to_owned(),
            system_uuid: entropy.uuid(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

/// Reports whether a node has reported its condition since it was last found to be silent.
fn has_reported(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status != "Unknown")
}

/// Returns the node without the not-ready taint, if it is ready and has the taint.
fn without_not_ready(node: &Node) -> Option<Node> {
    let is_wrong = |taint: &Taint| taint.key == NOT_READY;
    let taints = node.spec.as_ref()?.taints.as_ref()?;
    if !super::fit::is_ready(node) || !taints.iter().any(is_wrong) {
        return None;
    }
    let mut changed = node.clone();
    if let Some(taints) = changed.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        taints.retain(|taint| !is_wrong(taint));
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first() -> Node {
        let host = Host::first(1).next().unwrap();
        node(host, Timestamp::UNIX_EPOCH, &Entropy::seeded(1))
    }

    #[test]
    fn a_new_node_is_ready_and_can_be_known_again() {
        let node = first();
        assert_eq!(node.name(), "node-0");
        assert!(super::super::fit::is_ready(&node));
        let meta = Meta::parse(&serde_json::to_vec(&node).unwrap()).unwrap();
        assert!(is_simulated(&meta) && !is_simulated(&Meta::new(windlass_api::ObjectKey::new("node-1"))));
        assert_eq!(without_not_ready(&node), None);
    }

    #[test]
    fn new_node_taint_is_removed_and_others_are_kept() {
        let taint = |key: &str| Taint { key: key.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
        let mut node = first();
        node.spec.get_or_insert_default().taints = Some(vec![taint(NOT_READY), taint("example.com/gpu")]);
        let taints = without_not_ready(&node).unwrap().spec.unwrap().taints.unwrap();
        assert_eq!(taints, [taint("example.com/gpu")]);
        node.status.get_or_insert_default().conditions = None;
        assert_eq!(without_not_ready(&node), None, "one that is not ready keeps it");
    }
}
