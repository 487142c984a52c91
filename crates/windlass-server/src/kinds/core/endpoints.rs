//! `Endpoints`, and the validation of addresses and ports that it shares with `EndpointSlice` and `Service`.

use std::net::IpAddr;

use crate::kinds::prelude::*;

pub(super) const KIND: Kind = Kind {
    name: "Endpoints",
    prefix: Some("/registry/services/endpoints/"),
    deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    rules: Rules { create_on_update: true, ..Rules::COMMON },
    default: |object| change_each(object, "subsets.*.ports.*", |port| default_to(port, "protocol", "TCP")),
    validate,
    ..BASE
};

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let is_own = is_own(object.json());
    for subset in object.child("subsets").items() {
        let lists = [subset.child("addresses"), subset.child("notReadyAddresses")];
        if lists.iter().all(Field::is_empty) {
            subset.required("must specify `addresses` or `notReadyAddresses`", errors);
        }
        for list in &lists {
            list.each(|address, errors| validate_endpoint_address(address, is_own, errors), errors);
        }
        let ports = subset.child("ports");
        for port in ports.items() {
            let name = port.child("name");
            name.optional_text(dns_label, errors);
            if ports.len() > 1 {
                name.check_not_empty("", errors);
            }
            port.check(&[("port", Rule::Range(1, 65535))], errors);
            validate_port(&port, errors);
        }
    }
}

fn validate_endpoint_address(address: &Field<'_>, is_own: bool, errors: &mut Errors) {
    let (ip, host, node) = (address.child("ip"), address.child("hostname"), address.child("nodeName"));
    validate_address(ip.text(), ip.path(), errors);
    host.optional_text(dns_label, errors);
    node.check_set_text(dns_subdomain, errors);
    if !is_own {
        validate_reachable(&ip, errors);
    }
}

/// Reports whether these are the API server's own endpoints, whose address may be a loopback address.
pub(crate) fn is_own(object: &Value) -> bool {
    object.text(&["metadata", "namespace"]) == "default" && object.text(&["metadata", "name"]) == "kubernetes"
}

/// Validates that an address is not a special one, such as a loopback address.
pub(crate) fn validate_reachable(address: &Field<'_>, errors: &mut Errors) {
    let text = address.text();
    let Some(ip) = parse_address(text) else {
        return address.invalid_as(text, "must be a valid IP address", errors);
    };
    let (is_link_local, is_link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        address.invalid_as(text, &format!("may not be unspecified ({text})"), errors);
    }
    for (is_special, range) in [
        (ip.is_loopback(), "loopback range (127.0.0.0/8, ::1/128)"),
        (is_link_local, "link-local range (169.254.0.0/16, fe80::/10)"),
        (is_link_local_multicast, "link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ] {
        if is_special {
            address.invalid_as(text, &format!("may not be in the {range}"), errors);
        }
    }
}

/// Validates the protocols of a port.
pub(crate) fn validate_port(port: &Field<'_>, errors: &mut Errors) {
    port.check(&[("protocol", Rule::RequiredOneOf(&["SCTP", "TCP", "UDP"]))], errors);
    port.child("appProtocol").check_set_text(qualified_name, errors);
}
