//! ResourceClaims: requests for devices, and their allocation.

use std::collections::HashSet;

use crate::kinds::{
    dynamic_resources::{
        MAX_ITEMS, validate_configs, validate_declared_unique, validate_request_references, validate_selectors,
    },
    prelude::*,
};

pub(super) const KIND: Kind = Kind {
    name: "ResourceClaim",
    rules: Rules { resets: Resets::BARE_STATUS, returns_deleted: true, ..Rules::WITH_STATUS },
    default: |claim| default_claim_spec(claim, "spec"),
    validate_create: |claim, errors| validate_claim_spec(&claim.child("spec"), errors),
    immutable: &["spec"],
    validate_status,
    ..BASE
};

/// The maximum number of alternatives for a request.
const MAX_ALTERNATIVES: usize = 8;
/// The maximum number of consumers for which a claim is reserved.
const MAX_CONSUMERS: usize = 256;
/// The maximum length of an attribute's name without its domain, in bytes.
const MAX_ATTRIBUTE_NAME: usize = 32;

fn validate_status(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let consumers = new.child("status.reservedFor");
    if !consumers.at_most(MAX_CONSUMERS, errors) {
        let rules = [("resource", Rule::Required), ("name", Rule::Required), ("uid", Rule::Required)];
        consumers.each(|consumer, errors| consumer.check(&rules, errors), errors);
        validate_declared_unique(&consumers, &["uid"], errors);
    }
    let (allocation, old_allocation) = (new.child("status.allocation"), old.child("status.allocation"));
    if !allocation.is_set() {
        consumers.check_empty("may not be specified when `allocated` is not set", errors);
        return;
    }
    let old_consumers = old.child("status.reservedFor");
    let old_consumers: HashSet<&Value> = old_consumers.items().map(|consumer| consumer.json()).collect();
    let adds_consumer = consumers.items().any(|consumer| !old_consumers.contains(consumer.json()));
    if new.child("metadata.deletionTimestamp").is_set() && adds_consumer {
        let text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        consumers.forbidden(text, errors);
    }
    if old_allocation.is_set() {
        allocation.immutable(&old_allocation, errors);
    }
}

// === defaults ===

/// Applies the defaults of a claim's spec, also for claim templates. `spec` is its path in the object.
pub(super) fn default_claim_spec(object: &mut Value, spec: &str) {
    for requests in ["exactly", "firstAvailable.*"] {
        let requests = format!("{spec}.devices.requests.*.{requests}");
        change_each(object, &requests, |request| {
            default_to(request, "allocationMode", "ExactCount");
            if request.text(&["allocationMode"]) == "ExactCount" {
                default_to(request, "count", 1);
            }
        });
        let tolerations = format!("{requests}.tolerations.*");
        change_each(object, &tolerations, |toleration| default_to(toleration, "operator", "Equal"));
    }
}

// === validation ===

/// Validates a claim's spec, also for claim templates.
pub(super) fn validate_claim_spec(spec: &Field<'_>, errors: &mut Errors) {
    let devices = spec.child("devices");
    let requests = devices.child("requests");
    if !requests.at_most(MAX_ITEMS, errors) {
        requests.each(validate_request, errors);
        validate_declared_unique(&requests, &["name"], errors);
    }
    let names = request_names(&requests);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let constraints = devices.child("constraints");
    if !constraints.at_most(MAX_ITEMS, errors) {
        constraints.each(|constraint, errors| validate_constraint(constraint, &names, errors), errors);
    }
    validate_configs(&devices.child("config"), &names, errors);
}

/// Returns the names of requests and, as `request/alternative`, of their alternatives.
fn request_names(requests: &Field<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for request in requests.items() {
        let name = request.child("name").text();
        names.push(name.to_owned());
        let alternatives = request.child("firstAvailable");
        names.extend(alternatives.items().map(|alternative| format!("{name}/{}", alternative.child("name").text())));
    }
    names
}

fn validate_constraint(constraint: &Field<'_>, requests: &[&str], errors: &mut Errors) {
    validate_request_references(&constraint.child("requests"), requests, errors);
    let mut attributes = ["matchAttribute", "distinctAttribute"].into_iter().map(|name| constraint.child(name));
    if let Some(attribute) = attributes.find(Field::is_set) {
        validate_attribute_name(&attribute, errors);
    } else if errors.before(V1_36) {
        // The feature DRAConsumableCapacity, which adds `distinctAttribute`.
        constraint.child("matchAttribute").required("", errors);
    } else {
        let text =
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        constraint.required(text, errors);
    }
}

fn validate_attribute_name(attribute: &Field<'_>, errors: &mut Errors) {
    let text = attribute.text();
    attribute.check_not_empty("name required", errors);
    let name = text.split_once('/').map_or(text, |(_, name)| name);
    if name.len() > MAX_ATTRIBUTE_NAME {
        attribute.too_long(MAX_ATTRIBUTE_NAME, errors);
    }
    if !name.is_empty() {
        errors.invalid_each(attribute.path(), name, c_identifier(name));
    }
    if !text.contains('/') {
        attribute.invalid_as(text, "a fully qualified name must be a domain and a name separated by a slash", errors);
    }
}

fn validate_request(request: &Field<'_>, errors: &mut Errors) {
    request.child("name").check_text(dns_label, errors);
    let (exactly, alternatives) = (request.child("exactly"), request.child("firstAvailable"));
    match (exactly.is_set(), alternatives.is_empty()) {
        (false, true) => request.required("exactly one of `exactly` or `firstAvailable` is required", errors),
        (true, false) => {
            let text = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            request.invalid_as(&Value::Null, text, errors);
        }
        (true, true) => validate_device_request(&exactly, errors),
        (false, false) => {
            if alternatives.at_most(MAX_ALTERNATIVES, errors) {
                return;
            }
            for alternative in alternatives.items() {
                alternative.child("name").check_text(dns_label, errors);
                validate_device_request(&alternative, errors);
            }
            validate_declared_unique(&alternatives, &["name"], errors);
        }
    }
}

/// Validates the devices that a request or one of its alternatives asks for.
fn validate_device_request(request: &Field<'_>, errors: &mut Errors) {
    let class = request.child("deviceClassName");
    class.required_text(dns_subdomain, errors);
    validate_selectors(&request.child("selectors"), errors);
    let (mode, count) = (request.child("allocationMode"), request.child("count"));
    let number = count.int().unwrap_or_default();
    match mode.text() {
        "All" if number != 0 => count.invalid("must not be specified when allocationMode is 'All'", errors),
        "ExactCount" if number <= 0 => count.invalid_as(&number, "must be greater than zero", errors),
        "All" | "ExactCount" => {}
        _ => mode.unsupported(&["All", "ExactCount"], errors),
    }
    request.child("tolerations").each(validate_toleration, errors);
}

/// Validates a toleration of device taints.
fn validate_toleration(toleration: &Field<'_>, errors: &mut Errors) {
    let (key, value) = (toleration.child("key"), toleration.child("value"));
    key.optional_text(qualified_name, errors);
    let operator = toleration.child("operator");
    match operator.text() {
        "Exists" if !value.text().is_empty() => value.invalid("must be empty for operator `Exists`", errors),
        "Exists" => {}
        "Equal" => value.check_text(label_value, errors),
        "" => operator.required("", errors),
        _ => operator.unsupported(&["Equal", "Exists"], errors),
    }
    toleration.child("effect").one_of(&["NoExecute", "NoSchedule", "None"], errors);
}
