//! Kubelet: advances the pods of the simulated nodes through the pod lifecycle. [`super::lifecycle`] computes the
//! steps.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::{ObjectExt, ObjectRef};
use windlass_cache::{Cached, Lister};
use windlass_client::Error;
use windlass_runtime::{Action, CachedClient, Context, Controller, Manager, Predicate, Watch, events::Recorder};

use super::{
    addresses::Host,
    fleet::{has_failed, is_simulated},
    lifecycle::{Place, Step, deadline, is_new, next_step, rejected},
    notes,
    pace::Pace,
    pod_metrics::PodMetrics,
    pod_state::PodStates,
    stages::{
        Player, Scene,
        player::{Subject, Turn},
        steps::{Writers, play},
    },
};
use crate::{Identity, error::ReconcileError, identity::Identities, pods, pods_by_node};

/// The number of pods reconciled at the same time, on all nodes.
const WORKERS: usize = 32;
/// The wait of a pod for an address if its node has none left.
const ADDRESS_RETRY: Duration = Duration::from_secs(5);
/// The minimum wait: the wall clock may lag a little behind the timer of a deadline.
const SHORTEST_WAIT: Duration = Duration::from_millis(10);

/// The kubelets of all simulated nodes.
#[derive(Debug)]
struct Kubelets {
    nodes: u16,
    pace: Pace,
    recorder: Recorder,
    pod_metrics: PodMetrics,
    identities: Identities,
    /// The stages of pods, which replace the lifecycle of the pods that they select.
    stages: Player,
    started: Timestamp,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pod_states: PodStates,
    /// `true` once the addresses and ports of pods that existed at startup are recorded.
    seeded: bool,
}

/// Adds the controller to a manager.
pub(crate) fn add_to(
    manager: &mut Manager,
    nodes: u16,
    pace: Pace,
    stages: Player,
    pod_metrics: PodMetrics,
    identities: Identities,
) {
    let recorder = manager.cluster().recorder("kubelet");
    let started = manager.cluster().clock().now();
    let state = Mutex::default();
    let kubelets = Arc::new(Kubelets { nodes, pace, recorder, pod_metrics, identities, stages, started, state });
    let pods = manager.cluster().informer::<Pod>(&Watch::all()).store();
    manager.add(
        Controller::watching(pods_by_node::watch().filter(OnSimulatedNode { nodes }))
            .named("kubelet")
            // A node that is recreated or recovers queues its pods.
            .watches_with(Watch::<Node>::all().filter(NodeStarted), move |node| pods_on(&pods, node))
            .concurrency(WORKERS)
            .reconcile_keys(move |key, cx| reconcile(key, cx, Arc::clone(&kubelets))),
    );
}

/// Selects pods on nodes with the name of a simulated one. A pod that cannot be decoded passes, so that the reconcile
/// reports the error.
#[derive(Debug)]
struct OnSimulatedNode {
    nodes: u16,
}

impl OnSimulatedNode {
    fn is_on(&self, pod: &Cached<Pod>) -> bool {
        let node = pod.at::<String>(&["spec", "nodeName"]);
        node.map_or(true, |node| node.is_some_and(|node| Host::named(&node, self.nodes).is_some()))
    }
}

impl Predicate<Pod> for OnSimulatedNode {
    fn added(&self, object: &Cached<Pod>) -> bool {
        self.is_on(object)
    }

    fn updated(&self, _: &Cached<Pod>, new: &Cached<Pod>) -> bool {
        self.is_on(new)
    }

    fn deleted(&self, object: &Cached<Pod>) -> bool {
        self.is_on(object)
    }
}

/// Selects nodes when they appear, and when they recover from a failure.
#[derive(Debug)]
struct NodeStarted;

impl Predicate<Node> for NodeStarted {
    fn updated(&self, old: &Cached<Node>, new: &Cached<Node>) -> bool {
        has_failed(old) && !has_failed(new)
    }

    fn deleted(&self, _: &Cached<Node>) -> bool {
        false
    }
}

