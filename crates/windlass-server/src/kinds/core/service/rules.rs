//! Validation of services, in the order of the real server.

use std::collections::HashSet;

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::kinds::core::service::{HEADLESS, SPEC, checks_health, is_reachable};
use crate::{kinds::{core::endpoints::validate_reachable, pod_spec::{in_port_range, one_of}}, object::{DuplicateCheck, Errors, Path, Tree, dns_label, dns_subdomain, port_name, qualified_name, range_problem, same, validate_address, validate_labels}};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 2] = ["Cluster", "Local"];
/// The maximum session affinity timeout, in seconds: one day.
const LONGEST_AFFINITY: i64 = 86_400;
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const ONLY_ONCE: &str = "may not change once set";

pub(in crate::kinds) fn validate(service: &Value, errors: &mut Errors) {
    let nothing = json!({});
    let spec = service.at(&["spec"]).unwrap_or(&nothing);
    let kind = spec.text(&["type"]);
    let ports = spec.items(&["ports"]);
    let list = SPEC.child("ports");
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.required(&list, "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let ips = SPEC.child("clusterIPs");
            errors.invalid(&ips.index(0), HEADLESS, &format!("may not be set to 'None' for {kind} services"));
        }
        "ExternalName" => validate_external_name(spec, errors),
        _ => {}
    }
    let mut names = DuplicateCheck::default();
    for (index, port) in ports.iter().enumerate() {
        validate_port(port, ports.len(), &mut names, &list.index(index), errors);
    }
    validate_labels(spec.at(&["selector"]), &SPEC.child("selector"), errors);
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], &SPEC, errors);
    if let Some(seconds) = spec.int(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"])
        && spec.text(&["sessionAffinity"]) == "ClientIP"
        && !(1..=LONGEST_AFFINITY).contains(&seconds)
    {
        let text = format!("must be greater than 0 and less than {LONGEST_AFFINITY}");
        errors.invalid(&SPEC.child("sessionAffinityConfig.clientIP.timeoutSeconds"), &seconds, &text);
    }
    if kind != "ExternalName" {
        validate_addresses(spec, errors);
    }
    let external = SPEC.child("externalIPs");
    for (index, ip) in spec.items(&["externalIPs"]).iter().enumerate() {
        let (text, place, before) = (ip.as_str().unwrap_or_default(), external.index(index), errors.len());
        validate_address(text, &place, errors);
        if errors.len() == before {
            validate_reachable(text, &place, errors);
        }
    }
    one_of(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], &SPEC, errors);
    validate_taken_ports(ports, kind, &list, errors);
    validate_balancer(spec, kind, errors);
    validate_traffic(spec, errors);
}

fn is_headless(spec: &Value) -> bool {
    matches!(spec.items(&["clusterIPs"]), [only] if *only == HEADLESS)
}

fn validate_external_name(spec: &Value, errors: &mut Errors) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec.at(&[field]).is_some() {
            errors.forbidden(&SPEC.child(field), "may not be set for ExternalName services");
        }
    }
    let target = spec.text(&["externalName"]);
    let (target, path) = (target.strip_suffix('.').unwrap_or(target), SPEC.child("externalName"));
    if target.is_empty() {
        errors.required(&path, "");
    } else {
        errors.invalid_each(&path, target, dns_subdomain(target));
    }
}

/// Validates one of `count` ports; `names` are those of the ports before it.
fn validate_port<'v>(
    port: &'v Value,
    count: usize,
    names: &mut DuplicateCheck<&'v str>,
    place: &Path<'_>,
    errors: &mut Errors,
) {
    let name = port.text(&["name"]);
    if name.is_empty() {
        if count > 1 {
            errors.required(&place.child("name"), "");
        }
    } else {
        errors.invalid_each(&place.child("name"), name, dns_label(name));
        if names.repeats(name) {
            errors.duplicate(&place.child("name"), name);
        }
    }
    in_port_range(port.int(&["port"]).unwrap_or_default(), &place.child("port"), errors);
    one_of(port, "protocol", &["SCTP", "TCP", "UDP"], place, errors);
    match port.at(&["targetPort"]) {
        Some(Value::Number(number)) => {
            in_port_range(number.as_i64().unwrap_or_default(), &place.child("targetPort"), errors);
        }
        Some(Value::String(name)) => errors.invalid_each(&place.child("targetPort"), name, port_name(name)),
        _ => {}
    }
    if let Some(protocol) = port.at(&["appProtocol"]).and_then(Value::as_str) {
        errors.invalid_each(&place.child("appProtocol"), protocol, qualified_name(protocol));
    }
}

