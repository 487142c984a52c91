//! The resources of containers and pods: requests, limits and device claims.

use std::collections::{HashMap, HashSet};

use crate::kinds::{
    amount,
    pod_spec::defaults::requested,
    prelude::*,
    quantity::{check_integer, check_not_negative},
};

/// The owner of the resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Container,
    Pod,
}

/// The second one exists since 1.36.
const RESTART_ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const EXIT_CODE_OPERATORS: [&str; 2] = ["In", "NotIn"];
const MAX_RESTART_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// The resources that can be requested at pod level.
const POD_RESOURCES: [&str; 3] = ["cpu", HUGE_PAGES, "memory"];
const HUGE_PAGES: &str = "hugepages-";

/// Validates the resources of a container or of a pod; `claims` are the names of the pod's claims.
pub(super) fn validate_resources(owner: &Field<'_>, asker: Asker, claims: &[&str], errors: &mut Errors) {
    let resources = owner.child("resources");
    validate_amounts(&resources, asker, errors);
    validate_used_claims(&resources.child("claims"), claims, errors);
}

/// Validates the overhead of a pod.
pub(super) fn validate_overhead(spec: &Field<'_>, errors: &mut Errors) {
    let overhead = spec.child("overhead");
    if overhead.is_set() {
        // The overhead is validated like the limits of a container.
        let resources = json!({"limits": overhead.json()});
        validate_amounts(&Field::new(*overhead.path(), Some(&resources)), Asker::Container, errors);
    }
}

fn validate_amounts(resources: &Field<'_>, asker: Asker, errors: &mut Errors) {
    let (mut compute, mut huge) = (false, false);
    for list in ["limits", "requests"] {
        for (name, quantity) in resources.child(list).entries() {
            validate_name(name, asker, quantity.path(), errors);
            check_not_negative(&quantity, errors);
            if !is_native(name) {
                check_integer(&quantity, errors);
            }
            if list == "requests" {
                validate_request(name, resources, errors);
            }
            compute |= matches!(name, "cpu" | "memory");
            huge |= name.starts_with(HUGE_PAGES);
        }
    }
    if huge && !compute {
        resources.forbidden("HugePages require cpu or memory", errors);
    }
}

/// Reports whether a resource is native, and not an extended resource of a vendor.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Reports whether a resource can be overcommitted.
fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

fn validate_name(name: &str, asker: Asker, path: &Path<'_>, errors: &mut Errors) {
    let for_pods = matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES);
    let standard = for_pods || matches!(name, "ephemeral-storage" | "storage");
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
    if asker == Asker::Pod && !for_pods {
        errors.unsupported(path, name, &POD_RESOURCES);
    }
}

/// Validates a request against its limit. Like in the real server, the errors do not name the resource's field.
fn validate_request(name: &str, resources: &Field<'_>, errors: &mut Errors) {
    let (requests, limits) = (resources.child("requests"), resources.child("limits"));
    let (request, limit) = (requests.key(name).text(), limits.key(name).text());
    let value = amount(request).unwrap_or_default();
    match amount(limit) {
        Some(limit_value) if !is_overcommittable(name) && (value - limit_value).abs() > 0.0 => {
            requests.invalid_as(request, &format!("must be equal to {name} limit of {limit}"), errors);
        }
        Some(limit_value) if value > limit_value => {
            requests.invalid_as(request, &format!("must be less than or equal to {name} limit of {limit}"), errors);
        }
        None if !is_overcommittable(name) => {
            limits.required("Limit must be set for non overcommitable resources", errors);
        }
        _ => {}
    }
}

/// Validates that the claims which a container or pod uses are among the pod's claims, whose names are sorted.
fn validate_used_claims(claims: &Field<'_>, pod_claims: &[&str], errors: &mut Errors) {
    // The requests by claim; an empty request stands for the whole claim.
    let mut requests_by_claim: HashMap<&str, HashSet<&str>> = HashMap::new();
    for claim in claims.items() {
        let (name, request) = (claim.json().text(&["name"]), claim.json().text(&["request"]));
        if name.is_empty() {
            claim.required("", errors);
            continue;
        }
        let requests = requests_by_claim.entry(name).or_default();
        if requests.contains("") {
            errors.duplicate(claim.path(), name);
        } else {
            if !request.is_empty() {
                claim.child("request").invalid_each(dns_label(request), errors);
            }
            // A reference to a whole claim duplicates all references to its requests.
            if !requests.insert(request) {
                errors.duplicate(claim.path(), &format!("{name}/{request}"));
            } else if request.is_empty() {
                for _ in 1..requests.len() {
                    errors.duplicate(claim.path(), name);
                }
            }
        }
        // Each of these errors lists all known names.
        if pod_claims.binary_search(&name).is_err() && !errors.is_full() {
            let known = match pod_claims {
                [] => " which is empty".to_owned(),
                names => format!(": {}", names.join(", ")),
            };
            let message = format!("Not found: {name:?}: must be one of the names in pod.spec.resourceClaims{known}");
            errors.add(claim.path(), "FieldValueNotFound", message);
        }
    }
}

