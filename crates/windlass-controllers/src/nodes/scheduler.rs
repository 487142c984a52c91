//! Scheduler: selects a node for each unscheduled pod.
//!
//! Nodes are selected one after the other, with a [`Ledger`] that records each choice at once; bindings are sent in
//! parallel. If a pod fits on no node, its condition gives the reason. It is retried when a node changes or another pod
//! leaves. Preemption is not implemented, and the only score is the number of pods on a node.
//!
//! If the nodes have storage, a pod with unbound claims waits. For claims with the binding mode `WaitForFirstConsumer`,
//! the node is selected first.

use std::sync::Arc;

use hashbrown::HashMap;
use k8s_openapi::api::{
    core::v1::{Binding, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, PodCondition},
    storage::v1::StorageClass,
};
use parking_lot::Mutex;
use serde_json::json;
use windlass_api::{ObjectExt, ObjectKey, ObjectRef, Patch, Resource, Status, WriteOptions, format_time};
use windlass_cache::{Cached, Lister};
use windlass_client::{Client, Error, request::Target};
use windlass_runtime::{
    Action, Context, Controller, Manager, Predicate, Watch,
    events::{Note, Recorder},
};

use super::{
    consumers::Consumption,
    ledger::{Ledger, PodState, Unschedulable},
    storage::Storage,
};
use crate::{
    consumers::{claims_of, consumers, consumers_of},
    error::ReconcileError,
    pods,
    volumes::{claims, holder_of, volumes},
};

/// The name in logs, and the field manager.
const NAME: &str = "scheduler";

/// The number of bindings sent at the same time.
const WORKERS: usize = 16;

/// The component name in events, that of the default scheduler.
const COMPONENT: &str = "default-scheduler";

/// The scheduler's state, and its event recorder.
#[derive(Debug)]
struct Scheduler {
    state: Mutex<State>,
    recorder: Recorder,
    storage: Storage,
}

/// The state shared by the workers.
#[derive(Debug, Default)]
struct State {
    ledger: Ledger,
    /// `true` once the ledger contains the pods that existed at startup.
    seeded: bool,
    /// `true` if the pods that fit on no node are to be retried.
    wake: bool,
    /// The nodes selected for pods whose volumes are being bound: the UID of the pod, and the node.
    selected: HashMap<ObjectKey, (Option<String>, String)>,
}

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager, storage: Storage) {
    let recorder = manager.cluster().recorder(COMPONENT);
    let scheduler = Arc::new(Scheduler { state: Mutex::default(), recorder, storage });
    let waiting = Arc::clone(&scheduler);
    let pods = match storage {
        Storage::None => Watch::all(),
        Storage::Simulated => consumers(),
    };
    let controller = Controller::watching(pods.filter(PlaceChanged))
        .named(NAME)
        .watches_with(Watch::<Node>::all(), move |_| {
            waiting.state.lock().ledger.waiting().into_iter().map(ObjectRef::from).collect::<Vec<_>>()
        })
        .concurrency(WORKERS);
    let controller = match storage {
        Storage::None => controller,
        Storage::Simulated => {
            let pods = manager.cluster().informer(&consumers()).store();
            let consumers = Consumers { scheduler: Arc::clone(&scheduler), pods };
            let [of_claim, of_volume, of_class] = [consumers.clone(), consumers.clone(), consumers];
            controller
                .watches_with(claims(), move |claim| of_claim.of_claim(&claim.object_ref()))
                .watches_with(volumes(), move |volume| of_volume.of_volume(volume))
                .watches_with(Watch::<StorageClass>::all(), move |_| of_class.waiting())
        }
    };
    manager.add(controller.reconcile_keys(move |key, cx| reconcile(key, cx, Arc::clone(&scheduler))));
}

/// Finds the pods affected by a change of their storage.
#[derive(Clone, Debug)]
struct Consumers {
    scheduler: Arc<Scheduler>,
    pods: Lister<Pod>,
}

impl Consumers {
    /// Returns the unscheduled pods that use a claim.
    fn of_claim(&self, claim: &ObjectRef<PersistentVolumeClaim>) -> Vec<ObjectRef<Pod>> {
        // The store belongs to a watch with this index.
        let mut pods = consumers_of(&self.pods, claim).unwrap_or_default();
        pods.retain(|pod| pod.get().is_ok_and(|pod| pods::node_name(&pod).is_empty()));
        pods.iter().map(Cached::object_ref).collect()
    }

