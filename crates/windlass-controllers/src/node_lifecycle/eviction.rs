//! Evicts the pods of nodes with `NoExecute` taints, as the taint eviction controller does.

use std::{sync::Arc, time::Duration};

use hashbrown::{HashMap, HashSet};
use k8s_openapi::{
    api::core::v1::{Node, Pod, Taint, Toleration},
    apimachinery::pkg::apis::meta::v1::Time,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use windlass_api::{ObjectExt, ObjectKey, ObjectRef, Patch};
use windlass_cache::{Cached, Lister};
use windlass_runtime::{
    Action, Context, Controller, Manager, Predicate, Watch,
    events::{Note, Recorder},
};

use crate::{
    error::{ReconcileError, await_newer_state},
    nodes::fit::tolerates,
    pods, pods_by_node,
};

const NO_EXECUTE: &str = "NoExecute";

/// The nodes with `NoExecute` taints, and the pods to evict.
#[derive(Debug)]
struct Evictions {
    recorder: Recorder,
    tainted: Mutex<HashSet<String>>,
    /// The UID of each pod with an eviction, and the time of it.
    pending: Mutex<HashMap<ObjectKey, (String, Instant)>>,
}

/// Adds the controller to a manager.
pub(super) fn add_to(manager: &mut Manager) {
    let recorder = manager.cluster().recorder("taint-eviction-controller");
    let evictions = Arc::new(Evictions { recorder, tainted: Mutex::default(), pending: Mutex::default() });
    let pods = manager.cluster().informer::<Pod>(&Watch::all()).store();
    let (selected, mapped) = (OnTaintedNode(Arc::clone(&evictions)), Arc::clone(&evictions));
    manager.add(
        Controller::watching(pods_by_node::watch().filter(selected))
            .named("tainteviction")
            .watches_with(Watch::<Node>::all(), move |node| mapped.affected(node, &pods))
            .reconcile_keys(move |key, cx| {
                let evictions = Arc::clone(&evictions);
                async move { await_newer_state(reconcile(&key, &cx, &evictions).await) }
            }),
    );
}

/// Selects the pods of tainted nodes. Without such a node, events of pods cost nothing.
#[derive(Debug)]
struct OnTaintedNode(Arc<Evictions>);

impl OnTaintedNode {
    fn is_on(&self, pod: &Cached<Pod>) -> bool {
        let tainted = self.0.tainted.lock();
        !tainted.is_empty() && node_of(pod).is_some_and(|node| tainted.contains(&node))
    }
}

impl Predicate<Pod> for OnTaintedNode {
    fn added(&self, object: &Cached<Pod>) -> bool {
        self.is_on(object)
    }

    fn updated(&self, _: &Cached<Pod>, new: &Cached<Pod>) -> bool {
        self.is_on(new)
    }

    fn deleted(&self, object: &Cached<Pod>) -> bool {
        self.0.pending.lock().contains_key(object.key())
    }
}

fn node_of(pod: &Cached<Pod>) -> Option<String> {
    pod.at::<String>(&["spec", "nodeName"]).ok().flatten()
}

impl Evictions {
    /// Returns the pods of a node that has taints, or had some.
    fn affected(&self, node: &Cached<Node>, pods: &Lister<Pod>) -> Vec<ObjectRef<Pod>> {
        let name = &**node.meta().name();
        let taints = node.at::<Vec<Taint>>(&["spec", "taints"]).ok().flatten().unwrap_or_default();
        let is_tainted = taints.iter().any(|taint| taint.effect == NO_EXECUTE);
        let was_tainted = {
            let mut tainted = self.tainted.lock();
            if is_tainted { !tainted.insert(name.to_owned()) } else { tainted.remove(name) }
        };
        if !is_tainted && !was_tainted {
            return Vec::new();
        }
        pods_by_node::on(pods, name).iter().map(Cached::object_ref).collect()
    }

    /// Returns the time of a pod's eviction. A known one is only moved to an earlier time.
    fn due(&self, key: &ObjectKey, uid: &str, wait: Duration) -> Instant {
        let mut pending = self.pending.lock();
        let due = Instant::now() + wait;
        match pending.get_mut(key) {
            Some((known, at)) if known == uid => {
                *at = (*at).min(due);
                *at
            }
            _ => {
                pending.insert(key.clone(), (uid.to_owned(), due));
                due
            }
        }
    }
}

async fn reconcile(key: &ObjectRef<Pod>, cx: &Context, evictions: &Evictions) -> Result<Action, ReconcileError> {
    let pod = cx.store::<Pod>().get(key).map(|pod| pod.get()).transpose()?;
    let Some(pod) = pod.filter(|pod| !pod.is_deleting() && !pods::is_finished(pod)) else {
        evictions.pending.lock().remove(key.key());
        return Ok(Action::await_change());
    };
    let node = cx.store::<Node>().get(&ObjectRef::new(pods::node_name(&pod))).map(|node| node.get()).transpose()?;
    let taints = node.as_ref().and_then(|node| node.spec.as_ref()?.taints.as_deref()).unwrap_or_default();
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let uid = pod.uid().unwrap_or_default();
    let Some(wait) = remaining(tolerations, taints) else {
        if evictions.pending.lock().remove(key.key()).is_some() {
            let message = format!("Cancelling deletion of Pod {key}");
            evictions.recorder.record(&*pod, Note::normal("TaintManagerEviction", message));
        }
        return Ok(Action::await_change());
    };
    let left = evictions.due(key.key(), uid, wait).saturating_duration_since(Instant::now());
    if !left.is_zero() {
        return Ok(Action::requeue_after(left));
    }
    evictions.recorder.record(&*pod, Note::normal("TaintManagerEviction", format!("Marking for deletion Pod {key}")));
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": Time(cx.clock().now()),
    });
    let patch = Patch::Strategic(json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}}));
    cx.client().patch(key, patch).subresource("status").discard_response().await?;
    cx.client().delete::<Pod>(key).uid(uid).await?;
    evictions.pending.lock().remove(key.key());
    Ok(Action::await_change())
}

/// Returns the time for which a pod stays on a node with these taints; `None` for ever.
fn remaining(tolerations: &[Toleration], taints: &[Taint]) -> Option<Duration> {
    let mut least: Option<Duration> = None;
    for taint in taints.iter().filter(|taint| taint.effect == NO_EXECUTE) {
        let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Some(Duration::ZERO);
        };
        if let Some(seconds) = toleration.toleration_seconds {
            let time = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            least = Some(least.map_or(time, |least| least.min(time)));
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_toleration_decides() {
        let taint = |key: &str, effect: &str| Taint { key: key.into(), effect: effect.into(), ..Taint::default() };
        let toleration = |key: &str, seconds: Option<i64>| Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            toleration_seconds: seconds,
            ..Toleration::default()
        };
        let taints = [taint("a", NO_EXECUTE), taint("b", NO_EXECUTE), taint("c", "NoSchedule")];
        let wait = |tolerations: &[Toleration]| remaining(tolerations, &taints).map(|wait| wait.as_secs());
        assert_eq!(wait(&[]), Some(0));
        assert_eq!(wait(&[toleration("a", None)]), Some(0), "b is not tolerated");
        assert_eq!(wait(&[toleration("a", None), toleration("b", None)]), None);
        assert_eq!(wait(&[toleration("a", Some(30)), toleration("b", Some(20))]), Some(20));
        assert_eq!(wait(&[toleration("a", Some(-1)), toleration("b", None)]), Some(0));
        assert_eq!(remaining(&[], &taints[2..]), None);
    }
}
