//! Validation of services, in the order of the real server.

use std::{collections::HashSet, net::IpAddr};

use crate::kinds::{
    core::{
        endpoints::validate_reachable,
        service::{HEADLESS, accepts_external_traffic, needs_health_check},
    },
    prelude::*,
};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const TRAFFIC_POLICIES: [&str; 2] = ["Cluster", "Local"];
const TRAFFIC_DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
/// The maximum session affinity timeout, in seconds: one day.
const MAX_AFFINITY_TIMEOUT: i64 = 86_400;
const ONLY_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";
const SET_ONCE: &str = "may not change once set";

/// Validates the spec of a service.
pub(super) fn validate_spec(spec: &Field<'_>, errors: &mut Errors) {
    let kind = spec.child("type").text();
    let ports = spec.child("ports");
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        ports.required("", errors);
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            for ip in spec.child("clusterIPs").items() {
                ip.invalid(&format!("may not be set to 'None' for {kind} services"), errors);
            }
        }
        "ExternalName" => validate_external_name(spec, errors),
        _ => {}
    }
    let mut names = DuplicateCheck::default();
    for port in ports.items() {
        validate_port(&port, ports.len() > 1, &mut names, errors);
    }
    let selector = spec.child("selector");
    validate_labels(selector.value(), selector.path(), errors);
    let affinity = spec.child("sessionAffinity");
    affinity.one_of(&["ClientIP", "None"], errors);
    let timeout = spec.child("sessionAffinityConfig.clientIP.timeoutSeconds");
    let is_out_of_range = timeout.int().is_some_and(|seconds| !(1..=MAX_AFFINITY_TIMEOUT).contains(&seconds));
    if affinity.text() == "ClientIP" && is_out_of_range {
        timeout.invalid(&format!("must be greater than 0 and less than {MAX_AFFINITY_TIMEOUT}"), errors);
    }
    if kind != "ExternalName" {
        validate_addresses(spec, errors);
    }
    for ip in spec.child("externalIPs").items() {
        let before = errors.len();
        validate_address(ip.text(), ip.path(), errors);
        if errors.len() == before {
            validate_reachable(&ip, errors);
        }
    }
    spec.child("type").one_of(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    validate_unique_ports(&ports, kind, errors);
    validate_load_balancer(spec, errors);
    validate_traffic(spec, errors);
}

fn is_headless(spec: &Field<'_>) -> bool {
    matches!(spec.json().items(&["clusterIPs"]), [only] if *only == HEADLESS)
}

fn is_load_balancer(spec: &Field<'_>) -> bool {
    spec.child("type").text() == "LoadBalancer"
}

fn validate_external_name(spec: &Field<'_>, errors: &mut Errors) {
    for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        spec.child(name).check_unset("may not be set for ExternalName services", errors);
    }
    let field = spec.child("externalName");
    let name = field.text().strip_suffix('.').unwrap_or(field.text());
    if name.is_empty() {
        field.required("", errors);
    } else {
        errors.invalid_each(field.path(), name, dns_subdomain(name));
    }
}

/// Validates a port. `names` are those of the ports before it.
fn validate_port<'v>(port: &Field<'v>, requires_name: bool, names: &mut DuplicateCheck<&'v str>, errors: &mut Errors) {
    let name = port.child("name");
    if !name.is_empty() {
        name.check_text(dns_label, errors);
        port.check_unique_by("name", names, errors);
    } else if requires_name {
        name.required("", errors);
    }
    port.child("port").in_range(1, 65535, errors);
    port.child("protocol").one_of(&["SCTP", "TCP", "UDP"], errors);
    let target = port.child("targetPort");
    match target.value() {
        Some(Value::String(name)) => target.invalid_each(port_name(name), errors),
        _ => target.in_range(1, 65535, errors),
    }
    port.child("appProtocol").check_set_text(qualified_name, errors);
}

