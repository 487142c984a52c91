//! Validation errors of fields, in the wording of the real server.

use serde_json::Value;
use windlass_api::{Cause, GroupKind, Status};

use super::{Causes, DeclaredRule, Path, address_problem, dns_subdomain, http_path, same, wording};
use crate::{codec::go_quote, kubernetes::KubernetesVersion};

/// The validation errors and warnings of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    /// The version whose rules apply.
    kubernetes: KubernetesVersion,
    causes: Causes,
    /// Problems that do not prevent the object from being stored.
    warnings: Vec<String>,
}

/// The form of a value in an error message: strings are quoted, numbers and booleans are literal, anything else is
/// JSON.
pub(crate) trait FieldValue {
    /// Returns the text.
    fn format_value(&self) -> String;
}

// === impl Errors ===

impl Errors {
    /// Returns an empty list for an object that is validated by the rules of a Kubernetes version.
    pub(crate) fn of(kubernetes: KubernetesVersion) -> Self {
        Self { kubernetes, ..Self::default() }
    }

    /// Returns the Kubernetes version whose rules apply.
    pub(crate) const fn kubernetes(&self) -> KubernetesVersion {
        self.kubernetes
    }

    /// Reports whether the rules are those of an older version.
    pub(crate) fn before(&self, version: KubernetesVersion) -> bool {
        self.kubernetes < version
    }

    /// Reports whether there are no errors.
    pub(crate) fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    /// Reports whether an error has one of these reasons.
    pub(crate) fn has_any(&self, reasons: &[&str]) -> bool {
        self.causes.iter().any(|cause| reasons.contains(&cause.reason.as_str()))
    }

    /// Adds a warning. It does not prevent the object from being stored.
    pub(crate) fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    /// Takes the warnings for the client.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the number of errors.
    pub(crate) fn len(&self) -> usize {
        self.causes.len()
    }

    /// Adds the errors of another check.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.causes.append(other.causes);
        self.warnings.append(&mut other.warnings);
    }

    /// Adds the errors of a custom object's rules. The author of the definition has written their messages.
    pub(crate) fn append_rule_errors(&mut self, causes: Vec<Cause>) {
        for cause in causes {
            self.causes.push(cause);
        }
    }

    /// Adds the errors of the schema of a custom object.
    pub(crate) fn append_causes(&mut self, mut causes: Causes) {
        for cause in causes.iter_mut() {
            wording::adjust_untyped(self.kubernetes, cause);
        }
        self.causes.append(causes);
    }

    /// Removes errors that equal an earlier one.
    pub(crate) fn remove_repeated(&mut self) {
        self.causes.remove_repeated();
    }

    /// Moves the errors of declared rules to the end, in the order of the rules and with their messages.
    pub(crate) fn move_declared(&mut self, rules: &[DeclaredRule]) {
        if !rules.is_empty() {
            self.causes.move_last(|cause| {
                let index = rules.iter().position(|rule| rule.concerns(cause))?;
                if let Some(message) = rules[index].message() {
                    message.clone_into(&mut cause.message);
                }
                Some(DeclaredRule::place(rules, index, &cause.field))
            });
        }
    }

    /// Reports whether further errors are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.causes.is_full()
    }

    /// Returns the errors.
    pub(crate) fn into_causes(self) -> Vec<Cause> {
        self.causes.into_vec()
    }

    /// Returns an `Invalid` status if there are errors.
    pub(crate) fn check(self, kind: &GroupKind, name: &str) -> Result<(), Status> {
        if self.causes.is_empty() { Ok(()) } else { Err(Status::invalid(kind, name, self.causes.into_vec())) }
    }

    /// Adds an error of any kind.
    pub(crate) fn add(&mut self, path: &Path<'_>, reason: &str, message: String) {
        self.add_with(path, reason, || message);
    }

    /// Adds an error whose message is only formatted if the error is retained: each of many errors may show a large
    /// value.
    fn add_with(&mut self, path: &Path<'_>, reason: &str, message: impl FnOnce() -> String) {
        let kubernetes = self.kubernetes;
        self.causes.push_with(|| {
            let mut cause = Cause { reason: reason.to_owned(), message: message(), field: path.to_string() };
            wording::adjust(kubernetes, &mut cause);
            cause
        });
    }

    /// Adds a "Required value" error.
    pub(crate) fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.add(path, "FieldValueRequired", with_detail("Required value", detail));
    }

    /// Adds an "Invalid value" error.
    pub(crate) fn invalid(&mut self, path: &Path<'_>, value: &(impl FieldValue + ?Sized), detail: &str) {
        let message = || with_detail(&format!("Invalid value: {}", value.format_value()), detail);
        self.add_with(path, "FieldValueInvalid", message);
    }

    /// Adds an "Invalid value" error that shows no value.
    pub(crate) fn invalid_without_value(&mut self, path: &Path<'_>, detail: &str) {
        self.add(path, "FieldValueInvalid", with_detail("Invalid value", detail));
    }

    /// Adds one "Invalid value" error per text, all for the same value.
    pub(crate) fn invalid_each(&mut self, path: &Path<'_>, value: &(impl FieldValue + ?Sized), details: Vec<String>) {
        for detail in details {
            self.invalid(path, value, &detail);
        }
    }

    /// Adds an "Unsupported value" error. `supported` is in the order in which the real server lists the values.
    pub(crate) fn unsupported(&mut self, path: &Path<'_>, value: &(impl FieldValue + ?Sized), supported: &[&str]) {
        self.add_with(path, "FieldValueNotSupported", || {
            let supported: Vec<String> = supported.iter().map(|value| go_quote(value)).collect();
            format!("Unsupported value: {}: supported values: {}", value.format_value(), supported.join(", "))
        });
    }

    /// Adds a "Forbidden" error, for a field that must be absent or must not change.
    pub(crate) fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.add(path, "FieldValueForbidden", with_detail("Forbidden", detail));
    }

    /// Adds a "Duplicate value" error.
    pub(crate) fn duplicate(&mut self, path: &Path<'_>, value: &(impl FieldValue + ?Sized)) {
        self.add_with(path, "FieldValueDuplicate", || format!("Duplicate value: {}", value.format_value()));
    }

    /// Adds a "Not found" error, for a reference to a missing object.
    pub(crate) fn not_found(&mut self, path: &Path<'_>, value: &(impl FieldValue + ?Sized)) {
        self.add_with(path, "FieldValueNotFound", || format!("Not found: {}", value.format_value()));
    }

    /// Adds a "Too long" error.
    pub(crate) fn too_long(&mut self, path: &Path<'_>, max: usize) {
        self.add(path, "FieldValueTooLong", format!("Too long: may not be more than {max} bytes"));
    }

    /// Adds a "Too many" error.
    pub(crate) fn too_many(&mut self, path: &Path<'_>, found: usize, max: usize) {
        self.add(path, "FieldValueTooMany", format!("Too many: {found}: must have at most {max} items"));
    }

    /// Adds an error if the value has changed.
    pub(crate) fn immutable(&mut self, path: &Path<'_>, new: Option<&Value>, old: Option<&Value>) {
        if !same(new, old) {
            self.invalid(path, new.unwrap_or(&Value::Null), "field is immutable");
        }
    }

    /// Adds an error if the number is negative. A missing number is valid.
    pub(crate) fn not_negative(&mut self, path: &Path<'_>, number: Option<i64>) {
        if let Some(number) = number.filter(|number| *number < 0) {
            self.invalid(path, &number, "must be greater than or equal to 0");
        }
    }
}

