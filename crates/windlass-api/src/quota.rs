//! The usage that a ResourceQuota counts, shared by the server, which rejects writes beyond a quota, and by the
//! controller, which recomputes the status of quotas.
//!
//! Objects are measured as JSON, because both have them in this form.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::{Quantity, QuantityFormat};

mod claims;
mod pods;
mod scopes;

pub use self::scopes::ScopeRequirement;

/// Amounts of resources, by the name of the resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// The names of resources whose objects are not counted, because they are not stored, or for historical reasons.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

/// The resources of the core group whose count also has a short name.
const SHORT_NAMES: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// The rules by which quotas count the objects of one resource.
///
/// ```
/// use windlass_api::quota::Evaluator;
///
/// let pods = Evaluator::of("", "pods").expect("pods are counted");
/// let pod = serde_json::json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}]}});
/// let usage = pods.measure(&pod, jiff::Timestamp::UNIX_EPOCH);
/// assert_eq!(usage.amounts["limits.cpu"].to_string(), "1");
/// assert_eq!(usage.missing_amounts(["limits.memory"]).as_deref(), Some("must specify limits.memory for: a"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluator {
    kind: Kind,
    /// The name of the number of objects, such as `count/deployments.apps`.
    count: String,
    /// The short name of the number of objects, such as `pods`.
    short_count: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pod,
    Service,
    PersistentVolumeClaim,
    ResourceClaim,
    /// Only the number of objects is counted.
    Other,
}

/// The usage of one object in one state, and the properties that decide which quotas count it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The amounts that the object uses.
    pub amounts: Amounts,
    scopes: scopes::Scopes,
    /// The names of the amounts that each container sets. Empty if quotas require none.
    containers: Vec<(String, BTreeSet<String>)>,
}

impl Evaluator {
    /// Returns the rules for a resource, by group and plural. Returns `None` if quotas do not count its objects.
    #[must_use]
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        if IGNORED.contains(&(group, plural)) {
            return None;
        }
        let kind = match (group, plural) {
            ("", "pods") => Kind::Pod,
            ("", "services") => Kind::Service,
            ("", "persistentvolumeclaims") => Kind::PersistentVolumeClaim,
            ("resource.k8s.io", "resourceclaims") => Kind::ResourceClaim,
            _ => Kind::Other,
        };
        let count = if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") };
        let short_count = SHORT_NAMES.into_iter().find(|name| group.is_empty() && *name == plural);
        Some(Self { kind, count, short_count })
    }

    /// Reports whether a write can change the usage. `changes` contains the new and the old state of an update.
    #[must_use]
    pub fn is_affected(&self, subresource: Option<&str>, changes: Option<(&Value, &Value)>) -> bool {
        match (self.kind, subresource, changes) {
            (Kind::Pod, None, Some((new, old))) => pods::is_terminating(new) != pods::is_terminating(old),
            (_, None, None)
            | (Kind::Pod, Some("resize"), Some(_))
            | (Kind::PersistentVolumeClaim, None | Some("status"), Some(_))
            | (Kind::Service | Kind::ResourceClaim, None, Some(_)) => true,
            _ => false,
        }
    }

    /// Reports whether the objects can use a resource with this name.
    #[must_use]
    pub fn counts(&self, name: &str) -> bool {
        if name == self.count || self.short_count == Some(name) {
            return true;
        }
        match self.kind {
            Kind::Pod => pods::counts(name),
            Kind::Service => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
            Kind::PersistentVolumeClaim => claims::counts_volume(name),
            Kind::ResourceClaim => claims::counts_devices(name),
            Kind::Other => false,
        }
    }

    /// Returns the usage of an object. Pods that should be gone by `now` only count as objects.
    #[must_use]
    pub fn measure(&self, object: &Value, now: Timestamp) -> Usage {
        let mut usage = match self.kind {
            Kind::Pod => pods::measure(object, now),
            Kind::Service => Usage { amounts: service_amounts(object), ..Usage::default() },
            Kind::PersistentVolumeClaim => claims::measure_volume(object),
            Kind::ResourceClaim => Usage { amounts: claims::device_amounts(object), ..Usage::default() },
            Kind::Other => Usage::default(),
        };
        let names = std::iter::once(&*self.count).chain(self.short_count);
        usage.amounts.extend(names.map(|name| (name.to_owned(), count(1))));
        usage
    }
}

impl Usage {
    /// Reports whether the object is in a scope of a quota.
    #[must_use]
    pub fn is_in(&self, scope: &ScopeRequirement) -> bool {
        self.scopes.meet(scope)
    }

    /// Returns an error text if containers do not set amounts that a quota requires: those of `required` that are CPU or
    /// memory.
    pub fn missing_amounts<'r>(&self, required: impl IntoIterator<Item = &'r str>) -> Option<String> {
        let required: BTreeSet<&str> = required.into_iter().filter(|name| pods::REQUIRED.contains(name)).collect();
        let lacking = |name: &&str| {
            let lacking = self.containers.iter().filter(|(_, set)| !set.contains(*name));
            let lacking: BTreeSet<&str> = lacking.map(|(container, _)| container.as_str()).collect();
            (!lacking.is_empty()).then(|| {
                let lacking: Vec<&str> = lacking.into_iter().collect();
                format!("{name} for: {}", lacking.join(","))
            })
        };
        let missing: Vec<String> = required.iter().filter_map(lacking).collect();
        (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
    }
}

/// Adds amounts to others.
pub fn add_amounts(to: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        match to.get_mut(name) {
            Some(sum) => *sum += amount,
            None => _ = to.insert(name.clone(), amount.clone()),
        }
    }
}

/// Reads amounts from the object at a path. Values that are not quantities are omitted.
#[must_use]
pub fn read_amounts(value: &Value, path: &[&str]) -> Amounts {
    let entries = at(value, path).and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), quantity(amount)?))).collect()
}

fn service_amounts(service: &Value) -> Amounts {
    let ports = items(service, &["spec", "ports"]);
    let (balancers, node_ports) = match text(service, &["spec", "type"]) {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if at(service, &["spec", "allocateLoadBalancerNodePorts"]) == Some(&Value::Bool(false)) => {
            let is_set = |port: &&Value| port["nodePort"].as_i64().is_some_and(|number| number != 0);
            (1, ports.iter().filter(is_set).count())
        }
        "LoadBalancer" => (1, ports.len()),
        _ => (0, 0),
    };
    let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
    [("services", 1), ("services.loadbalancers", balancers), ("services.nodeports", node_ports)]
        .map(|(name, number)| (name.to_owned(), count(number)))
        .into()
}

fn count(number: i64) -> Quantity {
    Quantity::new(number, QuantityFormat::DecimalSi)
}

fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

fn items<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    at(value, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