fn pods_on(pods: &Lister<Pod>, node: &Cached<Node>) -> Vec<ObjectRef<Pod>> {
    if !is_simulated(node.meta()) {
        return Vec::new();
    }
    pods_by_node::on(pods, node.meta().name()).iter().map(Cached::object_ref).collect()
}

async fn reconcile(key: ObjectRef<Pod>, cx: Context, kubelets: Arc<Kubelets>) -> Result<Action, ReconcileError> {
    let store = cx.store::<Pod>();
    let pod = store.get(&key).map(|pod| pod.get()).transpose()?;
    let Some((pod, host)) = pod.and_then(|pod| Some((Arc::clone(&pod), kubelets.host_of(&pod)?))) else {
        kubelets.state.lock().pod_states.forget(key.key());
        kubelets.pod_metrics.forget(key.key());
        kubelets.stages.forget(key.key());
        return Ok(Action::await_change());
    };
    kubelets.pod_metrics.record(key.key(), &pod);
    // A node of that name without the simulator's label is not ours. A missing node is created again, which queues its
    // pods. So does one that has recovered.
    let node = cx.store::<Node>().get(&ObjectRef::new(host.name()));
    if !node.is_some_and(|node| is_simulated(node.meta()) && !has_failed(&node)) {
        return Ok(Action::await_change());
    }

    if let Some(action) = follow_stages(&key, &pod, host, &cx, &kubelets).await? {
        return Ok(action);
    }
    let uid = pod.uid().unwrap_or_default();
    let (step, place) = {
        let mut state = kubelets.state.lock();
        state.seed(&store, &kubelets);
        let pod_states = &mut state.pod_states;
        pod_states.settle(key.key(), uid, host);
        let pod_ip = if needs_address(&pod) { pod_states.addresses().assign(host, uid) } else { None };
        let place = Place { host_ip: host.ip(), pod_ip };
        if is_new(&pod) && !pod_states.take_ports(host, uid, &pod) {
            (Step::Report(Box::new(rejected(&pod, cx.clock().now()))), place)
        } else {
            let scripts = pod_states.run_scripts(key.key(), &pod, cx.entropy());
            let due = |stage| pod_states.due_at(key.key(), stage, &kubelets.pace, cx.entropy()) <= Instant::now();
            (next_step(&pod, place, &scripts, due, cx.clock().now()), place)
        }
    };
    let until_deadline = deadline(&pod).map(|deadline| {
        Duration::try_from(deadline.duration_since(cx.clock().now())).unwrap_or_default().max(SHORTEST_WAIT)
    });
    let outcome = match step {
        Step::Rest if pods::is_finished(&pod) => {
            kubelets.state.lock().pod_states.leave(host, uid);
            return Ok(Action::await_change());
        }
        Step::Rest if place.pod_ip.is_none() && needs_address(&pod) => {
            return Ok(Action::requeue_after(ADDRESS_RETRY));
        }
        Step::Rest => return Ok(until_deadline.map_or_else(Action::await_change, Action::requeue_after)),
        Step::Wait(stage) => {
            let due = kubelets.state.lock().pod_states.due_at(key.key(), stage, &kubelets.pace, cx.entropy());
            let wait = due.saturating_duration_since(Instant::now());
            return Ok(Action::requeue_after(until_deadline.map_or(wait, |until| wait.min(until))));
        }
        Step::Report(status) => {
            let said = notes::of_change(&pod, &status);
            let mut changed = (*pod).clone();
            changed.status = Some(*status);
            let outcome = kubelets.client_of(host, &cx).update_status(&changed).await;
            if outcome.is_ok() {
                let recorder = kubelets.recorder_of(host);
                for (about, note) in said {
                    recorder.record_about(about, note);
                }
            }
            outcome.map(drop)
        }
        Step::Remove => {
            let client = kubelets.client_of(host, &cx);
            client.delete::<Pod>(key).grace_period(Duration::ZERO).uid(uid).await.map(drop)
        }
    };
    settle(outcome)
}

