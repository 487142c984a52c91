//! The resources that admission policies and their bindings match.

use crate::kinds::{
    admissionregistration::{MATCH_POLICIES, default_rules, default_selectors, validate_rule},
    prelude::*,
    selector::validate_selector,
};

const MUTATING_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

/// Applies the defaults of a field with match resources, if present.
pub(super) fn default_match(spec: &mut Value, field: &str) {
    let Some(resources) = entry_mut(spec, field) else { return };
    default_selectors(as_object(resources));
    for list in ["resourceRules", "excludeResourceRules"] {
        default_rules(resources, list);
    }
}

/// Validates match resources.
pub(super) fn validate_match(resources: &Field<'_>, errors: &mut Errors) {
    resources.child("matchPolicy").supported_if_set(MATCH_POLICIES, errors);
    validate_selector(&resources.child("namespaceSelector"), errors);
    validate_selector(&resources.child("objectSelector"), errors);
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.child(list).items() {
            rule.child("resourceNames").each_unique(|name, errors| name.check_text(path_segment, errors), errors);
            validate_rule(&rule, errors);
        }
    }
}

/// Validates that the rules of a mutating policy or binding only match operations that can be mutated.
pub(super) fn validate_mutating_operations(resources: &Field<'_>, errors: &mut Errors) {
    let rules = resources.child("resourceRules");
    // The real server omits the indexes from the path.
    let path = rules.path().child("operations");
    for rule in rules.items() {
        for operation in rule.json().items(&["operations"]).iter().filter_map(Value::as_str) {
            if !MUTATING_OPERATIONS.contains(&operation) {
                errors.unsupported(&path, operation, MUTATING_OPERATIONS);
            }
        }
    }
}
