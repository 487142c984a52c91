//! Plans the next creations and deletions of a daemon set's pods. Plain values, no I/O.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, RollingUpdateDaemonSet},
    core::v1::Pod,
};
use windlass_api::{IntOrPercent as _, ObjectExt, Rounding};

use super::{
    eligibility::{self, Eligibility},
    min_ready_seconds,
};
use crate::pods;

/// A daemon set, the nodes with their eligibility, and the set's pods by node.
#[derive(Debug)]
pub(super) struct Observed<'l> {
    pub(super) set: &'l DaemonSet,
    /// The hash of the current template.
    pub(super) hash: &'l str,
    pub(super) eligibility_by_node: BTreeMap<String, Eligibility>,
    pub(super) by_node: BTreeMap<String, Vec<Arc<Pod>>>,
    pub(super) now: Timestamp,
}

/// The planned creations and deletions.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The nodes that get a new pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// The finished pods with their nodes. Failed ones are deleted after a back-off.
    pub(super) ended: Vec<(String, Arc<Pod>)>,
}

impl<'l> Observed<'l> {
    /// Groups the pods by node. Finished pods that are already being deleted are left out.
    pub(super) fn new(
        set: &'l DaemonSet,
        hash: &'l str,
        eligibility_by_node: BTreeMap<String, Eligibility>,
        all: &[Arc<Pod>],
        now: Timestamp,
    ) -> Self {
        let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in all.iter().filter(|pod| !(pods::is_finished(pod) && pod.is_deleting())) {
            if let Some(node) = eligibility::node_of(pod) {
                by_node.entry(node.to_owned()).or_default().push(Arc::clone(pod));
            }
        }
        for pods in by_node.values_mut() {
            // Scheduled pods first, then the oldest.
            let rank = |pod: &Pod| {
                let created = pod.metadata.creation_timestamp.clone();
                (pods::node_name(pod).is_empty(), created, pod.name().to_owned())
            };
            pods.sort_by_key(|pod| rank(pod));
        }
        Self { set, hash, eligibility_by_node, by_node, now }
    }