    /// Returns the unscheduled pods that use a volume's claim. A free volume affects all waiting pods.
    fn of_volume(&self, volume: &Cached<PersistentVolume>) -> Vec<ObjectRef<Pod>> {
        match volume.get().map(|volume| holder_of(&volume)) {
            Ok(Some(claim)) => self.of_claim(&claim),
            Ok(None) => self.waiting(),
            Err(_) => Vec::new(),
        }
    }

    /// Returns the pods with claims that fit on no node.
    fn waiting(&self) -> Vec<ObjectRef<Pod>> {
        let waiting = self.scheduler.state.lock().ledger.waiting();
        let has_claims = |pod: &ObjectRef<Pod>| {
            let pod = self.pods.get(pod).and_then(|pod| pod.get().ok());
            pod.is_some_and(|pod| !claims_of(&pod).is_empty())
        };
        waiting.into_iter().map(ObjectRef::from).filter(has_claims).collect()
    }
}

/// Selects events that change which pod is on which node. A pod that cannot be decoded passes, so that the reconcile
/// reports the error.
#[derive(Debug)]
struct PlaceChanged;

impl Predicate<Pod> for PlaceChanged {
    fn updated(&self, old: &Cached<Pod>, new: &Cached<Pod>) -> bool {
        let (Ok(before), Ok(after)) = (old.get(), new.get()) else { return true };
        let gates = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref()).map_or(0, Vec::len);
        before.uid() != after.uid()
            || pods::node_name(&before) != pods::node_name(&after)
            || pods::is_finished(&before) != pods::is_finished(&after)
            || gates(&before) != gates(&after)
            || before.is_deleting() != after.is_deleting()
    }
}

async fn reconcile(key: ObjectRef<Pod>, cx: Context, scheduler: Arc<Scheduler>) -> Result<Action, ReconcileError> {
    let store = cx.store::<Pod>();
    let pod = store.get(&key).map(|pod| pod.get()).transpose()?;
    let pod_state = {
        let mut state = scheduler.state.lock();
        state.seed(&store);
        let pod_state = state.ledger.record(key.key(), pod.as_deref());
        state.wake |= pod_state == PodState::Left;
        if pod_state != PodState::Unscheduled {
            state.selected.remove(key.key());
        }
        pod_state
    };
    if pod_state == PodState::Unscheduled
        && let Some(pod) = &pod
    {
        scheduler.schedule(&cx, key.key(), pod).await?;
    }
    let woken = scheduler.state.lock().woken();
    let outcome = scheduler.schedule_all(&cx, &store, woken).await;
    // After an error, the retried reconcile takes the waiting pods again.
    scheduler.state.lock().wake |= outcome.is_err();
    outcome.map(|()| Action::await_change())
}

impl Scheduler {
    /// Schedules the pods that still exist.
    async fn schedule_all(&self, cx: &Context, pods: &Lister<Pod>, keys: Vec<ObjectKey>) -> Result<(), ReconcileError> {
        for key in keys {
            if let Some(pod) = pods.get(&key.clone().into()) {
                self.schedule(cx, &key, &*pod.get()?).await?;
            }
        }
        Ok(())
    }

