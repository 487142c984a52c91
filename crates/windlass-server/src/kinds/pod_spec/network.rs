//! The hostname of a pod, and its DNS configuration.

use serde_json::Value;

use crate::kinds::pod_spec::one_of;
use crate::object::{Errors, Path, Tree, dns_subdomain, dns_subdomain_with_underscores, validate_address};

/// The limits of the system's resolver.
const NAME_SERVERS: usize = 3;
const SEARCHES: usize = 32;

/// Validates that host ports equal the container ports if the pod uses the host network.
pub(super) fn validate_host_ports(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !spec.flag(&["hostNetwork"]) {
        return;
    }
    let containers = path.child("containers");
    for (index, container) in spec.items(&["containers"]).iter().enumerate() {
        let place = containers.index(index);
        let ports = place.child("ports");
        for (index, port) in container.items(&["ports"]).iter().enumerate() {
            let outside = port.int(&["hostPort"]).unwrap_or_default();
            if outside != 0 && outside != port.int(&["containerPort"]).unwrap_or_default() {
                let text = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&ports.index(index).child("hostPort"), &outside, text);
            }
        }
    }
}

/// Validates the hostname override of a pod.
pub(super) fn validate_own_name(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const LONGEST: usize = 64;
    let Some(name) = spec.at(&["hostnameOverride"]).and_then(Value::as_str) else { return };
    let path = path.child("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.flag(&[field]) {
            errors.forbidden(&path, &format!("may not be specified when {field} is true"));
        }
    }
    if name.len() > LONGEST {
        errors.too_long(&path, LONGEST);
    }
    errors.invalid_each(&path, name, dns_subdomain(name));
}

/// Validates the DNS configuration.
pub(super) fn validate_dns(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let config = spec.at(&["dnsConfig"]);
    let path = path.child("dnsConfig");
    if spec.text(&["dnsPolicy"]) == "None" {
        if config.is_none() {
            return errors.required(&path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if spec.items(&["dnsConfig", "nameservers"]).is_empty() {
            let text = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(&path.child("nameservers"), text);
        }
    }
    let Some(config) = config else { return };
    let list = path.child("nameservers");
    let servers = config.items(&["nameservers"]);
    if servers.len() > NAME_SERVERS {
        let text = format!("must not have more than {NAME_SERVERS} nameservers");
        errors.invalid(&list, &Value::from(servers), &text);
    }
    for (index, server) in servers.iter().enumerate() {
        validate_address(server.as_str().unwrap_or_default(), &list.index(index), errors);
    }
    let list = path.child("searches");
    let searches = config.items(&["searches"]);
    if searches.len() > SEARCHES {
        let text = format!("must not have more than {SEARCHES} search paths");
        errors.invalid(&list, &Value::from(searches), &text);
    }
    for (index, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or_default();
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            errors.invalid_each(&list.index(index), search, dns_subdomain_with_underscores(search));
        }
    }
    let list = path.child("options");
    for (index, option) in config.items(&["options"]).iter().enumerate() {
        if option.text(&["name"]).is_empty() {
            errors.required(&list.index(index), "must not be empty");
        }
    }
}

/// Validates additional entries of the hosts file.
pub(super) fn validate_host_aliases(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("hostAliases");
    for (index, alias) in spec.items(&["hostAliases"]).iter().enumerate() {
        let place = list.index(index);
        validate_address(alias.text(&["ip"]), &place.child("ip"), errors);
        let names = place.child("hostnames");
        for (index, name) in alias.items(&["hostnames"]).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            errors.invalid_each(&names.index(index), name, dns_subdomain(name));
        }
    }
}

/// Validates the DNS policy.
pub(super) fn validate_dns_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    one_of(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], path, errors);
}
