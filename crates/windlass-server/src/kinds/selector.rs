//! Validation of label selectors, node selectors and conditions.

use windlass_api::{LabelSelector, Operator, Requirement};

use crate::kinds::prelude::*;

/// The maximum length of a condition's reason, in bytes.
const MAX_REASON_LENGTH: usize = 1024;
/// The maximum length of a condition's message, in bytes.
const MAX_MESSAGE_LENGTH: usize = 32 << 10;

const VALUES_REQUIRED: &str = "must be specified when `operator` is 'In' or 'NotIn'";
const VALUES_FORBIDDEN: &str = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
const INVALID_OPERATOR: &str = "not a valid selector operator";

/// Parses a label selector. Invalid requirements are ignored.
pub(crate) fn label_selector(selector: &Value) -> LabelSelector {
    let labels = selector
        .entries(&["matchLabels"])
        .map(|(key, value)| Requirement::new(key, Operator::Equals, [value.as_str().unwrap_or_default()]));
    let expressions = selector.items(&["matchExpressions"]).iter().filter_map(requirement);
    LabelSelector::new(labels.chain(expressions).collect())
}

/// Validates an optional label selector.
pub(super) fn validate_selector(selector: &Field<'_>, errors: &mut Errors) {
    let labels = selector.child("matchLabels");
    validate_labels(labels.value(), labels.path(), errors);
    for expression in selector.child("matchExpressions").items() {
        validate_count(&expression, errors);
        let operator = expression.child("operator");
        if !["In", "NotIn", "Exists", "DoesNotExist"].contains(&operator.text()) {
            operator.invalid_as(operator.text(), INVALID_OPERATOR, errors);
        }
        validate_label(&expression, errors);
    }
}

/// Validates an optional label selector, and returns `true` if it is valid.
pub(super) fn is_valid_selector(selector: &Field<'_>, errors: &mut Errors) -> bool {
    let before = errors.len();
    validate_selector(selector, errors);
    errors.len() == before
}

/// Validates the number of values of a requirement by its operator. Unknown operators are not checked.
pub(crate) fn validate_count(requirement: &Field<'_>, errors: &mut Errors) {
    let values = requirement.child("values");
    match requirement.child("operator").text() {
        "In" | "NotIn" if values.is_empty() => values.required(VALUES_REQUIRED, errors),
        "Exists" | "DoesNotExist" if !values.is_empty() => values.forbidden(VALUES_FORBIDDEN, errors),
        _ => {}
    }
}

/// Validates the key and values of a requirement on a label.
pub(crate) fn validate_label(requirement: &Field<'_>, errors: &mut Errors) {
    validate_key(requirement, errors);
    requirement.child("values").each(|value, errors| value.check_text(label_value, errors), errors);
}

fn validate_key(requirement: &Field<'_>, errors: &mut Errors) {
    requirement.child("key").check_text(qualified_name, errors);
}

/// Validates a node selector.
pub(super) fn validate_node_selector(selector: &Field<'_>, errors: &mut Errors) {
    let terms = selector.child("nodeSelectorTerms");
    terms.check_not_empty("must have at least one node selector term", errors);
    terms.each(validate_node_requirements, errors);
}

/// Validates a term of a node selector: the requirements on labels and fields.
pub(super) fn validate_node_requirements(term: &Field<'_>, errors: &mut Errors) {
    term.child("matchExpressions").each(validate_node_label, errors);
    term.child("matchFields").each(validate_node_field, errors);
}

/// Validates a requirement on a node field. The only supported field is the name.
fn validate_node_field(requirement: &Field<'_>, errors: &mut Errors) {
    let (operator, values) = (requirement.child("operator"), requirement.child("values"));
    match operator.text() {
        "In" | "NotIn" if values.len() != 1 => {
            let text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            values.required(text, errors);
        }
        "In" | "NotIn" => {}
        other => operator.invalid_as(other, INVALID_OPERATOR, errors),
    }
    let key = requirement.child("key");
    if key.text() != "metadata.name" {
        return key.invalid_as(key.text(), "not a valid field selector key", errors);
    }
    values.each(|value, errors| value.check_text(dns_subdomain, errors), errors);
}

/// Validates a requirement on a node label.
fn validate_node_label(requirement: &Field<'_>, errors: &mut Errors) {
    let (operator, values) = (requirement.child("operator"), requirement.child("values"));
    match operator.text() {
        "In" | "NotIn" | "Exists" | "DoesNotExist" => validate_count(requirement, errors),
        "Gt" | "Lt" if values.len() != 1 => {
            values.required("must be specified single value when `operator` is 'Lt' or 'Gt'", errors);
        }
        "Gt" | "Lt" => {}
        other => operator.invalid_as(other, INVALID_OPERATOR, errors),
    }
    validate_key(requirement, errors);
}

/// Validates the conditions in a status.
pub(super) fn validate_conditions(conditions: &Field<'_>, errors: &mut Errors) {
    let is_newer = errors.kubernetes() >= KubernetesVersion::V1_37;
    let mut seen = DuplicateCheck::default();
    for condition in conditions.items() {
        let (kind, state) = (condition.child("type"), condition.child("status"));
        if is_newer {
            if seen.repeats(condition.json().text(&["type"])) {
                errors.duplicate(condition.path(), kind.text());
            }
            kind.check_not_empty("is required", errors);
            kind.optional_text(qualified_name, errors);
        } else {
            condition.check_unique_by("type", &mut seen, errors);
            kind.check_text(qualified_name, errors);
        }
        if is_newer && state.is_empty() {
            state.required("", errors);
        } else {
            state.supported(&["False", "True", "Unknown"], errors);
        }
        condition.child("observedGeneration").check_int(0.., "must be greater than or equal to zero", errors);
        condition.child("lastTransitionTime").check_set("", errors);
        let reason = condition.child("reason");
        reason.required_text(condition_reason, errors);
        reason.check_bytes(MAX_REASON_LENGTH, errors);
        condition.child("message").check_bytes(MAX_MESSAGE_LENGTH, errors);
    }
}
