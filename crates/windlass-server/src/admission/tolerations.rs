//! Tolerations that pods get: the plugins `ExtendedResourceToleration` and `PodTolerationRestriction`.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use windlass_api::Status;

use super::classes::cluster_object;
use crate::registry::{Admission, Attributes, Operation};
use crate::{
    kinds::quality_of_service,
    object::{Tree, object_mut, qualified_name, same},
    registry::Registry,
};

/// Tolerates the taints of nodes with the extended resources that a pod requests.
#[derive(Debug)]
pub(crate) struct ExtendedResources;

/// Adds the default tolerations of a namespace or of the cluster, and allows only some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RestrictTolerations {
    /// The tolerations of pods in namespaces without defaults.
    pub(super) default: Vec<Value>,
    /// The tolerations that pods may have in namespaces without their own list. Empty allows all.
    pub(super) allowed: Vec<Value>,
}

/// The maximum number of tolerations that are compared with each other.
const MERGED: usize = 512;
const DEFAULT: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

impl Admission for ExtendedResources {
    fn handles(&self, write: &Attributes) -> bool {
        write.is_pod_write()
    }

    fn admit<'a>(&'a self, _: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        let spec = write.object.at(&["spec"]).unwrap_or(&Value::Null);
        let containers = spec.items(&["containers"]).iter().chain(spec.items(&["initContainers"]));
        let requests = containers.flat_map(|container| container.entries(&["resources", "requests"]));
        let names: BTreeSet<String> = requests.map(|(name, _)| name.clone()).filter(|name| is_extended(name)).collect();
        if !names.is_empty() {
            let spec = object_mut(&mut write.object, "spec");
            let list = as_array(spec.entry("tolerations").or_insert_with(|| json!([])));
            add_or_update(list, &names);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Reports whether a resource is none of Kubernetes, for example `example.com/device`.
fn is_extended(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native && !name.starts_with("requests.") && qualified_name(&format!("requests.{name}")).is_empty()
}

/// Adds a toleration for each of the keys. Those that differ from it only in their seconds are replaced.
fn add_or_update(list: &mut Vec<Value>, keys: &BTreeSet<String>) {
    let wanted = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let mut missing = keys.clone();
    for toleration in list.iter_mut() {
        let key = toleration.text(&["key"]);
        let fields = [toleration.text(&["operator"]), toleration.text(&["effect"]), toleration.text(&["value"])];
        if keys.contains(key) && fields == ["Exists", "NoSchedule", ""] {
            missing.remove(key);
            *toleration = wanted(key);
        }
    }
    list.extend(missing.iter().map(|key| wanted(key)));
}

/// Returns the array in a value, which becomes an empty one if it is something else.
fn as_array(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = json!([]);
    }
    value.as_array_mut().expect("it was made an array")
}

impl Admission for RestrictTolerations {
    fn handles(&self, write: &Attributes) -> bool {
        write.is_pod_write()
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let mut added = Vec::new();
            if write.operation == Operation::Create {
                added =
                    of_namespace(registry, &write.namespace, DEFAULT).await?.unwrap_or_else(|| self.default.clone());
            }
            if quality_of_service(&write.object) != "BestEffort" {
                let pressure = "node.kubernetes.io/memory-pressure";
                added.push(json!({"key": pressure, "operator": "Exists", "effect": "NoSchedule"}));
            }
            if !added.is_empty() {
                let own = write.object.items(&["spec", "tolerations"]);
                let merged = merge(own.iter().cloned().chain(added).collect());
                object_mut(&mut write.object, "spec").insert("tolerations".to_owned(), merged.into());
            }
            self.check(registry, write).await
        })
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.check(registry, write))
    }
}

impl RestrictTolerations {
    async fn check(&self, registry: &Registry, write: &Attributes) -> Result<(), Status> {
        let tolerations = write.object.items(&["spec", "tolerations"]);
        if tolerations.is_empty() {
            return Ok(());
        }
        let of_namespace = of_namespace(registry, &write.namespace, ALLOWED).await?;
        let (scope, allowed) = match &of_namespace {
            Some(allowed) => ("namespace", allowed),
            None => ("cluster", &self.allowed),
        };
        if allowed.is_empty() {
            return Ok(());
        }
        if are_allowed(tolerations, allowed) {
            return Ok(());
        }
        Err(Status::unclassified(format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        )))
    }
}

