//! The group `admissionregistration.k8s.io`: admission webhooks and admission policies.
//!
//! The match conditions of webhooks are compiled. The expressions of policies are stored without validation and not
//! evaluated yet.

mod policies;

use std::collections::HashSet;

use serde_json::{Value, json};

pub(crate) mod conditions;

use super::{BASE, Kind, selector::validate_selector};
use crate::{
    object::{
        DuplicateCheck, Errors, Path, Tree, as_object, default_pointer, dns_subdomain, items_mut, qualified_name,
    },
    resource::{Generation, MetadataRule, Resets, Rules, StatusRule},
    webhook::{validate_client_config, validate_review_versions},
};

const GROUP: &str = "admissionregistration.k8s.io";
const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const MAX_CONDITIONS: usize = 64;

/// The rules that all kinds of the group share.
const RULES: Rules = Rules {
    metadata: MetadataRule::GENERIC,
    generation: Generation::Content,
    unconditional_update: false,
    ..Rules::COMMON
};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: GROUP,
        name: "ValidatingWebhookConfiguration",
        prefix: "/registry/validatingwebhookconfigurations/",
        rules: RULES,
        default: |object| default_hooks(object, false),
        validate: |object, errors| validate_hooks(object, false, errors),
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "MutatingWebhookConfiguration",
        prefix: "/registry/mutatingwebhookconfigurations/",
        rules: RULES,
        default: |object| default_hooks(object, true),
        validate: |object, errors| validate_hooks(object, true, errors),
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "ValidatingAdmissionPolicy",
        prefix: "/registry/validatingadmissionpolicies/",
        subresources: &["status"],
        rules: Rules { status: StatusRule::Reset, resets: Resets::BARE_STATUS, generation: Generation::Spec, ..RULES },
        default: policies::default_policy,
        validate: policies::validate_validating,
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "ValidatingAdmissionPolicyBinding",
        prefix: "/registry/validatingadmissionpolicybindings/",
        rules: Rules { generation: Generation::Spec, ..RULES },
        default: policies::default_binding,
        validate: policies::validate_validating_binding,
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "MutatingAdmissionPolicy",
        prefix: "/registry/mutatingadmissionpolicies/",
        rules: Rules { generation: Generation::Spec, ..RULES },
        default: policies::default_policy,
        validate: policies::validate_mutating,
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "MutatingAdmissionPolicyBinding",
        prefix: "/registry/mutatingadmissionpolicybindings/",
        rules: Rules { generation: Generation::Spec, ..RULES },
        default: policies::default_binding,
        validate: policies::validate_mutating_binding,
        ..BASE
    },
];

// === defaults ===

fn default_hooks(object: &mut Value, mutating: bool) {
    for hook in items_mut(object, "webhooks") {
        let map = as_object(hook);
        default_pointer(map, "failurePolicy", "Fail");
        default_pointer(map, "matchPolicy", "Equivalent");
        default_pointer(map, "namespaceSelector", json!({}));
        default_pointer(map, "objectSelector", json!({}));
        default_pointer(map, "timeoutSeconds", 10);
        if mutating {
            default_pointer(map, "reinvocationPolicy", "Never");
        }
        for rule in items_mut(hook, "rules") {
            default_rule(rule);
        }
        if let Some(service) = hook.pointer_mut("/clientConfig/service").filter(|service| service.is_object()) {
            default_pointer(as_object(service), "port", 443);
        }
    }
}

fn default_rule(rule: &mut Value) {
    default_pointer(as_object(rule), "scope", "*");
}

// === webhooks ===

fn validate_hooks(object: &Value, mutating: bool, errors: &mut Errors) {
    let list = Path::new("webhooks");
    let mut names = DuplicateCheck::default();
    for (index, hook) in object.items(&["webhooks"]).iter().enumerate() {
        let place = list.index(index);
        validate_hook(hook, mutating, &place, errors);
        let (versions, path) = (hook.items(&["admissionReviewVersions"]), place.child("admissionReviewVersions"));
        if versions.is_empty() {
            errors.required(&path, "must specify one of v1, v1beta1");
        } else {
            validate_review_versions(versions, &path, errors);
        }
        let name = hook.text(&["name"]);
        if names.repeats(name) && !name.is_empty() {
            errors.duplicate(&place.child("name"), name);
        }
    }
}

