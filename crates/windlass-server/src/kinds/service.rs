//! Services: what of them may be written, and what may change. Their addresses and ports come from `addresses`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    KindOptions,
    pod_rules::{in_port_range, one_of},
    strategy::Allocator,
};
use crate::registry::{
    Errors, Path, Tree, address_problem, as_object, copy_key, default_pointer, default_to, dns_label, dns_subdomain,
    items_mut, object_mut, validate_labels,
};

mod addresses;

use addresses::Addresses;
pub use addresses::{InvalidServiceCidr, ServiceCidr};

const SPEC: Path<'static> = Path::new("spec");
/// What none of the services gets an address for.
const HEADLESS: &str = "None";

/// Where the services of a server get their addresses and ports from.
pub(super) fn allocator(options: &KindOptions) -> Arc<dyn Allocator> {
    Arc::new(Addresses::new(options.service_cidr, options.entropy.clone()))
}

fn checks_health(spec: &impl Tree) -> bool {
    spec.text(&["type"]) == "LoadBalancer" && spec.text(&["externalTrafficPolicy"]) == "Local"
}

pub(super) fn default(service: &mut Value) {
    let spec = object_mut(service, "spec");
    default_to(spec, "sessionAffinity", "None");
    match spec.text(&["sessionAffinity"]) {
        "None" => drop(spec.shift_remove("sessionAffinityConfig")),
        "ClientIP" if spec.at(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"]).is_none() => {
            spec.insert("sessionAffinityConfig".to_owned(), json!({"clientIP": {"timeoutSeconds": 10_800}}));
        }
        _ => {}
    }
    default_to(spec, "type", "ClusterIP");
    let kind = spec.text(&["type"]).to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        default_to(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        default_pointer(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default_pointer(spec, "allocateLoadBalancerNodePorts", true);
    }
    let balanced = kind == "LoadBalancer";
    if let Some(spec) = service.get_mut("spec") {
        for port in items_mut(spec, "ports") {
            let number = port.int(&["port"]).unwrap_or_default();
            let map = as_object(port);
            default_to(map, "protocol", "TCP");
            default_to(map, "targetPort", number);
        }
    }
    if let Some(balancer) = service.get_mut("status").and_then(|status| status.get_mut("loadBalancer")) {
        for ingress in items_mut(balancer, "ingress") {
            if balanced && !ingress.text(&["ip"]).is_empty() {
                default_pointer(as_object(ingress), "ipMode", "VIP");
            }
        }
    }
}

/// One address in two fields: whoever writes only one of them means both, and owns only the one.
pub(super) fn prepare_create(service: &mut Value) {
    let spec = object_mut(service, "spec");
    let first = spec.text(&["clusterIP"]).to_owned();
    if !first.is_empty() && spec.items(&["clusterIPs"]).is_empty() {
        spec.insert("clusterIPs".to_owned(), json!([first]));
    }
}

/// What the server has given stays when an update does not mention it, as long as the type allows it.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    prepare_create(new);
    let nothing = json!({});
    let old_spec = old.at(&["spec"]).unwrap_or(&nothing);
    let old_kind = old_spec.text(&["type"]);
    let spec = object_mut(new, "spec");
    let kind = spec.text(&["type"]).to_owned();
    if kind != "ExternalName" && old_kind != "ExternalName" {
        if spec.text(&["clusterIP"]).is_empty() && spec.items(&["clusterIPs"]).is_empty() {
            copy_key(spec, old_spec, "clusterIP");
            copy_key(spec, old_spec, "clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if spec.at(&[key]).is_none() {
                copy_key(spec, old_spec, key);
            }
        }
    }
    let checked = spec.int(&["healthCheckNodePort"]).unwrap_or_default();
    let checked_before = old_spec.int(&["healthCheckNodePort"]).unwrap_or_default();
    if checks_health(spec) && checked == 0 && checked_before != 0 {
        copy_key(spec, old_spec, "healthCheckNodePort");
    } else if !checks_health(spec) && checks_health(old_spec) && checked == checked_before {
        spec.shift_remove("healthCheckNodePort");
    }
    let has_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    let old_ports = old_spec.items(&["ports"]);
    let keeps = has_ports(&kind) && has_ports(old_kind);
    let loses = has_ports(old_kind) && !has_ports(&kind);
    if let Some(Value::Array(ports)) = spec.get_mut("ports") {
        for port in ports {
            let same = |old: &&Value| {
                old.int(&["port"]) == port.int(&["port"]) && old.text(&["protocol"]) == port.text(&["protocol"])
            };
            let old_port = old_ports.iter().find(same).and_then(|old| old.int(&["nodePort"]));
            let given = port.int(&["nodePort"]).filter(|port| *port != 0);
            if keeps && given.is_none() {
                if let Some(old_port) = old_port {
                    as_object(port).insert("nodePort".to_owned(), old_port.into());
                }
            } else if loses && given == old_port {
                as_object(port).shift_remove("nodePort");
            }
        }
    }
    if loses && spec.text(&["externalTrafficPolicy"]) == old_spec.text(&["externalTrafficPolicy"]) {
        spec.shift_remove("externalTrafficPolicy");
    }
    if kind == "ExternalName"
        && old_kind != "ExternalName"
        && spec.text(&["internalTrafficPolicy"]) == old_spec.text(&["internalTrafficPolicy"])
    {
        spec.shift_remove("internalTrafficPolicy");
    }
    if old_kind == "LoadBalancer" && kind != "LoadBalancer" {
        spec.shift_remove("allocateLoadBalancerNodePorts");
    }
}

