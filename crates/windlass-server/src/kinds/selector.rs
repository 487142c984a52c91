//! Validation of label selectors, node selectors and conditions.

use serde_json::Value;
use windlass_api::{LabelSelector, Operator, Requirement};

use crate::object::{
    DuplicateCheck, Errors, Path, Tree, condition_reason, dns_subdomain, label_value, qualified_name, requirement,
    validate_labels,
};

/// Parses a label selector. Invalid requirements are ignored.
pub(crate) fn label_selector(selector: &Value) -> LabelSelector {
    let labels = selector
        .entries(&["matchLabels"])
        .map(|(key, value)| Requirement::new(key, Operator::Equals, [value.as_str().unwrap_or_default()]));
    let expressions = selector.items(&["matchExpressions"]).iter().filter_map(requirement);
    LabelSelector::new(labels.chain(expressions).collect())
}

/// Validates an optional label selector.
pub(super) fn validate_selector(selector: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let Some(selector) = selector else { return };
    validate_labels(selector.at(&["matchLabels"]), &path.child("matchLabels"), errors);
    let expressions = path.child("matchExpressions");
    for (index, expression) in selector.items(&["matchExpressions"]).iter().enumerate() {
        let place = expressions.index(index);
        validate_count(expression, &place, errors);
        let operator = expression.text(&["operator"]);
        if !["In", "NotIn", "Exists", "DoesNotExist"].contains(&operator) {
            errors.invalid(&place.child("operator"), operator, "not a valid selector operator");
        }
        validate_label(expression, &place, errors);
    }
}

/// Validates a label selector, and reports whether it is valid.
pub(super) fn is_readable(selector: Option<&Value>, path: &Path<'_>, errors: &mut Errors) -> bool {
    let mut found = Errors::default();
    validate_selector(selector, path, &mut found);
    let readable = found.is_empty();
    errors.append(found);
    readable
}

/// Validates the number of values of a requirement by its operator. Unknown operators are not checked.
pub(crate) fn validate_count(requirement: &Value, path: &Path<'_>, errors: &mut Errors) {
    let values = requirement.items(&["values"]);
    match requirement.text(&["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.child("values"), text);
        }
        _ => {}
    }
}

/// Validates the key and values of a requirement on a label.
pub(crate) fn validate_label(requirement: &Value, path: &Path<'_>, errors: &mut Errors) {
    let key = requirement.text(&["key"]);
    errors.invalid_each(&path.child("key"), key, qualified_name(key));
    let list = path.child("values");
    for (index, value) in requirement.items(&["values"]).iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        errors.invalid_each(&list.index(index), value, label_value(value));
    }
}

/// Validates a node selector.
pub(super) fn validate_node_selector(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("nodeSelectorTerms");
    let terms = selector.items(&["nodeSelectorTerms"]);
    if terms.is_empty() {
        errors.required(&list, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        validate_node_requirements(term, &list.index(index), errors);
    }
}

/// Validates a term of a node selector: the requirements on labels and fields.
pub(super) fn validate_node_requirements(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    let expressions = path.child("matchExpressions");
    for (index, expression) in term.items(&["matchExpressions"]).iter().enumerate() {
        validate_node_requirement(expression, &expressions.index(index), errors);
    }
    let fields = path.child("matchFields");
    for (index, field) in term.items(&["matchFields"]).iter().enumerate() {
        validate_node_field(field, &fields.index(index), errors);
    }
}

/// Validates a requirement on a node field. The only supported field is the name.
fn validate_node_field(requirement: &Value, path: &Path<'_>, errors: &mut Errors) {
    let values = requirement.items(&["values"]);
    let list = path.child("values");
    match requirement.text(&["operator"]) {
        "In" | "NotIn" if values.len() != 1 => {
            let text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&list, text);
        }
        "In" | "NotIn" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    let key = requirement.text(&["key"]);
    if key != "metadata.name" {
        return errors.invalid(&path.child("key"), key, "not a valid field selector key");
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        errors.invalid_each(&list.index(index), value, dns_subdomain(value));
    }
}

fn validate_node_requirement(requirement: &Value, path: &Path<'_>, errors: &mut Errors) {
    let values = requirement.items(&["values"]);
    let list = path.child("values");
    match requirement.text(&["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&list, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&list, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(&list, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    let key = requirement.text(&["key"]);
    errors.invalid_each(&path.child("key"), key, qualified_name(key));
}

/// Validates the conditions in a status.
pub(super) fn validate_conditions(conditions: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = DuplicateCheck::default();
    for (index, condition) in conditions.iter().enumerate() {
        let place = path.index(index);
        let kind = condition.text(&["type"]);
        if seen.repeats(kind) {
            errors.duplicate(&place.child("type"), kind);
        }
        errors.invalid_each(&place.child("type"), kind, qualified_name(kind));
        let status = condition.text(&["status"]);
        if !matches!(status, "True" | "False" | "Unknown") {
            errors.unsupported(&place.child("status"), status, &["False", "True", "Unknown"]);
        }
        if let Some(generation) = condition.int(&["observedGeneration"]).filter(|generation| *generation < 0) {
            errors.invalid(&place.child("observedGeneration"), &generation, "must be greater than or equal to zero");
        }
        if condition.at(&["lastTransitionTime"]).is_none() {
            errors.required(&place.child("lastTransitionTime"), "");
        }
        let reason = condition.text(&["reason"]);
        if reason.is_empty() {
            errors.required(&place.child("reason"), "");
        } else {
            errors.invalid_each(&place.child("reason"), reason, condition_reason(reason));
            if reason.len() > 1024 {
                errors.too_long(&place.child("reason"), 1024);
            }
        }
        if condition.text(&["message"]).len() > 32 << 10 {
            errors.too_long(&place.child("message"), 32 << 10);
        }
    }
}