/// Moves a pod through its stages. Returns `None` if no stage has selected it, so that it has the default lifecycle.
async fn follow_stages(
    key: &ObjectRef<Pod>,
    pod: &Arc<Pod>,
    host: Host,
    cx: &Context,
    kubelets: &Kubelets,
) -> Result<Option<Action>, ReconcileError> {
    let (uid, version) = (pod.uid().unwrap_or_default(), pod.resource_version().unwrap_or_default());
    let subject = Subject { key: key.key(), uid, version };
    let value = || serde_json::to_value(&**pod).unwrap_or_default();
    let stage = match kubelets.stages.turn(subject, value, cx.clock().now(), cx.entropy()) {
        Turn::Default => return Ok(None),
        Turn::Wait(wait) => return Ok(Some(Action::requeue_after(wait))),
        Turn::Rest => {
            if pods::is_finished(pod) {
                kubelets.state.lock().pod_states.leave(host, uid);
            }
            return Ok(Some(Action::await_change()));
        }
        Turn::Play(stage) => stage,
    };
    let pod_ip = {
        let mut state = kubelets.state.lock();
        state.seed(&cx.store::<Pod>(), kubelets);
        state.pod_states.settle(key.key(), uid, host);
        if needs_address(pod) { state.pod_states.addresses().assign(host, uid) } else { None }
    };
    let scene = Scene { now: cx.clock().now(), started: kubelets.started, host, nodes: kubelets.nodes, pod_ip };
    let writers = Writers {
        node: kubelets.client_of(host, cx),
        administrator: kubelets.identities.acting(cx.client(), Identity::Administrator),
        recorder: kubelets.recorder_of(host),
    };
    match play(&stage, &**pod, &value(), scene, &writers).await {
        // Outdated stages are not played again; the newer version enters its own.
        Err(ReconcileError::Client(error)) if error.is_not_found() || error.is_conflict() => {}
        outcome => outcome?,
    }
    kubelets.stages.finish(subject);
    Ok(Some(Action::await_change()))
}

/// The event of a changed or deleted pod triggers another reconcile.
fn settle(outcome: Result<(), Error>) -> Result<Action, ReconcileError> {
    match outcome {
        Ok(()) => Ok(Action::await_change()),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(Action::await_change()),
        Err(error) => Err(error.into()),
    }
}

fn needs_address(pod: &Pod) -> bool {
    !pods::is_finished(pod) && !pod.is_deleting()
}

impl Kubelets {
    fn host_of(&self, pod: &Pod) -> Option<Host> {
        Host::named(pods::node_name(pod), self.nodes)
    }

    /// Returns the client of a node's kubelet.
    fn client_of(&self, host: Host, cx: &Context) -> CachedClient {
        self.identities.acting(cx.client(), Identity::Node(&host.name()))
    }

    /// Returns the recorder of a node's kubelet.
    fn recorder_of(&self, host: Host) -> Recorder {
        let name = host.name();
        let recorder = match self.identities.client(Identity::Node(&name)) {
            Some(client) => self.recorder.clone().with_credentials_of(&client),
            None => self.recorder.clone(),
        };
        recorder.on_host(name)
    }
}

impl State {
    /// Records the addresses in use before the first one is assigned.
    fn seed(&mut self, store: &Lister<Pod>, kubelets: &Kubelets) {
        if std::mem::replace(&mut self.seeded, true) {
            return;
        }
        for cached in store.list() {
            let Ok(pod) = cached.get() else { continue };
            let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
            // A stage can give a pod an address before it starts.
            let is_placed = !pods::is_finished(&pod) && (!is_new(&pod) || ip.is_some());
            let Some(host) = kubelets.host_of(&pod).filter(|_| is_placed) else { continue };
            let uid = pod.uid().unwrap_or_default();
            self.pod_states.settle(cached.key(), uid, host);
            self.pod_states.take_ports(host, uid, &pod);
            if let Some(ip) = ip {
                self.pod_states.addresses().adopt(host, uid, ip);
            }
        }
    }
}
