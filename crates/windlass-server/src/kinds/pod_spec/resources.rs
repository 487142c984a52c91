//! The resources of containers and pods: requests, limits and device claims.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::kinds::pod_spec::one_of;
use crate::{
    kinds::amount,
    object::{Errors, Path, Tree, dns_label, dns_subdomain, qualified_name},
};

/// The owner of the resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Container,
    Pod,
}

const RESTART_ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const MAX_RESTART_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// The resources that can be requested at pod level.
const OF_PODS: [&str; 3] = ["cpu", HUGE_PAGES, "memory"];
const HUGE_PAGES: &str = "hugepages-";

/// Validates the resources of a container or of a pod; `claims` are the names of the pod's claims.
pub(super) fn validate_resources(owner: &Value, asker: Asker, claims: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let nothing = Value::Null;
    validate_amounts(owner.at(&["resources"]).unwrap_or(&nothing), asker, &path.child("resources"), errors);
    validate_used_claims(owner, claims, &path.child("resources.claims"), errors);
}

/// Validates the overhead of a pod.
pub(super) fn validate_overhead(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(overhead) = spec.at(&["overhead"]) {
        // The overhead is validated like the limits of a container.
        let limits = json!({"limits": overhead});
        validate_amounts(&limits, Asker::Container, &path.child("overhead"), errors);
    }
}

