//! The pods on each node, and the choice of a node for the next pod.

use std::{collections::BTreeSet, fmt};

use hashbrown::HashMap;
use k8s_openapi::api::core::v1::{Node, Pod};
use windlass_api::{ObjectExt, ObjectKey};

use super::{
    demand::Demand,
    fit::{FitError, Usage, fit},
    ports::HostPort,
};
use crate::pods;

/// The scheduler's memory. It contains the scheduler's own bindings before the cache shows them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    places: HashMap<ObjectKey, Place>,
    /// The sums over `places`.
    usage: HashMap<String, Usage>,
    /// The pods that fit on no node, to be retried when something changes. Sorted, so that the same events lead to the
    /// same order.
    waiting: BTreeSet<ObjectKey>,
}

#[derive(Debug)]
struct Place {
    uid: Option<String>,
    node: String,
    demand: Demand,
    ports: Vec<HostPort>,
}

/// The result of recording a pod's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodState {
    /// The pod needs a node.
    Unscheduled,
    /// The pod has a node, or needs none from this scheduler; no place became free.
    Settled,
    /// The pod has left its node.
    Left,
}

/// The reason why a pod fits on no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unschedulable {
    nodes: usize,
    /// Each reason once, with the number of nodes.
    errors: Vec<(FitError, usize)>,
    /// The reason, if it does not depend on the node.
    everywhere: Option<String>,
}

impl Ledger {
    /// Records the newest state of a pod; `None` if it is gone.
    pub(crate) fn record(&mut self, key: &ObjectKey, pod: Option<&Pod>) -> PodState {
        let Some(pod) = pod.filter(|pod| !pods::is_finished(pod)) else {
            self.waiting.remove(key);
            return if self.clear(key) { PodState::Left } else { PodState::Settled };
        };
        let node = pods::node_name(pod);
        if !node.is_empty() {
            self.waiting.remove(key);
            if !self.places.get(key).is_some_and(|place| place.uid.as_deref() == pod.uid() && place.node == node) {
                self.place(key, pod, node);
            }
            return PodState::Settled;
        }
        match self.places.get(key) {
            // The cache does not show our binding yet.
            Some(_) if self.has_place(key, pod) => PodState::Settled,
            Some(_) => {
                self.clear(key);
                if wants_node(pod) { PodState::Unscheduled } else { PodState::Left }
            }
            None if wants_node(pod) => PodState::Unscheduled,
            None => PodState::Settled,
        }
    }

    /// Returns `true` if this pod, and not a recreated one, has a place. It is then removed from the waiting pods.
    pub(crate) fn is_placed(&mut self, key: &ObjectKey, pod: &Pod) -> bool {
        let placed = self.has_place(key, pod);
        if placed {
            self.waiting.remove(key);
        }
        placed
    }

    fn has_place(&self, key: &ObjectKey, pod: &Pod) -> bool {
        self.places.get(key).is_some_and(|place| place.uid.as_deref() == pod.uid())
    }

    /// Records that a pod is on a node, or that its binding is in progress.
    pub(crate) fn place(&mut self, key: &ObjectKey, pod: &Pod, node: &str) {
        self.clear(key);
        self.waiting.remove(key);
        let demand = Demand::of(pod);
        let usage = self.usage.entry_ref(node).or_default();
        usage.pods += 1;
        usage.demand.add(&demand);
        let ports = HostPort::of(pod);
        usage.ports.extend_from_slice(&ports);
        let place = Place { uid: pod.uid().map(str::to_owned), node: node.to_owned(), demand, ports };
        self.places.insert(key.clone(), place);
    }

    /// Removes the place of a pod. Returns `true` if it had one.
    pub(crate) fn clear(&mut self, key: &ObjectKey) -> bool {
        let Some(place) = self.places.remove(key) else { return false };
        if let Some(usage) = self.usage.get_mut(&place.node) {
            usage.pods -= 1;
            usage.demand.subtract(&place.demand);
            for port in &place.ports {
                if let Some(taken) = usage.ports.iter().position(|taken| taken == port) {
                    usage.ports.swap_remove(taken);
                }
            }
            if usage.pods == 0 {
                self.usage.remove(&place.node);
            }
        }
        true
    }

