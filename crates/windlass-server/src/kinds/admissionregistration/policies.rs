//! ValidatingAdmissionPolicies and MutatingAdmissionPolicies.

use windlass_cel::Expected;

use crate::kinds::{
    admissionregistration::{
        FAILURE_POLICIES, GROUP_RULES, REINVOCATION_POLICIES,
        expressions::PolicyCompiler,
        match_resources::{default_match, validate_match, validate_mutating_operations},
        validate_match_conditions,
    },
    prelude::*,
};

pub(super) const VALIDATING: Kind = Kind {
    name: "ValidatingAdmissionPolicy",
    rules: Rules { status: StatusRule::Reset, resets: Resets::BARE_STATUS, ..GROUP_RULES },
    default: default_policy,
    validate: |policy, errors| validate_policy(policy, false, errors),
    ..BASE
};

pub(super) const MUTATING: Kind = Kind {
    name: "MutatingAdmissionPolicy",
    rules: GROUP_RULES,
    default: default_policy,
    validate: |policy, errors| validate_policy(policy, true, errors),
    ..BASE
};

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];
const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// The maximum length of an audit annotation's expression, in bytes.
const MAX_AUDIT_EXPRESSION: usize = 5 * 1024;

fn validate_policy(policy: &Field<'_>, is_mutating: bool, errors: &mut Errors) {
    let spec = policy.child("spec");
    if !spec.is_set() {
        return;
    }
    validate_policy_spec(&spec, errors);
    if is_mutating {
        validate_mutating_operations(&spec.child("matchConstraints"), errors);
    }
    let has_params = spec.child("paramKind").is_set();
    validate_match_conditions(&spec.child("matchConditions"), has_params, errors);
    let variables = spec.child("variables");
    let mut compiler = PolicyCompiler::new(has_params, is_mutating || !variables.is_empty());
    validate_variables(&variables, &mut compiler, errors);
    if is_mutating {
        let mutations = spec.child("mutations");
        mutations.check_not_empty("mutations must contain at least one item", errors);
        mutations.each(|mutation, errors| validate_mutation(mutation, &compiler, errors), errors);
        spec.check(&[("reinvocationPolicy", Rule::RequiredOneOf(REINVOCATION_POLICIES))], errors);
        return;
    }
    let (validations, annotations) = (spec.child("validations"), spec.child("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let text = "validations or auditAnnotations must contain at least one item";
        validations.required(text, errors);
        annotations.required(text, errors);
    }
    validations.each(|validation, errors| validate_validation(validation, &compiler, errors), errors);
    validate_audit_annotations(&annotations, policy.child("metadata.name").text(), &compiler, errors);
}

fn default_policy(policy: &mut Value) {
    default_pointer(object_mut(policy, "spec"), "failurePolicy", "Fail");
    if let Some(spec) = entry_mut(policy, "spec") {
        default_match(spec, "matchConstraints");
    }
}

fn validate_policy_spec(spec: &Field<'_>, errors: &mut Errors) {
    spec.child("failurePolicy").supported_if_set(FAILURE_POLICIES, errors);
    spec.child("paramKind").if_set(validate_param_kind, errors);
    let constraints = spec.child("matchConstraints");
    constraints.check_set("", errors);
    if constraints.is_set() {
        validate_match(&constraints, errors);
        constraints.child("resourceRules").check_not_empty("", errors);
    }
}

fn validate_param_kind(param_kind: &Field<'_>, errors: &mut Errors) {
    let api_version = param_kind.child("apiVersion");
    let text = api_version.text();
    match text.split('/').collect::<Vec<_>>()[..] {
        [""] => api_version.required("", errors),
        [version] => validate_version(version, &api_version, errors),
        [group, version] => {
            let problems = dns_subdomain(group);
            if !group.is_empty() && !problems.is_empty() {
                api_version.invalid_as(group, &problems.join(","), errors);
            }
            if version.is_empty() {
                api_version.invalid("version must be specified", errors);
            } else {
                validate_version(version, &api_version, errors);
            }
        }
        _ => api_version.invalid(&format!("unexpected GroupVersion string: {text}"), errors),
    }
    let kind = param_kind.child("kind");
    let problems = dns_label_1035(&kind.text().to_lowercase());
    if kind.text().is_empty() {
        kind.required("", errors);
    } else if !problems.is_empty() {
        let text = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        kind.invalid(&text, errors);
    }
}

/// Validates the version in the field `api_version`.
fn validate_version(version: &str, api_version: &Field<'_>, errors: &mut Errors) {
    let problems = dns_label_1035(version);
    if !problems.is_empty() {
        api_version.invalid_as(version, &problems.join(","), errors);
    }
}

fn validate_variables(variables: &Field<'_>, compiler: &mut PolicyCompiler, errors: &mut Errors) {
    for variable in variables.items() {
        let (name, expression) = (variable.child("name"), variable.child("expression"));
        if name.text().trim().is_empty() {
            name.required("name is not specified", errors);
        } else if !is_identifier(name.text()) {
            name.invalid("must be a valid CEL identifier", errors);
        }
        if expression.text().trim().is_empty() {
            expression.required("expression is not specified", errors);
        } else if let Some(problem) = compiler.add_variable(name.text(), expression.text()) {
            expression.invalid(&problem, errors);
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    name.bytes().all(is_word)
        && name.as_bytes().first().is_some_and(is_letter)
        && !windlass_cel::RESERVED.contains(&name)
}

fn validate_validation(validation: &Field<'_>, compiler: &PolicyCompiler, errors: &mut Errors) {
    let (expression, message) = (validation.child("expression"), validation.child("message"));
    let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let has_line_breaks = |text: &str| text.trim().contains(['\n', '\r']);
    if expression.text().trim().is_empty() {
        expression.required("expression is not specified", errors);
    } else {
        check_expression(&expression, compiler, Expected::Bool, true, errors);
    }
    let message_expression = validation.child("messageExpression");
    if is_blank(message_expression.text()) {
        message_expression.invalid("must be non-empty if specified", errors);
    } else if !message_expression.text().is_empty() {
        check_expression(&message_expression, compiler, Expected::Text, false, errors);
    }
    if is_blank(message.text()) {
        message.invalid("must be non-empty if specified", errors);
    } else if has_line_breaks(message.text()) {
        message.invalid("must not contain line breaks", errors);
    }
    validation.child("reason").supported_if_set(REASONS, errors);
}

/// Reports the compile error of an expression.
fn check_expression(
    expression: &Field<'_>,
    compiler: &PolicyCompiler,
    expected: Expected,
    authorizer: bool,
    errors: &mut Errors,
) {
    if let Some(problem) = compiler.compile(expression.text(), expected, authorizer).problem() {
        expression.invalid(problem, errors);
    }
}

fn validate_audit_annotations(
    annotations: &Field<'_>,
    policy_name: &str,
    compiler: &PolicyCompiler,
    errors: &mut Errors,
) {
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        annotations.invalid(&format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations"), errors);
    }
    let mut keys = DuplicateCheck::default();
    for annotation in annotations.items() {
        let (key, expression) = (annotation.child("key"), annotation.child("valueExpression"));
        key.invalid_each(qualified_name(&format!("{policy_name}/{}", key.text())), errors);
        let length = expression.text().trim().len();
        if length == 0 {
            expression.required("valueExpression is not specified", errors);
        } else if length > MAX_AUDIT_EXPRESSION {
            expression.required(&format!("must not exceed {MAX_AUDIT_EXPRESSION} bytes in length"), errors);
        } else if let Some(problem) = compiler.compile(expression.text().trim(), Expected::TextOrNull, true).problem() {
            expression.invalid(problem, errors);
        }
        annotation.check_unique_by("key", &mut keys, errors);
    }
}

fn validate_mutation(mutation: &Field<'_>, compiler: &PolicyCompiler, errors: &mut Errors) {
    let patch_type = mutation.child("patchType");
    let kind = patch_type.text();
    if kind.is_empty() {
        return patch_type.required("", errors);
    }
    if !PATCH_TYPES.contains(&kind) {
        return patch_type.unsupported(PATCH_TYPES, errors);
    }
    let mut forms = [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];
    // The form that matches the patch type comes first.
    forms.sort_by_key(|(form, _)| *form != kind);
    for (form, name) in forms {
        let patch = mutation.child(name);
        match (patch.is_set(), form == kind) {
            (false, true) => patch.required(&format!("must be specified when patchType is {kind}"), errors),
            (true, false) => {
                let text = format!("must not be specified when patchType is {kind}");
                patch.invalid_as(&format!("{{{name}}}"), &text, errors);
            }
            (true, true) => {
                let expression = patch.child("expression");
                let trimmed = expression.text().trim();
                let expected = if form == "JSONPatch" { Expected::Patch } else { Expected::Object };
                if trimmed.is_empty() {
                    expression.required("", errors);
                } else if let Some(problem) = compiler.compile(trimmed, expected, true).problem() {
                    expression.invalid_as(trimmed, problem, errors);
                }
            }
            (false, false) => {}
        }
    }
}
