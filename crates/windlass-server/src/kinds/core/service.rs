//! Services: defaults, warnings and updates. `addresses` allocates their addresses and ports.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::kinds::{KindOptions, strategy::Allocator};
use crate::object::{Path, Tree, as_object, copy_key, default_pointer, default_to, first_by, items_mut, object_mut};

mod addresses;
mod rules;

use addresses::Addresses;
pub use addresses::{InvalidServiceCidr, ServiceCidr};
pub(super) use rules::{validate, validate_status, validate_update};

const SPEC: Path<'static> = Path::new("spec");
/// The cluster IP of headless services, which have no address.
const HEADLESS: &str = "None";

/// Creates the allocator of service addresses and ports.
pub(super) fn allocator(options: &KindOptions) -> Arc<dyn Allocator> {
    Arc::new(Addresses::new(options.service_cidr, options.entropy.clone()))
}

fn checks_health(spec: &impl Tree) -> bool {
    spec.text(&["type"]) == "LoadBalancer" && spec.text(&["externalTrafficPolicy"]) == "Local"
}

/// Reports whether the service accepts traffic from outside of the cluster.
fn is_reachable(spec: &impl Tree) -> bool {
    match spec.text(&["type"]) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.items(&["externalIPs"]).is_empty(),
        _ => false,
    }
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
    if is_reachable(spec) {
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

/// Copies `clusterIP` to `clusterIPs` if only the former is set. The client owns only the field that it has set.
pub(super) fn prepare_create(service: &mut Value) {
    let spec = object_mut(service, "spec");
    let first = spec.text(&["clusterIP"]).to_owned();
    if !first.is_empty() && spec.items(&["clusterIPs"]).is_empty() {
        spec.insert("clusterIPs".to_owned(), json!([first]));
    }
}

/// Keeps allocated values that an update omits, if the service type allows them.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    let nothing = json!({});
    let old_spec = old.at(&["spec"]).unwrap_or(&nothing);
    let old_kind = old_spec.text(&["type"]);
    let spec = object_mut(new, "spec");
    let kind = spec.text(&["type"]).to_owned();
    if kind != "ExternalName" && old_kind != "ExternalName" {
        if spec.text(&["clusterIP"]).is_empty() {
            copy_key(spec, old_spec, "clusterIP");
        }
        if spec.items(&["clusterIPs"]).is_empty() {
            copy_key(spec, old_spec, "clusterIPs");
        }
        follow_address(spec, old_spec);
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if spec.at(&[key]).is_none() {
                copy_key(spec, old_spec, key);
            }
        }
        let families = spec.items(&["ipFamilies"]);
        if spec.text(&["ipFamilyPolicy"]) == "SingleStack"
            && families.len() > 1
            && families == old_spec.items(&["ipFamilies"])
        {
            // A change from two families to one keeps the first.
            let first = json!(families[..1]);
            spec.insert("ipFamilies".to_owned(), first);
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
    let by_port = first_by(old_ports, |old| (old.int(&["port"]), old.text(&["protocol"])));
    if let Some(Value::Array(ports)) = spec.get_mut("ports") {
        for port in ports {
            let old = by_port.get(&(port.int(&["port"]), port.text(&["protocol"])));
            let old_port = old.and_then(|old| old.int(&["nodePort"]));
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

/// Updates `clusterIPs` if only `clusterIP` has changed.
fn follow_address(spec: &mut Map<String, Value>, old_spec: &Value) {
    let address = spec.text(&["clusterIP"]).to_owned();
    let same = address == old_spec.text(&["clusterIP"]);
    if same && spec.items(&["clusterIPs"]).is_empty() {
        copy_key(spec, old_spec, "clusterIPs");
    } else if !same && spec.items(&["clusterIPs"]) == old_spec.items(&["clusterIPs"]) {
        if address.is_empty() {
            spec.shift_remove("clusterIPs");
        } else {
            spec.insert("clusterIPs".to_owned(), json!([address]));
        }
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
    if headless && !service.text(&["spec", "loadBalancerIP"]).is_empty() {
        told.push("spec.loadBalancerIP is ignored for headless services".to_owned());
    }
    if service.text(&["spec", "type"]) != "ExternalName" && !service.text(&["spec", "externalName"]).is_empty() {
        told.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    told
}
