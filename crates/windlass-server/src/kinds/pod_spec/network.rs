//! The network settings of a pod: host ports, the hostname, DNS and the hosts file.

use crate::kinds::prelude::*;

/// The limits of the system's resolver.
const MAX_NAME_SERVERS: usize = 3;
const MAX_SEARCH_PATHS: usize = 32;
/// The maximum length of a hostname override, in bytes.
const MAX_HOSTNAME_LENGTH: usize = 64;

/// Validates that host ports equal the container ports if the pod uses the host network.
pub(super) fn validate_host_ports(spec: &Field<'_>, errors: &mut Errors) {
    if !spec.child("hostNetwork").flag() {
        return;
    }
    for container in spec.child("containers").items() {
        for port in container.child("ports").items() {
            let host_port = port.child("hostPort");
            let number = host_port.int().unwrap_or_default();
            if number != 0 && number != port.child("containerPort").int().unwrap_or_default() {
                host_port.invalid("must match `containerPort` when `hostNetwork` is true", errors);
            }
        }
    }
}

/// Validates the hostname override of a pod.
pub(super) fn validate_hostname_override(spec: &Field<'_>, errors: &mut Errors) {
    let name = spec.child("hostnameOverride");
    if !name.is_set() {
        return;
    }
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.child(field).flag() {
            name.forbidden(&format!("may not be specified when {field} is true"), errors);
        }
    }
    name.check_bytes(MAX_HOSTNAME_LENGTH, errors);
    name.check_text(dns_subdomain, errors);
}

/// Validates the DNS configuration.
pub(super) fn validate_dns(spec: &Field<'_>, errors: &mut Errors) {
    let config = spec.child("dnsConfig");
    let name_servers = config.child("nameservers");
    if spec.child("dnsPolicy").text() == "None" {
        if !config.is_set() {
            return config.required("must provide `dnsConfig` when `dnsPolicy` is None", errors);
        }
        if name_servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return name_servers.required(detail, errors);
        }
    }
    if name_servers.len() > MAX_NAME_SERVERS {
        name_servers.invalid(&format!("must not have more than {MAX_NAME_SERVERS} nameservers"), errors);
    }
    for server in name_servers.items() {
        validate_address(server.text(), server.path(), errors);
    }
    let searches = config.child("searches");
    if searches.len() > MAX_SEARCH_PATHS {
        searches.invalid(&format!("must not have more than {MAX_SEARCH_PATHS} search paths"), errors);
    }
    for search in searches.items().filter(|search| search.text() != ".") {
        let domain = search.text().strip_suffix('.').unwrap_or(search.text());
        errors.invalid_each(search.path(), domain, dns_subdomain_with_underscores(domain));
    }
    for option in config.child("options").items().filter(|option| option.child("name").is_empty()) {
        option.required("must not be empty", errors);
    }
}

/// Validates additional entries of the hosts file.
pub(super) fn validate_host_aliases(spec: &Field<'_>, errors: &mut Errors) {
    for alias in spec.child("hostAliases").items() {
        let address = alias.child("ip");
        validate_address(address.text(), address.path(), errors);
        for name in alias.child("hostnames").items() {
            name.check_text(dns_subdomain, errors);
        }
    }
}
