//! Validation of the status of pods.

use std::collections::HashSet;

use crate::kinds::prelude::*;

/// The lists of container statuses, with the lists of the containers. Ephemeral containers are never restarted.
const CONTAINER_STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", ""),
];

/// Validates a new status of a pod.
pub(super) fn validate(pod: &Field<'_>, old_pod: &Field<'_>, errors: &mut Errors) {
    let (status, old_status) = (pod.child("status"), old_pod.child("status"));
    for condition in status.child("conditions").items() {
        validate_observed_generation(&condition, errors);
        // The real server reports the path with Go's field name.
        let kind = condition.json().text(&["type"]);
        errors.invalid_each(&condition.path().child("Type"), kind, qualified_name(kind));
    }
    let node = status.child("nominatedNodeName");
    if !node.is_empty() && node.text() != old_status.child("nominatedNodeName").text() {
        node.check_text(dns_subdomain, errors);
        // The feature ClearingNominatedNodeNameAfterBinding.
        if !errors.before(V1_35) && !old_pod.child("spec.nodeName").is_empty() {
            node.forbidden("may not be set on pods that are already bound to a node", errors);
        }
    }
    status.child("qosClass").immutable(&old_status.child("qosClass"), errors);
    validate_terminated_containers(&status, old_pod.json(), errors);
    validate_observed_generation(&status, errors);
    validate_resource_claims(pod, errors);
    let extended = status.child("extendedResourceClaimStatus");
    if extended.is_set() {
        extended.child("requestMappings").check_not_empty("at least one request mapping is required", errors);
        extended.check(&[("resourceClaimName", Rule::Required)], errors);
    }
    validate_addresses(&status, &old_status, errors);
}

fn validate_observed_generation(object: &Field<'_>, errors: &mut Errors) {
    let generation = object.child("observedGeneration");
    generation.check_int(0.., "must be a non-negative integer", errors);
}

/// Validates that terminated containers stay terminated, unless the kubelet restarts them.
fn validate_terminated_containers(status: &Field<'_>, old: &Value, errors: &mut Errors) {
    for (statuses, containers) in CONTAINER_STATUSES {
        let list = status.child(statuses);
        let current =
            first_by(list.json().as_array().map(Vec::as_slice).unwrap_or_default(), |status| status.text(&["name"]));
        let specs = first_by(old.items(&["spec", containers]), |container| container.text(&["name"]));
        for (index, before) in old.items(&["status", statuses]).iter().enumerate() {
            let Some(end) = before.at(&["state", "terminated"]) else { continue };
            let name = before.text(&["name"]);
            let exit_code = end.int(&["exitCode"]).unwrap_or_default();
            let restarts = specs.get(name).is_some_and(|container| restarts(container, old, exit_code));
            let runs = current.get(name).is_some_and(|status| status.at(&["state", "terminated"]).is_none());
            if runs && !restarts {
                let text = "may not be transitioned to non-terminated state";
                errors.forbidden(&list.path().index(index).child("state"), text);
            }
        }
    }
}

/// Reports whether the kubelet restarts a terminated container.
fn restarts(container: &Value, pod: &Value, exit_code: i64) -> bool {
    let policy = match container.text(&["restartPolicy"]) {
        "" => pod.text(&["spec", "restartPolicy"]),
        own => own,
    };
    match policy {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}

fn validate_resource_claims(pod: &Field<'_>, errors: &mut Errors) {
    let claims = pod.json().items(&["spec", "resourceClaims"]);
    let claims: HashSet<&str> = claims.iter().map(|claim| claim.text(&["name"])).collect();
    let mut names = HashSet::new();
    for status in pod.child("status.resourceClaimStatuses").items() {
        let (path, name) = (status.path().child("name"), status.json().text(&["name"]).to_owned());
        if !claims.contains(name.as_str()) {
            errors.invalid(&path, &name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if !names.insert(name.clone()) {
            errors.duplicate(&path, &name);
        }
        let claim = status.child("resourceClaimName");
        if claim.json().is_string() {
            claim.check_text(dns_subdomain, errors);
        }
    }
}

fn validate_addresses(status: &Field<'_>, old_status: &Field<'_>, errors: &mut Errors) {
    for (name, single_name) in [("podIPs", "podIP"), ("hostIPs", "hostIP")] {
        let (list, old_list, single) = (status.child(name), old_status.child(name), status.child(single_name));
        if single_name == "hostIP"
            && let Some(first) = list.items().next()
            && first.child("ip").text() != single.text()
        {
            first.child("ip").invalid_as(first.child("ip").text(), "must be equal to `hostIP`", errors);
        }
        for address in list.items() {
            if !old_list.items().any(|old| old.value() == address.value()) {
                validate_address(address.child("ip").text(), address.path(), errors);
            }
        }
        // A single address is validated like a list of one.
        let is_new = !single.is_empty() && single.text() != old_status.child(single_name).text();
        if single_name == "podIP" && list.is_empty() && is_new {
            validate_address(single.text(), &Path::index(list.path(), 0), errors);
        }
    }
}
