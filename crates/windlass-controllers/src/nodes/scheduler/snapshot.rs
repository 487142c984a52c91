//! The nodes and the placed pods in compact form, kept up to date by events.

use std::sync::Arc;

use hashbrown::HashMap;
use k8s_openapi::{
    api::core::v1::{Node, Taint},
    jiff::Timestamp,
};
use windlass_api::{ObjectExt, ObjectKey};

use super::{
    super::{amount::Amount, fit::Labeled, ports::HostPort},
    amounts::Amounts,
    counts::Counts,
    profile::{Labels, Profile, Scope, label},
    reason::Causes,
};

/// The position of a node in the snapshot.
pub(super) type Slot = usize;

/// The labels of namespaces.
pub(super) type Namespaces = HashMap<Arc<str>, Labels>;

/// The nodes, the pods on them, and the labels of namespaces.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    nodes: Vec<NodeInfo>,
    by_name: HashMap<Arc<str>, Slot>,
    /// The slots of existing nodes, in visiting order.
    order: Vec<Slot>,
    free: Vec<Slot>,
    pods: HashMap<ObjectKey, Placed>,
    namespaces: Namespaces,
    counts: Counts,
    /// Computed at the first use after a change of the nodes.
    topologies: HashMap<Arc<str>, Arc<Topology>>,
}

/// A node.
#[derive(Debug)]
pub(super) struct NodeInfo {
    pub(super) name: Arc<str>,
    /// `false` if pods name this node but it does not exist.
    exists: bool,
    labels: Labels,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
    pub(super) allocatable: Amounts,
    pub(super) usage: Usage,
    pub(super) pods: Vec<ObjectKey>,
    /// The number of pods by priority, sorted.
    priorities: Vec<(i32, u32)>,
}

/// The resources and ports that pods use on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) pods: u32,
    pub(super) demand: Amounts,
    /// CPU and memory for the scores.
    pub(super) assumed: [Amount; 2],
    pub(super) ports: Vec<HostPort>,
}

/// A pod that has a node, or whose binding is in progress.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) uid: Arc<str>,
    pub(super) slot: Slot,
    pub(super) profile: Arc<Profile>,
    /// `true` if the pod is being deleted.
    pub(super) terminating: bool,
    /// `true` until the cache shows the binding.
    pub(super) assumed: bool,
    /// `true` if the pod is being deleted by a preemption.
    pub(super) preempted: bool,
    pub(super) started: Option<Timestamp>,
    /// The generation of the pod with this profile; unknown for a pod that was bound just now.
    pub(super) generation: Option<i64>,
}

/// The domains of a topology key.
#[derive(Debug)]
pub(super) struct Topology {
    /// The domain of each slot.
    of_node: Vec<Option<u32>>,
    pub(super) domains: usize,
}

impl Topology {
    pub(super) fn domain(&self, slot: Slot) -> Option<usize> {
        self.of_node.get(slot).copied().flatten().map(|domain| domain as usize)
    }
}

impl Snapshot {
    pub(super) fn node(&self, slot: Slot) -> &NodeInfo {
        &self.nodes[slot]
    }

    /// Returns the slot of an existing node.
    pub(super) fn slot(&self, name: &str) -> Option<Slot> {
        self.by_name.get(name).copied().filter(|slot| self.nodes[*slot].exists)
    }

    /// Returns the slots of the existing nodes.
    pub(super) fn order(&self) -> &[Slot] {
        &self.order
    }

    pub(super) fn pod(&self, key: &ObjectKey) -> Option<&Placed> {
        self.pods.get(key)
    }

    pub(super) fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the numbers of pods per slot that belong to all scopes, and their total.
    pub(super) fn count(&mut self, scopes: &[&Scope]) -> (&[u32], u32) {
        self.counts.of(scopes, self.pods.values(), &self.namespaces)
    }

    /// Returns the domains of a topology key.
    pub(super) fn topology(&mut self, key: &Arc<str>) -> Arc<Topology> {
        if let Some(known) = self.topologies.get(key) {
            return Arc::clone(known);
        }
        let mut values: HashMap<&str, u32> = HashMap::new();
        let mut of_node = vec![None; self.nodes.len()];
        for slot in &self.order {
            if let Some(value) = self.nodes[*slot].label(key) {
                let next = u32::try_from(values.len()).unwrap_or(u32::MAX);
                of_node[*slot] = Some(*values.entry(value).or_insert(next));
            }
        }
        let topology = Arc::new(Topology { of_node, domains: values.len() });
        self.topologies.insert(Arc::clone(key), Arc::clone(&topology));
        topology
    }

    /// Records the state of a node. Returns the causes of rejections that the change may have removed.
    pub(super) fn set_node(&mut self, node: &Node) -> Causes {
        let slot = self.slot_for(node.name());
        let info = &mut self.nodes[slot];
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        let allocatable = status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
        let shared = |text: &String| Arc::<str>::from(text.as_str());
        let labels: Labels = node.labels().iter().map(|(key, value)| (shared(key), shared(value))).collect();
        let taints = spec.and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let unschedulable = spec.and_then(|spec| spec.unschedulable) == Some(true);
        let allocatable: Amounts =
            allocatable.into_iter().flatten().map(|(name, amount)| (name.as_str(), amount.into())).collect();
        let mut causes = Causes::NONE;
        let relabeled = !info.exists || info.labels != labels;
        if relabeled {
            causes |= Causes::NODE | Causes::VOLUMES | Causes::SPREAD | Causes::PODS;
            info.labels = labels;
        }
        if info.taints != taints || info.unschedulable != unschedulable {
            causes |= Causes::NODE | Causes::SPREAD;
            (info.taints, info.unschedulable) = (taints, unschedulable);
        }
        if info.allocatable != allocatable {
            causes |= Causes::RESOURCES;
            info.allocatable = allocatable;
        }
        if !std::mem::replace(&mut info.exists, true) {
            causes = Causes::ALL;
            self.order.push(slot);
        }
        if relabeled {
            self.topologies.clear();
        }
        causes
    }

