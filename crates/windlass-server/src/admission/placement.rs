//! Plugins for pods and their nodes: `PodTopologyLabels`, `PodResizeValidator` and `NodeDeclaredFeatureValidator`.

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::{
    Cause, Status,
    quota::{Evaluator, read_amounts},
};

use super::classes::{cluster_item, cluster_object};
use crate::registry::{Admission, Attributes, Operation};
use crate::{
    object::{Tree, as_object, metadata_mut, same},
    registry::Registry,
};

/// Copies the zone and the region of a node to the pods on it.
#[derive(Debug)]
pub(crate) struct TopologyLabels;

/// Rejects resizes beyond the capacity of the node.
#[derive(Debug)]
pub(crate) struct ResizeLimits;

/// Rejects updates that need a feature that the node does not have.
#[derive(Debug)]
pub(crate) struct DeclaredFeatures;

const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

fn is_pod(write: &Attributes) -> bool {
    write.resource.group.is_empty() && write.resource.plural == "pods"
}

/// Reports whether a write changes a pod that has a node.
fn changes_placed_pod(write: &Attributes, subresources: &[Option<&str>]) -> bool {
    is_pod(write)
        && write.operation == Operation::Update
        && subresources.contains(&write.subresource.as_deref())
        && !write.object.text(&["spec", "nodeName"]).is_empty()
        && write.old.as_ref().is_some_and(|old| !same(write.object.get("spec"), old.get("spec")))
}

async fn node_of(registry: &Registry, write: &Attributes) -> Result<Value, Status> {
    let name = write.object.text(&["spec", "nodeName"]);
    let node = cluster_object(registry, "", "nodes", name).await?;
    node.ok_or_else(|| write.forbidden(format!("node {name:?} not found")))
}

impl Admission for TopologyLabels {
    fn handles(&self, write: &Attributes) -> bool {
        is_pod(write)
            && write.operation == Operation::Create
            && matches!(write.subresource.as_deref(), None | Some("binding"))
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let node = match write.subresource {
                Some(_) if write.object.text(&["target", "kind"]) != "Node" => return Ok(()),
                Some(_) => write.object.text(&["target", "name"]),
                None => write.object.text(&["spec", "nodeName"]),
            };
            if node.is_empty() {
                return Ok(());
            }
            let Some(node) = cluster_item(registry, "", "nodes", node).await? else { return Ok(()) };
            let mut copy = |key: &str, value: &str| {
                if TOPOLOGY.contains(&key) {
                    let labels = metadata_mut(&mut write.object).entry("labels").or_insert(Value::Null);
                    as_object(labels).insert(key.to_owned(), value.into());
                }
            };
            // Each binding of a pod passes here, so the node is not decoded if its labels can be read in place.
            if let Some(labels) = node.encoded.labels() {
                for (key, value) in labels {
                    copy(key, value);
                }
            } else {
                let node = node.value();
                let labels = node.entries(&["metadata", "labels"]);
                labels.for_each(|(key, value)| copy(key, value.as_str().unwrap_or_default()));
            }
            Ok(())
        })
    }
}

impl Admission for ResizeLimits {
    fn handles(&self, write: &Attributes) -> bool {
        changes_placed_pod(write, &[Some("resize")])
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let node = node_of(registry, write).await?;
            let system = node.text(&["metadata", "labels", "kubernetes.io/os"]);
            if !matches!(system, "" | "linux") {
                let name = node.text(&["metadata", "name"]);
                let why = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
                return Err(with_reason(write.forbidden(why), "UnsupportedPlatform"));
            }
            let lacking = lacking(registry, &write.object, &node);
            if lacking.is_empty() {
                return Ok(());
            }
            let why = format!("node didn't have enough allocatable resources: {}", lacking.join("; "));
            Err(with_reason(write.forbidden(why), "NodeCapacity"))
        })
    }
}

fn with_reason(mut status: Status, reason: &str) -> Status {
    let cause = Cause { reason: reason.to_owned(), message: String::new(), field: String::new() };
    status.details.get_or_insert_default().causes.push(cause);
    status
}

/// Returns the requests of a pod that exceed the capacity of a node.
fn lacking(registry: &Registry, pod: &Value, node: &Value) -> Vec<String> {
    // The desired state counts, not the current one of a resize.
    let mut pod = pod.clone();
    as_object(&mut pod).shift_remove("status");
    let Some(pods) = Evaluator::of("", "pods") else { return Vec::new() };
    let usage = pods.measure(&pod, registry.clock().now()).amounts;
    let allocatable = read_amounts(node, &["status", "allocatable"]);
    let mut lacking = Vec::new();
    for name in ["cpu", "memory"] {
        let (requested, allocatable) = (usage.get(name).cloned().unwrap_or_default(), allocatable.get(name).cloned());
        let allocatable = allocatable.unwrap_or_default();
        if requested > allocatable {
            let [requested, allocatable] = [requested, allocatable]
                .map(|amount| if name == "cpu" { amount.milli_value() } else { amount.value() });
            lacking.push(format!("{name}, requested: {requested}, allocatable: {allocatable}"));
        }
    }
    lacking
}

impl Admission for DeclaredFeatures {
    fn handles(&self, write: &Attributes) -> bool {
        changes_placed_pod(write, &[None, Some("resize")])
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let mut needed = needed_features(&write.object, write.old.as_ref().unwrap_or(&Value::Null));
            if needed.is_empty() {
                return Ok(());
            }
            let node = node_of(registry, write).await?;
            let declared = node.items(&["status", "declaredFeatures"]);
            needed.retain(|feature| !declared.iter().any(|declared| declared == feature));
            if needed.is_empty() {
                return Ok(());
            }
            let (needed, name) = (needed.join(", "), node.text(&["metadata", "name"]));
            Err(write
                .forbidden(format!("pod update requires features {needed} which are not available on node {name:?}")))
        })
    }
}

/// Returns the features that a node needs for an update of a pod, by name.
fn needed_features(new: &Value, old: &Value) -> Vec<&'static str> {
    let mut needed = Vec::new();
    let pairs = old.items(&["spec", "initContainers"]).iter().zip(new.items(&["spec", "initContainers"]));
    let is_resized = |(old, new): (&Value, &Value)| {
        old.text(&["restartPolicy"]) != "Always" && !same(old.get("resources"), new.get("resources"))
    };
    if pairs.into_iter().any(is_resized) {
        needed.push("InPlacePodVerticalScalingInitContainers");
    }
    if !same(old.at(&["spec", "resources"]), new.at(&["spec", "resources"])) {
        needed.push("InPlacePodLevelResourcesVerticalScaling");
    }
    needed.sort_unstable();
    needed
}
