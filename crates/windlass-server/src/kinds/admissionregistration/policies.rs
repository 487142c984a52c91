//! Admission policies and their bindings.

use serde_json::{Value, json};

use crate::kinds::admissionregistration::{
    FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, default_rule, one_of, validate_conditions, validate_rule,
};
use crate::{
    kinds::selector::validate_selector,
    object::{
        DuplicateCheck, Errors, Path, Tree, as_object, default_pointer, dns_label_1035, dns_subdomain, entry_mut,
        items_mut, object_mut, path_segment, qualified_name,
    },
};

const SPEC: Path<'static> = Path::new("spec");
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const MUTATING_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];
const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// The maximum length of an audit annotation's expression, in bytes.
const MAX_AUDIT_EXPRESSION: usize = 5 * 1024;

// === defaults ===

pub(super) fn default_policy(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default_pointer(spec, "failurePolicy", "Fail");
    default_match(spec.get_mut("matchConstraints"));
}

pub(super) fn default_binding(object: &mut Value) {
    if let Some(spec) = entry_mut(object, "spec") {
        default_match(spec.get_mut("matchResources"));
    }
}

fn default_match(found: Option<&mut Value>) {
    let Some(found) = found.filter(|found| found.is_object()) else { return };
    let map = as_object(found);
    default_pointer(map, "matchPolicy", "Equivalent");
    default_pointer(map, "namespaceSelector", json!({}));
    default_pointer(map, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in items_mut(found, list) {
            default_rule(rule);
        }
    }
}

// === policies ===

pub(super) fn validate_validating(object: &Value, errors: &mut Errors) {
    let Some(spec) = object.at(&["spec"]) else { return };
    validate_policy(spec, errors);
    validate_conditions(spec, &SPEC.child("matchConditions"), |_| None, errors);
    validate_variables(spec, errors);
    let (validations, annotations) = (spec.items(&["validations"]), spec.items(&["auditAnnotations"]));
    let (list, notes) = (SPEC.child("validations"), SPEC.child("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let text = "validations or auditAnnotations must contain at least one item";
        errors.required(&list, text);
        errors.required(&notes, text);
    }
    for (index, validation) in validations.iter().enumerate() {
        validate_validation(validation, &list.index(index), errors);
    }
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let text = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        errors.invalid(&notes, &json!(annotations), &text);
    }
    let mut keys = DuplicateCheck::default();
    for (index, annotation) in annotations.iter().enumerate() {
        let place = notes.index(index);
        let key = annotation.text(&["key"]);
        let whole = format!("{}/{key}", object.text(&["metadata", "name"]));
        errors.invalid_each(&place.child("key"), key, qualified_name(&whole));
        let expression = annotation.text(&["valueExpression"]);
        if expression.trim().is_empty() {
            errors.required(&place.child("valueExpression"), "valueExpression is not specified");
        } else if expression.trim().len() > MAX_AUDIT_EXPRESSION {
            let text = format!("must not exceed {MAX_AUDIT_EXPRESSION} bytes in length");
            errors.required(&place.child("valueExpression"), &text);
        }
        if keys.repeats(key) {
            errors.duplicate(&place.child("key"), key);
        }
    }
}

pub(super) fn validate_mutating(object: &Value, errors: &mut Errors) {
    let Some(spec) = object.at(&["spec"]) else { return };
    validate_policy(spec, errors);
    validate_operations(spec, "matchConstraints", errors);
    validate_conditions(spec, &SPEC.child("matchConditions"), |_| None, errors);
    validate_variables(spec, errors);
    let list = SPEC.child("mutations");
    if spec.items(&["mutations"]).is_empty() {
        errors.required(&list, "mutations must contain at least one item");
    }
    for (index, mutation) in spec.items(&["mutations"]).iter().enumerate() {
        validate_mutation(mutation, &list.index(index), errors);
    }
    match spec.text(&["reinvocationPolicy"]) {
        "" => errors.required(&SPEC.child("reinvocationPolicy"), ""),
        _ => one_of(spec, "reinvocationPolicy", REINVOCATION_POLICIES, &SPEC, errors),
    }
}