fn validate_amounts(resources: &Value, asker: Asker, path: &Path<'_>, errors: &mut Errors) {
    let (mut compute, mut huge) = (false, false);
    for list in ["limits", "requests"] {
        let list_path = path.child(list);
        for (name, quantity) in resources.entries(&[list]) {
            let place = list_path.key(name);
            let text = quantity.as_str().unwrap_or_default();
            validate_name(name, asker, &place, errors);
            let value = amount(text).unwrap_or_default();
            if value < 0.0 {
                errors.invalid(&place, text, "must be greater than or equal to 0");
            }
            if !is_native(name) && value.fract() != 0.0 {
                errors.invalid(&place, text, "must be an integer");
            }
            if list == "requests" {
                validate_request(name, text, resources.text(&["limits", name]), path, errors);
            }
            compute |= matches!(name.as_str(), "cpu" | "memory");
            huge |= name.starts_with(HUGE_PAGES);
        }
    }
    if huge && !compute {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

/// Reports whether a resource is native, and not an extended resource of a vendor.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Reports whether a resource can be overcommitted.
fn is_shared(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

fn validate_name(name: &str, asker: Asker, path: &Path<'_>, errors: &mut Errors) {
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage" | "storage") || name.starts_with(HUGE_PAGES);
    if !standard {
        errors.invalid_each(path, name, qualified_name(name));
        if !name.contains('/') {
            errors.invalid(path, name, "must be a standard resource type or fully qualified");
            if asker == Asker::Container {
                errors.invalid(path, name, "must be a standard resource for containers");
            }
            return;
        }
    }
    let for_pods = matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES);
    if asker == Asker::Pod && !for_pods {
        errors.unsupported(path, name, &OF_PODS);
    }
}

/// Validates a request against its limit.
fn validate_request(name: &str, text: &str, limit: &str, path: &Path<'_>, errors: &mut Errors) {
    let value = amount(text).unwrap_or_default();
    let place = path.child("requests");
    match amount(limit) {
        Some(most) if !is_shared(name) && (value - most).abs() > 0.0 => {
            errors.invalid(&place, text, &format!("must be equal to {name} limit of {limit}"));
        }
        Some(most) if value > most => {
            errors.invalid(&place, text, &format!("must be less than or equal to {name} limit of {limit}"));
        }
        None if !is_shared(name) => {
            errors.required(&path.child("limits"), "Limit must be set for non overcommitable resources");
        }
        _ => {}
    }
}

fn validate_used_claims(owner: &Value, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    // The requests by claim; an empty request stands for the whole claim.
    let mut names: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (index, claim) in owner.items(&["resources", "claims"]).iter().enumerate() {
        let place = path.index(index);
        let name = claim.text(&["name"]);
        if name.is_empty() {
            errors.required(&place, "");
            continue;
        }
        let request = claim.text(&["request"]);
        let requests = names.entry(name).or_default();
        if requests.contains("") {
            errors.duplicate(&place, name);
        } else {
            if !request.is_empty() {
                errors.invalid_each(&place.child("request"), request, dns_label(request));
            }
            // A reference to a whole claim duplicates all references to its requests.
            if !requests.insert(request) {
                errors.duplicate(&place, &format!("{name}/{request}"));
            } else if request.is_empty() {
                for _ in 1..requests.len() {
                    errors.duplicate(&place, name);
                }
            }
        }
        // Each of these errors lists all known names.
        if known.binary_search(&name).is_err() && !errors.is_full() {
            let known = if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", known.join(", ")) };
            let message = format!("Not found: {name:?}: must be one of the names in pod.spec.resourceClaims{known}");
            errors.add(&place, "FieldValueNotFound", message);
        }
    }
}

/// Validates the resource claims of a pod: each refers to a claim or to a template. Returns their names in order.
pub(super) fn validate_claims<'v>(spec: &'v Value, path: &Path<'_>, errors: &mut Errors) -> Vec<&'v str> {
    let list = path.child("resourceClaims");
    let (mut names, mut seen): (Vec<&str>, HashSet<&str>) = (Vec::new(), HashSet::new());
    for (index, claim) in spec.items(&["resourceClaims"]).iter().enumerate() {
        let place = list.index(index);
        let name = claim.text(&["name"]);
        if name.is_empty() {
            errors.required(&place.child("name"), "");
        } else if !seen.insert(name) {
            errors.duplicate(&place.child("name"), name);
        } else {
            errors.invalid_each(&place.child("name"), name, dns_label(name));
            names.push(name);
        }
        let of = |field: &str| claim.at(&[field]).cloned().unwrap_or_default();
        let (existing, template) = (of("resourceClaimName"), of("resourceClaimTemplateName"));
        // The value is shown with Go's field names.
        let shown = json!({
            "Name": name, "ResourceClaimName": existing, "ResourceClaimTemplateName": template,
        });
        if !existing.is_null() && !template.is_null() {
            let text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            errors.invalid(&place, &shown, text);
        }
        if existing.is_null() && template.is_null() {
            let text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            errors.invalid(&place, &shown, text);
        }
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if let Some(name) = claim.at(&[field]).and_then(Value::as_str) {
                errors.invalid_each(&place.child(field), name, dns_subdomain(name));
            }
        }
    }
    names.sort_unstable();
    names
}

/// Validates the resize policy of a container.
pub(super) fn validate_resize_policy(container: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("resizePolicy");
    let mut names = HashSet::new();
    for (index, policy) in container.items(&["resizePolicy"]).iter().enumerate() {
        let (name, restart) = (policy.text(&["resourceName"]), policy.text(&["restartPolicy"]));
        if !names.insert(name) {
            errors.duplicate(&list.index(index), name);
        }
        // Like in the real server, these errors do not name the field.
        for (text, known) in [(name, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            if text.is_empty() {
                errors.required(&list, "");
            } else if !known.contains(&text) {
                errors.unsupported(&list, text, &known);
            }
        }
        if spec.text(&["restartPolicy"]) == "Never" && restart != "NotRequired" {
            errors.invalid(&list, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

/// Validates that the pod-level resources are sufficient for the containers.
pub(super) fn validate_pod_resources(spec: &Value, claims: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if spec.at(&["resources"]).is_none() {
        return;
    }
    let place = path.child("resources");
    if spec.text(&["os", "name"]) == "windows" {
        return errors.forbidden(&place, "may not be set for a windows pod");
    }
    if spec.at(&["resources", "claims"]).is_some() {
        errors.forbidden(&place.child("claims"), "claims may not be set for Resources at pod-level");
    }
    validate_resources(spec, Asker::Pod, claims, path, errors);
    let requests = place.child("requests");
    for (name, given) in spec.entries(&["resources", "requests"]) {
        let given = given.as_str().unwrap_or_default();
        let needed = crate::kinds::pod_spec::defaults::requested(spec, name);
        if let Some(needed) = needed.filter(|needed| amount(needed) > amount(given)) {
            let text = format!("must be greater than or equal to aggregate container requests of {needed}");
            errors.invalid(&requests.key(name), given, &text);
        }
    }
    let containers = place.child("containers");
    for (index, container) in spec.items(&["containers"]).iter().enumerate() {
        for (name, limit) in container.entries(&["resources", "limits"]) {
            let (limit, most) = (limit.as_str().unwrap_or_default(), spec.text(&["resources", "limits", name]));
            if !most.is_empty() && amount(limit) > amount(most) {
                let place = containers.index(index);
                let text = format!("must be less than or equal to pod limits of {most}");
                errors.invalid(&place.key(name).child("limits"), limit, &text);
            }
        }
    }
}

/// Validates the restart policy of an init container. Without a policy, the rules themselves are not validated.
pub(super) fn validate_init_restart(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    match container.at(&["restartPolicy"]) {
        None => validate_ruled(container, path, errors),
        Some(_) => validate_restart(container, path, errors),
    }
}

/// Validates that a container with restart rules also has a restart policy.
fn validate_ruled(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !container.items(&["restartPolicyRules"]).is_empty() && container.at(&["restartPolicy"]).is_none() {
        errors.required(&path.child("restartPolicy"), "must specify restartPolicy when restart rules are used");
    }
}

/// Validates the restart policy and rules of a container.
pub(super) fn validate_restart(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    one_of(container, "restartPolicy", &["Always", "Never", "OnFailure"], path, errors);
    let rules = container.items(&["restartPolicyRules"]);
    validate_ruled(container, path, errors);
    let list = path.child("restartPolicyRules");
    if rules.len() > MAX_RESTART_RULES {
        errors.too_many(&list, rules.len(), MAX_RESTART_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        let place = list.index(index);
        let action = rule.text(&["action"]);
        if !RESTART_ACTIONS.contains(&action) {
            errors.unsupported(&place.child("action"), action, &RESTART_ACTIONS);
        }
        let codes_path = place.child("exitCodes");
        let Some(codes) = rule.at(&["exitCodes"]) else {
            errors.required(&codes_path, "must be specified");
            continue;
        };
        let operator = codes.text(&["operator"]);
        if !matches!(operator, "In" | "NotIn") {
            errors.unsupported(&codes_path.child("operator"), operator, &["In", "NotIn"]);
        }
        let values = codes.items(&["values"]).len();
        if values > MAX_EXIT_CODES {
            errors.too_many(&codes_path.child("values"), values, MAX_EXIT_CODES);
        }
    }
}
