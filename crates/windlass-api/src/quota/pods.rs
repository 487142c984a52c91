//! The usage of pods.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Amounts, Usage, add_amounts, at, count, items, read_amounts, scopes::Scopes, text};
use crate::{parse_time, validation::qualified_name};

/// The amounts that each container must set if a quota limits them.
pub(super) const REQUIRED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

const COUNTED: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
const REQUESTS: &str = "requests.";
const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Reports whether pods can use a resource with this name in a quota.
pub(super) fn counts(name: &str) -> bool {
    let request = name.strip_prefix(REQUESTS);
    COUNTED.contains(&name)
        || request.unwrap_or(name).starts_with(HUGE_PAGES)
        || request.is_some_and(|resource| !is_native(name) || resource.starts_with(DEVICE_CLASS))
}

/// Reports whether the pod has a deadline.
pub(super) fn is_terminating(pod: &Value) -> bool {
    at(pod, &["spec", "activeDeadlineSeconds"]).and_then(Value::as_i64).is_some_and(|deadline| deadline >= 0)
}

pub(super) fn measure(pod: &Value, now: Timestamp) -> Usage {
    let scopes = Scopes::Pod {
        is_terminating: is_terminating(pod),
        is_best_effort: is_best_effort(pod),
        crosses_namespaces: crosses_namespaces(pod),
        priority_classes: [text(pod, &["spec", "priorityClassName"])]
            .into_iter()
            .filter(|class| !class.is_empty())
            .map(str::to_owned)
            .collect(),
    };
    let amounts = if is_gone(pod, now) {
        Amounts::new()
    } else {
        compute_amounts(&total(pod, Field::Requests), &total(pod, Field::Limits))
    };
    Usage { amounts, scopes, containers: containers(pod) }
}

/// Returns the amounts that each container sets, unless the pod sets amounts for all of them.
fn containers(pod: &Value) -> Vec<(String, BTreeSet<String>)> {
    let shared = [Field::Requests, Field::Limits].map(|field| read_amounts(pod, &["spec", "resources", field.name()]));
    if shared.iter().flat_map(Amounts::keys).any(|name| is_shared(name)) {
        return Vec::new();
    }
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| items(pod, &["spec", list]));
    let set = |container: &Value| {
        let of = |field: Field| read_amounts(container, &["resources", field.name()]);
        compute_amounts(&of(Field::Requests), &of(Field::Limits)).into_keys().collect()
    };
    containers.map(|container| (text(container, &["name"]).to_owned(), set(container))).collect()
}