    async fn schedule(&self, cx: &Context, key: &ObjectKey, pod: &Pod) -> Result<(), ReconcileError> {
        // Recorded before the nodes are read: a node that changes from now on queues the pod again.
        self.state.lock().ledger.wait(key);
        let mut nodes = Vec::new();
        for node in cx.store::<Node>().list() {
            nodes.push(node.get()?);
        }
        let consumption = match self.storage {
            Storage::None => Consumption::default(),
            Storage::Simulated => match Consumption::of(pod, cx)? {
                Ok(consumption) => consumption,
                Err(why) => return self.report(cx, pod, &Unschedulable::everywhere(nodes.len(), why)).await,
            },
        };
        let chosen = {
            let mut state = self.state.lock();
            // Another worker has scheduled the pod in the meantime.
            if state.ledger.is_placed(key, pod) {
                return Ok(());
            }
            let chosen = state.choose(key, pod, &nodes, &consumption).cloned();
            if let Ok(node) = &chosen {
                if consumption.is_bound() {
                    state.ledger.place(key, pod, node.name());
                    state.selected.remove(key);
                } else {
                    state.selected.insert(key.clone(), (pod.uid().map(str::to_owned), node.name().to_owned()));
                }
            }
            chosen
        };
        let chosen = match chosen {
            // The pod is scheduled once its claims are bound.
            Ok(node) if !consumption.is_bound() => return consumption.bind_on(&node, cx).await,
            chosen => chosen.map(|node| node.name().to_owned()),
        };
        match chosen {
            Ok(node) => match bind(cx.live(), pod, &node).await {
                Ok(()) => {
                    let message = format!("Successfully assigned {key} to {node}");
                    self.recorder.record(pod, Note::normal("Scheduled", message));
                    Ok(())
                }
                Err(error) => {
                    self.state.lock().ledger.clear(key);
                    // The pod is gone, or another client has bound it: its newer state triggers another reconcile.
                    if error.is_not_found() || error.is_conflict() { Ok(()) } else { Err(error.into()) }
                }
            },
            Err(why) => self.report(cx, pod, &why).await,
        }
    }

    /// Reports why the pod has no node, unless its condition already does.
    async fn report(&self, cx: &Context, pod: &Pod, why: &Unschedulable) -> Result<(), ReconcileError> {
        let message = why.to_string();
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let known = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
        let is_reported = |known: &PodCondition| known.status == "False" && known.message.as_deref() == Some(&message);
        if known.is_some_and(is_reported) {
            return Ok(());
        }
        self.recorder.record(pod, Note::warning("FailedScheduling", message.as_str()));
        let since = known.filter(|known| known.status == "False").and_then(|known| known.last_transition_time.as_ref());
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": format_time(since.map_or_else(|| cx.clock().now(), |since| since.0)),
            "observedGeneration": pod.metadata.generation,
        });
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}}));
        match cx.client().patch::<Pod>(pod.object_ref(), patch).subresource("status").await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

async fn bind(client: &Client, pod: &Pod, node: &str) -> Result<(), Error> {
    let mut binding = Binding {
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
        ..Binding::default()
    };
    binding.metadata.name.clone_from(&pod.metadata.name);
    binding.metadata.namespace.clone_from(&pod.metadata.namespace);
    // Prevents the binding of a recreated pod of the same name.
    binding.metadata.uid.clone_from(&pod.metadata.uid);
    let target = Target::new(Pod::api_resource())
        .within(pod.namespace().unwrap_or_default())
        .named(pod.name())
        .subresource("binding");
    let body = serde_json::to_vec(&binding).expect("strings always encode");
    let options = WriteOptions { field_manager: client.field_owner().map(str::to_owned), ..WriteOptions::default() };
    let request = target.create(body.into(), &options).expect("the server has accepted namespace and name");
    client.request_json::<Status>(request).await.map(drop)
}

impl State {
    /// Returns the node for which the pod's volumes were bound if the pod still fits there, otherwise the best node.
    fn choose<'n>(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        nodes: &'n [Arc<Node>],
        consumption: &Consumption,
    ) -> Result<&'n Node, Unschedulable> {
        let choose = |nodes: &'n [Arc<Node>]| {
            self.ledger.choose(pod, nodes.iter().map(|node| &**node), |node| consumption.fit(node))
        };
        let selected = self.selected.get(key).filter(|(uid, _)| uid.as_deref() == pod.uid());
        let position = selected.and_then(|(_, selected)| nodes.iter().position(|node| node.name() == selected));
        if let Some(position) = position
            && let Ok(node) = choose(&nodes[position..=position])
        {
            return Ok(node);
        }
        choose(nodes)
    }

    /// Takes the pods to retry.
    fn woken(&mut self) -> Vec<ObjectKey> {
        if std::mem::take(&mut self.wake) { self.ledger.waiting() } else { Vec::new() }
    }

    /// Records all scheduled pods before the first decision.
    fn seed(&mut self, store: &Lister<Pod>) {
        if std::mem::replace(&mut self.seeded, true) {
            return;
        }
        for cached in store.list() {
            // A pod that cannot be decoded is reported when its own key is reconciled.
            if let Ok(pod) = cached.get() {
                self.ledger.record(cached.key(), Some(&pod));
            }
        }
    }
}