/// Validates the cluster IPs and their families.
pub(super) fn validate_addresses(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("clusterIPs");
    let ips = spec.items(&["clusterIPs"]);
    let shown = spec.at(&["clusterIPs"]).unwrap_or(&Value::Null);
    match (spec.text(&["clusterIP"]), ips.first()) {
        ("", Some(_)) => errors.invalid(&path, shown, "must be empty when `clusterIP` is not specified"),
        ("", None) => {}
        (_, None) => errors.required(&path, ""),
        (first, Some(found)) if *found != first => {
            errors.invalid(&path, shown, "first value must match `clusterIP`");
        }
        _ => {}
    }
    let list = SPEC.child("ipFamilies");
    let families = spec.items(&["ipFamilies"]);
    let mut seen = DuplicateCheck::default();
    for (index, family) in families.iter().enumerate() {
        if !FAMILIES.iter().any(|known| family == known) {
            errors.unsupported(&list.index(index), family, &FAMILIES);
        }
        if seen.repeats(family) {
            errors.duplicate(&list.index(index), family);
        }
    }
    one_of(spec, "ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"], &SPEC, errors);
    let before = errors.len();
    for (index, ip) in ips.iter().enumerate() {
        if index == 0 && *ip == HEADLESS {
            if ips.len() > 1 {
                errors.invalid(&path, shown, "'None' must be the first and only value");
            }
            continue;
        }
        validate_address(ip.as_str().unwrap_or_default(), &path.index(index), errors);
    }
    let wrong = errors.len() > before;
    if ips.len() > 2 {
        errors.invalid(&path, shown, "may only hold up to 2 values");
    }
    if wrong {
        return;
    }
    let is_six = |ip: &Value| ip.as_str().and_then(|text| text.parse::<IpAddr>().ok()).is_some_and(|ip| ip.is_ipv6());
    let sixes = ips.iter().filter(|ip| is_six(ip)).count();
    if ips.len() > 1 && (sixes == 0 || sixes == ips.len()) {
        errors.invalid(&path, shown, "may specify no more than one IP for each IP family");
    }
    for (index, (ip, family)) in ips.iter().zip(families).enumerate().filter(|_| !is_headless(spec)) {
        if (family == "IPv4" && is_six(ip)) || (family == "IPv6" && !is_six(ip)) {
            let family = family.as_str().unwrap_or_default();
            let text = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&path.index(index), ip, &text);
        }
    }
}

/// Validates that ports and node ports are unique.
fn validate_taken_ports(ports: &[Value], kind: &str, list: &Path<'_>, errors: &mut Errors) {
    let on_nodes = |port: &Value| port.int(&["nodePort"]).filter(|port| *port != 0);
    let numbered = || ports.iter().enumerate().filter_map(|(index, port)| Some((index, port, on_nodes(port)?)));
    if kind == "ClusterIP" {
        for (index, ..) in numbered() {
            let place = list.index(index);
            errors.forbidden(&place.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = DuplicateCheck::default();
    for (index, port, number) in numbered() {
        if seen.repeats((number, port.text(&["protocol"]))) {
            errors.duplicate(&list.index(index).child("nodePort"), &number);
        }
    }
    let mut seen = DuplicateCheck::default();
    for (index, port) in ports.iter().enumerate() {
        if seen.repeats((port.int(&["port"]), port.text(&["protocol"]))) {
            // The value is shown with Go's field names.
            let shown = json!({
                "Name": "",
                "Protocol": port.text(&["protocol"]),
                "AppProtocol": null,
                "Port": port.int(&["port"]).unwrap_or_default(),
                "TargetPort": 0,
                "NodePort": 0,
            });
            errors.duplicate(&list.index(index), &shown);
        }
    }
}

/// Validates the fields of load balancers.
fn validate_balancer(spec: &Value, kind: &str, errors: &mut Errors) {
    let balanced = kind == "LoadBalancer";
    let path = SPEC.child("LoadBalancerSourceRanges");
    let ranges = spec.items(&["loadBalancerSourceRanges"]);
    if !balanced && !ranges.is_empty() {
        errors.forbidden(&path, ONLY_BALANCED);
    }
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or_default().trim();
        if let Some(problem) = range_problem(range) {
            errors.invalid(&path.index(index), range, problem);
        }
    }
    if !balanced && spec.at(&["allocateLoadBalancerNodePorts"]).is_some() {
        errors.forbidden(&SPEC.child("allocateLoadBalancerNodePorts"), ONLY_BALANCED);
    }
    validate_class(spec, errors);
}

fn validate_class(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("loadBalancerClass");
    match spec.at(&["loadBalancerClass"]).and_then(Value::as_str) {
        Some(class) if spec.text(&["type"]) == "LoadBalancer" => {
            errors.invalid_each(&path, class, qualified_name(class));
        }
        Some(_) => errors.forbidden(&path, ONLY_BALANCED),
        None => {}
    }
}

/// Validates the traffic policies.
fn validate_traffic(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("externalTrafficPolicy");
    let policy = spec.text(&["externalTrafficPolicy"]);
    match (is_reachable(spec), policy) {
        (false, "") => {}
        (false, _) => errors.invalid(&path, policy, "may only be set for externally-accessible services"),
        (true, "") => errors.required(&path, ""),
        (true, _) => one_of(spec, "externalTrafficPolicy", &POLICIES, &SPEC, errors),
    }
    let place = SPEC.child("healthCheckNodePort");
    match (checks_health(spec), spec.int(&["healthCheckNodePort"]).unwrap_or_default()) {
        (false, 0) => {}
        (false, port) => {
            let text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&place, &port, text);
        }
        (true, 0) => errors.required(&place, ""),
        (true, port) => in_port_range(port, &place, errors),
    }
    if let Some(policy) =
        spec.at(&["internalTrafficPolicy"]).filter(|policy| !POLICIES.iter().any(|known| *policy == known))
    {
        errors.unsupported(&SPEC.child("internalTrafficPolicy"), policy, &POLICIES);
    }
    const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(way) = spec.at(&["trafficDistribution"]).filter(|way| !DISTRIBUTIONS.iter().any(|known| *way == known))
    {
        errors.unsupported(&SPEC.child("trafficDistribution"), way, &DISTRIBUTIONS);
    }
}

pub(in crate::kinds) fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let nothing = json!({});
    let (spec, old_spec) = (new.at(&["spec"]).unwrap_or(&nothing), old.at(&["spec"]).unwrap_or(&nothing));
    let named = |spec: &Value| spec.text(&["type"]) == "ExternalName";
    if !named(spec) && !named(old_spec) {
        keep_addresses(spec, old_spec, errors);
    }
    let balanced = |spec: &Value| spec.text(&["type"]) == "LoadBalancer";
    let class = spec.at(&["loadBalancerClass"]);
    if balanced(spec) && balanced(old_spec) && !same(class, old_spec.at(&["loadBalancerClass"])) {
        errors.invalid(&SPEC.child("loadBalancerClass"), class.unwrap_or(&Value::Null), ONLY_ONCE);
    }
    validate_class(spec, errors);
    let port = |spec: &Value| spec.int(&["healthCheckNodePort"]);
    if checks_health(spec) && checks_health(old_spec) && port(spec) != port(old_spec) {
        errors.forbidden(&SPEC.child("healthCheckNodePort"), "field is immutable");
    }
}

