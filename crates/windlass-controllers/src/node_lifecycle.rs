//! NodeLifecycle: what a control plane adds to a node that has come: the event that it is known, and how long its kubelet
//! may remember secrets and config maps.
//!
//! Not there: taints of nodes that are not ready or silent, and the eviction of their pods.

use std::{collections::HashSet, sync::Arc};

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use parking_lot::Mutex;
use serde_json::json;
use windlass_api::{ObjectExt, ObjectRef, Patch};
use windlass_runtime::{
    Action, Context, Controller, Manager,
    events::{Note, Recorder},
};

use crate::error::{ReconcileError, await_newer_state};

/// How long a kubelet may remember what pods refer to, in seconds.
const TTL: &str = "node.alpha.kubernetes.io/ttl";
/// The more nodes ask, the longer. Up to so many nodes, so many seconds.
const TTLS: [(usize, u32); 4] = [(100, 0), (500, 15), (1000, 30), (2000, 60)];
/// For more than those.
const LONGEST_TTL: u32 = 300;

/// What is known of the nodes.
struct Register {
    /// The uids of those that were told of.
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
    register.note(&node);
    let ttl = ttl(cx.store::<Node>().len()).to_string();
    if node.annotations().get(TTL) != Some(&ttl) && !node.is_deleting() {
        let patch = Patch::Strategic(json!({"metadata": {"annotations": {TTL: ttl}}}));
        cx.client().patch::<Node>(ObjectRef::new(node.name()), patch).await?;
    }
    Ok(Action::await_change())
}

impl Register {
    /// Tells of a node that is new.
    fn note(&self, node: &Node) {
        let uid = node.uid().unwrap_or_default();
        if !self.known.lock().insert(uid.to_owned()) {
            return;
        }
        let name = node.name();
        // As people look for it: by name, without a version.
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
    fn a_node_is_told_of_once() {
        let (recorder, mut recorded) = Recorder::captured("node-controller");
        let register = Register { known: Mutex::default(), recorder };
        let mut node = Node::default();
        node.metadata.name = Some("a".to_owned());
        for uid in ["1", "1", "2"] {
            node.metadata.uid = Some(uid.to_owned());
            register.note(&node);
        }
        let told = "Normal RegisteredNode Node a event: Registered Node a in Controller";
        assert_eq!(recorded.lines(), [told, told]);
    }

    #[test]
    fn the_more_nodes_the_longer_they_remember() {
        assert_eq!([0, 100, 101, 2000, 2001].map(ttl), [0, 0, 15, 60, 300]);
    }
}