/// Validates the cluster IPs and their families.
pub(super) fn validate_addresses(spec: &Field<'_>, errors: &mut Errors) {
    let ips = spec.child("clusterIPs");
    match (spec.child("clusterIP").text(), ips.items().next().map(|ip| ip.text())) {
        ("", Some(_)) => ips.invalid("must be empty when `clusterIP` is not specified", errors),
        ("", None) => {}
        (_, None) => ips.required("", errors),
        (ip, Some(first)) if first != ip => ips.invalid("first value must match `clusterIP`", errors),
        _ => {}
    }
    let families = spec.child("ipFamilies");
    families.each_unique(|family, errors| family.supported(&FAMILIES, errors), errors);
    spec.child("ipFamilyPolicy").one_of(&["PreferDualStack", "RequireDualStack", "SingleStack"], errors);
    let before = errors.len();
    for (index, ip) in ips.items().enumerate() {
        if index > 0 || ip.text() != HEADLESS {
            validate_address(ip.text(), ip.path(), errors);
        } else if ips.len() > 1 {
            ips.invalid("'None' must be the first and only value", errors);
        }
    }
    let has_invalid_ips = errors.len() > before;
    if ips.len() > 2 {
        ips.invalid("may only hold up to 2 values", errors);
    }
    if has_invalid_ips {
        return;
    }
    let ipv6_count = ips.items().filter(is_ipv6).count();
    if ips.len() > 1 && (ipv6_count == 0 || ipv6_count == ips.len()) {
        ips.invalid("may specify no more than one IP for each IP family", errors);
    }
    if is_headless(spec) {
        return;
    }
    for (index, (ip, family)) in ips.items().zip(families.items()).enumerate() {
        let family = family.text();
        if FAMILIES.contains(&family) && (family == "IPv6") != is_ipv6(&ip) {
            ip.invalid(&format!("expected an {family} value as indicated by `ipFamilies[{index}]`"), errors);
        }
    }
}

fn is_ipv6(ip: &Field<'_>) -> bool {
    ip.text().parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6())
}

/// Validates that ports and node ports are unique, and that services of type ClusterIP have no node ports.
fn validate_unique_ports(ports: &Field<'_>, kind: &str, errors: &mut Errors) {
    let number = |port: &Field<'_>| port.child("nodePort").int().unwrap_or_default();
    let node_ports = || ports.items().filter(|port| number(port) != 0);
    if kind == "ClusterIP" {
        for port in node_ports() {
            port.child("nodePort").forbidden("may not be used when `type` is 'ClusterIP'", errors);
        }
    }
    let mut seen = DuplicateCheck::default();
    for port in node_ports() {
        if seen.repeats((number(&port), port.json().text(&["protocol"]))) {
            port.child("nodePort").duplicate(errors);
        }
    }
    let mut seen = DuplicateCheck::default();
    for port in ports.items() {
        let number = port.child("port").int();
        let protocol = port.json().text(&["protocol"]);
        if seen.repeats((number, protocol)) {
            // The value is shown with Go's field names.
            let value = json!({
                "Name": "",
                "Protocol": protocol,
                "AppProtocol": null,
                "Port": number.unwrap_or_default(),
                "TargetPort": 0,
                "NodePort": 0,
            });
            errors.duplicate(port.path(), &value);
        }
    }
}

/// Validates the fields of load balancers.
fn validate_load_balancer(spec: &Field<'_>, errors: &mut Errors) {
    let ranges = spec.child("loadBalancerSourceRanges");
    // The real server names this field so.
    let ranges = Field::new(spec.path().child("LoadBalancerSourceRanges"), ranges.value());
    if !is_load_balancer(spec) {
        ranges.check_empty(ONLY_LOAD_BALANCERS, errors);
    }
    for range in ranges.items() {
        let text = range.text().trim();
        if let Some(problem) = range_problem(errors.kubernetes(), text) {
            range.invalid_as(text, problem, errors);
        }
    }
    if !is_load_balancer(spec) {
        spec.child("allocateLoadBalancerNodePorts").check_unset(ONLY_LOAD_BALANCERS, errors);
    }
    validate_load_balancer_class(spec, errors);
}

fn validate_load_balancer_class(spec: &Field<'_>, errors: &mut Errors) {
    let class = spec.child("loadBalancerClass");
    if is_load_balancer(spec) {
        class.check_set_text(qualified_name, errors);
    } else {
        class.check_unset(ONLY_LOAD_BALANCERS, errors);
    }
}

/// Validates the traffic policies and the health check port.
fn validate_traffic(spec: &Field<'_>, errors: &mut Errors) {
    let policy = spec.child("externalTrafficPolicy");
    match (accepts_external_traffic(spec.json()), policy.text()) {
        (false, "") => {}
        (false, _) => policy.invalid("may only be set for externally-accessible services", errors),
        (true, "") => policy.required("", errors),
        (true, _) => policy.one_of(&TRAFFIC_POLICIES, errors),
    }
    let port = spec.child("healthCheckNodePort");
    match (needs_health_check(spec.json()), port.int().unwrap_or_default()) {
        (false, 0) => {}
        (false, _) => {
            let text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            port.invalid(text, errors);
        }
        (true, 0) => port.required("", errors),
        (true, _) => port.in_range(1, 65535, errors),
    }
    spec.child("internalTrafficPolicy").supported_if_set(&TRAFFIC_POLICIES, errors);
    // The feature PreferSameTrafficDistribution.
    let distributions = if errors.before(V1_34) { &TRAFFIC_DISTRIBUTIONS[..1] } else { &TRAFFIC_DISTRIBUTIONS };
    spec.child("trafficDistribution").supported_if_set(distributions, errors);
}