/// Validates an IP address in a legacy field: any form is valid, but since 1.36 no leading zeros.
pub(crate) fn validate_address(address: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(problem) = address_problem(errors.kubernetes(), address) {
        errors.invalid(path, address, problem);
    }
}

/// Validates a domain-prefixed path such as `acme.io/foo`.
pub(crate) fn validate_domain_prefixed(text: &str, path: &Path<'_>, errors: &mut Errors) {
    match text.split_once('/') {
        _ if text.is_empty() => errors.required(path, ""),
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            errors.invalid_each(path, host, dns_subdomain(host));
            errors.invalid_each(path, rest, http_path(rest));
        }
        _ => errors.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

fn with_detail(message: &str, detail: &str) -> String {
    if detail.is_empty() { message.to_owned() } else { format!("{message}: {detail}") }
}

// === impl FieldValue ===

impl FieldValue for str {
    fn format_value(&self) -> String {
        go_quote(self)
    }
}

impl FieldValue for String {
    fn format_value(&self) -> String {
        go_quote(self)
    }
}

impl FieldValue for i64 {
    fn format_value(&self) -> String {
        self.to_string()
    }
}

impl FieldValue for Value {
    fn format_value(&self) -> String {
        match self {
            Self::String(text) => go_quote(text),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_equal_those_of_kube_apiserver() {
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        let mut errors = Errors::default();
        errors.required(&first.child("image"), "");
        errors.duplicate(&first.child("name"), "a");
        errors.unsupported(&spec.child("restartPolicy"), "x", &["Always", "Never"]);
        errors.immutable(&spec.child("selector"), Some(&json!({"matchLabels": {"a": "c"}})), None);
        errors.immutable(&spec.child("paused"), Some(&json!({})), None);
        let status = errors.check(&GroupKind::new("apps", "Deployment"), "d").unwrap_err();
        assert_eq!(
            status.message,
            "Deployment.apps \"d\" is invalid: [spec.containers[0].image: Required value, \
             spec.containers[0].name: Duplicate value: \"a\", \
             spec.restartPolicy: Unsupported value: \"x\": supported values: \"Always\", \"Never\", \
             spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable]"
        );
    }
}