/// Validates that the first address and its family do not change; a second one may be added or removed.
fn keep_addresses(spec: &Value, old_spec: &Value, errors: &mut Errors) {
    let (headless, was_headless) = (is_headless(spec), is_headless(old_spec));
    let single = || spec.text(&["ipFamilyPolicy"]) == "SingleStack";
    let policy = spec.at(&["ipFamilyPolicy"]).unwrap_or(&Value::Null);
    for (field, one, applies) in [
        ("clusterIPs", "clusterIP", !(headless && was_headless)),
        ("ipFamilies", "ipFamily", !headless && !was_headless),
    ] {
        if !applies {
            continue;
        }
        let (now, before) = (spec.items(&[field]), old_spec.items(&[field]));
        let shown = spec.at(&[field]).unwrap_or(&Value::Null);
        let list = SPEC.child(field);
        if now.len() == before.len() {
            for index in (0..now.len()).filter(|index| now[*index] != before[*index]) {
                errors.invalid(&list.index(if field == "clusterIPs" { index } else { 0 }), shown, ONLY_ONCE);
            }
            continue;
        }
        let released = now.len() < before.len();
        if released && spec.items(&["clusterIPs"]).is_empty() {
            errors.invalid(&list.index(0), shown, &format!("primary {one} can not be unset"));
        }
        if let (Some(now), Some(before)) = (now.first(), before.first())
            && now != before
        {
            errors.invalid(&list.index(0), spec.at(&["clusterIPs"]).unwrap_or(&Value::Null), ONLY_ONCE);
        }
        if released && now.len() == 1 && !single() {
            let text = format!("must be set to 'SingleStack' when releasing the secondary {one}");
            errors.invalid(&SPEC.child("ipFamilyPolicy"), policy, &text);
        }
    }
}

/// Validates the load balancer's ingress points; only services of type LoadBalancer have them.
pub(in crate::kinds) fn validate_status(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("status.loadBalancer.ingress");
    let doors = new.items(&["status", "loadBalancer", "ingress"]);
    if new.text(&["spec", "type"]) != "LoadBalancer" && !doors.is_empty() {
        return errors.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    let before: HashSet<&str> =
        old.items(&["status", "loadBalancer", "ingress"]).iter().map(|door| door.text(&["ip"])).collect();
    let known = |ip: &str| before.contains(ip);
    for (index, door) in doors.iter().enumerate() {
        let place = path.index(index);
        let (ip, mode) = (door.text(&["ip"]), door.at(&["ipMode"]));
        if !ip.is_empty() && !known(ip) {
            validate_address(ip, &place.child("ip"), errors);
        }
        match (mode, ip) {
            (None, "") => {}
            (None, _) => errors.required(&place.child("ipMode"), "must be specified when `ip` is set"),
            (Some(_), "") => errors.forbidden(&place.child("ipMode"), "may not be specified when `ip` is not set"),
            (Some(mode), _) if mode != "Proxy" && mode != "VIP" => {
                errors.unsupported(&place.child("ipMode"), mode, &["Proxy", "VIP"]);
            }
            _ => {}
        }
        let name = door.text(&["hostname"]);
        if !name.is_empty() {
            errors.invalid_each(&place.child("hostname"), name, dns_subdomain(name));
            if name.parse::<IpAddr>().is_ok() {
                errors.invalid(&place.child("hostname"), name, "must be a DNS name, not an IP address");
            }
        }
    }
}
