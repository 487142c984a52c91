//! Pods: the fields that the server sets, and the rules for updates.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::kinds::pod_spec::{defaults::quality_of_service, validate_tolerations};
use crate::{
    object::{
        Errors, Path, Tree, as_object, dns_subdomain, first_by, items_mut, metadata_mut, object_mut, qualified_name,
        same, validate_address,
    },
    resource::FieldRule,
};

pub(super) const FIELDS: &[FieldRule] = &[
    FieldRule { label: "spec.nodeName", path: "spec.nodeName" },
    FieldRule { label: "spec.host", path: "spec.nodeName" },
    FieldRule { label: "spec.restartPolicy", path: "spec.restartPolicy" },
    FieldRule { label: "spec.schedulerName", path: "spec.schedulerName" },
    FieldRule { label: "spec.serviceAccountName", path: "spec.serviceAccountName" },
    FieldRule { label: "spec.hostNetwork", path: "spec.hostNetwork" },
    FieldRule { label: "status.phase", path: "status.phase" },
    FieldRule { label: "status.podIP", path: "status.podIP" },
    FieldRule { label: "status.podIPs", path: "status.podIPs" },
    FieldRule { label: "status.nominatedNodeName", path: "status.nominatedNodeName" },
];

/// Returns the values of selectable fields that are not simply the text at their path.
pub(super) fn field(pod: &Value, label: &str) -> Option<String> {
    match label {
        "spec.hostNetwork" => Some(pod.flag(&["spec", "hostNetwork"]).to_string()),
        "status.podIP" | "status.podIPs" => {
            let first = pod.items(&["status", "podIPs"]).first().map(|ip| ip.text(&["ip"]));
            Some(first.unwrap_or_else(|| pod.text(&["status", "podIP"])).to_owned())
        }
        _ => None,
    }
}

pub(super) fn prepare_create(pod: &mut Value) {
    let spec = object_mut(pod, "spec");
    if spec.int(&["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    let quality = quality_of_service(pod);
    let gated = !pod.items(&["spec", "schedulingGates"]).is_empty();
    let now = pod.at(&["metadata", "creationTimestamp"]).cloned();
    let status = object_mut(pod, "status");
    status.insert("phase".to_owned(), "Pending".into());
    if gated {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null, "lastTransitionTime": now,
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        status.insert("conditions".to_owned(), json!([condition]));
    }
    status.insert("qosClass".to_owned(), quality.into());
    select_by_label_keys(pod);
}

/// Adds the pod's own label values for `matchLabelKeys` and `mismatchLabelKeys` to its selectors.
fn select_by_label_keys(pod: &mut Value) {
    let Some(labels) = pod.at(&["metadata", "labels"]).and_then(Value::as_object).cloned() else { return };
    let spec = object_mut(pod, "spec");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else { continue };
        for preferred in items_mut(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = preferred.get_mut("podAffinityTerm") {
                add_selected(term, &labels);
            }
        }
        for term in items_mut(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            add_selected(term, &labels);
        }
    }
    let constraints = spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten() {
        add_selected(constraint, &labels);
    }
}

fn add_selected(term: &mut Value, labels: &Map<String, Value>) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.items(&[field]).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(selector) = term.get_mut("labelSelector").filter(|selector| selector.is_object() && !added.is_empty())
    else {
        return;
    };
    let mut expressions = selector.items(&["matchExpressions"]).to_vec();
    expressions.append(&mut added);
    selector["matchExpressions"] = expressions.into();
}

pub(super) fn prepare_status(new: &mut Value, old: &Value) {
    metadata_mut(new).shift_remove("deletionTimestamp");
    let (single, first) = (new.text(&["status", "podIP"]).to_owned(), new.items(&["status", "podIPs"]).first());
    if !single.is_empty() && first.is_some_and(|first| first.text(&["ip"]) != single) {
        // Older kubelets only set the single address, so that address wins.
        object_mut(new, "status").insert("podIPs".to_owned(), json!([{"ip": single}]));
    }
    let quality = old.text(&["status", "qosClass"]).to_owned();
    let status = object_mut(new, "status");
    if status.text(&["qosClass"]).is_empty() && !quality.is_empty() {
        status.insert("qosClass".to_owned(), quality.into());
    }
}