fn validate_policy(spec: &Value, errors: &mut Errors) {
    one_of(spec, "failurePolicy", FAILURE_POLICIES, &SPEC, errors);
    if let Some(kind) = spec.at(&["paramKind"]) {
        validate_param_kind(kind, &SPEC.child("paramKind"), errors);
    }
    let path = SPEC.child("matchConstraints");
    match spec.at(&["matchConstraints"]) {
        None => errors.required(&path, ""),
        Some(found) => {
            validate_match(found, &path, errors);
            if found.items(&["resourceRules"]).is_empty() {
                errors.required(&path.child("resourceRules"), "");
            }
        }
    }
}

fn validate_variables(spec: &Value, errors: &mut Errors) {
    let list = SPEC.child("variables");
    for (index, variable) in spec.items(&["variables"]).iter().enumerate() {
        let place = list.index(index);
        let name = variable.text(&["name"]);
        if name.trim().is_empty() {
            errors.required(&place.child("name"), "name is not specified");
        } else if !is_identifier(name) {
            errors.invalid(&place.child("name"), name, "must be a valid CEL identifier");
        }
        if variable.text(&["expression"]).trim().is_empty() {
            errors.required(&place.child("expression"), "expression is not specified");
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    name.bytes().all(word) && name.as_bytes().first().is_some_and(letter) && !windlass_cel::RESERVED.contains(&name)
}

fn validate_validation(validation: &Value, path: &Path<'_>, errors: &mut Errors) {
    let expression = validation.text(&["expression"]).trim();
    if expression.is_empty() {
        errors.required(&path.child("expression"), "expression is not specified");
    }
    let text = validation.text(&["messageExpression"]);
    if !text.is_empty() && text.trim().is_empty() {
        errors.invalid(&path.child("messageExpression"), text, "must be non-empty if specified");
    }
    let (message, place) = (validation.text(&["message"]), path.child("message"));
    let lines = |text: &str| text.contains(['\n', '\r']);
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(&place, message, "must be non-empty if specified");
    } else if lines(message.trim()) {
        errors.invalid(&place, message, "must not contain line breaks");
    } else if lines(expression) && message.trim().is_empty() {
        errors.required(&place, "message must be specified if expression contains line breaks");
    }
    one_of(validation, "reason", REASONS, path, errors);
}

fn validate_mutation(mutation: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut forms = [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];
    let kind = mutation.text(&["patchType"]);
    let place = path.child("patchType");
    if kind.is_empty() {
        return errors.required(&place, "");
    }
    if !PATCH_TYPES.contains(&kind) {
        return errors.unsupported(&place, kind, PATCH_TYPES);
    }
    // The form that matches the patch type comes first.
    forms.sort_by_key(|(form, _)| *form != kind);
    for (form, field) in forms {
        let place = path.child(field);
        match (mutation.at(&[field]), form == kind) {
            (None, true) => errors.required(&place, &format!("must be specified when patchType is {kind}")),
            (Some(_), false) => {
                let text = format!("must not be specified when patchType is {kind}");
                errors.invalid(&place, &format!("{{{field}}}"), &text);
            }
            (Some(found), true) if found.text(&["expression"]).trim().is_empty() => {
                errors.required(&place.child("expression"), "");
            }
            _ => {}
        }
    }
}

fn validate_param_kind(kind: &Value, path: &Path<'_>, errors: &mut Errors) {
    let version = kind.text(&["apiVersion"]);
    let place = path.child("apiVersion");
    match version.split('/').collect::<Vec<_>>()[..] {
        [""] => errors.required(&place, ""),
        [version] => validate_version(version, &place, errors),
        [group, only] => {
            if !group.is_empty() {
                let wrong = dns_subdomain(group);
                if !wrong.is_empty() {
                    errors.invalid(&place, group, &wrong.join(","));
                }
            }
            if only.is_empty() {
                errors.invalid(&place, version, "version must be specified");
            } else {
                validate_version(only, &place, errors);
            }
        }
        _ => errors.invalid(&place, version, &format!("unexpected GroupVersion string: {version}")),
    }
    let kind = kind.text(&["kind"]);
    let wrong = dns_label_1035(&kind.to_lowercase());
    if kind.is_empty() {
        errors.required(&path.child("kind"), "");
    } else if !wrong.is_empty() {
        let text = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        errors.invalid(&path.child("kind"), kind, &text);
    }
}

fn validate_version(version: &str, path: &Path<'_>, errors: &mut Errors) {
    let wrong = dns_label_1035(version);
    if !wrong.is_empty() {
        errors.invalid(path, version, &wrong.join(","));
    }
}

fn validate_match(found: &Value, path: &Path<'_>, errors: &mut Errors) {
    one_of(found, "matchPolicy", MATCH_POLICIES, path, errors);
    validate_selector(found.at(&["namespaceSelector"]), &path.child("namespaceSelector"), errors);
    validate_selector(found.at(&["objectSelector"]), &path.child("objectSelector"), errors);
    for list in ["resourceRules", "excludeResourceRules"] {
        let rules = path.child(list);
        for (index, rule) in found.items(&[list]).iter().enumerate() {
            let place = rules.index(index);
            let names = place.child("resourceNames");
            let mut seen = DuplicateCheck::default();
            for (index, name) in rule.items(&["resourceNames"]).iter().enumerate() {
                let text = name.as_str().unwrap_or_default();
                errors.invalid_each(&names.index(index), text, path_segment(text));
                if seen.repeats(name) {
                    errors.duplicate(&names.index(index), text);
                }
            }
            validate_rule(rule, &place, errors);
        }
    }
}

fn validate_operations(spec: &Value, field: &str, errors: &mut Errors) {
    let path = SPEC.child(field);
    let rules = path.child("resourceRules");
    for rule in spec.items(&[field, "resourceRules"]) {
        for operation in rule.items(&["operations"]).iter().filter_map(Value::as_str) {
            if !MUTATING_OPERATIONS.contains(&operation) {
                errors.unsupported(&rules.child("operations"), operation, MUTATING_OPERATIONS);
            }
        }
    }
}

// === bindings ===

pub(super) fn validate_validating_binding(object: &Value, errors: &mut Errors) {
    let Some(spec) = object.at(&["spec"]) else { return errors.required(&SPEC.child("policyName"), "") };
    validate_binding(spec, errors);
    let list = SPEC.child("validationActions");
    let actions = spec.items(&["validationActions"]);
    let mut seen = DuplicateCheck::default();
    for (index, action) in actions.iter().enumerate() {
        let action = action.as_str().unwrap_or_default();
        if !ACTIONS.contains(&action) {
            errors.unsupported(&list.index(index), action, ACTIONS);
        }
        if seen.repeats(action) {
            errors.duplicate(&list.index(index), action);
        }
    }
    if seen.has("Deny") && seen.has("Warn") {
        let text = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                    response and headers serves no purpose)";
        errors.invalid(&list, &json!(actions), text);
    }
    if actions.is_empty() {
        errors.required(&list, "at least one validation action is required");
    }
}

