//! Affinity and anti-affinity between pods.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    counts::{HeldKind, held_terms},
    profile::{Profile, Scope, Term},
    reason::{Reason, Rejection},
    snapshot::{Placed, Slot, Snapshot, Topology},
};

/// The numbers of pods that the required terms of a pod match, and of pods whose anti-affinity matches the pod.
#[derive(Debug)]
pub(super) struct AffinityState {
    affinity: Vec<Domains>,
    /// `true` if the pod matches its own affinity, so that it can be the first of a group.
    matches_self: bool,
    anti_affinity: Vec<Domains>,
    existing: Vec<Domains>,
}

/// The number of pods by domain.
#[derive(Debug)]
struct Domains {
    key: Arc<str>,
    topology: Arc<Topology>,
    pods: Vec<u32>,
}

impl Domains {
    fn of(snapshot: &mut Snapshot, key: &Arc<str>, scopes: &[&Scope]) -> Self {
        let mut domains = Self::empty(key, snapshot.topology(key));
        let (of_node, total) = snapshot.count(scopes);
        if total > 0 {
            for (slot, pods) in of_node.iter().enumerate() {
                domains.change(slot, i64::from(*pods));
            }
        }
        domains
    }

    fn empty(key: &Arc<str>, topology: Arc<Topology>) -> Self {
        Self { key: Arc::clone(key), pods: vec![0; topology.domains], topology }
    }

    fn change(&mut self, slot: Slot, by: i64) {
        if let Some(domain) = self.topology.domain(slot) {
            self.pods[domain] = u32::try_from(i64::from(self.pods[domain]) + by).unwrap_or(0);
        }
    }

    fn pods_near(&self, slot: Slot) -> u32 {
        self.topology.domain(slot).map_or(0, |domain| self.pods[domain])
    }
}

impl AffinityState {
    /// Returns `None` if no affinity concerns the pod.
    pub(super) fn of(snapshot: &mut Snapshot, pod: &Profile) -> Option<Self> {
        let matches = |term: &Term, snapshot: &Snapshot| term.scope.matches(pod, false, snapshot.namespaces());
        let excluding = snapshot.counts().held().filter(|held| held.kind == HeldKind::AntiAffinity);
        let excluding = excluding.filter(|held| matches(&held.term, snapshot));
        let excluding: Vec<_> = excluding.map(|held| (Arc::clone(&held.term.key), held.of_node.clone())).collect();
        if excluding.is_empty() && pod.affinity.is_empty() && pod.anti_affinity.is_empty() {
            return None;
        }
        let mut existing: Vec<Domains> = Vec::new();
        for (key, of_node) in excluding {
            if !existing.iter().any(|known| known.key == key) {
                let topology = snapshot.topology(&key);
                existing.push(Domains::empty(&key, topology));
            }
            for domains in existing.iter_mut().filter(|known| known.key == key) {
                for (slot, pods) in &of_node {
                    domains.change(*slot, i64::from(*pods));
                }
            }
        }
        // Only pods that match all terms count.
        let scopes: Vec<_> = pod.affinity.iter().map(|term| &term.scope).collect();
        let affinity = pod.affinity.iter().map(|term| Domains::of(snapshot, &term.key, &scopes)).collect();
        let anti_affinity =
            pod.anti_affinity.iter().map(|term| Domains::of(snapshot, &term.key, &[&term.scope])).collect();
        let matches_self = pod.affinity.iter().all(|term| matches(term, snapshot));
        Some(Self { affinity, matches_self, anti_affinity, existing })
    }

