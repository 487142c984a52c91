//! Placement of daemon pods: the eligible nodes, and the node that a pod is for. Plain values, no I/O.

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{
        Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, PodTemplateSpec, Toleration,
    },
};
use windlass_api::ObjectExt;
use windlass_cache::Cached;

use crate::{nodes::fit, pods};

/// The label with the hash of a pod's template, on pods and revisions.
pub(super) const HASH_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION: &str = "deprecated.daemonset.template.generation";
const NAME_FIELD: &str = "metadata.name";

/// The taints (key and effect) that all daemon pods tolerate.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The taint that daemon pods with host network tolerate in addition.
const WITHOUT_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The relation of a node to a daemon set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eligibility {
    /// The node should run a pod.
    Run,
    /// A running pod may stay, but no new pod is created.
    Stay,
    /// The node should not run a pod.
    Leave,
}

/// The scheduling requirements of a daemon set's pods.
#[derive(Debug)]
pub(super) struct Requirements(PodSpec);

impl Requirements {
    pub(super) fn of(set: &DaemonSet) -> Self {
        Self(template(set).spec.unwrap_or_default())
    }

    pub(super) fn eligibility(&self, node: &Node) -> Eligibility {
        let Self(spec) = self;
        if spec.node_name.as_deref().is_some_and(|name| !name.is_empty() && name != node.name()) {
            return Eligibility::Leave;
        }
        if !fit::is_selected(spec, node) {
            return Eligibility::Leave;
        }
        let tolerations = spec.tolerations.as_deref().unwrap_or_default();
        let repels = |effects: &[&str]| fit::is_repelled(tolerations, node, effects);
        if !repels(&["NoSchedule", "NoExecute"]) {
            Eligibility::Run
        } else if repels(&["NoExecute"]) {
            Eligibility::Leave
        } else {
            Eligibility::Stay
        }
    }
}

/// Reports whether a node update can change its eligibility. Status updates, which are frequent, cannot.
pub(super) fn may_differ(old: &Cached<Node>, new: &Cached<Node>) -> bool {
    let (Ok(old), Ok(new)) = (old.get(), new.get()) else { return true };
    old.labels() != new.labels() || old.spec != new.spec
}

/// Returns the set's pod template with the tolerations added to all daemon pods.
fn template(set: &DaemonSet) -> PodTemplateSpec {
    let mut template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    tolerate(template.spec.get_or_insert_default());
    template
}

fn tolerate(spec: &mut PodSpec) {
    let network = (spec.host_network == Some(true)).then_some(WITHOUT_NETWORK);
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let wanted = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        // A toleration with a time limit is replaced by one without.
        let same = |known: &&mut Toleration| Toleration { toleration_seconds: None, ..(**known).clone() } == wanted;
        match tolerations.iter_mut().find(same) {
            Some(known) => *known = wanted,
            None => tolerations.push(wanted),
        }
    }
}

/// Builds a pod of the set for a node. Its node affinity requires that node; the scheduler binds it.
pub(super) fn pod(set: &DaemonSet, hash: &str, node: &str) -> Pod {
    let mut pod = pods::from_template(set, template(set));
    let spec = pod.spec.get_or_insert_default();
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    let required = NodeSelectorRequirement {
        key: NAME_FIELD.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![required]), ..NodeSelectorTerm::default() };
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });

    if let Some(generation) = generation(set) {
        pod.labels_mut().insert(GENERATION_LABEL.to_owned(), generation.to_string());
    }
    pod.labels_mut().insert(HASH_LABEL.to_owned(), hash.to_owned());
    pod
}

/// Returns the deprecated template generation.
fn generation(set: &DaemonSet) -> Option<i64> {
    set.annotations().get(GENERATION)?.parse().ok()
}

/// Returns `true` if the pod is of the set's current template.
pub(super) fn is_new(set: &DaemonSet, pod: &Pod, hash: &str) -> bool {
    let generation = generation(set).map(|generation| generation.to_string());
    pod.labels().get(HASH_LABEL).is_some_and(|known| known == hash)
        || generation.is_some_and(|generation| pod.labels().get(GENERATION_LABEL) == Some(&generation))
}

/// Returns the node that a pod runs on or requires.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(name) = spec.node_name.as_deref().filter(|name| !name.is_empty()) {
        return Some(name);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let mut fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let name = fields.find(|field| field.key == NAME_FIELD && field.operator == "In")?;
    match name.values.as_deref()? {
        [name] => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(spec: Value) -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"name": "agent", "uid": "1", "annotations": {GENERATION: "3"}},
            "spec": {"selector": {}, "template": {"spec": spec}},
        }))
        .unwrap()
    }

    fn node(taints: Value) -> Node {
        serde_json::from_value(
            json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}}, "spec": {"taints": taints}}),
        )
        .unwrap()
    }

    #[test]
    fn taints_and_labels_decide_eligible_nodes() {
        let wanted = |spec: Value| Requirements::of(&set(spec));
        let plain = wanted(json!({"containers": []}));
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        assert_eq!(plain.eligibility(&node(json!([]))), Eligibility::Run);
        assert_eq!(plain.eligibility(&node(taint("gpu", "NoSchedule"))), Eligibility::Stay);
        assert_eq!(plain.eligibility(&node(taint("gpu", "NoExecute"))), Eligibility::Leave);
        assert_eq!(plain.eligibility(&node(taint("gpu", "PreferNoSchedule"))), Eligibility::Run);
        assert_eq!(plain.eligibility(&node(taint("node.kubernetes.io/unschedulable", "NoSchedule"))), Eligibility::Run);
        let other = wanted(json!({"containers": [], "nodeSelector": {"disk": "hdd"}}));
        assert_eq!(other.eligibility(&node(json!([]))), Eligibility::Leave);
        let named = wanted(json!({"containers": [], "nodeName": "other"}));
        assert_eq!(named.eligibility(&node(json!([]))), Eligibility::Leave);
    }

    #[test]
    fn daemon_pod_selects_its_node_and_tolerates_taints() {
        let timed = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let set = set(json!({"containers": [], "hostNetwork": true, "tolerations": [timed]}));
        let pod = pod(&set, "abc", "n");
        assert_eq!(node_of(&pod), Some("n"));
        let tolerations = pod.spec.as_ref().unwrap().tolerations.clone().unwrap();
        assert_eq!((tolerations.len(), tolerations[0].toleration_seconds), (7, None));
        assert!(is_new(&set, &pod, "abc") && is_new(&set, &pod, "of the same generation"));
        assert!(!is_new(&set, &Pod::default(), "abc"));
    }
}