pub(super) fn validate_mutating_binding(object: &Value, errors: &mut Errors) {
    let Some(spec) = object.at(&["spec"]) else { return errors.required(&SPEC.child("policyName"), "") };
    validate_binding(spec, errors);
    validate_operations(spec, "matchResources", errors);
}

fn validate_binding(spec: &Value, errors: &mut Errors) {
    let policy = spec.text(&["policyName"]);
    if policy.is_empty() {
        errors.required(&SPEC.child("policyName"), "");
    } else {
        errors.invalid_each(&SPEC.child("policyName"), policy, dns_subdomain(policy));
    }
    if let Some(reference) = spec.at(&["paramRef"]) {
        validate_param_ref(reference, &SPEC.child("paramRef"), errors);
    }
    if let Some(found) = spec.at(&["matchResources"]) {
        validate_match(found, &SPEC.child("matchResources"), errors);
    }
}

fn validate_param_ref(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (name, selector) = (reference.text(&["name"]), reference.at(&["selector"]));
    if !name.is_empty() {
        errors.invalid_each(&path.child("name"), name, path_segment(name));
        if selector.is_some() {
            errors.forbidden(&path.child("name"), "name and selector are mutually exclusive");
        }
    }
    if selector.is_some() {
        validate_selector(selector, &path.child("selector"), errors);
        if !name.is_empty() {
            errors.forbidden(&path.child("selector"), "name and selector are mutually exclusive");
        }
    }
    if name.is_empty() && selector.is_none() {
        errors.required(path, "one of name or selector must be specified");
    }
    match reference.at(&["parameterNotFoundAction"]).and_then(Value::as_str) {
        None => errors.required(&path.child("parameterNotFoundAction"), ""),
        Some(_) => one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], path, errors),
    }
}