    /// Checks the affinity of the pod to those on a node and in its domains.
    pub(super) fn check(&self, slot: Slot) -> Result<(), Rejection> {
        let has_labels = self.affinity.iter().all(|domains| domains.topology.domain(slot).is_some());
        let is_near = self.affinity.iter().all(|domains| domains.pods_near(slot) > 0);
        let is_first = || self.matches_self && self.affinity.iter().all(|domains| domains.pods.iter().all(|n| *n == 0));
        if !has_labels || !(is_near || is_first()) {
            return Err(Rejection::unresolvable(Reason::Alone));
        }
        if self.anti_affinity.iter().any(|domains| domains.pods_near(slot) > 0) {
            return Err(Rejection::resolvable(Reason::AntiAffinity));
        }
        if self.existing.iter().any(|domains| domains.pods_near(slot) > 0) {
            return Err(Rejection::resolvable(Reason::ExistingAntiAffinity));
        }
        Ok(())
    }

    /// Records that a pod was added to its node, or removed from it.
    pub(super) fn change(&mut self, pod: &Profile, other: &Placed, added: bool, snapshot: &Snapshot) {
        let by = if added { 1 } else { -1 };
        let namespaces = snapshot.namespaces();
        let matches = |term: &Term| term.scope.matches(&other.profile, other.terminating, namespaces);
        if pod.affinity.iter().all(matches) {
            self.affinity.iter_mut().for_each(|domains| domains.change(other.slot, by));
        }
        for (term, domains) in pod.anti_affinity.iter().zip(&mut self.anti_affinity) {
            if matches(term) {
                domains.change(other.slot, by);
            }
        }
        for term in &other.profile.anti_affinity {
            if term.scope.matches(pod, false, namespaces) {
                for domains in self.existing.iter_mut().filter(|known| known.key == term.key) {
                    domains.change(other.slot, by);
                }
            }
        }
    }
}

/// The preferences between a pod and those on the nodes: the sum of weights by domain.
#[derive(Debug, Default)]
pub(super) struct Preferences(Vec<(Arc<Topology>, Vec<i64>)>);

impl Preferences {
    pub(super) fn of(snapshot: &mut Snapshot, pod: &Profile) -> Self {
        let mut sums: HashMap<Arc<str>, (Arc<Topology>, Vec<i64>)> = HashMap::new();
        let mut add = |key: &Arc<str>, topology: Arc<Topology>, slot: Slot, weight: i64| {
            let (topology, sums) =
                sums.entry(Arc::clone(key)).or_insert_with(|| (Arc::clone(&topology), vec![0; topology.domains]));
            if let Some(domain) = topology.domain(slot) {
                sums[domain] += weight;
            }
        };
        for (weight, term) in &pod.preferred_pods {
            let topology = snapshot.topology(&term.key);
            let (of_node, _) = snapshot.count(&[&term.scope]);
            for (slot, pods) in of_node.iter().enumerate().filter(|(_, pods)| **pods > 0) {
                add(&term.key, Arc::clone(&topology), slot, i64::from(*weight) * i64::from(*pods));
            }
        }
        let mut held = Vec::new();
        for known in snapshot.counts().held() {
            if let HeldKind::Preferred(weight) = known.kind
                && known.term.scope.matches(pod, false, snapshot.namespaces())
            {
                held.push((i64::from(weight), Arc::clone(&known.term.key), known.of_node.clone()));
            }
        }
        for (weight, key, of_node) in held {
            let topology = snapshot.topology(&key);
            for (slot, pods) in of_node {
                add(&key, Arc::clone(&topology), slot, weight * i64::from(pods));
            }
        }
        Self(sums.into_values().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn weight(&self, slot: Slot) -> i64 {
        self.0.iter().filter_map(|(topology, sums)| topology.domain(slot).map(|domain| sums[domain])).sum()
    }
}

/// Reports whether the arrival or departure of a pod can change where another can run, by affinity or spread.
pub(super) fn concerns(waiting: &Profile, other: &Arc<Profile>, snapshot: &Snapshot) -> bool {
    let namespaces = snapshot.namespaces();
    let scopes = waiting.affinity.iter().chain(&waiting.anti_affinity).map(|term| &term.scope);
    let mut scopes = scopes.chain(waiting.hard_spread.iter().map(|constraint| &constraint.scope));
    scopes.any(|scope| scope.matches(other, false, namespaces))
        || held_terms(other).any(|(_, term)| term.scope.matches(waiting, false, namespaces))
}