pub(super) fn warnings(service: &Value, _old: Option<&Value>) -> Vec<String> {
    let is_plain =
        service.text(&["spec", "clusterIP"]) != HEADLESS && service.text(&["spec", "type"]) != "ExternalName";
    let headless = service.text(&["spec", "clusterIP"]) == HEADLESS;
    let mut told = Vec::new();
    if is_plain && !service.items(&["spec", "externalIPs"]).is_empty() {
        told.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if headless && service.text(&["spec", "sessionAffinity"]) == "ClientIP" {
        told.push("spec.SessionAffinity is ignored for headless services".to_owned());
    }
    told
}

pub(super) fn validate(service: &Value, errors: &mut Errors) {
    let nothing = json!({});
    let spec = service.at(&["spec"]).unwrap_or(&nothing);
    let kind = spec.text(&["type"]);
    let headless = spec.text(&["clusterIP"]) == HEADLESS;
    let ports = spec.items(&["ports"]);
    let list = SPEC.child("ports");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.required(&list, "");
    }
    let ips = SPEC.child("clusterIPs");
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            errors.invalid(&ips.index(0), HEADLESS, &format!("may not be set to 'None' for {kind} services"));
        }
        "ExternalName" => {
            if !spec.items(&["clusterIPs"]).is_empty() {
                errors.forbidden(&ips, "may not be set for ExternalName services");
            }
            let target = spec.text(&["externalName"]);
            let target = target.strip_suffix('.').unwrap_or(target);
            if target.is_empty() {
                errors.required(&SPEC.child("externalName"), "");
            } else {
                errors.invalid_each(&SPEC.child("externalName"), target, dns_subdomain(target));
            }
        }
        _ => {}
    }
    for (index, ip) in spec.items(&["clusterIPs"]).iter().enumerate() {
        let text = ip.as_str().unwrap_or_default();
        if text != HEADLESS && text.parse::<std::net::IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(&ips.index(index), text, why);
        }
    }
    for (index, port) in ports.iter().enumerate() {
        validate_port(port, index, ports, kind, errors);
    }
    validate_labels(spec.at(&["selector"]), &SPEC.child("selector"), errors);
    let external = SPEC.child("externalIPs");
    for (index, ip) in spec.items(&["externalIPs"]).iter().enumerate() {
        let text = ip.as_str().unwrap_or_default();
        if let Some(problem) = address_problem(text) {
            errors.invalid(&external.index(index), text, problem);
        }
    }
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], &SPEC, errors);
    one_of(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], &SPEC, errors);
    one_of(spec, "internalTrafficPolicy", &["Cluster", "Local"], &SPEC, errors);
    one_of(spec, "externalTrafficPolicy", &["Cluster", "Local"], &SPEC, errors);
    if spec.at(&["allocateLoadBalancerNodePorts"]).is_some() && kind != "LoadBalancer" {
        let text = "may only be used when `type` is 'LoadBalancer'";
        errors.forbidden(&SPEC.child("allocateLoadBalancerNodePorts"), text);
    }
}

fn validate_port(port: &Value, index: usize, all: &[Value], kind: &str, errors: &mut Errors) {
    let list = SPEC.child("ports");
    let place = list.index(index);
    let name = port.text(&["name"]);
    if name.is_empty() {
        if all.len() > 1 {
            errors.required(&place.child("name"), "");
        }
    } else {
        errors.invalid_each(&place.child("name"), name, dns_label(name));
        if all[..index].iter().any(|other| other.text(&["name"]) == name) {
            errors.duplicate(&place.child("name"), name);
        }
    }
    in_port_range(port.int(&["port"]).unwrap_or_default(), &place.child("port"), errors);
    one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &place, errors);
    match port.at(&["targetPort"]) {
        Some(Value::Number(number)) => {
            in_port_range(number.as_i64().unwrap_or_default(), &place.child("targetPort"), errors);
        }
        Some(Value::String(name)) => {
            errors.invalid_each(&place.child("targetPort"), name, crate::registry::port_name(name));
        }
        _ => {}
    }
    if kind == "ClusterIP" && port.int(&["nodePort"]).is_some_and(|port| port != 0) {
        errors.forbidden(&place.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
    }
    let same = |other: &&Value| {
        other.int(&["port"]) == port.int(&["port"]) && other.text(&["protocol"]) == port.text(&["protocol"])
    };
    if all[..index].iter().any(|other| same(&other)) {
        let number = port.int(&["port"]).unwrap_or_default();
        // The value is shown with the names of Go's fields.
        let shown = format!(
            "{{\"Name\":\"\",\"Protocol\":{:?},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
            port.text(&["protocol"])
        );
        errors.add(&place, "FieldValueDuplicate", format!("Duplicate value: {shown}"));
    }
}

pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    if new.text(&["spec", "type"]) == "ExternalName" || old.text(&["spec", "type"]) == "ExternalName" {
        return;
    }
    let first = |service: &Value| service.items(&["spec", "clusterIPs"]).first().cloned();
    let before = first(old);
    if before.is_some() && first(new) != before {
        let list = SPEC.child("clusterIPs");
        let shown = new.at(&["spec", "clusterIPs"]).cloned().unwrap_or_default();
        errors.invalid(&list.index(0), &shown, "may not change once set");
    }
}
