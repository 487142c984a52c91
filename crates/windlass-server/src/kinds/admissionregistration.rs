//! The group `admissionregistration.k8s.io`: admission webhooks and admission policies.
//!
//! Expressions are compiled when they are written. The module `admission` evaluates them.

pub(crate) mod conditions;
pub(crate) mod expressions;
mod match_resources;
mod policies;
mod policy_bindings;
mod webhooks;

use std::collections::HashSet;

use crate::kinds::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    webhooks::VALIDATING,
    webhooks::MUTATING,
    webhooks::VALIDATING_V1BETA1,
    webhooks::MUTATING_V1BETA1,
    policies::VALIDATING,
    policy_bindings::VALIDATING,
    policies::MUTATING,
    policy_bindings::MUTATING,
];

/// The rules that the kinds of this group share.
const GROUP_RULES: Rules = Rules {
    metadata: MetadataRule::GENERIC,
    generation: Generation::Spec,
    unconditional_update: false,
    ..Rules::COMMON
};

const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const MAX_MATCH_CONDITIONS: usize = 64;

// === defaults ===

/// Sets the match policy and the selectors of a webhook or of match resources.
fn default_selectors(map: &mut Map<String, Value>) {
    default_pointer(map, "matchPolicy", "Equivalent");
    default_pointer(map, "namespaceSelector", json!({}));
    default_pointer(map, "objectSelector", json!({}));
}

/// Sets the scopes of the rules in a list.
fn default_rules(owner: &mut Value, list: &str) {
    for rule in items_mut(owner, list) {
        default_pointer(as_object(rule), "scope", "*");
    }
}

// === validation ===

/// Validates the operations and resources that a webhook or a policy matches.
fn validate_rule(rule: &Field<'_>, errors: &mut Errors) {
    let operations = rule.child("operations");
    validate_wildcard_list(&operations, "operations", errors);
    operations.each(|operation, errors| operation.supported(OPERATIONS, errors), errors);
    validate_wildcard_list(&rule.child("apiGroups"), "API groups", errors);
    let versions = rule.child("apiVersions");
    validate_wildcard_list(&versions, "API versions", errors);
    versions.each(|version, errors| version.check_not_empty("", errors), errors);
    validate_resources(&rule.child("resources"), errors);
    rule.child("scope").supported_if_set(SCOPES, errors);
}

/// Validates that a list is not empty, and that a `*` is its only element. `noun` names the elements.
fn validate_wildcard_list(list: &Field<'_>, noun: &str, errors: &mut Errors) {
    list.check_not_empty("", errors);
    if list.len() > 1 && list.items().any(|item| item.text() == "*") {
        list.invalid(&format!("if '*' is present, must not specify other {noun}"), errors);
    }
}

fn validate_resources(resources: &Field<'_>, errors: &mut Errors) {
    resources.check_not_empty("", errors);
    // The resources of all earlier `NAME/*`, and the subresources of all earlier `*/NAME`.
    let (mut with_all_subresources, mut of_all_resources) = (HashSet::new(), HashSet::new());
    let mut has_plain = false;
    for resource in resources.items() {
        let text = resource.json().text(&[]);
        if text.is_empty() {
            resource.required("", errors);
            continue;
        }
        let Some((name, subresource)) = text.split_once('/') else {
            has_plain = text != "*";
            continue;
        };
        if with_all_subresources.contains(name) {
            resource.invalid(&format!("if '{name}/*' is present, must not specify {text}"), errors);
        }
        if of_all_resources.contains(subresource) {
            resource.invalid(&format!("if '*/{subresource}' is present, must not specify {text}"), errors);
        }
        if subresource == "*" {
            with_all_subresources.insert(name);
        }
        if name == "*" {
            of_all_resources.insert(subresource);
        }
    }
    let has = |text: &str| resources.items().any(|resource| resource.text() == text);
    if resources.len() > 1 && has("*/*") {
        resources.invalid("if '*/*' is present, must not specify other resources", errors);
    }
    if has("*") && has_plain {
        resources.invalid("if '*' is present, must not specify other resources without subresources", errors);
    }
}

/// Validates the match conditions of a webhook or a policy. `params`: the conditions may use `params`.
fn validate_match_conditions(conditions: &Field<'_>, params: bool, errors: &mut Errors) {
    conditions.at_most(MAX_MATCH_CONDITIONS, errors);
    let mut seen = DuplicateCheck::default();
    for condition in conditions.items() {
        let expression = condition.child("expression");
        let trimmed = expression.text().trim();
        if trimmed.is_empty() {
            expression.required("", errors);
        } else if let Some(problem) = expressions::condition_problem(trimmed, params) {
            expression.invalid_as(trimmed, &problem, errors);
        }
        let name = condition.child("name");
        name.required_text(qualified_name, errors);
        if !name.is_empty() {
            condition.check_unique_by("name", &mut seen, errors);
        }
    }
}
