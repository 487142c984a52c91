//! Endpoints and EndpointSlices: the addresses behind a service.

use std::net::IpAddr;

use serde_json::Value;

use crate::kinds::pod_spec::{in_port_range, one_of};
use crate::object::{
    DuplicateCheck, Errors, Path, Tree, address_problem, as_object, default_pointer, default_to, dns_label,
    dns_subdomain, ip_address, items_mut, label_value, qualified_name, same, validate_address,
};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// The maximum number of node hints of an endpoint.
const MAX_NODE_HINTS: usize = 8;

// === defaults and preparation ===

pub(super) fn default_endpoints(object: &mut Value) {
    for subset in items_mut(object, "subsets") {
        for port in items_mut(subset, "ports") {
            default_to(as_object(port), "protocol", "TCP");
        }
    }
}

pub(super) fn default_slice(object: &mut Value) {
    for port in items_mut(object, "ports") {
        let map = as_object(port);
        default_pointer(map, "name", "");
        default_pointer(map, "protocol", "TCP");
    }
}

/// Removes a field of an older version.
pub(super) fn prepare_slice(object: &mut Value) {
    for endpoint in items_mut(object, "endpoints") {
        as_object(endpoint).shift_remove("deprecatedTopology");
    }
}

/// Like [`prepare_slice`], but only if the endpoints have changed.
pub(super) fn prepare_slice_update(new: &mut Value, old: &Value) {
    if !same(new.at(&["endpoints"]), old.at(&["endpoints"])) {
        prepare_slice(new);
    }
}

// === validation ===

