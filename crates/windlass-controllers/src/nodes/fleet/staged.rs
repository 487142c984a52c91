//! The nodes that follow stages.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use windlass_api::{Entropy, ObjectExt, ObjectRef};
use windlass_runtime::{Action, Context, events::Recorder};

use super::{
    super::{
        addresses::Host,
        stages::{
            Scene,
            player::{Subject, Turn},
            steps::{Writers, play},
        },
    },
    Fleet, REGION, ZONE, node,
};
use crate::{Identity, error::ReconcileError, identity::Identities};

impl Fleet {
    /// Returns a new node: ready, or without conditions if a stage selects such a node.
    pub(super) fn new_node(&self, host: Host, now: Timestamp, entropy: &Entropy) -> Node {
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

    /// Moves a node through its stages. Returns `None` if no stage has selected it.
    pub(super) async fn follow_stages(
        &self,
        key: &ObjectRef<Node>,
        node: &Node,
        host: Host,
        cx: &Context,
        identities: &Identities,
        recorder: &Recorder,
    ) -> Result<Option<Action>, ReconcileError> {
        let (uid, version) = (node.uid().unwrap_or_default(), node.resource_version().unwrap_or_default());
        let subject = Subject { key: key.key(), uid, version };
        let value = || serde_json::to_value(node).unwrap_or_default();
        let stage = match self.stages.turn(subject, value, cx.clock().now(), cx.entropy()) {
            Turn::Default => return Ok(None),
            Turn::Rest => return Ok(Some(Action::await_change())),
            Turn::Wait(wait) => return Ok(Some(Action::requeue_after(wait))),
            Turn::Play(stage) => stage,
        };
        let scene = Scene { now: cx.clock().now(), started: self.started, host, nodes: self.nodes, pod_ip: None };
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
        self.stages.finish(subject);
        Ok(Some(Action::await_change()))
    }
}