/// Validates the resource claims of a pod: each refers to a claim or to a template. Returns their names in order.
pub(super) fn validate_claims<'v>(spec: &Field<'v>, errors: &mut Errors) -> Vec<&'v str> {
    let claims = spec.child("resourceClaims");
    let (mut names, mut seen) = (Vec::new(), DuplicateCheck::default());
    for (claim, value) in claims.items().zip(spec.json().items(&["resourceClaims"])) {
        let (name, name_field) = (value.text(&["name"]), claim.child("name"));
        if name.is_empty() {
            name_field.required("", errors);
        } else if seen.repeats(name) {
            name_field.duplicate(errors);
        } else {
            name_field.invalid_each(dns_label(name), errors);
            names.push(name);
        }
        let (existing, template) = (claim.child("resourceClaimName"), claim.child("resourceClaimTemplateName"));
        let problem = match (existing.is_set(), template.is_set()) {
            (true, true) => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            (false, false) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !problem.is_empty() {
            // The value is shown with Go's field names.
            let value = json!({
                "Name": name,
                "ResourceClaimName": existing.json(),
                "ResourceClaimTemplateName": template.json(),
            });
            claim.invalid_as(&value, problem, errors);
        }
        for reference in [existing, template].iter().filter(|reference| reference.is_set()) {
            reference.check_text(dns_subdomain, errors);
        }
    }
    names.sort_unstable();
    names
}

/// Validates the resize policy of a container. Like in the real server, most errors name only the list.
pub(super) fn validate_resize_policy(container: &Field<'_>, spec: &Value, errors: &mut Errors) {
    let policies = container.child("resizePolicy");
    let mut names = DuplicateCheck::default();
    for policy in policies.items() {
        let (name, restart) = (policy.json().text(&["resourceName"]), policy.json().text(&["restartPolicy"]));
        if names.repeats(name) {
            errors.duplicate(policy.path(), name);
        }
        for (text, supported) in [(name, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            if text.is_empty() {
                policies.required("", errors);
            } else if !supported.contains(&text) {
                errors.unsupported(policies.path(), text, &supported);
            }
        }
        if spec.text(&["restartPolicy"]) == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            policies.invalid_as(restart, detail, errors);
        }
    }
}

/// Validates that the pod-level resources are sufficient for the containers.
pub(super) fn validate_pod_resources(spec: &Field<'_>, claims: &[&str], errors: &mut Errors) {
    let resources = spec.child("resources");
    if !resources.is_set() {
        return;
    }
    if spec.child("os.name").text() == "windows" {
        return resources.forbidden("may not be set for a windows pod", errors);
    }
    resources.child("claims").check_unset("claims may not be set for Resources at pod-level", errors);
    validate_resources(spec, Asker::Pod, claims, errors);
    for (name, request) in resources.child("requests").entries() {
        let needed = requested(spec.json(), name);
        if let Some(needed) = needed.filter(|needed| amount(needed) > amount(request.text())) {
            let detail = format!("must be greater than or equal to aggregate container requests of {needed}");
            request.invalid_as(request.text(), &detail, errors);
        }
    }
    let pod_limits = resources.child("limits");
    // The real server reports this path.
    let containers_path = resources.path().child("containers");
    for (index, container) in spec.child("containers").items().enumerate() {
        let path = containers_path.index(index);
        for (name, limit) in container.child("resources.limits").entries() {
            let (limit, pod_limit) = (limit.text(), pod_limits.key(name).text());
            if !pod_limit.is_empty() && amount(limit) > amount(pod_limit) {
                let detail = format!("must be less than or equal to pod limits of {pod_limit}");
                errors.invalid(&path.key(name).child("limits"), limit, &detail);
            }
        }
    }
}

/// Validates the restart policy of an init container. Without a policy, the rules themselves are not validated.
pub(super) fn validate_init_restart(container: &Field<'_>, errors: &mut Errors) {
    let policy = container.child("restartPolicy");
    if errors.before(V1_34) {
        policy.supported_if_set(&["Always"], errors);
    } else if policy.is_set() {
        validate_restart(container, errors);
    } else {
        validate_policy_for_rules(container, errors);
    }
}

/// Validates that a container with restart rules also has a restart policy.
fn validate_policy_for_rules(container: &Field<'_>, errors: &mut Errors) {
    let policy = container.child("restartPolicy");
    if !container.child("restartPolicyRules").is_empty() && !policy.is_set() {
        policy.required("must specify restartPolicy when restart rules are used", errors);
    }
}

/// Validates the restart policy and rules of a container.
pub(super) fn validate_restart(container: &Field<'_>, errors: &mut Errors) {
    container.child("restartPolicy").one_of(&["Always", "Never", "OnFailure"], errors);
    validate_policy_for_rules(container, errors);
    let rules = container.child("restartPolicyRules");
    rules.at_most(MAX_RESTART_RULES, errors);
    let actions = if errors.before(V1_36) { &RESTART_ACTIONS[..1] } else { &RESTART_ACTIONS };
    for rule in rules.items() {
        rule.child("action").supported(actions, errors);
        let codes = rule.child("exitCodes");
        codes.check_set("must be specified", errors);
        if codes.is_set() {
            codes.child("operator").supported(&EXIT_CODE_OPERATORS, errors);
            codes.child("values").at_most(MAX_EXIT_CODES, errors);
        }
    }
}
