//! The group `discovery.k8s.io`.

use crate::kinds::{
    core::endpoints::{is_own, validate_port, validate_reachable},
    prelude::*,
};

pub(super) const KINDS: &[Kind] = &[Kind {
    name: "EndpointSlice",
    rules: Rules { metadata: MetadataRule::OBJECT, generation: Generation::ContentOrLabels, ..Rules::COMMON },
    default: |object| {
        change_each(object, "ports.*", |port| {
            default_pointer(port, "name", "");
            default_pointer(port, "protocol", "TCP");
        });
    },
    prepare_create: |object, _| drop_deprecated_topology(object),
    prepare_update,
    validate,
    validate_create: validate_endpoints,
    validate_update,
    immutable: &["addressType"],
    warnings,
    ..BASE
}];

/// The maximum number of ports of a slice.
const MAX_PORTS: usize = 20_000;
/// The maximum number of endpoints of a slice.
const MAX_ENDPOINTS: usize = 1000;
/// The maximum number of addresses of an endpoint.
const MAX_ADDRESSES: usize = 100;
/// The maximum number of node hints of an endpoint.
const MAX_NODE_HINTS: usize = 8;

fn prepare_update(new: &mut Value, old: &Value) {
    if !same(new.at(&["endpoints"]), old.at(&["endpoints"])) {
        drop_deprecated_topology(new);
    }
}

fn validate(slice: &Field<'_>, errors: &mut Errors) {
    slice.check(&[("addressType", Rule::RequiredOneOf(&["FQDN", "IPv4", "IPv6"]))], errors);
    let ports = slice.child("ports");
    if ports.at_most(MAX_PORTS, errors) {
        return;
    }
    let mut seen = DuplicateCheck::default();
    for port in ports.items() {
        port.child("name").optional_text(dns_label, errors);
        port.check_unique_by("name", &mut seen, errors);
        validate_port(&port, errors);
    }
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    // Unchanged endpoints are not validated again.
    if new.json().items(&["endpoints"]) != old.json().items(&["endpoints"]) {
        validate_endpoints(new, errors);
    }
}

/// Warns about a deprecated address type.
fn warnings(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    if old.is_none() && new.text(&["addressType"]) == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
}

/// Removes a field of an older version from the endpoints.
fn drop_deprecated_topology(slice: &mut Value) {
    change_each(slice, "endpoints.*", |endpoint| drop(endpoint.shift_remove("deprecatedTopology")));
}

fn validate_endpoints(slice: &Field<'_>, errors: &mut Errors) {
    let (kind, is_own) = (slice.json().text(&["addressType"]), is_own(slice.json()));
    let endpoints = slice.child("endpoints");
    if endpoints.at_most(MAX_ENDPOINTS, errors) {
        return;
    }
    for endpoint in endpoints.items() {
        validate_addresses(&endpoint.child("addresses"), kind, is_own, errors);
        endpoint.child("nodeName").check_set_text(dns_subdomain, errors);
        endpoint.child("hostname").check_set_text(dns_label, errors);
        validate_hints(&endpoint.child("hints.forZones"), label_value, errors);
        let nodes = endpoint.child("hints.forNodes");
        if !nodes.at_most(MAX_NODE_HINTS, errors) {
            validate_hints(&nodes, dns_subdomain, errors);
        }
    }
}

/// Validates the addresses of an endpoint, which are of the slice's address type.
fn validate_addresses(addresses: &Field<'_>, kind: &str, is_own: bool, errors: &mut Errors) {
    addresses.check_not_empty("must contain at least 1 address", errors);
    addresses.at_most(MAX_ADDRESSES, errors);
    for address in addresses.items() {
        let text = address.text();
        let problems = match kind {
            "IPv4" => address_problem(errors.kubernetes(), text).map(str::to_owned).into_iter().collect(),
            "IPv6" => ip_address(text),
            _ => continue,
        };
        if !problems.is_empty() {
            address.invalid_each(problems, errors);
            continue;
        }
        let is_ipv6 = text.contains(':');
        if is_ipv6 != (kind == "IPv6") {
            addresses.invalid_as(text, &format!("must be an {kind} address"), errors);
        }
        if !is_own {
            validate_reachable(&address, errors);
        }
    }
}

/// Validates the names of zones or nodes for which an endpoint is intended.
fn validate_hints(hints: &Field<'_>, name_problems: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let mut seen = DuplicateCheck::default();
    for hint in hints.items() {
        hint.check_unique_by("name", &mut seen, errors);
        hint.child("name").check_text(name_problems, errors);
    }
}
