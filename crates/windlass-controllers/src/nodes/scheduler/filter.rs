//! The filters: the checks whether a pod can run on a node. Their order is that of kube-scheduler, and a node is rejected
//! by the first filter that fails.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;

use super::{
    super::{
        amount::Amount,
        consumers::Consumption,
        fit::{Labeled, matches_node, tolerates},
    },
    affinity::AffinityState,
    profile::Profile,
    reason::{Reason, Rejection},
    snapshot::{NodeInfo, Placed, Slot, Snapshot, Usage},
    spread::{SpreadState, states},
};

/// A pod to be scheduled, and all that its filters need to know about other pods.
#[derive(Debug)]
pub(super) struct Cycle<'c> {
    pub(super) pod: &'c Arc<Profile>,
    consumption: Option<&'c Consumption>,
    spread: Vec<SpreadState>,
    affinity: Option<AffinityState>,
}

impl<'c> Cycle<'c> {
    pub(super) fn new(snapshot: &mut Snapshot, pod: &'c Arc<Profile>, consumption: Option<&'c Consumption>) -> Self {
        let spread = states(snapshot, pod, &pod.hard_spread);
        let affinity = AffinityState::of(snapshot, pod);
        Self { pod, consumption, spread, affinity }
    }

    /// Returns the names of the only nodes that can match, if the pod selects nodes by name.
    pub(super) fn only_nodes(&self) -> Option<Vec<&str>> {
        let terms = &self.pod.required.as_ref()?.node_selector_terms;
        let mut names = Vec::new();
        for term in terms {
            let fields = term.match_fields.iter().flatten();
            let mut named = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
            names.extend(named.next()?.values.iter().flatten().map(String::as_str));
        }
        Some(names)
    }

    /// Checks whether the pod can run on a node with this usage.
    pub(super) fn check(&self, snapshot: &Snapshot, slot: Slot, usage: &Usage) -> Result<(), Rejection> {
        let (pod, node) = (self.pod, snapshot.node(slot));
        if node.unschedulable && !tolerates_all(pod, [&cordon()]) {
            return Err(Rejection::unresolvable(Reason::Unschedulable));
        }
        if !is_tolerated(pod, node) {
            return Err(Rejection::unresolvable(Reason::Tainted));
        }
        if !is_selected(pod, node) {
            return Err(Rejection::unresolvable(Reason::Unselected));
        }
        if pod.ports.iter().any(|port| usage.ports.iter().any(|taken| taken.conflicts_with(port))) {
            return Err(Rejection::resolvable(Reason::PortTaken));
        }
        check_resources(pod, node, usage)?;
        if let Some(consumption) = self.consumption {
            consumption.fit(node).map_err(Rejection::unresolvable)?;
        }
        self.spread.iter().try_for_each(|constraint| constraint.check(slot))?;
        self.affinity.as_ref().map_or(Ok(()), |affinity| affinity.check(slot))
    }

    /// Records that a pod was added to its node, or removed from it.
    pub(super) fn change(&mut self, other: &Placed, added: bool, snapshot: &Snapshot) {
        self.spread.iter_mut().for_each(|constraint| constraint.change(other, added, snapshot));
        if let Some(affinity) = &mut self.affinity {
            affinity.change(self.pod, other, added, snapshot);
        }
    }
}

/// Checks the node selector and the required node affinity of a pod.
pub(super) fn is_selected(pod: &Profile, node: &dyn Labeled) -> bool {
    matches_node(&pod.node_selector, pod.required.as_ref(), node)
}

/// Reports whether the pod tolerates the node's taints.
pub(super) fn is_tolerated(pod: &Profile, node: &NodeInfo) -> bool {
    let hard = |taint: &&Taint| ["NoSchedule", "NoExecute"].contains(&&*taint.effect);
    tolerates_all(pod, node.taints.iter().filter(hard))
}

fn tolerates_all<'t>(pod: &Profile, taints: impl IntoIterator<Item = &'t Taint>) -> bool {
    taints.into_iter().all(|taint| pod.tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// The taint that stands for a cordon.
fn cordon() -> Taint {
    Taint { key: "node.kubernetes.io/unschedulable".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

/// Checks that the node has enough of each resource. The rejection contains all that are missing.
fn check_resources(pod: &Profile, node: &NodeInfo, usage: &Usage) -> Result<(), Rejection> {
    let mut rejection = Rejection { reasons: Vec::new(), resolvable: true };
    if Amount::units(usage.pods + 1) > node.allocatable.pods() {
        rejection.reasons.push(Reason::TooManyPods);
    }
    node.allocatable.for_each_short(&usage.demand, &pod.demand, |shortage| {
        rejection.reasons.push(Reason::Insufficient(shortage.resource));
        // Even an empty node may be too small.
        rejection.resolvable &= shortage.requested <= shortage.allocatable;
    });
    if rejection.reasons.is_empty() { Ok(()) } else { Err(rejection) }
}
