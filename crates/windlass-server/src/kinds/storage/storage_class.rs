//! `StorageClass`, and the validation of parameters that it shares with `VolumeAttributesClass`.

use std::collections::HashMap;

use crate::kinds::{prelude::*, storage::MAX_PARAMETERS_SIZE};

pub(super) const KIND: Kind = Kind {
    name: "StorageClass",
    rules: Rules { returns_deleted: true, ..Rules::COMMON },
    default,
    validate,
    validate_update,
    immutable: &["volumeBindingMode"],
    ..BASE
};

/// The maximum number of parameters of a class.
const MAX_PARAMETERS: usize = 512;

/// The maximum number of errors about repeated topologies. The real server reports up to the square of their number.
const MAX_TOPOLOGY_ERRORS: usize = 1_000;

fn default(object: &mut Value) {
    let class = as_object(object);
    default_pointer(class, "reclaimPolicy", "Delete");
    default_pointer(class, "volumeBindingMode", "Immediate");
}

fn validate(class: &Field<'_>, errors: &mut Errors) {
    const BINDING_MODES: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];
    validate_provisioner(&class.child("provisioner"), errors);
    validate_parameters(&class.child("parameters"), errors);
    class.child("reclaimPolicy").one_of(&["Delete", "Retain"], errors);
    // An empty mode is unsupported, too.
    let mode = class.child("volumeBindingMode");
    mode.supported(&BINDING_MODES, errors);
    validate_topologies(&class.child("allowedTopologies"), errors);
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    const IMMUTABLE: [&str; 3] = ["parameters", "provisioner", "reclaimPolicy"];
    if errors.before(V1_36) {
        forbid_changes(new, old, &IMMUTABLE, errors);
    } else {
        new.check_immutable(old, &IMMUTABLE, errors);
    }
}

/// Adds a "Forbidden" error for each of these fields that differs from that of `old`.
pub(super) fn forbid_changes(new: &Field<'_>, old: &Field<'_>, names: &[&str], errors: &mut Errors) {
    for name in names {
        let field = new.child(name);
        if !field.same(&old.child(name)) {
            field.forbidden(&format!("updates to {name} are forbidden."), errors);
        }
    }
}

/// Validates the name of a class's volume driver.
pub(super) fn validate_provisioner(name: &Field<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return name.required("", errors);
    }
    let lower = name.text().to_lowercase();
    errors.invalid_each(name.path(), &lower, qualified_name(&lower));
}

/// Validates the parameters of a class.
pub(super) fn validate_parameters(parameters: &Field<'_>, errors: &mut Errors) {
    if parameters.len() > MAX_PARAMETERS {
        return parameters.too_long(MAX_PARAMETERS, errors);
    }
    let mut size = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            parameters.invalid_as(key, "field can not be empty.", errors);
        }
        size += key.len() + value.text().len();
    }
    if size > MAX_PARAMETERS_SIZE {
        parameters.too_long(MAX_PARAMETERS_SIZE, errors);
    }
}

fn validate_topologies(terms: &Field<'_>, errors: &mut Errors) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut error_count = 0;
    for term in terms.items() {
        let expressions = term.child("matchLabelExpressions");
        validate_expressions(&expressions, errors);
        // The real server compares each term with all empty terms, and then with the previous terms.
        let empty = if expressions.is_empty() { terms.len() } else { 0 };
        let earlier = seen.entry(term.json().to_string()).or_default();
        for _ in 0..(empty + *earlier).min(MAX_TOPOLOGY_ERRORS - error_count) {
            errors.duplicate(expressions.path(), "");
            error_count += 1;
        }
        *earlier += 1;
    }
}

fn validate_expressions(expressions: &Field<'_>, errors: &mut Errors) {
    let mut keys = DuplicateCheck::default();
    for expression in expressions.items() {
        let values = expression.child("values");
        values.check_not_empty("", errors);
        values.each_unique(|_, _| {}, errors);
        expression.child("key").check_text(qualified_name, errors);
        expression.check_unique_by("key", &mut keys, errors);
    }
}