pub(super) fn validate_endpoints(object: &Value, errors: &mut Errors) {
    let subsets = Path::new("subsets");
    for (index, subset) in object.items(&["subsets"]).iter().enumerate() {
        let place = subsets.index(index);
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| subset.items(&[list]).is_empty()) {
            errors.required(&place, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in lists {
            let path = place.child(list);
            for (index, address) in subset.items(&[list]).iter().enumerate() {
                validate_endpoint_address(address, is_own(object), &path.index(index), errors);
            }
        }
        let (path, ports) = (place.child("ports"), subset.items(&["ports"]));
        for (index, port) in ports.iter().enumerate() {
            let place = path.index(index);
            match port.text(&["name"]) {
                "" if ports.len() > 1 => errors.required(&place.child("name"), ""),
                "" => {}
                name => errors.invalid_each(&place.child("name"), name, dns_label(name)),
            }
            in_port_range(port.int(&["port"]).unwrap_or_default(), &place.child("port"), errors);
            validate_port(port, &place, errors);
        }
    }
}

/// Reports whether these are the API server's own endpoints, whose address may be a loopback address.
fn is_own(object: &Value) -> bool {
    object.text(&["metadata", "namespace"]) == "default" && object.text(&["metadata", "name"]) == "kubernetes"
}

fn validate_endpoint_address(address: &Value, own: bool, path: &Path<'_>, errors: &mut Errors) {
    let ip = address.text(&["ip"]);
    validate_address(ip, &path.child("ip"), errors);
    let host = address.text(&["hostname"]);
    if !host.is_empty() {
        errors.invalid_each(&path.child("hostname"), host, dns_label(host));
    }
    if let Some(node) = address.at(&["nodeName"]).and_then(Value::as_str) {
        errors.invalid_each(&path.child("nodeName"), node, dns_subdomain(node));
    }
    if !own {
        validate_reachable(ip, &path.child("ip"), errors);
    }
}

/// Validates that an address is not a special one, such as a loopback address.
pub(super) fn validate_reachable(text: &str, path: &Path<'_>, errors: &mut Errors) {
    let Ok(ip) = text.parse::<IpAddr>() else {
        return errors.invalid(path, text, "must be a valid IP address");
    };
    let (link_local, group) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        errors.invalid(path, text, &format!("may not be unspecified ({text})"));
    }
    for (special, range) in [
        (ip.is_loopback(), "loopback range (127.0.0.0/8, ::1/128)"),
        (link_local, "link-local range (169.254.0.0/16, fe80::/10)"),
        (group, "link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ] {
        if special {
            errors.invalid(path, text, &format!("may not be in the {range}"));
        }
    }
}

fn validate_port(port: &Value, path: &Path<'_>, errors: &mut Errors) {
    if port.text(&["protocol"]).is_empty() {
        errors.required(&path.child("protocol"), "");
    }
    one_of(port, "protocol", &PROTOCOLS, path, errors);
    if let Some(protocol) = port.at(&["appProtocol"]).and_then(Value::as_str) {
        errors.invalid_each(&path.child("appProtocol"), protocol, qualified_name(protocol));
    }
}

/// The maximum number of addresses of an endpoint in a slice.
const MOST_ADDRESSES: usize = 100;
/// The maximum number of endpoints of a slice.
const MOST_ENDPOINTS: usize = 1000;
/// The maximum number of ports of a slice.
const MOST_PORTS: usize = 20_000;

pub(super) fn validate_slice(object: &Value, errors: &mut Errors) {
    let path = Path::new("addressType");
    let kind = object.text(&["addressType"]);
    if kind.is_empty() {
        errors.required(&path, "");
    }
    one_of(object, "addressType", &["FQDN", "IPv4", "IPv6"], &Path::new(""), errors);
    let list = Path::new("ports");
    let ports = object.items(&["ports"]);
    if ports.len() > MOST_PORTS {
        errors.too_many(&list, ports.len(), MOST_PORTS);
        return;
    }
    let mut seen = DuplicateCheck::default();
    for (index, port) in ports.iter().enumerate() {
        let place = list.index(index);
        let name = port.text(&["name"]);
        if !name.is_empty() {
            errors.invalid_each(&place.child("name"), name, dns_label(name));
        }
        if seen.repeats(name) {
            errors.duplicate(&place.child("name"), name);
        }
        validate_port(port, &place, errors);
    }
}

pub(super) fn validate_slice_endpoints(object: &Value, errors: &mut Errors) {
    let (list, kind) = (Path::new("endpoints"), object.text(&["addressType"]));
    let endpoints = object.items(&["endpoints"]);
    if endpoints.len() > MOST_ENDPOINTS {
        errors.too_many(&list, endpoints.len(), MOST_ENDPOINTS);
        return;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        validate_endpoint(endpoint, kind, is_own(object), &list.index(index), errors);
    }
}

fn validate_endpoint(endpoint: &Value, kind: &str, own: bool, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("addresses");
    let addresses = endpoint.items(&["addresses"]);
    if addresses.is_empty() {
        errors.required(&list, "must contain at least 1 address");
    } else if addresses.len() > MOST_ADDRESSES {
        errors.too_many(&list, addresses.len(), MOST_ADDRESSES);
    }
    for (index, address) in addresses.iter().enumerate() {
        let (text, place) = (address.as_str().unwrap_or_default(), list.index(index));
        let problems = match kind {
            "IPv4" => address_problem(text).map(str::to_owned).into_iter().collect(),
            "IPv6" => ip_address(text),
            _ => continue,
        };
        if !problems.is_empty() {
            errors.invalid_each(&place, text, problems);
            continue;
        }
        let is_six = text.contains(':');
        if is_six != (kind == "IPv6") {
            errors.invalid(&list, text, &format!("must be an {kind} address"));
        }
        if !own {
            validate_reachable(text, &place, errors);
        }
    }
    if let Some(node) = endpoint.at(&["nodeName"]).and_then(Value::as_str) {
        errors.invalid_each(&path.child("nodeName"), node, dns_subdomain(node));
    }
    if let Some(host) = endpoint.at(&["hostname"]).and_then(Value::as_str) {
        errors.invalid_each(&path.child("hostname"), host, dns_label(host));
    }
    let zones = path.child("hints.forZones");
    let names = endpoint.items(&["hints", "forZones"]);
    let mut seen = DuplicateCheck::default();
    for (index, zone) in names.iter().enumerate() {
        let (name, place) = (zone.text(&["name"]), zones.index(index));
        if seen.repeats(name) {
            errors.duplicate(&place.child("name"), name);
        }
        errors.invalid_each(&place.child("name"), name, label_value(name));
    }
    let list = path.child("hints.forNodes");
    let names = endpoint.items(&["hints", "forNodes"]);
    if names.len() > MAX_NODE_HINTS {
        return errors.too_many(&list, names.len(), MAX_NODE_HINTS);
    }
    let mut seen = DuplicateCheck::default();
    for (index, node) in names.iter().enumerate() {
        let (name, place) = (node.text(&["name"]), list.index(index));
        if seen.repeats(name) {
            errors.duplicate(&place.child("name"), name);
        }
        errors.invalid_each(&place.child("name"), name, dns_subdomain(name));
    }
}

pub(super) fn validate_slice_update(new: &Value, old: &Value, errors: &mut Errors) {
    // Unchanged endpoints are not validated again.
    if new.items(&["endpoints"]) != old.items(&["endpoints"]) {
        validate_slice_endpoints(new, errors);
    }
    errors.immutable(&Path::new("addressType"), new.at(&["addressType"]), old.at(&["addressType"]));
}

/// Warns about a deprecated address type.
pub(super) fn slice_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let is_name = |slice: &Value| slice.text(&["addressType"]) == "FQDN";
    let warns = is_name(new) && old.is_none();
    warns.then(|| "spec.addressType: FQDN endpoints are deprecated".to_owned()).into_iter().collect()
}