fn validate_hook(hook: &Value, mutating: bool, path: &Path<'_>, errors: &mut Errors) {
    let name = hook.text(&["name"]);
    let place = path.child("name");
    if name.is_empty() {
        errors.required(&place, "");
    } else {
        let wrong = dns_subdomain(name);
        if !wrong.is_empty() {
            errors.invalid(&place, name, &wrong.join(","));
        } else if name.split('.').count() < 3 {
            errors.invalid(&place, name, "should be a domain with at least three segments separated by dots");
        }
    }
    let rules = path.child("rules");
    for (index, rule) in hook.items(&["rules"]).iter().enumerate() {
        validate_rule(rule, &rules.index(index), errors);
    }
    one_of(hook, "failurePolicy", FAILURE_POLICIES, path, errors);
    one_of(hook, "matchPolicy", MATCH_POLICIES, path, errors);
    if hook.at(&["sideEffects"]).is_none() {
        errors.required(&path.child("sideEffects"), &format!("must specify one of {}", SIDE_EFFECTS.join(", ")));
    }
    one_of(hook, "sideEffects", SIDE_EFFECTS, path, errors);
    if let Some(seconds) = hook.int(&["timeoutSeconds"]).filter(|seconds| !(1..=30).contains(seconds)) {
        errors.invalid(&path.child("timeoutSeconds"), &seconds, "the timeout value must be between 1 and 30 seconds");
    }
    validate_selector(hook.at(&["namespaceSelector"]), &path.child("namespaceSelector"), errors);
    validate_selector(hook.at(&["objectSelector"]), &path.child("objectSelector"), errors);
    if mutating {
        one_of(hook, "reinvocationPolicy", REINVOCATION_POLICIES, path, errors);
    }
    let config = hook.at(&["clientConfig"]).unwrap_or(&Value::Null);
    validate_client_config(config, &path.child("clientConfig"), errors);
    validate_conditions(hook, &path.child("matchConditions"), conditions::problem, errors);
}

// === shared checks ===

fn one_of(object: &Value, field: &str, supported: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if let Some(value) = object.at(&[field]).and_then(Value::as_str).filter(|value| !supported.contains(value)) {
        errors.unsupported(&path.child(field), value, supported);
    }
}

/// Validates the operations and resources that a webhook or a policy matches.
fn validate_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let star = |field: &str, what: &str, errors: &mut Errors| {
        let items = rule.items(&[field]);
        if items.len() > 1 && items.iter().any(|item| item == "*") {
            let text = format!("if '*' is present, must not specify other {what}");
            errors.invalid(&path.child(field), &json!(items), &text);
        }
    };
    let place = path.child("operations");
    if rule.items(&["operations"]).is_empty() {
        errors.required(&place, "");
    }
    star("operations", "operations", errors);
    for (index, operation) in rule.items(&["operations"]).iter().enumerate() {
        let operation = operation.as_str().unwrap_or_default();
        if !OPERATIONS.contains(&operation) {
            errors.unsupported(&place.index(index), operation, OPERATIONS);
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        if rule.items(&[field]).is_empty() {
            errors.required(&path.child(field), "");
        }
        star(field, what, errors);
    }
    let place = path.child("apiVersions");
    for (index, version) in rule.items(&["apiVersions"]).iter().enumerate() {
        if version == "" {
            errors.required(&place.index(index), "");
        }
    }
    validate_resources(rule.items(&["resources"]), &path.child("resources"), errors);
    one_of(rule, "scope", SCOPES, path, errors);
}

fn validate_resources(resources: &[Value], path: &Path<'_>, errors: &mut Errors) {
    if resources.is_empty() {
        errors.required(path, "");
    }
    let (mut all_of, mut of_all) = (HashSet::new(), HashSet::new());
    let mut plain = false;
    for (index, resource) in resources.iter().enumerate() {
        let resource = resource.as_str().unwrap_or_default();
        let place = path.index(index);
        if resource.is_empty() {
            errors.required(&place, "");
            continue;
        }
        let Some((name, subresource)) = resource.split_once('/') else {
            plain = resource != "*";
            continue;
        };
        if all_of.contains(name) {
            errors.invalid(&place, resource, &format!("if '{name}/*' is present, must not specify {resource}"));
        }
        if of_all.contains(subresource) {
            errors.invalid(&place, resource, &format!("if '*/{subresource}' is present, must not specify {resource}"));
        }
        if subresource == "*" {
            all_of.insert(name);
        }
        if name == "*" {
            of_all.insert(subresource);
        }
    }
    let has = |text: &str| resources.iter().any(|resource| resource == text);
    if resources.len() > 1 && has("*/*") {
        errors.invalid(path, &json!(resources), "if '*/*' is present, must not specify other resources");
    }
    if has("*") && plain {
        let text = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, &json!(resources), text);
    }
}

fn validate_conditions(object: &Value, path: &Path<'_>, problem: fn(&str) -> Option<String>, errors: &mut Errors) {
    let conditions = object.items(&["matchConditions"]);
    if conditions.len() > MAX_CONDITIONS {
        errors.too_many(path, conditions.len(), MAX_CONDITIONS);
    }
    let mut seen = DuplicateCheck::default();
    for (index, condition) in conditions.iter().enumerate() {
        let place = path.index(index);
        let name = condition.text(&["name"]);
        let expression = condition.text(&["expression"]).trim();
        if expression.is_empty() {
            errors.required(&place.child("expression"), "");
        } else if let Some(problem) = problem(expression) {
            errors.invalid(&place.child("expression"), expression, &problem);
        }
        if name.is_empty() {
            errors.required(&place.child("name"), "");
        } else {
            errors.invalid_each(&place.child("name"), name, qualified_name(name));
            if seen.repeats(name) {
                errors.duplicate(&place.child("name"), name);
            }
        }
    }
}
