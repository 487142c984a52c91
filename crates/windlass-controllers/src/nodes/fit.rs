//! The scheduler's checks whether a pod may run on a node.

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration,
};
use windlass_api::ObjectExt;

use super::{amount::Amount, demand::Demand, ports::HostPort};

/// The reason why a pod cannot run on a node. Displays as in the pod's condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FitError {
    /// The node is cordoned.
    Unschedulable,
    /// The node is not ready.
    NotReady,
    /// The pod does not tolerate a taint of the node.
    Tainted,
    /// The node does not match the pod's node selector or affinity.
    Unselected,
    /// A requested host port is taken by another pod.
    PortTaken,
    /// The node does not reach a volume of the pod.
    Unreachable,
    /// A claim of the pod cannot get a volume on the node.
    NoVolume,
    /// A claim of the pod has a volume that does not exist.
    LostVolume,
    /// The node's maximum number of pods is reached.
    TooManyPods,
    /// The node has too little of a resource left.
    Insufficient(String),
}

/// The resources and ports in use on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) pods: u32,
    pub(crate) demand: Demand,
    pub(crate) ports: Vec<HostPort>,
}

impl std::fmt::Display for FitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::NotReady => "node(s) were not ready",
            Self::Tainted => "node(s) had untolerated taint(s)",
            Self::Unselected => "node(s) didn't match Pod's node affinity/selector",
            Self::PortTaken => "node(s) didn't have free ports for the requested pod ports",
            Self::Unreachable => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Self::LostVolume => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Self::TooManyPods => "Too many pods",
            Self::Insufficient(resource) => return write!(f, "Insufficient {resource}"),
        })
    }
}

/// Checks that the pod, which requests `demand`, can run on the node. Returns the first reason if it cannot.
pub(crate) fn fit(pod: &Pod, demand: &Demand, node: &Node, usage: &Usage) -> Result<(), FitError> {
    let default = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&default);
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let node_spec = node.spec.as_ref();

    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let cordoned = node_spec.and_then(|spec| spec.unschedulable) == Some(true);
    if cordoned && !tolerations.iter().any(|toleration| tolerates(toleration, &cordon)) {
        return Err(FitError::Unschedulable);
    }
    if !is_ready(node) {
        return Err(FitError::NotReady);
    }
    if is_repelled(tolerations, node, &["NoSchedule", "NoExecute"]) {
        return Err(FitError::Tainted);
    }
    if !is_selected(spec, node) {
        return Err(FitError::Unselected);
    }
    if HostPort::of(pod).iter().any(|port| usage.ports.iter().any(|taken| taken.conflicts_with(port))) {
        return Err(FitError::PortTaken);
    }
    room(demand, node, usage)
}

fn room(demand: &Demand, node: &Node, usage: &Usage) -> Result<(), FitError> {
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
    let allocatable =
        |resource: &str| allocatable.and_then(|list| list.get(resource)).map(Amount::from).unwrap_or_default();
    if Amount::units(usage.pods + 1) > allocatable("pods") {
        return Err(FitError::TooManyPods);
    }
    for (resource, amount) in demand.iter() {
        let taken = usage.demand.get(resource);
        if amount > Amount::default() && taken.plus(amount) > allocatable(resource) {
            return Err(FitError::Insufficient(resource.to_owned()));
        }
    }
    Ok(())
}

/// Returns `true` if the node has a taint with one of these effects that is not tolerated.
pub(crate) fn is_repelled(tolerations: &[Toleration], node: &Node, effects: &[&str]) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let mut repelling = taints.filter(|taint| effects.contains(&&*taint.effect));
    repelling.any(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// An empty field matches everything.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    fn given(field: Option<&String>) -> Option<&str> {
        field.map(String::as_str).filter(|text| !text.is_empty())
    }
    let value_of = |taint: &Taint| taint.value.clone().unwrap_or_default();
    given(toleration.effect.as_ref()).is_none_or(|effect| effect == taint.effect)
        && given(toleration.key.as_ref()).is_none_or(|key| key == taint.key)
        && match given(toleration.operator.as_ref()) {
            None | Some("Equal") => toleration.value.clone().unwrap_or_default() == value_of(taint),
            Some("Exists") => true,
            Some(operator @ ("Gt" | "Lt")) => {
                let number = |text: String| text.parse::<i64>().ok();
                let pair = number(value_of(taint)).zip(number(toleration.value.clone().unwrap_or_default()));
                pair.is_some_and(|(taint, bound)| if operator == "Gt" { taint > bound } else { taint < bound })
            }
            Some(_) => false,
        }
}

/// Checks the node selector and the required node affinity of a pod: both must match.
pub(crate) fn is_selected(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.labels();
    let plain = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    plain && required.is_none_or(|selector| is_near(selector, node))
}

/// Reports whether a selector matches a node.
pub(crate) fn is_near(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, node))
}

/// A term without requirements matches nothing.
fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |key: &str| (key == "metadata.name").then(|| node.name());
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|wanted| holds(wanted, node.labels().get(&wanted.key).map(String::as_str)))
        && fields.iter().all(|wanted| holds(wanted, field(&wanted.key)))
}

fn holds(wanted: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let among = |value: &str| values.iter().any(|wanted| wanted == value);
    let compare = |holds: fn(&i64, &i64) -> bool| {
        let number = value.and_then(|value| value.parse().ok());
        let bound = values.first().and_then(|bound| bound.parse().ok());
        number.zip(bound).is_some_and(|(number, bound)| holds(&number, &bound))
    };
    match wanted.operator.as_str() {
        "In" => value.is_some_and(among),
        "NotIn" => !value.is_some_and(among),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
