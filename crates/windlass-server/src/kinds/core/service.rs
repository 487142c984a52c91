//! The kind Service, and the addresses and ports that services claim.
//!
//! ```text
//! allocation       the claims of one write of a service
//! repair           creates missing claims, and releases those without a service
//!   └ addresses    claims on cluster IPs: IPAddresses
//!       └ cidr     the ranges of cluster IPs
//!   └ node_ports   claims on node ports: a bitmap
//! rules            validation
//! ```

use crate::kinds::prelude::*;

pub(in crate::kinds) use self::allocation::{allocate, release_all};
pub use self::cidr::{InvalidServiceCidr, ServiceCidr};
pub(crate) use self::{addresses::AddressAllocator, repair::start as start_repair};

mod addresses;
mod allocation;
mod cidr;
mod node_ports;
mod repair;
pub(in crate::kinds) mod rules;

/// The cluster IP of headless services, which have no address.
const HEADLESS: &str = "None";

pub(super) const KIND: Kind = Kind {
    name: "Service",
    prefix: Some("/registry/services/specs/"),
    rules: Rules {
        name: NameRule::Label,
        metadata: MetadataRule::CHANGES,
        create_on_update: true,
        returns_deleted: true,
        fields: &[
            FieldRule { label: "spec.clusterIP", path: "spec.clusterIP" },
            FieldRule { label: "spec.type", path: "spec.type" },
        ],
        changes_first: true,
        ..Rules::WITH_STATUS
    },
    default,
    prepare_create,
    prepare_update,
    validate: |service, errors| rules::validate_spec(&service.child("spec"), errors),
    validate_update: |new, old, errors| rules::validate_spec_update(&new.child("spec"), &old.child("spec"), errors),
    validate_status: rules::validate_status,
    warnings,
    ..BASE
};