    /// Records that a node was deleted.
    pub(super) fn remove_node(&mut self, name: &str) {
        let Some(slot) = self.slot(name) else { return };
        self.nodes[slot].exists = false;
        self.order.retain(|known| *known != slot);
        self.topologies.clear();
        self.release(slot);
    }

    /// Records the labels of a namespace, or that it was deleted.
    pub(super) fn set_namespace(&mut self, name: &str, labels: Option<Labels>) {
        let before = match labels {
            Some(labels) if self.namespaces.get(name) == Some(&labels) => return,
            Some(labels) => self.namespaces.insert(name.into(), labels),
            None => self.namespaces.remove(name),
        };
        if before.is_some() {
            self.counts.namespaces_changed();
        }
    }

    /// Records that a pod is on a node.
    pub(super) fn place(&mut self, key: &ObjectKey, node: &str, mut pod: Placed) {
        self.remove(key);
        pod.slot = self.slot_for(node);
        let info = &mut self.nodes[pod.slot];
        info.usage.add(&pod.profile);
        info.pods.push(key.clone());
        info.count_priority(pod.profile.priority, true);
        self.counts.change(&pod, true, &self.namespaces);
        self.pods.insert(key.clone(), pod);
    }

    /// Changes the state of a placed pod that does not affect the numbers of pods.
    pub(super) fn touch(
        &mut self,
        key: &ObjectKey,
        generation: Option<i64>,
        preempted: bool,
        started: Option<Timestamp>,
    ) {
        if let Some(pod) = self.pods.get_mut(key) {
            (pod.assumed, pod.generation, pod.preempted, pod.started) = (false, generation, preempted, started);
        }
    }

    /// Removes a pod from its node.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Placed> {
        let pod = self.pods.remove(key)?;
        let info = &mut self.nodes[pod.slot];
        info.usage.remove(&pod.profile);
        if let Some(position) = info.pods.iter().position(|known| known == key) {
            info.pods.swap_remove(position);
        }
        info.count_priority(pod.profile.priority, false);
        self.counts.change(&pod, false, &self.namespaces);
        self.release(pod.slot);
        Some(pod)
    }

    fn slot_for(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.by_name.get(name) {
            return *slot;
        }
        let name: Arc<str> = name.into();
        let info = NodeInfo::named(Arc::clone(&name));
        let slot = if let Some(slot) = self.free.pop() {
            self.nodes[slot] = info;
            slot
        } else {
            self.nodes.push(info);
            self.nodes.len() - 1
        };
        self.by_name.insert(name, slot);
        slot
    }

    /// Frees the slot of a node that does not exist and has no pods.
    fn release(&mut self, slot: Slot) {
        let info = &self.nodes[slot];
        if !info.exists && info.pods.is_empty() {
            self.by_name.remove(&info.name);
            self.free.push(slot);
        }
    }
}

impl NodeInfo {
    fn named(name: Arc<str>) -> Self {
        Self {
            name,
            exists: false,
            labels: Labels::new(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: Amounts::default(),
            usage: Usage::default(),
            pods: Vec::new(),
            priorities: Vec::new(),
        }
    }

    /// Reports whether a pod on the node has a lower priority.
    pub(super) fn has_pods_below(&self, priority: i32) -> bool {
        self.priorities.first().is_some_and(|(lowest, _)| *lowest < priority)
    }

    fn count_priority(&mut self, priority: i32, added: bool) {
        match self.priorities.binary_search_by_key(&priority, |(known, _)| *known) {
            Ok(position) if added => self.priorities[position].1 += 1,
            Ok(position) if self.priorities[position].1 > 1 => self.priorities[position].1 -= 1,
            Ok(position) => {
                self.priorities.remove(position);
            }
            Err(position) if added => self.priorities.insert(position, (priority, 1)),
            Err(_) => {}
        }
    }
}

impl Labeled for NodeInfo {
    fn node_name(&self) -> &str {
        &self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        label(&self.labels, key)
    }
}

impl Usage {
    pub(super) fn add(&mut self, pod: &Profile) {
        self.pods += 1;
        self.change(pod, Amount::plus);
        self.ports.extend_from_slice(&pod.ports);
    }

    pub(super) fn remove(&mut self, pod: &Profile) {
        self.pods -= 1;
        self.change(pod, Amount::minus);
        for port in &pod.ports {
            if let Some(position) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(position);
            }
        }
    }

    fn change(&mut self, pod: &Profile, with: impl Fn(Amount, Amount) -> Amount) {
        self.demand.combine(&pod.demand, &with);
        for (own, amount) in self.assumed.iter_mut().zip(pod.assumed) {
            *own = with(*own, amount);
        }
    }
}