    /// Records that a pod currently fits on no node.
    pub(crate) fn wait(&mut self, key: &ObjectKey) {
        self.waiting.insert(key.clone());
    }

    /// Returns the pods that fit on no node.
    pub(crate) fn waiting(&self) -> Vec<ObjectKey> {
        self.waiting.iter().cloned().collect()
    }

    /// Returns the best node for a pod: among the fitting ones, the node with the fewest pods, then the first by name.
    pub(crate) fn choose<'n>(
        &self,
        pod: &Pod,
        nodes: impl IntoIterator<Item = &'n Node>,
        also: impl Fn(&Node) -> Result<(), FitError>,
    ) -> Result<&'n Node, Unschedulable> {
        let demand = Demand::of(pod);
        let unused = Usage::default();
        let mut best: Option<(u32, &Node)> = None;
        let mut unschedulable = Unschedulable { nodes: 0, errors: Vec::new(), everywhere: None };
        for node in nodes {
            unschedulable.nodes += 1;
            let usage = self.usage.get(node.name()).unwrap_or(&unused);
            match fit(pod, &demand, node, usage).and_then(|()| also(node)) {
                Ok(()) => {
                    let rank = |pods: u32, node: &Node| (pods, node.name().len(), node.name().to_owned());
                    if best.is_none_or(|(pods, other)| rank(usage.pods, node) < rank(pods, other)) {
                        best = Some((usage.pods, node));
                    }
                }
                Err(error) => unschedulable.count(error),
            }
        }
        best.map(|(_, node)| node).ok_or(unschedulable)
    }
}

impl Unschedulable {
    /// Creates the result for a reason that does not depend on the node.
    pub(crate) fn everywhere(nodes: usize, why: String) -> Self {
        Self { nodes, errors: Vec::new(), everywhere: Some(why) }
    }

    fn count(&mut self, error: FitError) {
        match self.errors.iter_mut().find(|(known, _)| *known == error) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((error, 1)),
        }
    }
}

impl fmt::Display for Unschedulable {
    /// The format of the default scheduler.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        if let Some(why) = &self.everywhere {
            return write!(f, "0/{} nodes are available: {why}.", self.nodes);
        }
        let mut reasons: Vec<_> = self.errors.iter().map(|(error, count)| format!("{count} {error}")).collect();
        reasons.sort_unstable();
        write!(f, "0/{} nodes are available: {}.", self.nodes, reasons.join(", "))
    }
}

