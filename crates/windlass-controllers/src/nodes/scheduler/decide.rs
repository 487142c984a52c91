//! The decision for one pod: a node, or the reasons why there is none.

use std::{cmp::max, sync::Arc};

use windlass_api::ObjectKey;

use super::{
    super::consumers::Consumption,
    filter::Cycle,
    nominations::Nominations,
    preemption::{Budgets, Preemption, Victims},
    profile::Profile,
    reason::{Causes, Reason, Tally},
    score,
    snapshot::{Slot, Snapshot, Usage},
};

/// The number of nodes up to which all are considered.
const ALL_NODES: usize = 100;

/// The state from which decisions are made.
#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) snapshot: Snapshot,
    pub(super) nominations: Nominations,
    pub(super) budgets: Budgets,
    /// The position in the visiting order at which the next decision starts.
    next: usize,
}

/// The pod of a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'c> {
    pub(super) key: &'c ObjectKey,
    pub(super) profile: &'c Arc<Profile>,
    /// The pod's claims; `None` if it has none.
    pub(super) claims: Option<&'c Result<Consumption, String>>,
    /// The node that is tried first.
    pub(super) preferred: Option<&'c str>,
}

/// The reasons why a pod has no node.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) causes: Causes,
    pub(super) nomination: Nomination,
}

/// The change to the node that a pod is nominated for.
#[derive(Clone, Debug)]
pub(super) enum Nomination {
    /// The pod keeps its nomination, if it has one.
    Keep,
    /// Preemption does not help.
    Clear,
    /// The deletion of these pods makes room for the pod.
    Preempt(Victims),
}

impl Core {
    /// Selects a node for a pod.
    pub(super) fn decide(&mut self, candidate: Candidate<'_>) -> Result<Slot, Failure> {
        let nodes = self.snapshot.order().len();
        if nodes == 0 {
            let message = "no nodes available to schedule pods".to_owned();
            return Err(Failure { message, causes: Causes::ALL, nomination: Nomination::Keep });
        }
        let consumption = match candidate.claims {
            None => None,
            Some(Ok(consumption)) => Some(consumption),
            Some(Err(why)) => {
                let mut preemption = Tally::default();
                preemption.add_many(&Reason::NotHelpful, nodes);
                let preemption =
                    if candidate.profile.preempts { Preemption::Impossible(preemption) } else { Preemption::Never };
                return Err(Failure::new(nodes, why, Causes::VOLUMES, preemption));
            }
        };
        let mut cycle = Cycle::new(&mut self.snapshot, candidate.profile, consumption);
        if let Some(slot) = candidate.preferred.and_then(|name| self.snapshot.slot(name))
            && cycle.check(&self.snapshot, slot, &self.usage(slot, candidate)).is_ok()
        {
            return Ok(slot);
        }
        let mut tally = Tally::default();
        let named: Option<Vec<Slot>> =
            cycle.only_nodes().map(|names| names.into_iter().filter_map(|name| self.snapshot.slot(name)).collect());
        if let Some(named) = &named {
            tally.add_many(&Reason::Unnamed, nodes - named.len());
        }
        let visited = named.as_deref().unwrap_or(self.snapshot.order());
        let enough = feasible_nodes(visited.len());
        let (mut feasible, mut resolvable) = (Vec::new(), Vec::new());
        let start = if visited.is_empty() { 0 } else { self.next % visited.len() };
        let mut processed = 0;
        for slot in visited[start..].iter().chain(&visited[..start]) {
            processed += 1;
            match cycle.check(&self.snapshot, *slot, &self.usage(*slot, candidate)) {
                Ok(()) => feasible.push(*slot),
                Err(rejection) => {
                    tally.add(&rejection.reasons);
                    if rejection.resolvable {
                        resolvable.push(*slot);
                    }
                }
            }
            if feasible.len() >= enough {
                break;
            }
        }
        if named.is_none() {
            self.next = (start + processed) % nodes;
        }
        if let Some(best) = score::best(&mut self.snapshot, candidate.profile, &feasible) {
            return Ok(best);
        }
        let preemption = self.preempt(&mut cycle, candidate, &resolvable);
        Err(Failure::new(nodes, &tally.to_string(), tally.causes(), preemption))
    }

    /// Returns the usage of a node, including the pods that are nominated for it and are as important as the candidate.
    pub(super) fn usage(&self, slot: Slot, candidate: Candidate<'_>) -> std::borrow::Cow<'_, Usage> {
        let node = self.snapshot.node(slot);
        self.nominations.usage(node, candidate)
    }
}

/// Returns the number of suitable nodes after which the search ends: 50 % of small clusters to 5 % of large ones.
fn feasible_nodes(nodes: usize) -> usize {
    let percentage = max(50_usize.saturating_sub(nodes / 125), 5);
    if nodes < ALL_NODES { nodes.max(1) } else { max(nodes * percentage / 100, ALL_NODES) }
}

impl Failure {
    fn new(nodes: usize, why: &str, causes: Causes, preemption: Preemption) -> Self {
        let mut message = format!("0/{nodes} nodes are available: {why}.");
        let nomination = match preemption {
            Preemption::Never => {
                message.push_str(" preemption: not eligible due to preemptionPolicy=Never.");
                Nomination::Keep
            }
            Preemption::InProgress => {
                message.push_str(" preemption: not eligible due to a terminating pod on the nominated node.");
                Nomination::Keep
            }
            Preemption::Impossible(tally) => {
                message.push_str(&format!(" preemption: 0/{nodes} nodes are available: {tally}."));
                Nomination::Clear
            }
            Preemption::Possible(victims) => Nomination::Preempt(victims),
        };
        Self { message, causes, nomination }
    }
}
