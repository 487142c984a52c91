//! The group `resource.k8s.io`: devices, their allocation, and claims for them.
//!
//! Expressions that select devices are stored without validation, as are attributes and capacities.

mod device_class;
mod device_taint_rule;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;

use crate::kinds::{pod_spec::volume_sources::validate_driver_name, prelude::*};

pub(super) const KINDS: &[Kind] = &[
    device_class::KIND,
    device_taint_rule::KIND,
    resource_claim::KIND,
    resource_claim_template::KIND,
    resource_slice::KIND,
];

/// The maximum length of a list without a limit of its own.
const MAX_ITEMS: usize = 32;
/// The maximum length of a pool's name, in bytes.
const MAX_POOL_NAME: usize = 253;

/// Validates the selectors of a device class or a request.
fn validate_selectors(selectors: &Field<'_>, errors: &mut Errors) {
    if selectors.at_most(MAX_ITEMS, errors) {
        return;
    }
    for selector in selectors.items() {
        selector.child("cel").check_set("", errors);
    }
}

/// Validates the configuration of devices. Its references must be among the names of `requests`.
fn validate_configs(configs: &Field<'_>, requests: &[&str], errors: &mut Errors) {
    if configs.at_most(MAX_ITEMS, errors) {
        return;
    }
    for config in configs.items() {
        validate_request_references(&config.child("requests"), requests, errors);
        let opaque = config.child("opaque");
        opaque.check_set("", errors);
        opaque.if_set(validate_opaque, errors);
    }
}

/// Validates the configuration that only the driver understands.
fn validate_opaque(opaque: &Field<'_>, errors: &mut Errors) {
    validate_driver_name(&opaque.child("driver"), errors);
    let parameters = opaque.child("parameters");
    parameters.check_set("", errors);
    if parameters.is_set() && !parameters.json().is_object() {
        let text = "error parsing data as JSON: json: cannot unmarshal into Go value of type map[string]interface {}";
        parameters.invalid_as("<value omitted>", text, errors);
    }
}

/// Validates references to requests by name.
fn validate_request_references(names: &Field<'_>, requests: &[&str], errors: &mut Errors) {
    if names.at_most(MAX_ITEMS, errors) {
        return;
    }
    for name in names.items() {
        let text = name.text();
        if text.split('/').count() <= 2 {
            for part in text.split('/') {
                errors.invalid_each(name.path(), part, dns_label(part));
            }
        }
        if !requests.contains(&text) {
            let detail =
                "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
            name.invalid(detail, errors);
        }
    }
    validate_unique(names, &[], errors);
}

/// Adds an error for each element of a list whose text at `path` repeats. Since 1.37, the error shows the element instead
/// of the text.
fn validate_declared_unique(list: &Field<'_>, path: &[&str], errors: &mut Errors) {
    let shows_element = !errors.before(V1_37);
    report_repeated(list, path, errors, |item, text, errors| {
        if shows_element { item.duplicate(errors) } else { errors.duplicate(item.path(), text) }
    });
}

/// Adds an error for each element of a list whose text at `path` repeats.
fn validate_unique(list: &Field<'_>, path: &[&str], errors: &mut Errors) {
    report_repeated(list, path, errors, |item, text, errors| errors.duplicate(item.path(), text));
}

/// Calls `report` for each element of a list whose text at `path` repeats.
fn report_repeated(
    list: &Field<'_>,
    path: &[&str],
    errors: &mut Errors,
    report: impl Fn(&Field<'_>, &str, &mut Errors),
) {
    let mut seen = DuplicateCheck::default();
    for item in list.items() {
        let text = item.json().text(path);
        if seen.repeats(text) {
            report(&item, text, errors);
        }
    }
}

/// Validates the name of a pool: domains, separated by slashes.
fn validate_pool_name(name: &Field<'_>, errors: &mut Errors) {
    let text = name.text();
    if text.is_empty() {
        return name.required("", errors);
    }
    name.check_bytes(MAX_POOL_NAME, errors);
    for part in text.split('/') {
        errors.invalid_each(name.path(), part, dns_subdomain(part));
    }
}

/// Validates a taint of a device. An effect that equals the old one is valid.
fn validate_taint(taint: &Field<'_>, old_effect: &str, errors: &mut Errors) {
    taint.child("key").check_text(qualified_name, errors);
    taint.child("value").check_text(label_value, errors);
    let effect = taint.child("effect");
    if effect.is_empty() {
        effect.required("", errors);
    } else if effect.text() != old_effect {
        effect.supported(&["NoExecute", "NoSchedule", "None"], errors);
    }
}