    pub(super) fn is_available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, min_ready_seconds(self.set), self.now)
    }

    pub(super) fn is_new(&self, pod: &Pod) -> bool {
        eligibility::is_new(self.set, pod, self.hash)
    }

    /// Returns the number of nodes that should run a pod.
    pub(super) fn desired(&self) -> usize {
        self.eligibility_by_node.values().filter(|eligibility| **eligibility == Eligibility::Run).count()
    }

    /// Plans to have one pod on each eligible node, and none on others.
    pub(super) fn keep(&self) -> Plan {
        let mut plan = Plan::default();
        for (node, eligibility) in &self.eligibility_by_node {
            match (eligibility, self.by_node.get(node)) {
                (Eligibility::Run, None) => plan.create.push(node.clone()),
                (Eligibility::Run | Eligibility::Stay, Some(pods)) => self.keep_on(node, *eligibility, pods, &mut plan),
                (Eligibility::Leave, Some(pods)) => plan.delete.extend(living(pods).cloned()),
                (Eligibility::Stay | Eligibility::Leave, None) => {}
            }
        }
        // Unscheduled pods of a deleted node would stay pending forever.
        for (_, pods) in self.by_node.iter().filter(|(node, _)| !self.eligibility_by_node.contains_key(*node)) {
            plan.delete.extend(living(pods).filter(|pod| pods::node_name(pod).is_empty()).cloned());
        }
        plan
    }

    fn keep_on(&self, node: &str, eligibility: Eligibility, all: &[Arc<Pod>], plan: &mut Plan) {
        let (ended, running): (Vec<_>, Vec<_>) = living(all).cloned().partition(|pod| pods::is_finished(pod));
        plan.ended.extend(ended.into_iter().map(|pod| (node.to_owned(), pod)));
        if !self.surges() {
            plan.delete.extend(running.into_iter().skip(1));
            return;
        }
        if running.is_empty() && eligibility == Eligibility::Run {
            plan.create.push(node.to_owned());
        }
        // An old and a new pod may run side by side until the new one is available.
        let (mut new, mut old) = (None, None);
        for pod in running {
            let first = if self.is_new(&pod) { &mut new } else { &mut old };
            match first {
                None => *first = Some(pod),
                Some(_) => plan.delete.push(pod),
            }
        }
        if let (Some(new), Some(old)) = (new, old)
            && (!pods::is_ready(&old) || self.is_available(&new))
        {
            plan.delete.push(old);
        }
    }

    /// Plans to replace outdated pods, a few at a time.
    pub(super) fn roll(&self) -> Plan {
        let Some(rolling) = rolling(self.set) else { return Plan::default() };
        let desired = self.desired();
        let scaled = |value: Option<&k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>| {
            let of = i64::try_from(desired).unwrap_or(i64::MAX);
            let count = value.and_then(|value| value.scaled_to(of, Rounding::Up).ok());
            count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
        };
        let surge = scaled(rolling.max_surge.as_ref());
        if surge > 0 {
            return self.surge(surge, desired);
        }
        self.replace(scaled(rolling.max_unavailable.as_ref()).max(1))
    }

    /// Returns the new and the old pod on a node, or `None` if there is more than one of either.
    fn pair(&self, all: &[Arc<Pod>]) -> Option<(Option<Arc<Pod>>, Option<Arc<Pod>>)> {
        let (new, old): (Vec<_>, Vec<_>) = living(all).cloned().partition(|pod| self.is_new(pod));
        (new.len() <= 1 && old.len() <= 1).then(|| (new.into_iter().next(), old.into_iter().next()))
    }

    /// Returns the nodes that have pods or should run one.
    fn concerned(&self) -> impl Iterator<Item = (&str, &[Arc<Pod>])> {
        let with = self.by_node.iter().map(|(node, pods)| (&**node, &**pods));
        let wanted = self
            .eligibility_by_node
            .iter()
            .filter(|(node, eligibility)| **eligibility == Eligibility::Run && !self.by_node.contains_key(*node));
        with.chain(wanted.map(|(node, _)| (&**node, &[][..])))
    }

    /// Plans to delete old pods, so that at most `most` nodes lack an available pod.
    fn replace(&self, most: usize) -> Plan {
        let mut plan = Plan::default();
        let (mut unavailable, mut candidates) = (0, Vec::new());
        for (_, pods) in self.concerned() {
            match self.pair(pods) {
                Some((Some(new), None)) if self.is_available(&new) => {}
                Some((None, Some(old))) if self.is_available(&old) => candidates.push(old),
                // The old pod is unavailable anyway, so its deletion costs nothing.
                Some((None, Some(old))) => {
                    plan.delete.push(old);
                    unavailable += 1;
                }
                _ => unavailable += 1,
            }
        }
        plan.delete.extend(candidates.into_iter().take(most.saturating_sub(unavailable)));
        plan
    }

    /// Plans to create new pods beside the old ones, and to delete an old pod once its new one is available.
    fn surge(&self, most: usize, desired: usize) -> Plan {
        let mut plan = Plan::default();
        let (mut surging, mut available) = (0_usize, 0_usize);
        let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
        for (node, pods) in self.concerned() {
            let Some((new, old)) = self.pair(pods) else {
                surging += 1;
                continue;
            };
            if old.as_ref().or(new.as_ref()).is_some_and(|pod| self.is_available(pod)) {
                available += 1;
            }
            let Some(old) = old else { continue };
            let belongs = self.eligibility_by_node.get(node) == Some(&Eligibility::Run);
            match (new, self.is_available(&old), belongs) {
                (Some(new), ..) if self.is_available(&new) => plan.delete.push(old),
                (Some(_), ..) => surging += 1,
                (None, false, false) => plan.delete.push(old),
                (None, false, true) => plan.create.push(node.to_owned()),
                (None, true, false) => misplaced.push(old),
                (None, true, true) => candidates.push(node.to_owned()),
            }
        }
        plan.delete.extend(misplaced.into_iter().take(available.saturating_sub(desired)));
        plan.create.extend(candidates.into_iter().take(most.saturating_sub(surging)));
        plan
    }

    fn surges(&self) -> bool {
        let surge = rolling(self.set).and_then(|rolling| rolling.max_surge.as_ref());
        surge.is_some_and(|surge| surge.scaled_to(1, Rounding::Up).is_ok_and(|surge| surge > 0))
    }

    /// Returns the template hashes of the pods.
    pub(super) fn hashes(all: &[Arc<Pod>]) -> HashSet<String> {
        all.iter().filter_map(|pod| pod.labels().get(eligibility::HASH_LABEL).cloned()).collect()
    }
}

fn living(pods: &[Arc<Pod>]) -> impl Iterator<Item = &Arc<Pod>> {
    pods.iter().filter(|pod| !pod.is_deleting())
}

fn rolling(set: &DaemonSet) -> Option<&RollingUpdateDaemonSet> {
    let strategy = set.spec.as_ref()?.update_strategy.as_ref()?;
    strategy.rolling_update.as_ref().filter(|_| strategy.type_.as_deref() != Some("OnDelete"))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
