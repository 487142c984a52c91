//! Preemption: the selection of pods of lower priority whose deletion makes room for a pod.

use std::{
    cmp::{Reverse, max},
    collections::BTreeSet,
};

use hashbrown::HashMap;
use k8s_openapi::{api::policy::v1::PodDisruptionBudget, jiff::Timestamp};
use windlass_api::{LabelSelector, ObjectKey};

use super::{
    decide::{Candidate, Core},
    filter::Cycle,
    profile::Profile,
    reason::{Reason, Rejection, Tally},
    snapshot::{Placed, Slot, Usage},
};

/// The least number of nodes that are compared, and the least part of all nodes in percent.
const LEAST_CANDIDATES: (usize, usize) = (100, 10);

/// The result of the search for victims.
#[derive(Debug)]
pub(super) enum Preemption {
    /// The pod does not preempt others.
    Never,
    /// Victims of an earlier preemption for the pod have not ended yet.
    InProgress,
    /// The reasons why preemption does not help, by node.
    Impossible(Tally),
    /// The node, and the pods to delete there.
    Possible(Victims),
}

/// The pods to delete on a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Victims {
    pub(super) slot: Slot,
    /// The most important pod comes first.
    pub(super) pods: Vec<ObjectKey>,
    /// The rank among the candidates; the lowest is the best.
    rank: Rank,
}

/// Budgets violated, highest priority, sum of priorities, number of pods, and the earliest start of the most important
/// pods, of which the latest is preferred.
type Rank = (usize, i32, i64, usize, Reverse<Option<Timestamp>>);

/// The PodDisruptionBudgets of the cluster.
#[derive(Debug, Default)]
pub(super) struct Budgets(HashMap<ObjectKey, Budget>);

#[derive(Debug)]
struct Budget {
    selector: LabelSelector,
    allowed: i32,
    /// The names of pods whose disruption has been counted already.
    disrupted: BTreeSet<String>,
}

impl Budgets {
    /// Records the state of a budget; `None` if it was deleted. A budget without a selector selects no pods.
    pub(super) fn set(&mut self, key: &ObjectKey, budget: Option<&PodDisruptionBudget>) {
        let spec = budget.and_then(|budget| budget.spec.as_ref());
        let selector = spec.and_then(|spec| spec.selector.as_ref()).map(LabelSelector::try_from);
        let Some(Ok(selector)) = selector.filter(|selector| selector.as_ref().is_ok_and(|known| !known.is_empty()))
        else {
            self.0.remove(key);
            return;
        };
        let status = budget.and_then(|budget| budget.status.as_ref());
        let disrupted = status.and_then(|status| status.disrupted_pods.as_ref());
        let budget = Budget {
            selector,
            allowed: status.and_then(|status| status.disruptions_allowed).unwrap_or(0),
            disrupted: disrupted.into_iter().flatten().map(|(name, _)| name.clone()).collect(),
        };
        self.0.insert(key.clone(), budget);
    }

    /// Divides pods into those whose deletion violates a budget, and the others. Keeps the order.
    fn divide(&self, pods: Vec<(ObjectKey, Placed)>) -> (Vec<(ObjectKey, Placed)>, Vec<(ObjectKey, Placed)>) {
        let mut left: HashMap<&ObjectKey, i32> = self.0.iter().map(|(key, budget)| (key, budget.allowed)).collect();
        pods.into_iter().partition(|(pod, placed)| {
            let mut violates = false;
            for (key, budget) in &self.0 {
                if key.namespace == pod.namespace
                    && budget.selector.matches(|label| placed.profile.label(label))
                    && !budget.disrupted.contains(&*pod.name)
                {
                    let left = left.entry(key).or_default();
                    *left -= 1;
                    violates |= *left < 0;
                }
            }
            violates
        })
    }
}