/// Validates the changes of a spec.
pub(super) fn validate_spec_update(spec: &Field<'_>, old_spec: &Field<'_>, errors: &mut Errors) {
    let is_external_name = |spec: &Field<'_>| spec.child("type").text() == "ExternalName";
    if !is_external_name(spec) && !is_external_name(old_spec) {
        validate_address_changes(spec, old_spec, errors);
    }
    let class = spec.child("loadBalancerClass");
    if is_load_balancer(spec) && is_load_balancer(old_spec) && !class.same(&old_spec.child("loadBalancerClass")) {
        class.invalid(SET_ONCE, errors);
    }
    validate_load_balancer_class(spec, errors);
    let port = spec.child("healthCheckNodePort");
    let needs_port = needs_health_check(spec.json()) && needs_health_check(old_spec.json());
    if needs_port && port.int() != old_spec.child("healthCheckNodePort").int() {
        port.forbidden("field is immutable", errors);
    }
}

/// Validates that the first address and its family do not change. A second one may be added or removed.
fn validate_address_changes(spec: &Field<'_>, old_spec: &Field<'_>, errors: &mut Errors) {
    let (headless, was_headless) = (is_headless(spec), is_headless(old_spec));
    let policy = spec.child("ipFamilyPolicy");
    let ips = spec.child("clusterIPs");
    for (name, singular, applies) in [
        ("clusterIPs", "clusterIP", !(headless && was_headless)),
        ("ipFamilies", "ipFamily", !headless && !was_headless),
    ] {
        if !applies {
            continue;
        }
        let (list, old_list) = (spec.child(name), old_spec.child(name));
        if list.len() == old_list.len() {
            let changes = list.items().zip(old_list.items()).enumerate();
            for (index, _) in changes.filter(|(_, (item, old))| item.text() != old.text()) {
                // The real server names the first family for a change of any family.
                let index = if name == "clusterIPs" { index } else { 0 };
                errors.invalid(&list.path().index(index), list.json(), SET_ONCE);
            }
            continue;
        }
        let first = list.path().index(0);
        let is_shorter = list.len() < old_list.len();
        if is_shorter && ips.is_empty() {
            errors.invalid(&first, list.json(), &format!("primary {singular} can not be unset"));
        }
        if let (Some(item), Some(old)) = (list.items().next(), old_list.items().next())
            && item.text() != old.text()
        {
            errors.invalid(&first, ips.json(), SET_ONCE);
        }
        if is_shorter && list.len() == 1 && policy.text() != "SingleStack" {
            let text = format!("must be set to 'SingleStack' when releasing the secondary {singular}");
            policy.invalid(&text, errors);
        }
    }
}

/// Validates the load balancer's ingress points. Only services of type LoadBalancer have them.
pub(super) fn validate_status(service: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let points = service.child("status.loadBalancer.ingress");
    if service.child("spec.type").text() != "LoadBalancer" && !points.is_empty() {
        return points.forbidden("may only be used when `spec.type` is 'LoadBalancer'", errors);
    }
    validate_ingress_points(service, old, validate_ip_mode, errors);
}

/// Validates the ingress points of a service or an ingress. `check` runs on each point after its address. Addresses that
/// were accepted before remain valid.
pub(in crate::kinds) fn validate_ingress_points(
    object: &Field<'_>,
    old: &Field<'_>,
    check: fn(&Field<'_>, &mut Errors),
    errors: &mut Errors,
) {
    let old_points = old.json().items(&["status", "loadBalancer", "ingress"]);
    let old_ips: HashSet<&str> = old_points.iter().map(|point| point.text(&["ip"])).collect();
    for point in object.child("status.loadBalancer.ingress").items() {
        let (ip, host) = (point.child("ip"), point.child("hostname"));
        if !ip.is_empty() && !old_ips.contains(ip.text()) {
            validate_address(ip.text(), ip.path(), errors);
        }
        check(&point, errors);
        host.optional_text(dns_subdomain, errors);
        validate_no_address(&host, errors);
    }
}

/// Validates the mode of an ingress point's address, which must be set together with the address.
fn validate_ip_mode(point: &Field<'_>, errors: &mut Errors) {
    let mode = point.child("ipMode");
    if point.child("ip").is_empty() {
        return mode.check_unset("may not be specified when `ip` is not set", errors);
    }
    mode.check_set("must be specified when `ip` is set", errors);
    mode.supported_if_set(&["Proxy", "VIP"], errors);
}

/// Validates that a host name is not an IP address.
pub(in crate::kinds) fn validate_no_address(host: &Field<'_>, errors: &mut Errors) {
    if parse_address(host.text()).is_some() {
        host.invalid("must be a DNS name, not an IP address", errors);
    }
}