pub(super) fn validate_status(new: &Value, old: &Value, errors: &mut Errors) {
    const NOT_SEEN: &str = "must be a non-negative integer";
    let path = Path::new("status");
    let conditions = path.child("conditions");
    for (index, condition) in new.items(&["status", "conditions"]).iter().enumerate() {
        let kind = condition.text(&["type"]);
        if let Some(seen) = condition.int(&["observedGeneration"]).filter(|seen| *seen < 0) {
            errors.invalid(&conditions.index(index).child("observedGeneration"), &seen, NOT_SEEN);
        }
        errors.invalid_each(&conditions.index(index).child("Type"), kind, qualified_name(kind));
    }
    let nominated = new.text(&["status", "nominatedNodeName"]);
    if !nominated.is_empty() && nominated != old.text(&["status", "nominatedNodeName"]) {
        let place = path.child("nominatedNodeName");
        errors.invalid_each(&place, nominated, dns_subdomain(nominated));
        if !old.text(&["spec", "nodeName"]).is_empty() {
            errors.forbidden(&place, "may not be set on pods that are already bound to a node");
        }
    }
    errors.immutable(&path.child("qosClass"), new.at(&["status", "qosClass"]), old.at(&["status", "qosClass"]));
    for (statuses, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        let list = path.child(statuses);
        let current = first_by(new.items(&["status", statuses]), |status| status.text(&["name"]));
        let running = first_by(old.items(&["spec", containers]), |container| container.text(&["name"]));
        for (index, before) in old.items(&["status", statuses]).iter().enumerate() {
            let Some(end) = before.at(&["state", "terminated"]) else { continue };
            let name = before.text(&["name"]);
            let (now, container) = (current.get(name), running.get(name));
            let exit = end.int(&["exitCode"]).unwrap_or_default();
            let restarts = container.is_some_and(|container| restarts(container, old, exit));
            if now.is_some_and(|now| now.at(&["state", "terminated"]).is_none()) && !restarts {
                let text = "may not be transitioned to non-terminated state";
                errors.forbidden(&list.index(index).child("state"), text);
            }
        }
    }
    if let Some(generation) = new.int(&["status", "observedGeneration"]).filter(|generation| *generation < 0) {
        errors.invalid(&path.child("observedGeneration"), &generation, "must be a non-negative integer");
    }
    let (list, mut names) = (path.child("resourceClaimStatuses"), HashSet::new());
    let claims: HashSet<&str> =
        new.items(&["spec", "resourceClaims"]).iter().map(|claim| claim.text(&["name"])).collect();
    for (index, status) in new.items(&["status", "resourceClaimStatuses"]).iter().enumerate() {
        let (place, name) = (list.index(index), status.text(&["name"]));
        if !claims.contains(name) {
            let text = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&place.child("name"), name, text);
        }
        if !names.insert(name) {
            errors.duplicate(&place.child("name"), name);
        }
        if let Some(claim) = status.at(&["resourceClaimName"]).and_then(Value::as_str) {
            errors.invalid_each(&place.child("resourceClaimName"), claim, dns_subdomain(claim));
        }
    }
    if let Some(extended) = new.at(&["status", "extendedResourceClaimStatus"]) {
        let place = path.child("extendedResourceClaimStatus");
        if extended.items(&["requestMappings"]).is_empty() {
            errors.required(&place.child("requestMappings"), "at least one request mapping is required");
        }
        if extended.text(&["resourceClaimName"]).is_empty() {
            errors.required(&place.child("resourceClaimName"), "");
        }
    }
    for (list, single) in [("podIPs", "podIP"), ("hostIPs", "hostIP")] {
        let place = path.child(list);
        let addresses = new.items(&["status", list]);
        let known = |address: &Value| old.items(&["status", list]).contains(address);
        if let Some(first) = addresses.first().map(|first| first.text(&["ip"])).filter(|_| single == "hostIP")
            && first != new.text(&["status", single])
        {
            errors.invalid(&place.index(0).child("ip"), first, "must be equal to `hostIP`");
        }
        for (index, address) in addresses.iter().enumerate().filter(|(_, address)| !known(address)) {
            validate_address(address.text(&["ip"]), &place.index(index), errors);
        }
        // A single address is validated like a list of one.
        let alone = new.text(&["status", single]);
        if single == "podIP" && addresses.is_empty() && !alone.is_empty() && alone != old.text(&["status", single]) {
            validate_address(alone, &place.index(0), errors);
        }
    }
}

/// Reports whether the kubelet restarts a terminated container.
fn restarts(container: &Value, pod: &Value, exit: i64) -> bool {
    let policy = match container.text(&["restartPolicy"]) {
        "" => pod.text(&["spec", "restartPolicy"]),
        own => own,
    };
    match policy {
        "Never" => false,
        "OnFailure" => exit != 0,
        _ => true,
    }
}

pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    const TEXT: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                        `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                        existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                        previously negative)";
    let spec_path = Path::new("spec");
    let (Some(spec), Some(old_spec)) = (new.at(&["spec"]), old.at(&["spec"])) else { return };
    for list in ["containers", "initContainers"] {
        let (containers, old_containers) = (spec.items(&[list]), old_spec.items(&[list]));
        if containers.len() != old_containers.len() {
            errors.forbidden(&spec_path.child(list), "pod updates may not add or remove containers");
            return;
        }
        for (index, container) in containers.iter().enumerate() {
            if container.text(&["image"]).is_empty() {
                errors.required(&spec_path.child(list).index(index).child("image"), "");
            }
        }
    }
    validate_deadline(spec, old_spec, errors);
    let tolerations = spec.items(&["tolerations"]);
    // Only `tolerationSeconds` may change.
    let but_seconds =
        |toleration: &Value| ["key", "operator", "value", "effect"].map(|field| toleration.at(&[field]).cloned());
    let kept: HashSet<_> = tolerations.iter().map(but_seconds).collect();
    let stays = |old: &Value| kept.contains(&but_seconds(old));
    if !old_spec.items(&["tolerations"]).iter().all(stays) {
        let path = spec_path.child("tolerations");
        errors.forbidden(&path, "existing toleration can not be modified except its tolerationSeconds");
    }
    // The real server validates the tolerations twice.
    validate_tolerations(spec, &spec_path, errors);
    validate_gates(spec, old_spec, errors);
    let gated = !old_spec.items(&["schedulingGates"]).is_empty();
    if gated {
        validate_directives(spec, old_spec, errors);
    }
    let mut munged = spec.clone();
    let map = as_object(&mut munged);
    for list in ["containers", "initContainers"] {
        if let Some(Value::Array(containers)) = map.get_mut(list) {
            for (container, old) in containers.iter_mut().zip(old_spec.items(&[list])) {
                as_object(container).insert("image".to_owned(), old.text(&["image"]).into());
            }
        }
    }
    let mut free = vec!["activeDeadlineSeconds", "schedulingGates", "tolerations"];
    if gated {
        free.extend(["nodeSelector", "affinity"]);
    }
    if old_spec.int(&["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0)
        && spec.int(&["terminationGracePeriodSeconds"]) == Some(1)
    {
        free.push("terminationGracePeriodSeconds");
    }
    let without = |spec: &Map<String, Value>| {
        let mut spec = spec.clone();
        for key in &free {
            spec.shift_remove(*key);
        }
        Value::Object(spec)
    };
    let (munged, old_spec) = (without(map), without(old_spec.as_object().unwrap_or(&Map::new())));
    // For these fields, an empty value differs from a missing one.
    let appears = |field: &&str| munged.at(&[field]).is_some() != old_spec.at(&[field]).is_some();
    let appears = ["affinity", "resources", "dnsConfig", "os"].iter().any(appears);
    if appears || (munged != old_spec && !same(Some(&munged), Some(&old_spec))) {
        let changed: Vec<&str> = munged
            .as_object()
            .into_iter()
            .chain(old_spec.as_object())
            .flat_map(Map::keys)
            .filter(|key| munged.at(&[key]) != old_spec.at(&[key]))
            .map(String::as_str)
            .collect();
        errors.forbidden(&spec_path, &format!("{TEXT}\n{}", changed.first().copied().unwrap_or_default()));
    }
}

/// Validates that scheduling gates are only removed.
fn validate_gates(spec: &Value, old_spec: &Value, errors: &mut Errors) {
    let list = Path::new("spec.schedulingGates");
    let known: HashSet<&str> = old_spec.items(&["schedulingGates"]).iter().map(|gate| gate.text(&["name"])).collect();
    for (index, gate) in spec.items(&["schedulingGates"]).iter().enumerate() {
        let name = gate.text(&["name"]);
        if !known.contains(name) {
            let text = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&list.index(index).child("name"), &text);
        }
    }
}

/// Validates that a gated pod's node selection only becomes narrower.
fn validate_directives(spec: &Value, old_spec: &Value, errors: &mut Errors) {
    let stays = |(key, value): (&String, &Value)| spec.at(&["nodeSelector", key]) == Some(value);
    if !old_spec.entries(&["nodeSelector"]).all(stays) {
        let selector = spec.at(&["nodeSelector"]).unwrap_or(&Value::Null);
        let text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&Path::new("spec.nodeSelector"), selector, text);
    }
    const TERMS: [&str; 4] =
        ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let (terms, old_terms) = (spec.items(&TERMS), old_spec.items(&TERMS));
    let text = format!("spec.{}", TERMS.join("."));
    let list = Path::new(&text);
    if !old_terms.is_empty() && terms.len() != old_terms.len() {
        let text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid(&list, &Value::from(terms), text);
    }
    for (index, (term, old_term)) in terms.iter().zip(old_terms).enumerate() {
        let grows = |field: &str| term.items(&[field]).starts_with(old_term.items(&[field]));
        let empty =
            |term: &Value| term.items(&["matchExpressions"]).is_empty() && term.items(&["matchFields"]).is_empty();
        if !grows("matchExpressions") || !grows("matchFields") || (empty(old_term) && !empty(term)) {
            errors.invalid(&list.index(index), term, "only additions are allowed (no mutations or deletions)");
        }
    }
}

fn validate_deadline(spec: &Value, old_spec: &Value, errors: &mut Errors) {
    let path = Path::new("spec.activeDeadlineSeconds");
    let old = old_spec.int(&["activeDeadlineSeconds"]);
    match spec.int(&["activeDeadlineSeconds"]) {
        Some(new) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.invalid(&path, &new, "must be between 0 and 2147483647, inclusive");
        }
        Some(new) if old.is_some_and(|old| old < new) => {
            errors.invalid(&path, &new, "must be less than or equal to previous value");
        }
        None if old.is_some() => {
            errors.invalid(&path, &Value::Null, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
}
