//! Numbers of pods per node, kept up to date with each change of a pod.
//!
//! The terms of affinities and spread constraints select sets of pods. A set is counted once, when a pod first needs it;
//! later changes adjust its numbers. So a decision takes time in proportion to the nodes, not to the pods.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    profile::{Profile, Scope, Term},
    snapshot::{Namespaces, Placed, Slot},
};

/// The number of counted sets. The set that was unused for the longest time is removed.
const MOST_SETS: usize = 512;

/// The counted sets, and the terms of placed pods.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sets: HashMap<String, PodSet>,
    held: HashMap<String, Held>,
    uses: u64,
}

/// A counted set: the pods that belong to all its scopes.
#[derive(Debug)]
struct PodSet {
    scopes: Vec<Scope>,
    of_node: Vec<u32>,
    total: u32,
    last_use: u64,
}

/// An affinity term of placed pods.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) kind: HeldKind,
    pub(super) term: Term,
    /// The number of pods with this term on each node.
    pub(super) of_node: HashMap<Slot, u32>,
}

/// The effect of a placed pod's term on other pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldKind {
    /// Matching pods may not run in the domain.
    AntiAffinity,
    /// Matching pods are preferred in the domain by this weight, or avoided if it is negative.
    Preferred(i32),
}

/// The weight of a required affinity term of a placed pod for other pods, that of kube-scheduler.
const HARD_WEIGHT: i32 = 1;

impl Counts {
    /// Returns the numbers of pods per node that belong to all scopes, and their total.
    pub(super) fn of<'p>(
        &mut self,
        scopes: &[&Scope],
        pods: impl Iterator<Item = &'p Placed>,
        namespaces: &Namespaces,
    ) -> (&[u32], u32) {
        let name = scopes.iter().map(|scope| scope.text()).collect::<Vec<_>>().join("&");
        if !self.sets.contains_key(&name) {
            if self.sets.len() >= MOST_SETS
                && let Some(oldest) = self.sets.iter().min_by_key(|(_, set)| set.last_use).map(|(name, _)| name.clone())
            {
                self.sets.remove(&oldest);
            }
            let scopes = scopes.iter().map(|scope| (*scope).clone()).collect();
            let mut set = PodSet { scopes, of_node: Vec::new(), total: 0, last_use: 0 };
            for pod in pods {
                set.change(pod, true, namespaces);
            }
            self.sets.insert(name.clone(), set);
        }
        self.uses += 1;
        let set = self.sets.get_mut(&name).expect("the set was inserted");
        set.last_use = self.uses;
        (&set.of_node, set.total)
    }

    /// Returns the terms of placed pods.
    pub(super) fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    /// Records that a pod was added to a node, or removed from it.
    pub(super) fn change(&mut self, pod: &Placed, added: bool, namespaces: &Namespaces) {
        for set in self.sets.values_mut() {
            set.change(pod, added, namespaces);
        }
        for (kind, term) in held_terms(&pod.profile) {
            let name = format!("{kind:?} {} {}", term.key, term.scope.text());
            let held = self.held.entry(name.clone());
            let held = held.or_insert_with(|| Held { kind, term: term.clone(), of_node: HashMap::new() });
            let count = held.of_node.entry(pod.slot).or_default();
            *count = if added { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                held.of_node.remove(&pod.slot);
            }
            if held.of_node.is_empty() {
                self.held.remove(&name);
            }
        }
    }

    /// Drops the numbers that depend on the labels of namespaces.
    pub(super) fn namespaces_changed(&mut self) {
        self.sets.retain(|_, set| !set.scopes.iter().any(Scope::selects_namespaces));
    }
}

impl PodSet {
    fn change(&mut self, pod: &Placed, added: bool, namespaces: &Namespaces) {
        if !self.scopes.iter().all(|scope| scope.matches(&pod.profile, pod.terminating, namespaces)) {
            return;
        }
        if self.of_node.len() <= pod.slot {
            self.of_node.resize(pod.slot + 1, 0);
        }
        let count = &mut self.of_node[pod.slot];
        if added {
            *count += 1;
            self.total += 1;
        } else {
            *count = count.saturating_sub(1);
            self.total = self.total.saturating_sub(1);
        }
    }
}

/// Returns the terms of a pod that affect other pods.
pub(super) fn held_terms(profile: &Arc<Profile>) -> impl Iterator<Item = (HeldKind, &Term)> {
    let apart = profile.anti_affinity.iter().map(|term| (HeldKind::AntiAffinity, term));
    let together = profile.affinity.iter().map(|term| (HeldKind::Preferred(HARD_WEIGHT), term));
    let preferred = profile.preferred_pods.iter().map(|(weight, term)| (HeldKind::Preferred(*weight), term));
    apart.chain(together).chain(preferred)
}
