//! ValidatingAdmissionPolicyBindings and MutatingAdmissionPolicyBindings.

use crate::kinds::{
    admissionregistration::{
        GROUP_RULES,
        match_resources::{default_match, validate_match, validate_mutating_operations},
        one_of_if_set,
    },
    prelude::*,
    selector::validate_selector,
};

pub(super) const VALIDATING: Kind = Kind {
    name: "ValidatingAdmissionPolicyBinding",
    rules: GROUP_RULES,
    default: default_binding,
    validate: |binding, errors| validate_binding(binding, false, errors),
    ..BASE
};

pub(super) const MUTATING: Kind = Kind {
    name: "MutatingAdmissionPolicyBinding",
    validate: |binding, errors| validate_binding(binding, true, errors),
    ..VALIDATING
};

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

fn default_binding(binding: &mut Value) {
    if let Some(spec) = entry_mut(binding, "spec") {
        default_match(spec, "matchResources");
    }
}

fn validate_binding(binding: &Field<'_>, is_mutating: bool, errors: &mut Errors) {
    let spec = binding.child("spec");
    let resources = spec.child("matchResources");
    spec.child("policyName").required_text(dns_subdomain, errors);
    if !spec.is_set() {
        return;
    }
    let reference = spec.child("paramRef");
    if reference.is_set() {
        validate_param_ref(&reference, errors);
    }
    if resources.is_set() {
        validate_match(&resources, errors);
    }
    if is_mutating {
        validate_mutating_operations(&resources, errors);
    } else {
        validate_actions(&spec.child("validationActions"), errors);
    }
}

fn validate_actions(actions: &Field<'_>, errors: &mut Errors) {
    let mut seen = DuplicateCheck::default();
    for action in actions.items() {
        if !ACTIONS.contains(&action.text()) {
            action.unsupported(ACTIONS, errors);
        }
        if seen.repeats(action.json()) {
            action.duplicate(errors);
        }
    }
    let has = |text: &str| actions.items().any(|action| action.text() == text);
    if has("Deny") && has("Warn") {
        let text = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                    response and headers serves no purpose)";
        actions.invalid(text, errors);
    }
    if actions.is_empty() {
        actions.required("at least one validation action is required", errors);
    }
}

/// Validates a reference to the parameters of a policy.
fn validate_param_ref(reference: &Field<'_>, errors: &mut Errors) {
    let (name, selector) = (reference.child("name"), reference.child("selector"));
    let both = "name and selector are mutually exclusive";
    if !name.text().is_empty() {
        name.invalid_each(path_segment(name.text()), errors);
        if selector.is_set() {
            name.forbidden(both, errors);
        }
    }
    if selector.is_set() {
        validate_selector(&selector, errors);
        if !name.text().is_empty() {
            selector.forbidden(both, errors);
        }
    }
    if name.text().is_empty() && !selector.is_set() {
        reference.required("one of name or selector must be specified", errors);
    }
    let action = reference.child("parameterNotFoundAction");
    if action.is_set() {
        one_of_if_set(&action, &["Deny", "Allow"], errors);
    } else {
        action.required("", errors);
    }
}
