//! The simulated Node objects: created, ready, and kept alive by heartbeats.

mod staged;

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
use windlass_api::{Clock, Entropy, Meta, ObjectExt, ObjectKey, ObjectRef, Patch, format_micro_time};
use windlass_cache::{Cached, Lister};
use windlass_client::{Client, Error};
use windlass_runtime::{
    Action, Context, Controller, Group, Manager, Predicate, Result, RunnableContext, Task, Watch, events::Recorder,
};

use super::{
    addresses::Host,
    heartbeat::{Heartbeat, Schedule},
    stages::Player,
};
use crate::{Identity, error::ReconcileError, identity::Identities};

/// The label that identifies the simulator's nodes.
const SIMULATED: &str = "windlass.dev/simulated";
/// The annotation that lets a node fail if its value is `true`.
pub(super) const FAIL: &str = "windlass.dev/fail";
/// The taint that an API server adds to new nodes, and that a node lifecycle controller removes from ready ones.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The labels with the zone and the region of a node.
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
/// The namespace of the leases.
const LEASES: &str = "kube-node-lease";
/// The duration of a lease, in seconds.
const LEASE_SECONDS: i32 = 40;
/// The wait after a node could not be created.
const RETRY: Duration = Duration::from_secs(1);

/// The conditions of every node. All but the last are false.
const CONDITIONS: [(&str, &str, &str); 4] = [
    ("MemoryPressure", "KubeletHasSufficientMemory", "simulated memory is never short"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "simulated disks are never full"),
    ("PIDPressure", "KubeletHasSufficientPID", "no processes are simulated"),
    (READY, "KubeletReady", "the simulated node is ready"),
];
/// The condition of a node that accepts pods.
const READY: &str = "Ready";

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
    let (acting, alive) = (identities.clone(), Arc::clone(&fleet));
    let recorder = manager.cluster().recorder("kubelet");
    manager.add(
        Controller::watching(Watch::<Node>::all().filter(Simulated))
            .named("nodes")
            .reconcile_keys(move |key, cx| reconcile(key, cx, Arc::clone(&fleet), acting.clone(), recorder.clone())),
    );
    let acting = identities.clone();
    let heartbeat = Task::new("node-heartbeat", move |running| run(running, alive, acting));
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
            create(client.live(), &fleet, host, cx.clock(), cx.entropy()).await.map(drop)
        }
        // A failed node does nothing.
        Some(cached) if has_failed(&cached) => return Ok(next),
        Some(cached) => {
            let found = cached.get()?;
            let stage = fleet.follow_stages(&key, &found, host, &cx, &identities, &recorder).await?;
            let is_following = stage.is_some();
            next = stage.unwrap_or(next);
            if !is_following && !has_reported(&found) {
                let mut node = (*found).clone();
                let new = status(host, cx.clock().now(), cx.entropy());
                match &mut node.status {
                    // A node that has recovered keeps its identity.
                    Some(known) if known.node_info.is_some() => {
                        let others = known.conditions.take().into_iter().flatten();
                        let others = others.filter(|known| !CONDITIONS.iter().any(|(type_, ..)| *type_ == known.type_));
                        known.conditions = Some(new.conditions.into_iter().flatten().chain(others).collect());
                    }
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

/// Creates the nodes, then sends their heartbeats until shutdown.
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
    let mut created = Vec::with_capacity(fleet.nodes.into());
    for host in Host::first(fleet.nodes) {
        let is_new = loop {
            match create(&client_of(host), fleet, host, cluster.clock(), cluster.entropy()).await {
                Ok(is_new) => break is_new,
                Err(error) => {
                    tracing::warn!(node = host.name(), error = error.chain(), "cannot create a node; trying again");
                    sleep(RETRY).await;
                }
            }
        };
        created.push((host, is_new));
    }
    let schedule = Schedule::new(&created, cluster.entropy().clone());
    let send = |mut heartbeat: Heartbeat| {
        // Stages report the status of the nodes that follow them.
        heartbeat.reports &= !fleet.stages.is_following(&ObjectKey::new(heartbeat.host.name()));
        send(client_of(heartbeat.host), &store, heartbeat, cluster.clock())
    };
    schedule.run(send).await;
}

/// Renews the lease of a node, and reports its status if that is due.
async fn send(client: Client, nodes: &Lister<Node>, heartbeat: Heartbeat, clock: &Clock) {
    let host = heartbeat.host;
    if let Err(error) = renew(&client, nodes, host, clock.now()).await {
        tracing::debug!(node = host.name(), error = error.chain(), "cannot renew a lease");
    }
    if heartbeat.reports
        && let Err(error) = report(&client, nodes, host, clock.now()).await
    {
        tracing::debug!(node = host.name(), error = error.chain(), "cannot report the status of a node");
    }
}

/// Creates a node that is ready from the start, unless one of that name exists. Returns `true` if it has created the
/// node.
async fn create(client: &Client, fleet: &Fleet, host: Host, clock: &Clock, entropy: &Entropy) -> Result<bool, Error> {
    match client.create(&fleet.new_node(host, clock.now(), entropy)).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_already_exists() => {
            let found = client.get_opt::<Node>(host.name()).await?;
            if found.is_some_and(|node| !is_labeled(&node)) {
                tracing::warn!(
                    node = host.name(),
                    "a node of this name exists that is not simulated; it is not changed"
                );
            }
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Updates the heartbeat time of a node's conditions. If one is missing, the reconcile replaces the status.
async fn report(client: &Client, nodes: &Lister<Node>, host: Host, now: Timestamp) -> Result<(), Error> {
    let key = ObjectRef::<Node>::new(host.name());
    let is_ready = |node: &Cached<Node>| {
        is_simulated(node.meta())
            && !has_failed(node)
            && node.get().is_ok_and(|node| CONDITIONS.iter().all(|(type_, ..)| has_condition(&node, type_)))
    };
    if !nodes.get(&key).is_some_and(|node| is_ready(&node)) {
        return Ok(());
    }
    let conditions = CONDITIONS.map(|(type_, ..)| json!({"type": type_, "lastHeartbeatTime": Time(now)}));
    let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
    client.patch(key, patch).subresource("status").discard_response().await
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
    match client.patch::<Lease>(ObjectRef::new(name.as_str()).within(LEASES), patch).discard_response().await {
        Err(error) if error.is_not_found() => client.create(&lease(&name, uid, now)).discard_response().await,
        other => other,
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
    let condition = |(type_, reason, message): (&str, &str, &str)| NodeCondition {
        type_: type_.to_owned(),
        status: if type_ == READY { "True" } else { "False" }.to_owned(),
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
        conditions: Some(CONDITIONS.map(condition).into()),
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
    conditions.any(|condition| condition.type_ == READY && condition.status != "Unknown")
}

fn has_condition(node: &Node, type_: &str) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == type_)
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

    /// Waits for a lease that is renewed after `renewed`, and returns the time of its renewal.
    async fn renewal_after(client: &Client, renewed: Timestamp) -> Timestamp {
        loop {
            let key = ObjectRef::<Lease>::new("node-1").within(LEASES);
            let lease = client.get_opt::<Lease>(key).await.unwrap();
            match lease.and_then(|lease| Some(lease.spec?.renew_time?.0)) {
                Some(time) if time > renewed => return time,
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Waits for a status that is reported after `reported`, and returns it with the time of the report.
    async fn report_after(client: &Client, reported: Timestamp) -> (Timestamp, NodeStatus) {
        loop {
            let status = client.get_opt::<Node>("node-1").await.unwrap().and_then(|node| node.status);
            let conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
            let time = conditions.filter_map(|condition| Some(condition.last_heartbeat_time.as_ref()?.0)).min();
            match (time, status) {
                (Some(time), Some(status)) if time > reported => return (time, status),
                _ => sleep(Duration::from_secs(1)).await,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lease_and_status_of_a_node_are_renewed() -> Result<(), Box<dyn std::error::Error>> {
        let env = windlass_envtest::Environment::start().await;
        let mut manager = env.manager();
        let fleet = Fleet { nodes: 2, zones: 0, stages: Player::default(), started: Timestamp::UNIX_EPOCH };
        add_to(&mut manager, fleet, &Identities::new(|_| None));
        env.run(manager);
        let client = env.client();
        let created = renewal_after(&client, Timestamp::MIN).await;
        let renewed = renewal_after(&client, created).await;
        assert!((9..=12).contains(&renewed.duration_since(created).as_secs()), "{created} {renewed}");
        let (first, before) = report_after(&client, Timestamp::MIN).await;
        let (second, after) = report_after(&client, first).await;
        assert!(second.duration_since(first).as_secs() <= 320, "{first} {second}");
        let without_heartbeat = |status: NodeStatus| {
            let conditions = status.conditions.into_iter().flatten();
            let conditions =
                conditions.map(|condition| NodeCondition { last_heartbeat_time: None, ..condition }).collect();
            NodeStatus { conditions: Some(conditions), ..status }
        };
        assert_eq!(without_heartbeat(after), without_heartbeat(before));
        Ok(env.stop().await?)
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