/// Returns requests and limits under the names that they have in quotas.
fn compute_amounts(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut amounts = Amounts::from([("pods".to_owned(), count(1))]);
    for (name, request) in requests {
        let has_both_names = matches!(&**name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES);
        if has_both_names {
            amounts.insert(name.clone(), request.clone());
        }
        if has_both_names || is_extended(name) {
            amounts.insert(format!("{REQUESTS}{name}"), request.clone());
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(limit) = limits.get(name) {
            amounts.insert(format!("limits.{name}"), limit.clone());
        }
    }
    amounts
}

/// Reports whether a name belongs to Kubernetes.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Reports whether a name is that of an extended resource, or of a device class.
fn is_extended(name: &str) -> bool {
    let is_custom =
        || !is_native(name) && !name.starts_with(REQUESTS) && qualified_name(&format!("{REQUESTS}{name}")).is_empty();
    name.starts_with(DEVICE_CLASS) || is_custom()
}

/// Reports whether pods can set an amount of this resource for all of their containers.
fn is_shared(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Requests,
    Limits,
}

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// Returns the total requests or limits of a pod.
fn total(pod: &Value, field: Field) -> Amounts {
    let statuses: BTreeMap<&str, &Value> = ["containerStatuses", "initContainerStatuses"]
        .into_iter()
        .flat_map(|list| items(pod, &["status", list]))
        .map(|status| (text(status, &["name"]), status))
        .collect();
    let is_infeasible = is_resize_infeasible(pod);
    // While a container is resized, the larger of the old and the new amount counts.
    let current = |container: &Value| {
        let spec = read_amounts(container, &["resources", field.name()]);
        let Some(status) = statuses.get(text(container, &["name"])).filter(|status| status.get("resources").is_some())
        else {
            return spec;
        };
        let mut amounts = read_amounts(status, &["resources", field.name()]);
        if field == Field::Requests {
            max_amounts(&mut amounts, read_amounts(status, &["allocatedResources"]));
        }
        if !is_infeasible {
            max_amounts(&mut amounts, spec);
        }
        amounts
    };
    let mut running = Amounts::new();
    for container in items(pod, &["spec", "containers"]) {
        add_amounts(&mut running, &current(container));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in items(pod, &["spec", "initContainers"]) {
        // An init container runs beside the sidecars that precede it.
        if text(container, &["restartPolicy"]) == "Always" {
            let amounts = current(container);
            add_amounts(&mut running, &amounts);
            add_amounts(&mut sidecars, &amounts);
            max_amounts(&mut peak, sidecars.clone());
        } else {
            let mut amounts = read_amounts(container, &["resources", field.name()]);
            add_amounts(&mut amounts, &sidecars);
            max_amounts(&mut peak, amounts);
        }
    }
    max_amounts(&mut running, peak);
    let shared = read_amounts(pod, &["spec", "resources", field.name()]);
    running.extend(shared.into_iter().filter(|(name, _)| is_shared(name)));
    for (name, overhead) in read_amounts(pod, &["spec", "overhead"]) {
        match running.get_mut(&name) {
            // Overhead is no limit for containers without limits.
            Some(amount) if field == Field::Limits && amount.is_zero() => {}
            None if field == Field::Limits => {}
            Some(amount) => *amount += &overhead,
            None => _ = running.insert(name, overhead),
        }
    }
    running
}

/// Replaces amounts by larger ones.
fn max_amounts(amounts: &mut Amounts, others: Amounts) {
    for (name, other) in others {
        if amounts.get(&name).is_none_or(|amount| other > *amount) {
            amounts.insert(name, other);
        }
    }
}

fn is_resize_infeasible(pod: &Value) -> bool {
    let mut conditions = items(pod, &["status", "conditions"]).iter();
    let pending = conditions.find(|condition| text(condition, &["type"]) == "PodResizePending");
    pending.is_some_and(|condition| text(condition, &["reason"]) == "Infeasible")
}

/// Reports whether a pod has ended, or should have been deleted by now.
fn is_gone(pod: &Value, now: Timestamp) -> bool {
    if matches!(text(pod, &["status", "phase"]), "Failed" | "Succeeded") {
        return true;
    }
    let deleted = parse_time(text(pod, &["metadata", "deletionTimestamp"])).ok();
    let grace = at(pod, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    match (deleted, grace) {
        (Some(deleted), Some(grace)) => {
            deleted.checked_add(SignedDuration::from_secs(grace)).is_ok_and(|end| now > end)
        }
        _ => false,
    }
}

fn is_best_effort(pod: &Value) -> bool {
    let class = text(pod, &["status", "qosClass"]);
    if !class.is_empty() {
        return class == "BestEffort";
    }
    let sets_any = |owner: &Value| {
        [Field::Requests, Field::Limits].into_iter().any(|field| {
            let amounts = read_amounts(owner, &["resources", field.name()]);
            ["cpu", "memory"]
                .iter()
                .any(|name| amounts.get(*name).is_some_and(|amount| !amount.is_zero() && !amount.is_negative()))
        })
    };
    match at(pod, &["spec"]).filter(|spec| spec.get("resources").is_some()) {
        Some(spec) => !sets_any(spec),
        None => {
            !["containers", "initContainers"].into_iter().flat_map(|list| items(pod, &["spec", list])).any(sets_any)
        }
    }
}

/// Reports whether an affinity term of the pod selects pods of other namespaces.
fn crosses_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| !items(term, &["namespaces"]).is_empty() || at(term, &["namespaceSelector"]).is_some();
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let required = items(pod, &["spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"]).iter();
        let preferred =
            items(pod, &["spec", "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"]).iter();
        required.chain(preferred.filter_map(|term| term.get("podAffinityTerm"))).any(crosses)
    })
}
