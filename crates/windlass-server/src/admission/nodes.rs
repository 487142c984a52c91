//! Admission plugins for nodes.

use futures::future::BoxFuture;
use serde_json::{Value, json};
use windlass_api::Status;

use crate::registry::{Admission, Attributes, Operation};
use crate::{
    object::{Tree, object_mut},
    registry::Registry,
};

/// The plugin `TaintNodesByCondition`: taints new nodes, so that no pod is scheduled to them until they are ready.
#[derive(Debug)]
pub(crate) struct TaintNewNodes;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

impl Admission for TaintNewNodes {
    fn handles(&self, write: &Attributes) -> bool {
        let nodes = write.resource.group.is_empty() && write.resource.kind == "Node";
        nodes && write.operation == Operation::Create
    }

    fn admit<'a>(&'a self, _registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let taints = write.object.items(&["spec", "taints"]);
            let tainted =
                taints.iter().any(|taint| taint.text(&["key"]) == NOT_READY && taint.text(&["effect"]) == "NoSchedule");
            if !tainted {
                let taints = object_mut(&mut write.object, "spec").entry("taints").or_insert_with(|| json!([]));
                let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
                match taints {
                    Value::Array(taints) => taints.push(taint),
                    other => *other = json!([taint]),
                }
            }
            Ok(())
        })
    }
}
