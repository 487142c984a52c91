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
//! Rules can replace the life cycle of pods and nodes ([`stages`]), and answer commands and requests for logs
//! ([`answers`]).
//!
//! Not simulated: probes, images that cannot be pulled, init containers that fail.

mod addresses;
mod amount;
mod answers;
mod consumers;
mod demand;
mod disk;
mod environment;
pub(crate) mod fit;
mod fleet;
mod heartbeat;
mod kubelet;
mod lifecycle;
mod pod_metrics;
mod notes;
mod pace;
mod ports;
mod pod_state;
mod scheduler;
mod script;
mod shell;
mod stages;
mod storage;
mod yaml;

use windlass_runtime::{Group, Manager, Task};

use self::{addresses::MOST_NODES, fleet::Fleet, pod_metrics::PodMetrics, stages::Player};
pub use answers::{PodAnswers, PodAnswersError};
pub use pace::Pace;
pub use stages::{StagePlace, Stages, StagesError};
pub(crate) use storage::Storage;

use crate::{Identity, identity::Identities};

/// The controller of kube-controller-manager that provisions and deletes volumes.
const PROVISIONER: &str = "persistent-volume-binder";

/// The settings of the simulated nodes.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The number of nodes. Pod addresses suffice for 10,240.
    pub(crate) count: usize,
    /// The number of zones over which the nodes are spread.
    pub(crate) zones: u16,
    pub(crate) pace: Pace,
    pub(crate) stages: Stages,
    pub(crate) storage: Storage,
}

/// Adds nodes, their scheduler, their kubelets and their storage to a manager.
///
/// Each kubelet acts as its node, and the scheduler as `system:kube-scheduler`. The provisioner acts as the controller
/// that provisions volumes in kube-controller-manager, because the default roles of a CSI driver are bound to no user.
/// An administrator installs the default class and the metrics.
pub(crate) fn add_to(manager: &mut Manager, settings: Settings, identities: &Identities) {
    let Settings { count, zones, pace, stages, storage } = settings;
    let nodes = u16::try_from(count).unwrap_or(u16::MAX).min(MOST_NODES);
    if usize::from(nodes) < count {
        tracing::warn!(asked = count, simulated = nodes, "too few addresses for this many nodes; simulating fewer");
    }
    let started = manager.cluster().clock().now();
    fleet::add_to(manager, Fleet { nodes, zones, stages: Player::new(stages.nodes), started }, identities);
    identities.add(manager, Identity::Scheduler, |manager| scheduler::add_to(manager, storage));
    let pod_metrics = PodMetrics::default();
    kubelet::add_to(manager, nodes, pace, Player::new(stages.pods), pod_metrics.clone(), identities.clone());
    if storage == Storage::Simulated {
        identities.add(manager, Identity::Controller(PROVISIONER), storage::add_to);
        identities.add(manager, Identity::Administrator, storage::add_class_to);
    }
    let metrics = Task::new("node-metrics", move |running| pod_metrics.run(running)).in_group(Group::Controllers);
    identities.add(manager, Identity::Administrator, |manager| {
        manager.add(metrics);
    });
}

#[cfg(test)]
mod tests;
