//! A simulator of nodes: ready Node objects, a scheduler that binds pods to nodes, and kubelets that advance their pods
//! through the pod lifecycle without running containers.
//!
//! Guaranteed: the kubelets only touch pods on nodes that this simulator has created. Each running pod has an address
//! that no other running pod has. The scheduler binds to any node, as the default scheduler does.
//!
//! A small interpreter ([`shell`]) runs the container commands of pods that are expected to terminate. Containers with
//! other commands succeed after a delay. A pod with the annotation `windlass.dev/ready: "false"` runs without becoming
//! ready.
//!
//! If a controller binds claims to volumes, the nodes have storage ([`storage`]): a provisioner that creates volumes
//! without data behind them.
//!
//! Pods can declare their resource usage by annotations; the simulator publishes it as metrics ([`pod_metrics`]) for
//! autoscalers.
//!
//! Not simulated: logs, exec, probes, images that cannot be pulled, init containers that fail.

mod addresses;
mod amount;
mod consumers;
mod demand;
mod disk;
mod environment;
pub(crate) mod fit;
mod fleet;
mod kubelet;
mod ledger;
mod lifecycle;
mod pod_metrics;
mod notes;
mod pace;
mod ports;
mod pod_state;
mod scheduler;
mod script;
mod shell;
mod storage;

use windlass_runtime::{Group, Manager, Task};

use self::{addresses::MOST_NODES, pod_metrics::PodMetrics};
pub use pace::Pace;
pub(crate) use storage::Storage;

/// Adds `count` nodes, their scheduler, their kubelets and their storage to a manager. Pod addresses suffice for 3,072
/// nodes.
pub(crate) fn add_to(manager: &mut Manager, count: usize, pace: Pace, storage: Storage) {
    let nodes = u16::try_from(count).unwrap_or(u16::MAX).min(MOST_NODES);
    if usize::from(nodes) < count {
        tracing::warn!(asked = count, simulated = nodes, "too few addresses for this many nodes; simulating fewer");
    }
    fleet::add_to(manager, nodes);
    scheduler::add_to(manager, storage);
    let pod_metrics = PodMetrics::default();
    kubelet::add_to(manager, nodes, pace, pod_metrics.clone());
    if storage == Storage::Simulated {
        storage::add_to(manager);
    }
    manager.add(Task::new("node-metrics", move |running| pod_metrics.run(running)).in_group(Group::Controllers));
}