impl Core {
    /// Finds the best victims for a pod on the nodes where the deletion of pods may help.
    pub(super) fn preempt(&self, cycle: &mut Cycle<'_>, candidate: Candidate<'_>, nodes: &[Slot]) -> Preemption {
        let pod = candidate.profile;
        if !pod.preempts {
            return Preemption::Never;
        }
        let nominated = self.nominations.node(candidate.key).and_then(|name| self.snapshot.slot(name));
        if nominated.is_some_and(|slot| nodes.contains(&slot) && self.has_victim(slot, pod)) {
            return Preemption::InProgress;
        }
        let mut tally = Tally::default();
        tally.add_many(&Reason::NotHelpful, self.snapshot.order().len() - nodes.len());
        let enough = max(nodes.len() * LEAST_CANDIDATES.1 / 100, LEAST_CANDIDATES.0);
        let mut found: Vec<Victims> = Vec::new();
        for slot in nodes {
            match self.victims(cycle, candidate, *slot) {
                Ok(victims) => found.push(victims),
                Err(rejection) => tally.add(&rejection.reasons),
            }
            if found.len() >= enough && found.iter().any(|victims| victims.rank.0 == 0) {
                break;
            }
        }
        match found.into_iter().min_by(|a, b| a.rank.cmp(&b.rank)) {
            Some(victims) => Preemption::Possible(victims),
            None => Preemption::Impossible(tally),
        }
    }

    /// Reports whether a pod of lower priority is being deleted by a preemption.
    fn has_victim(&self, slot: Slot, pod: &Profile) -> bool {
        let mut pods = self.snapshot.node(slot).pods.iter().filter_map(|key| self.snapshot.pod(key));
        pods.any(|other| other.preempted && other.terminating && other.profile.priority < pod.priority)
    }

    /// Finds the least important pods of a node whose deletion makes room.
    fn victims(&self, cycle: &mut Cycle<'_>, candidate: Candidate<'_>, slot: Slot) -> Result<Victims, Rejection> {
        let node = self.snapshot.node(slot);
        let priority = candidate.profile.priority;
        if !node.has_pods_below(priority) {
            return Err(Rejection::unresolvable(Reason::NoVictims));
        }
        let pods = node.pods.iter().filter_map(|key| Some((key.clone(), self.snapshot.pod(key)?.clone())));
        let mut lower: Vec<_> = pods.filter(|(_, pod)| pod.profile.priority < priority).collect();
        // The most important pod is kept first: the highest priority, then the oldest.
        lower.sort_by(|(a, one), (b, other)| importance(one).cmp(&importance(other)).then_with(|| a.cmp(b)));
        let mut trial = Trial { core: self, cycle, slot, usage: self.usage(slot, candidate).into_owned() };
        for (_, pod) in &lower {
            trial.remove(pod);
        }
        let outcome = trial.check();
        let mut victims = Vec::new();
        let mut violations = 0;
        if outcome.is_ok() {
            let (violating, others) = self.budgets.divide(lower.clone());
            let count = violating.len();
            for (position, (key, pod)) in violating.into_iter().chain(others).enumerate() {
                trial.add(&pod);
                if trial.check().is_err() {
                    trial.remove(&pod);
                    violations += usize::from(position < count);
                    victims.push((key, pod));
                }
            }
            for (_, pod) in &victims {
                trial.add(pod);
            }
        } else {
            for (_, pod) in &lower {
                trial.add(pod);
            }
        }
        outcome?;
        victims.sort_by(|(a, one), (b, other)| importance(one).cmp(&importance(other)).then_with(|| a.cmp(b)));
        let highest = victims.first().map_or(i32::MIN, |(_, pod)| pod.profile.priority);
        let sum = victims.iter().map(|(_, pod)| i64::from(pod.profile.priority) - i64::from(i32::MIN)).sum();
        let most_important = victims.iter().filter(|(_, pod)| pod.profile.priority == highest);
        let earliest = most_important.filter_map(|(_, pod)| pod.started).min();
        let rank = (violations, highest, sum, victims.len(), Reverse(earliest));
        Ok(Victims { slot, pods: victims.into_iter().map(|(key, _)| key).collect(), rank })
    }
}

/// Sorts the most important pod first.
fn importance(pod: &Placed) -> (Reverse<i32>, bool, Option<Timestamp>) {
    (Reverse(pod.profile.priority), pod.started.is_none(), pod.started)
}

/// A node without some of its pods.
struct Trial<'t, 'c> {
    core: &'t Core,
    cycle: &'t mut Cycle<'c>,
    slot: Slot,
    usage: Usage,
}

impl Trial<'_, '_> {
    fn remove(&mut self, pod: &Placed) {
        self.usage.remove(&pod.profile);
        self.cycle.change(pod, false, &self.core.snapshot);
    }

    fn add(&mut self, pod: &Placed) {
        self.usage.add(&pod.profile);
        self.cycle.change(pod, true, &self.core.snapshot);
    }

    fn check(&self) -> Result<(), Rejection> {
        self.cycle.check(&self.core.snapshot, self.slot, &self.usage)
    }
}
