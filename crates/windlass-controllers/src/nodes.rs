//! A simulator of nodes: Node objects that are ready, a scheduler that binds pods to nodes, and kubelets that walk their
//! pods through life, without a container anywhere.
//!
//! Guaranteed: only pods on nodes that this simulator has created are touched by the kubelets, whatever else is in the
//! cluster; each running pod has an address that no other running pod has. The scheduler binds to any node, as the
//! default scheduler does.
//!
//! Containers of pods that are meant to end do what their commands say, as far as `true`, `false`, `sleep` and `exit` go; with
//! other commands they succeed after a while.
//!
//! Pods that say by annotations what they use have metrics ([`meters`]), so that autoscalers have something to go by.
//!
//! Not guaranteed, because not simulated: logs, exec, probes, images that cannot be pulled, init containers that fail, volumes.

mod addresses;
mod demand;
pub(crate) mod fit;
mod fleet;
mod kubelet;
mod ledger;
mod lifecycle;
mod meters;
mod notes;
mod pace;
mod quantity;
mod residents;
mod scheduler;
mod script;

use windlass_runtime::{Group, Manager, Task};

use self::{addresses::MOST_NODES, meters::Meters};
pub use pace::Pace;

/// Adds `count` nodes, their scheduler and their kubelets to a manager. There are addresses for 3,072 nodes.
pub(crate) fn add_to(manager: &mut Manager, count: usize, pace: Pace) {
    let nodes = u16::try_from(count).unwrap_or(u16::MAX).min(MOST_NODES);
    if usize::from(nodes) < count {
        tracing::warn!(asked = count, simulated = nodes, "there are no addresses for so many nodes");
    }
    fleet::add_to(manager, nodes);
    scheduler::add_to(manager);
    let meters = Meters::default();
    kubelet::add_to(manager, nodes, pace, meters.clone());
    manager.add(Task::new("node-metrics", move |running| meters.run(running)).in_group(Group::Controllers));
}