/// Reports whether a list includes each of the tolerations.
fn are_allowed(tolerations: &[Value], list: &[Value]) -> bool {
    let allowed = AllowedTolerations::new(list);
    tolerations.iter().all(|toleration| allowed.contain(toleration))
}

/// The tolerations that pods may have, for lookups. A pod has as many tolerations as fit in it, and so has a list.
struct AllowedTolerations<'l> {
    /// The tolerations themselves: key, operator, value, effect and seconds.
    exact: HashSet<(&'l str, &'l str, &'l str, &'l str, Option<i64>)>,
    /// The tolerations that include others, by operator, key, effect and value, with their seconds. `None` includes any.
    inclusive: HashMap<(Operator, &'l str, &'l str, &'l str), Option<i64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operator {
    Equal,
    Exists,
}

fn fields(toleration: &Value) -> (&str, &str, &str, &str, Option<i64>) {
    let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|field| toleration.text(&[field]));
    (key, operator, value, effect, toleration.int(&["tolerationSeconds"]))
}

impl<'l> AllowedTolerations<'l> {
    fn new(list: &'l [Value]) -> Self {
        let mut allowed = Self { exact: HashSet::new(), inclusive: HashMap::new() };
        for toleration in list {
            let (key, operator, value, effect, seconds) = fields(toleration);
            allowed.exact.insert((key, operator, value, effect, seconds));
            let place = match operator {
                "Exists" => (Operator::Exists, key, effect, ""),
                "Equal" | "" => (Operator::Equal, key, effect, value),
                _ => continue,
            };
            let seconds = seconds.filter(|_| effect == "NoExecute");
            let longest = allowed.inclusive.entry(place).or_insert(seconds);
            *longest = longest.zip(seconds).map(|(one, other)| one.max(other));
        }
        allowed
    }

    /// Reports whether one of the tolerations includes another.
    fn contain(&self, toleration: &Value) -> bool {
        let (key, operator, value, effect, seconds) = fields(toleration);
        if self.exact.contains(&(key, operator, value, effect, seconds)) {
            return true;
        }
        let includes = |operator: Operator, key: &str, value: &str| {
            [effect, ""].into_iter().any(|effect| {
                let longest = self.inclusive.get(&(operator, key, effect, value));
                longest.is_some_and(|longest| {
                    longest.is_none_or(|longest| seconds.is_some_and(|seconds| seconds <= longest))
                })
            })
        };
        includes(Operator::Exists, key, "")
            || includes(Operator::Exists, "", "")
            || operator == "Equal" && includes(Operator::Equal, key, value)
    }
}

/// Returns the tolerations in an annotation of a namespace; `None` if it does not have it.
async fn of_namespace(registry: &Registry, namespace: &str, key: &str) -> Result<Option<Vec<Value>>, Status> {
    let Some(namespace) = cluster_object(registry, "", "namespaces", namespace).await? else { return Ok(None) };
    let Some(text) = namespace.at(&["metadata", "annotations", key]).and_then(Value::as_str) else { return Ok(None) };
    if text.is_empty() {
        return Ok(Some(Vec::new()));
    }
    serde_json::from_str(text).map(Some).map_err(|error| Status::unclassified(error.to_string()))
}

