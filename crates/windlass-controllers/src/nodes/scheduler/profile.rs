//! The scheduling requirements of pods in compact form. Pods with equal requirements share one profile.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hash, Hasher},
    sync::{Arc, Weak},
};

use hashbrown::{DefaultHashBuilder, HashMap};
use k8s_openapi::{
    api::core::v1::{
        NodeSelector, Pod, PodAffinityTerm, PodSpec, PreferredSchedulingTerm, Toleration, TopologySpreadConstraint,
        WeightedPodAffinityTerm,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector as ApiSelector,
};
use windlass_api::{LabelSelector, ObjectExt, Operator, Requirement};

use super::{
    super::{amount::Amount, demand::Demand, ports::HostPort},
    amounts::Amounts,
    snapshot::Namespaces,
};
use crate::consumers::claims_of;

/// Sorted labels.
pub(super) type Labels = Vec<(Arc<str>, Arc<str>)>;

/// The CPU and memory that the scores assume for a container without requests, as kube-scheduler does.
const ASSUMED: [(&str, &str); 2] = [("cpu", "100m"), ("memory", "200Mi")];

/// Everything about a pod that affects its scheduling and that of others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Profile {
    pub(super) namespace: Arc<str>,
    pub(super) labels: Labels,
    pub(super) priority: i32,
    /// `false` if the pod's preemption policy is `Never`.
    pub(super) preempts: bool,
    /// The requests, without zeros.
    pub(super) demand: Amounts,
    /// CPU and memory for the scores.
    pub(super) assumed: [Amount; 2],
    pub(super) ports: Vec<HostPort>,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) required: Option<NodeSelector>,
    pub(super) preferred: Vec<PreferredSchedulingTerm>,
    pub(super) affinity: Vec<Term>,
    pub(super) anti_affinity: Vec<Term>,
    /// Preferred terms; the weights of anti-affinity are negative.
    pub(super) preferred_pods: Vec<(i32, Term)>,
    pub(super) hard_spread: Vec<Spread>,
    pub(super) soft_spread: Vec<Spread>,
    /// The names of the claims.
    pub(super) claims: Vec<String>,
}

/// A set of pods: those in some namespaces with some labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scope {
    namespaces: Vec<Arc<str>>,
    namespace_selector: Option<LabelSelector>,
    /// `None` selects no pods.
    selector: Option<LabelSelector>,
    /// `true` to include pods that are being deleted.
    terminating: bool,
}

/// A term of an affinity between pods.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) key: Arc<str>,
    pub(super) scope: Scope,
}

/// A constraint on the distribution of pods over domains.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) key: Arc<str>,
    pub(super) max_skew: u32,
    pub(super) min_domains: u32,
    pub(super) scope: Scope,
    pub(super) honors_affinity: bool,
    pub(super) honors_taints: bool,
}

impl Profile {
    pub(super) fn of(pod: &Pod) -> Self {
        let default = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&default);
        let affinity = spec.affinity.as_ref();
        let nodes = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
        let together = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let required = |terms: Option<&Vec<PodAffinityTerm>>| -> Vec<Term> {
            terms.into_iter().flatten().map(|term| Term::of(term, pod)).collect()
        };
        let preferred = |sign: i32, terms: Option<&Vec<WeightedPodAffinityTerm>>| -> Vec<(i32, Term)> {
            let weighted = terms.into_iter().flatten();
            weighted.map(|term| (sign * term.weight, Term::of(&term.pod_affinity_term, pod))).collect()
        };
        let mut preferred_pods = preferred(
            1,
            together.and_then(|terms| terms.preferred_during_scheduling_ignored_during_execution.as_ref()),
        );
        preferred_pods.extend(preferred(
            -1,
            apart.and_then(|terms| terms.preferred_during_scheduling_ignored_during_execution.as_ref()),
        ));
        let spread = |action: &str| -> Vec<Spread> {
            let constraints = spec.topology_spread_constraints.iter().flatten();
            let constraints = constraints.filter(|constraint| constraint.when_unsatisfiable == action);
            constraints.map(|constraint| Spread::of(constraint, pod)).collect()
        };
        let demand = Demand::of(pod);
        Self {
            namespace: pod.namespace().unwrap_or_default().into(),
            labels: pod.labels().iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
            priority: spec.priority.unwrap_or(0),
            preempts: spec.preemption_policy.as_deref() != Some("Never"),
            demand: demand.iter().filter(|(_, amount)| *amount > Amount::default()).collect(),
            assumed: ASSUMED.map(|(resource, amount)| assumed(spec, &demand, resource, amount)),
            ports: HostPort::of(pod),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            required: nodes.and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.clone()),
            preferred: nodes
                .and_then(|nodes| nodes.preferred_during_scheduling_ignored_during_execution.clone())
                .unwrap_or_default(),
            affinity: required(
                together.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref()),
            ),
            anti_affinity: required(
                apart.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref()),
            ),
            preferred_pods,
            hard_spread: spread("DoNotSchedule"),
            soft_spread: spread("ScheduleAnyway"),
            claims: claims_of(pod).iter().map(|claim| claim.name().to_owned()).collect(),
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        label(&self.labels, key)
    }

    /// Reports whether the pod has these labels and no others.
    pub(super) fn has_labels(&self, labels: &[(Arc<str>, Arc<str>)]) -> bool {
        labels.len() == self.labels.len() && labels.iter().all(|(key, value)| self.label(key) == Some(value))
    }

    fn fingerprint(&self, state: &mut impl Hasher) {
        (&self.namespace, &self.labels, self.priority, self.preempts, &self.demand).hash(state);
        (&self.node_selector, &self.claims, self.affinity.len(), self.anti_affinity.len()).hash(state);
    }
}

