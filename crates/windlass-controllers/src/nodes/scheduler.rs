//! Scheduler: finds a node for each pod that waits for one.
//!
//! One worker, which remembers in a [`Ledger`] what it has bound. A pod that fits nowhere is told why in its condition, and
//! tried again when a node changes or another pod leaves. There is no preemption and no scoring but by number of pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use parking_lot::Mutex;
use serde_json::json;
use windlass_api::{ObjectExt, ObjectKey, ObjectRef, Patch, Resource, Status, WriteOptions, format_time};
use windlass_cache::{Cached, Lister};
use windlass_client::{Client, Error, request::Target};
use windlass_runtime::{Action, Context, Controller, Manager, Predicate, Watch};

use super::ledger::{Ledger, Look, Unschedulable};
use crate::{error::ReconcileError, pods};

/// The name in logs and of its writes.
const NAME: &str = "scheduler";

/// What the scheduler knows.
#[derive(Debug, Default)]
struct State {
    ledger: Ledger,
    /// Whether the ledger knows the pods that were there at the start.
    seeded: bool,
    /// Whether pods that fitted nowhere are to be tried again.
    wake: bool,
}

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let state = Arc::new(Mutex::new(State::default()));
    let waiting = Arc::clone(&state);
    manager.add(
        Controller::watching(Watch::<Pod>::all().filter(PlaceChanged))
            .named(NAME)
            .watches_with(Watch::<Node>::all(), move |_| {
                waiting.lock().ledger.waiting().into_iter().map(ObjectRef::from).collect::<Vec<_>>()
            })
            .reconcile_keys(move |key, cx| reconcile(key, cx, Arc::clone(&state))),
    );
}

/// Events that change who is where. What cannot be decoded passes: the reconcile says why.
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

async fn reconcile(key: ObjectRef<Pod>, cx: Context, state: Arc<Mutex<State>>) -> Result<Action, ReconcileError> {
    let store = cx.store::<Pod>();
    let pod = store.get(&key).map(|pod| pod.get()).transpose()?;
    let look = {
        let mut state = state.lock();
        state.seed(&store);
        let look = state.ledger.look(key.key(), pod.as_deref());
        state.wake |= look == Look::Left;
        look
    };
    if look == Look::Unscheduled
        && let Some(pod) = &pod
    {
        schedule(&cx, &state, key.key(), pod).await?;
    }
    if state.lock().wake {
        let waiting = state.lock().ledger.waiting();
        for key in waiting {
            if let Some(pod) = store.get(&key.clone().into()) {
                schedule(&cx, &state, &key, &*pod.get()?).await?;
            }
        }
        // After the last of them: a failure leaves it set, and its retry goes on here.
        state.lock().wake = false;
    }
    Ok(Action::await_change())
}

async fn schedule(cx: &Context, state: &Mutex<State>, key: &ObjectKey, pod: &Pod) -> Result<(), ReconcileError> {
    // Before the nodes are looked at: a node that changes from here on wakes the pod.
    state.lock().ledger.wait(key);
    let mut nodes = Vec::new();
    for node in cx.store::<Node>().list() {
        nodes.push(node.get()?);
    }
    let chosen = {
        let mut state = state.lock();
        let chosen = state.ledger.choose(pod, nodes.iter().map(|node| &**node)).map(|node| node.name().to_owned());
        if let Ok(node) = &chosen {
            state.ledger.place(key, pod, node);
        }
        chosen
    };
    match chosen {
        Ok(node) => match bind(cx.client(), pod, &node).await {
            Ok(()) => Ok(()),
            Err(error) => {
                state.lock().ledger.clear(key);
                // It is gone, or somebody else has bound it: its next state says so.
                if error.is_not_found() || error.is_conflict() { Ok(()) } else { Err(error.into()) }
            }
        },
        Err(why) => report(cx, pod, &why).await,
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
    // Another pod of the same name is not meant.
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

/// Tells why the pod has no node, unless that has been told.
async fn report(cx: &Context, pod: &Pod, why: &Unschedulable) -> Result<(), ReconcileError> {
    let message = why.to_string();
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let known = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
    let is_told = |known: &k8s_openapi::api::core::v1::PodCondition| {
        known.status == "False" && known.message.as_deref() == Some(&message)
    };
    if known.is_some_and(is_told) {
        return Ok(());
    }
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

impl State {
    /// Before the first decision: takes in all pods that have a node already.
    fn seed(&mut self, store: &Lister<Pod>) {
        if std::mem::replace(&mut self.seeded, true) {
            return;
        }
        for cached in store.list() {
            // One that cannot be decoded comes by as a key of its own, and says so.
            if let Ok(pod) = cached.get() {
                self.ledger.look(cached.key(), Some(&pod));
            }
        }
    }
}
