//! Topology spread constraints: the distribution of matching pods over the domains of a topology.

use std::sync::Arc;

use super::{
    filter::{is_selected, is_tolerated},
    profile::{Profile, Spread},
    reason::{Reason, Rejection},
    snapshot::{Placed, Slot, Snapshot, Topology},
};

/// The numbers of matching pods for one constraint of a pod.
#[derive(Debug)]
pub(super) struct SpreadState {
    constraint: Spread,
    topology: Arc<Topology>,
    /// `true` if the pod counts itself.
    matches_self: bool,
    /// The number of matching pods by domain. `None` if no node of the domain counts.
    of_domain: Vec<Option<u32>>,
    /// The nodes that count.
    counted: Vec<bool>,
    least: u32,
}

/// Counts the pods for each constraint. Nodes that lack the label of a constraint count for none.
pub(super) fn states(snapshot: &mut Snapshot, pod: &Profile, constraints: &[Spread]) -> Vec<SpreadState> {
    let topologies: Vec<_> = constraints.iter().map(|constraint| snapshot.topology(&constraint.key)).collect();
    let counted_for = |snapshot: &Snapshot, constraint: &Spread| {
        let order = snapshot.order();
        let mut counted = vec![false; order.iter().max().map_or(0, |slot| slot + 1)];
        for slot in order {
            let node = snapshot.node(*slot);
            counted[*slot] = topologies.iter().all(|topology| topology.domain(*slot).is_some())
                && (!constraint.honors_affinity || is_selected(pod, node))
                && (!constraint.honors_taints || is_tolerated(pod, node));
        }
        counted
    };
    let mut states = Vec::new();
    for (constraint, topology) in constraints.iter().zip(&topologies) {
        let counted = counted_for(snapshot, constraint);
        let mut of_domain = vec![None; topology.domains];
        let (of_node, _) = snapshot.count(&[&constraint.scope]);
        for (slot, _) in counted.iter().enumerate().filter(|(_, counted)| **counted) {
            if let Some(domain) = topology.domain(slot) {
                let pods = of_node.get(slot).copied().unwrap_or(0);
                *of_domain[domain].get_or_insert(0) += pods;
            }
        }
        let matches_self = constraint.scope.matches(pod, false, snapshot.namespaces());
        let topology = Arc::clone(topology);
        let mut state =
            SpreadState { constraint: constraint.clone(), topology, matches_self, of_domain, counted, least: 0 };
        state.find_least();
        states.push(state);
    }
    states
}

impl SpreadState {
    /// Checks that the pod can run on a node without exceeding the maximum skew.
    pub(super) fn check(&self, slot: Slot) -> Result<(), Rejection> {
        let Some(domain) = self.topology.domain(slot) else {
            return Err(Rejection::unresolvable(Reason::NoTopology));
        };
        let pods = self.of_domain[domain].unwrap_or(0) + u32::from(self.matches_self);
        if pods.saturating_sub(self.least) > self.constraint.max_skew {
            return Err(Rejection::resolvable(Reason::Skewed));
        }
        Ok(())
    }

    /// Records that a pod was added to its node, or removed from it.
    pub(super) fn change(&mut self, other: &Placed, added: bool, snapshot: &Snapshot) {
        let counts = self.counted.get(other.slot).copied().unwrap_or(false);
        if !counts || !self.constraint.scope.matches(&other.profile, other.terminating, snapshot.namespaces()) {
            return;
        }
        if let Some(Some(pods)) = self.topology.domain(other.slot).and_then(|domain| self.of_domain.get_mut(domain)) {
            *pods = if added { *pods + 1 } else { pods.saturating_sub(1) };
            self.find_least();
        }
    }

    /// Returns the cost of a node: lower is better. `None` if the node lacks the label.
    pub(super) fn cost(&self, slot: Slot) -> Option<f64> {
        let domain = self.topology.domain(slot)?;
        let pods = f64::from(self.of_domain[domain].unwrap_or(0));
        let domains = f64::from(u32::try_from(self.of_domain.len()).unwrap_or(u32::MAX));
        // Topologies with more domains weigh more, as in kube-scheduler.
        Some(pods * (domains + 2.0).ln() + f64::from(self.constraint.max_skew) - 1.0)
    }

    fn find_least(&mut self) {
        let domains = self.of_domain.iter().flatten();
        let has_enough = domains.clone().count() >= self.constraint.min_domains as usize;
        self.least = if has_enough { domains.min().copied().unwrap_or(0) } else { 0 };
    }
}