/// Returns the value of a label.
pub(super) fn label<'l>(labels: &'l [(Arc<str>, Arc<str>)], key: &str) -> Option<&'l str> {
    let position = labels.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
    Some(&labels[position].1)
}

/// Returns the request of a resource, with an assumed amount for each container that does not request it.
fn assumed(spec: &PodSpec, demand: &Demand, resource: &str, amount: &str) -> Amount {
    let pod_level = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    if pod_level.is_some_and(|requests| requests.contains_key(resource)) {
        return demand.get(resource);
    }
    let requests = |container: &&k8s_openapi::api::core::v1::Container| {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        requests.is_none_or(|requests| !requests.contains_key(resource))
    };
    let missing = spec.containers.iter().filter(requests).count();
    let amount = Amount::parse(amount);
    (0..missing).fold(demand.get(resource), |sum, _| sum.plus(amount))
}

// === impl Scope ===

impl Scope {
    fn of(selector: Option<&ApiSelector>, namespaces: Vec<Arc<str>>, terminating: bool) -> Self {
        let selector = selector.and_then(|selector| LabelSelector::try_from(selector).ok());
        Self { namespaces, namespace_selector: None, selector, terminating }
    }

    fn require(&mut self, pod: &Pod, keys: Option<&Vec<String>>, operator: Operator) {
        for key in keys.into_iter().flatten() {
            if let (Some(selector), Some(value)) = (self.selector.take(), pod.labels().get(key)) {
                self.selector = Some(selector.and(Requirement::new(key, operator, [value.as_str()])));
            }
        }
    }

    /// Reports whether a pod belongs to the set.
    pub(super) fn matches(&self, pod: &Profile, terminating: bool, namespaces: &Namespaces) -> bool {
        (self.terminating || !terminating)
            && (self.namespaces.contains(&pod.namespace)
                || self.namespace_selector.as_ref().is_some_and(|selector| {
                    let labels = namespaces.get(&pod.namespace);
                    selector.matches(|key| labels.and_then(|labels| label(labels, key)))
                }))
            && self.selector.as_ref().is_some_and(|selector| selector.matches(|key| pod.label(key)))
    }

    /// Reports whether the set depends on the labels of namespaces.
    pub(super) fn selects_namespaces(&self) -> bool {
        self.namespace_selector.is_some()
    }

    /// Returns a text that is equal for equal sets.
    pub(super) fn text(&self) -> String {
        let shown = |selector: Option<&LabelSelector>| selector.map(ToString::to_string);
        let (namespace, own) = (shown(self.namespace_selector.as_ref()), shown(self.selector.as_ref()));
        format!("{:?} {namespace:?} {own:?} {}", self.namespaces, self.terminating)
    }
}

// === impl Term ===

impl Term {
    fn of(term: &PodAffinityTerm, pod: &Pod) -> Self {
        let mut namespaces: Vec<Arc<str>> = term.namespaces.iter().flatten().map(|name| name.as_str().into()).collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(pod.namespace().unwrap_or_default().into());
        }
        let mut scope = Scope::of(term.label_selector.as_ref(), namespaces, true);
        let selector = term.namespace_selector.as_ref();
        scope.namespace_selector = selector.and_then(|selector| LabelSelector::try_from(selector).ok());
        scope.require(pod, term.match_label_keys.as_ref(), Operator::In);
        scope.require(pod, term.mismatch_label_keys.as_ref(), Operator::NotIn);
        Self { key: term.topology_key.as_str().into(), scope }
    }
}

// === impl Spread ===

impl Spread {
    fn of(constraint: &TopologySpreadConstraint, pod: &Pod) -> Self {
        let namespaces = vec![pod.namespace().unwrap_or_default().into()];
        let mut scope = Scope::of(constraint.label_selector.as_ref(), namespaces, false);
        scope.require(pod, constraint.match_label_keys.as_ref(), Operator::In);
        Self {
            key: constraint.topology_key.as_str().into(),
            max_skew: u32::try_from(constraint.max_skew).unwrap_or(0),
            min_domains: constraint.min_domains.and_then(|count| u32::try_from(count).ok()).unwrap_or(1),
            scope,
            honors_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}

/// The profiles in use.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    hasher: DefaultHashBuilder,
    known: HashMap<u64, Vec<Weak<Profile>>>,
    /// The size at which unused profiles are removed.
    limit: usize,
}

impl Profiles {
    /// Returns the shared profile of a pod.
    pub(super) fn of(&mut self, pod: &Pod) -> Arc<Profile> {
        let profile = Profile::of(pod);
        let mut hasher = self.hasher.build_hasher();
        profile.fingerprint(&mut hasher);
        if self.known.len() > self.limit {
            self.known.retain(|_, same| {
                same.retain(|known| known.strong_count() > 0);
                !same.is_empty()
            });
            self.limit = 2 * self.known.len() + 64;
        }
        let same = self.known.entry(hasher.finish()).or_default();
        if let Some(known) = same.iter().filter_map(Weak::upgrade).find(|known| **known == profile) {
            return known;
        }
        let profile = Arc::new(profile);
        same.retain(|known| known.strong_count() > 0);
        same.push(Arc::downgrade(&profile));
        profile
    }
}
