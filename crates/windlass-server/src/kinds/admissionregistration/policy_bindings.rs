//! ValidatingAdmissionPolicyBindings and MutatingAdmissionPolicyBindings.

use crate::kinds::{
    admissionregistration::{
        GROUP_RULES,
        match_resources::{default_match, validate_match, validate_mutating_operations},
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
    spec.child("paramRef").if_set(validate_param_ref, errors);
    resources.if_set(validate_match, errors);
    if is_mutating {
        validate_mutating_operations(&resources, errors);
    } else {
        validate_actions(&spec.child("validationActions"), errors);
    }
}

fn validate_actions(actions: &Field<'_>, errors: &mut Errors) {
    actions.each_unique(|action, errors| action.supported(ACTIONS, errors), errors);
    let has = |text: &str| actions.items().any(|action| action.text() == text);
    if has("Deny") && has("Warn") {
        let text = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                    response and headers serves no purpose)";
        actions.invalid(text, errors);
    }
    actions.check_not_empty("at least one validation action is required", errors);
}

/// Validates a reference to the parameters of a policy.
fn validate_param_ref(reference: &Field<'_>, errors: &mut Errors) {
    let (name, selector) = (reference.child("name"), reference.child("selector"));
    let both = "name and selector are mutually exclusive";
    let has_both = !name.is_empty() && selector.is_set();
    name.optional_text(path_segment, errors);
    if has_both {
        name.forbidden(both, errors);
    }
    validate_selector(&selector, errors);
    if has_both {
        selector.forbidden(both, errors);
    }
    if name.is_empty() && !selector.is_set() {
        reference.required("one of name or selector must be specified", errors);
    }
    let action = reference.child("parameterNotFoundAction");
    action.check_set("", errors);
    action.supported_if_set(&["Deny", "Allow"], errors);
}