fn default(service: &mut Value) {
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
    let is_balanced = spec.text(&["type"]) == "LoadBalancer";
    if accepts_external_traffic(spec) {
        default_to(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(spec.text(&["type"]), "NodePort" | "LoadBalancer" | "ClusterIP") {
        default_pointer(spec, "internalTrafficPolicy", "Cluster");
    }
    if is_balanced {
        default_pointer(spec, "allocateLoadBalancerNodePorts", true);
    }
    change_each(service, "spec.ports.*", |port| {
        let number = port.int(&["port"]).unwrap_or_default();
        default_to(port, "protocol", "TCP");
        default_to(port, "targetPort", number);
    });
    if is_balanced {
        change_each(service, "status.loadBalancer.ingress.*", |ingress| {
            if !ingress.text(&["ip"]).is_empty() {
                default_pointer(ingress, "ipMode", "VIP");
            }
        });
    }
}

/// Copies `clusterIP` to `clusterIPs` if only the former is set. The client owns only the field that it has set.
fn prepare_create(service: &mut Value, _write: &WriteContext<'_>) {
    let spec = object_mut(service, "spec");
    let first = spec.text(&["clusterIP"]).to_owned();
    if !first.is_empty() && spec.items(&["clusterIPs"]).is_empty() {
        spec.insert("clusterIPs".to_owned(), json!([first]));
    }
}

/// Keeps allocated values that an update omits, if the service type allows them.
fn prepare_update(new: &mut Value, old: &Value) {
    let old_spec = old.get("spec").unwrap_or(&Value::Null);
    let old_kind = old_spec.text(&["type"]);
    let spec = object_mut(new, "spec");
    let kind = spec.text(&["type"]).to_owned();
    let loses_node_ports = has_node_ports(old_spec) && !has_node_ports(spec);
    if kind != "ExternalName" && old_kind != "ExternalName" {
        keep_addresses(spec, old_spec);
    }
    keep_health_check_port(spec, old_spec);
    keep_node_ports(spec, old_spec);
    let mut remove_unchanged = |key: &str| {
        if spec.text(&[key]) == old_spec.text(&[key]) {
            spec.shift_remove(key);
        }
    };
    if loses_node_ports {
        remove_unchanged("externalTrafficPolicy");
    }
    if kind == "ExternalName" && old_kind != "ExternalName" {
        remove_unchanged("internalTrafficPolicy");
    }
    if old_kind == "LoadBalancer" && kind != "LoadBalancer" {
        spec.shift_remove("allocateLoadBalancerNodePorts");
    }
}

fn warnings(service: &Value, _old: Option<&Value>, warnings: &mut Vec<String>) {
    let text = |name: &str| service.text(&["spec", name]);
    let is_headless = text("clusterIP") == HEADLESS;
    let is_external_name = text("type") == "ExternalName";
    let has_external_ips = !service.items(&["spec", "externalIPs"]).is_empty();
    let texts = [
        (
            has_external_ips && !is_headless && !is_external_name,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (is_headless && text("sessionAffinity") == "ClientIP", "spec.SessionAffinity is ignored for headless services"),
        (is_headless && !text("loadBalancerIP").is_empty(), "spec.loadBalancerIP is ignored for headless services"),
        (
            !is_external_name && !text("externalName").is_empty(),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
    ];
    warnings.extend(texts.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text.to_owned()));
}

/// Reports whether the service may have node ports.
fn has_node_ports(spec: &impl Tree) -> bool {
    matches!(spec.text(&["type"]), "NodePort" | "LoadBalancer")
}

/// Reports whether the service needs a health check port: load balancers use it to find the nodes with pods.
fn needs_health_check(spec: &impl Tree) -> bool {
    spec.text(&["type"]) == "LoadBalancer" && spec.text(&["externalTrafficPolicy"]) == "Local"
}

/// Reports whether the service accepts traffic from outside of the cluster.
fn accepts_external_traffic(spec: &impl Tree) -> bool {
    match spec.text(&["type"]) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.items(&["externalIPs"]).is_empty(),
        _ => false,
    }
}

/// Keeps the cluster IPs and IP families that an update omits.
fn keep_addresses(spec: &mut Map<String, Value>, old_spec: &Value) {
    if spec.text(&["clusterIP"]).is_empty() {
        copy_key(spec, old_spec, "clusterIP");
    }
    if spec.items(&["clusterIPs"]).is_empty() {
        copy_key(spec, old_spec, "clusterIPs");
    }
    let address = spec.text(&["clusterIP"]).to_owned();
    let only_first_changed =
        address != old_spec.text(&["clusterIP"]) && spec.items(&["clusterIPs"]) == old_spec.items(&["clusterIPs"]);
    if only_first_changed {
        if address.is_empty() {
            spec.shift_remove("clusterIPs");
        } else {
            spec.insert("clusterIPs".to_owned(), json!([address]));
        }
    }
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

/// Keeps the health check port that an update omits. Removes an unchanged one that is no longer needed.
fn keep_health_check_port(spec: &mut Map<String, Value>, old_spec: &Value) {
    let port = spec.int(&["healthCheckNodePort"]).unwrap_or_default();
    let old_port = old_spec.int(&["healthCheckNodePort"]).unwrap_or_default();
    if needs_health_check(spec) && port == 0 && old_port != 0 {
        copy_key(spec, old_spec, "healthCheckNodePort");
    } else if !needs_health_check(spec) && needs_health_check(old_spec) && port == old_port {
        spec.shift_remove("healthCheckNodePort");
    }
}

/// Keeps the node ports that an update omits. Removes unchanged ones if the new service type has no node ports.
fn keep_node_ports(spec: &mut Map<String, Value>, old_spec: &Value) {
    if !has_node_ports(old_spec) {
        return;
    }
    let keeps = has_node_ports(spec);
    let old_ports = first_by(old_spec.items(&["ports"]), |port| (port.int(&["port"]), port.text(&["protocol"])));
    let Some(Value::Array(ports)) = spec.get_mut("ports") else { return };
    for port in ports {
        let old = old_ports.get(&(port.int(&["port"]), port.text(&["protocol"])));
        let old_number = old.and_then(|old| old.int(&["nodePort"]));
        let number = port.int(&["nodePort"]).filter(|number| *number != 0);
        if keeps && number.is_none() {
            if let Some(old_number) = old_number {
                as_object(port).insert("nodePort".to_owned(), old_number.into());
            }
        } else if !keeps && number == old_number {
            as_object(port).shift_remove("nodePort");
        }
    }
}