/// Returns `true` if the pod is assigned to the default scheduler and has no node yet.
fn wants_node(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == "default-scheduler");
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    ours && !gated && !pod.is_deleting()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "1", "pods": "5"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap()
    }

    fn pod(name: &str, uid: &str, node: &str) -> (ObjectKey, Pod) {
        let pod = json!({
            "metadata": {"name": name, "namespace": "n", "uid": uid},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "600m"}}}]},
        });
        (ObjectKey::new(name).within("n"), serde_json::from_value(pod).unwrap())
    }

    fn chosen(ledger: &Ledger, pod: &Pod, nodes: &[Node]) -> String {
        ledger.choose(pod, nodes, |_| Ok(())).map_or_else(|why| why.to_string(), |node| node.name().to_owned())
    }

    #[test]
    fn pods_spread_over_the_nodes_and_stop_where_they_are_full() {
        let nodes = [node("node-10"), node("node-2")];
        let mut ledger = Ledger::default();
        let mut places = Vec::new();
        for name in ["a", "b", "c"] {
            let (key, pod) = pod(name, name, "");
            assert_eq!(ledger.record(&key, Some(&pod)), PodState::Unscheduled);
            let node = chosen(&ledger, &pod, &nodes);
            if nodes.iter().any(|known| known.name() == node) {
                ledger.place(&key, &pod, &node);
            } else {
                ledger.wait(&key);
            }
            places.push(node);
        }
        assert_eq!(places, ["node-2", "node-10", "0/2 nodes are available: 2 Insufficient cpu."]);
        assert_eq!(ledger.waiting(), [ObjectKey::new("c").within("n")]);

        // One pod is removed, so its place is free.
        let (key, _) = pod("a", "a", "");
        assert_eq!(ledger.record(&key, None), PodState::Left);
        assert_eq!(chosen(&ledger, &pod("c", "c", "").1, &nodes), "node-2");
        assert_eq!(ledger.record(&key, None), PodState::Settled);
    }

    #[test]
    fn pods_with_one_host_port_get_a_node_each() {
        let nodes = [node("node-0"), node("node-1")];
        let mut ledger = Ledger::default();
        let with_port = |name: &str| {
            let (key, mut pod) = pod(name, name, "");
            let ports = json!([{"containerPort": 80, "hostPort": 8080}]);
            let container = &mut pod.spec.as_mut().unwrap().containers[0];
            (container.ports, container.resources) = (serde_json::from_value(ports).unwrap(), None);
            (key, pod)
        };
        let mut places = Vec::new();
        for name in ["a", "b", "c"] {
            let (key, pod) = with_port(name);
            let node = chosen(&ledger, &pod, &nodes);
            if nodes.iter().any(|known| known.name() == node) {
                ledger.place(&key, &pod, &node);
            }
            places.push(node);
        }
        let full = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports.";
        assert_eq!(places, ["node-0", "node-1", full]);
        ledger.clear(&ObjectKey::new("b").within("n"));
        assert_eq!(chosen(&ledger, &with_port("c").1, &nodes), "node-1");
    }

    #[test]
    fn ledger_without_nodes_is_empty() {
        let (_, pod) = pod("a", "1", "");
        assert_eq!(chosen(&Ledger::default(), &pod, &[]), "no nodes available to schedule pods");
    }

    #[test]
    fn a_binding_is_remembered_until_the_cache_shows_it() {
        let (key, unscheduled) = pod("a", "1", "");
        let mut ledger = Ledger::default();
        ledger.place(&key, &unscheduled, "node-0");
        assert_eq!(ledger.record(&key, Some(&unscheduled)), PodState::Settled, "it is not bound twice");
        assert_eq!(ledger.record(&key, Some(&pod("a", "1", "node-0").1)), PodState::Settled);
        // A recreated pod of the same name counts as a new pod.
        assert_eq!(ledger.record(&key, Some(&pod("a", "2", "").1)), PodState::Unscheduled);
        assert!(ledger.usage.is_empty());
    }

    #[test]
    fn foreign_bound_pod_uses_node_capacity() {
        let mut ledger = Ledger::default();
        let (key, bound) = pod("a", "1", "node-0");
        ledger.wait(&key);
        assert_eq!(ledger.record(&key, Some(&bound)), PodState::Settled);
        assert_eq!((ledger.usage["node-0"].pods, ledger.waiting().len()), (1, 0));
        let mut finished = bound;
        finished.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
        assert_eq!(ledger.record(&key, Some(&finished)), PodState::Left);
        assert!(ledger.usage.is_empty());
    }

    #[test]
    fn some_pods_are_not_for_this_scheduler() {
        let mut ledger = Ledger::default();
        for spec in [
            json!({"schedulerName": "mine", "containers": []}),
            json!({"schedulingGates": [{"name": "example.com/quota"}], "containers": []}),
        ] {
            let (key, mut pod) = pod("a", "1", "");
            pod.spec = serde_json::from_value(spec).unwrap();
            assert_eq!(ledger.record(&key, Some(&pod)), PodState::Settled);
        }
    }
}