/// Removes the tolerations that others include. More than [`MERGED`] are all retained, because each is compared with each.
pub(super) fn merge(all: Vec<Value>) -> Vec<Value> {
    if all.len() > MERGED {
        return all;
    }
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let later = all.iter().skip(index + 1);
        let is_redundant = merged.iter().any(|other| is_superset(other, toleration))
            || later.into_iter().any(|other| !same(Some(other), Some(toleration)) && is_superset(other, toleration));
        if !is_redundant {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Reports whether a toleration includes another.
fn is_superset(larger: &Value, other: &Value) -> bool {
    #[cfg(test)]
    tests::COMPARISONS.with(|count| count.set(count.get() + 1));
    if same(Some(larger), Some(other)) {
        return true;
    }
    let (key, effect, operator) = (larger.text(&["key"]), larger.text(&["effect"]), larger.text(&["operator"]));
    if other.text(&["key"]) != key && (!key.is_empty() || operator != "Exists") {
        return false;
    }
    if other.text(&["effect"]) != effect && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(seconds) = larger.int(&["tolerationSeconds"])
        && other.int(&["tolerationSeconds"]).is_none_or(|other| other > seconds)
    {
        return false;
    }
    match operator {
        "Equal" | "" => other.text(&["operator"]) == "Equal" && other.text(&["value"]) == larger.text(&["value"]),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The number of comparisons of two tolerations by this test.
        pub(super) static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn redundant_tolerations_are_removed() {
        let all = |effect: &str| json!({"operator": "Exists", "effect": effect});
        let one = json!({"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"});
        let brief = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let long = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9});
        let equal = merge(vec![one.clone(), one.clone()]);
        assert_eq!(equal, std::slice::from_ref(&one));
        assert_eq!(merge(vec![one.clone(), all("NoSchedule")]), [all("NoSchedule")]);
        assert_eq!(merge(vec![one.clone(), all("NoExecute")]), [one.clone(), all("NoExecute")]);
        assert_eq!(merge(vec![brief.clone(), long.clone()]), std::slice::from_ref(&long));
        assert_eq!(merge(vec![brief, all("")]), [all("")]);
    }

    #[test]
    fn many_tolerations_are_not_compared_with_each_other() {
        let key = |number: usize| json!({"key": format!("k{number}"), "operator": "Exists"});
        let many: Vec<Value> = (0..100_000).chain([0]).map(key).collect();
        assert_eq!(merge(many.clone()).len(), many.len());
        assert_eq!(merge((0..MERGED - 1).chain([0]).map(key).collect()).len(), MERGED - 1);
    }

    #[test]
    fn lookup_finds_what_a_comparison_finds() {
        let mut all = Vec::new();
        for key in ["", "a"] {
            for operator in ["", "Equal", "Exists", "Lt"] {
                for value in ["", "v"] {
                    for effect in ["", "NoExecute", "NoSchedule"] {
                        for seconds in [Value::Null, json!(-1), json!(5), json!(9)] {
                            all.push(json!({"key": key, "operator": operator, "value": value, "effect": effect,
                                "tolerationSeconds": seconds}));
                        }
                    }
                }
            }
        }
        for larger in &all {
            let allowed = AllowedTolerations::new(std::slice::from_ref(larger));
            for other in &all {
                assert_eq!(allowed.contain(other), is_superset(larger, other), "{larger} {other}");
            }
        }
        let two = |one: Value, other: Value| {
            let list = [one, other].map(|seconds| {
                json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
            });
            let seven = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7});
            AllowedTolerations::new(&list).contain(&seven)
        };
        assert_eq!([two(json!(5), json!(9)), two(json!(9), json!(5)), two(json!(5), json!(6))], [true, true, false]);
        assert_eq!([two(json!(5), Value::Null), two(Value::Null, json!(5))], [true, true]);
    }

    #[test]
    fn many_tolerations_are_not_compared_with_a_long_list() {
        let list: Vec<Value> =
            (0..50_000).map(|number| json!({"key": format!("k{number}"), "operator": "Exists"})).collect();
        assert!(are_allowed(&list, &list));
        assert!(!are_allowed(&[json!({"key": "other", "operator": "Exists"})], &list));
        assert_eq!(COMPARISONS.get(), 0);
        assert_eq!(merge(list[..9].to_vec()).len(), 9);
        assert!(COMPARISONS.get() > 0, "comparisons are counted");
    }

    #[test]
    fn tolerations_of_resources_are_added_or_replaced() {
        let own = json!({"key": "a.b/c", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5});
        let other = json!({"key": "a.b/d", "operator": "Exists", "effect": "NoExecute"});
        let mut list = vec![own, other.clone()];
        add_or_update(&mut list, &BTreeSet::from(["a.b/c".to_owned(), "a.b/d".to_owned()]));
        let wanted = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
        assert_eq!(list, [wanted("a.b/c"), other, wanted("a.b/d")]);
    }

    #[test]
    fn only_resources_of_other_domains_are_extended() {
        assert!(is_extended("example.com/device"));
        for name in ["cpu", "kubernetes.io/batch", "requests.example.com/device", "example.com/", "a.kubernetes.io/x"] {
            assert!(!is_extended(name), "{name}");
        }
    }
}
