//! The rules of taints and node selectors, for the scheduler and for controllers.

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use windlass_api::ObjectExt;

/// A node as node selectors see it.
pub(crate) trait Labeled: std::fmt::Debug {
    /// Returns the name of the node.
    fn node_name(&self) -> &str;

    /// Returns the value of a label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labeled for Node {
    fn node_name(&self) -> &str {
        self.name()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels().get(key).map(String::as_str)
    }
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

/// Reports whether a toleration matches a taint. An empty field matches everything.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
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
pub(crate) fn is_selected(spec: &PodSpec, node: &dyn Labeled) -> bool {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    matches_node(spec.node_selector.iter().flatten(), required, node)
}

/// Reports whether a node has all labels, and matches a selector if there is one.
pub(crate) fn matches_node<'l>(
    labels: impl IntoIterator<Item = (&'l String, &'l String)>,
    required: Option<&NodeSelector>,
    node: &dyn Labeled,
) -> bool {
    labels.into_iter().all(|(key, value)| node.label(key) == Some(value))
        && required.is_none_or(|selector| is_near(selector, node))
}

/// Reports whether a selector matches a node.
pub(crate) fn is_near(selector: &NodeSelector, node: &dyn Labeled) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, node))
}

/// Reports whether a node meets all requirements of a term. A term without requirements matches nothing.
pub(crate) fn term_matches(term: &NodeSelectorTerm, node: &dyn Labeled) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |key: &str| (key == "metadata.name").then(|| node.node_name());
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|wanted| holds(wanted, node.label(&wanted.key)))
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
