//! Services: their addresses and node ports, and what of them may change.

use std::{collections::BTreeSet, fmt, net::Ipv4Addr, str::FromStr, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_api::{Entropy, GroupKind, Status};

use super::pod_rules::{in_port_range, one_of};
use crate::registry::{
    Effect, Errors, Item, Path, Tree, address_problem, as_object, copy_key, default_pointer, default_to, dns_label,
    dns_subdomain, items_mut, object_mut, validate_labels,
};

const SPEC: Path<'static> = Path::new("spec");
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
/// What none of the services gets an address for.
const HEADLESS: &str = "None";

/// The range of IPv4 addresses that services get theirs from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCidr {
    network: u32,
    /// Of the prefix, from 8 to 30.
    bits: u8,
}

/// A text that is no range for services.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no IPv4 range for services, such as 10.0.0.0/24")]
pub struct InvalidServiceCidr(String);

/// The addresses and ports that are taken. Filled from the stored services when the server starts.
#[derive(Debug)]
pub(super) struct Addresses {
    cidr: ServiceCidr,
    entropy: Entropy,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<u16>,
}

/// What a service has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Address(u32),
    Port(u16),
}

/// What a write takes and gives up. Dropped, it gives back what it took.
struct Allocation {
    addresses: Arc<Addresses>,
    took: Vec<Claim>,
    gives_up: Vec<Claim>,
}

// === impl ServiceCidr ===

impl ServiceCidr {
    /// The address of the service `kubernetes`: the first of the range.
    #[must_use]
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }

    /// How many services can have an address: not the network's own, not the last one.
    fn size(self) -> u32 {
        (1 << (32 - u32::from(self.bits))) - 2
    }

    fn contains(self, address: u32) -> bool {
        (1..=self.size()).contains(&address.wrapping_sub(self.network))
    }
}

impl Default for ServiceCidr {
    /// `10.0.0.0/24`
    fn default() -> Self {
        Self { network: u32::from(Ipv4Addr::new(10, 0, 0, 0)), bits: 24 }
    }
}

impl FromStr for ServiceCidr {
    type Err = InvalidServiceCidr;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidServiceCidr(text.to_owned());
        let (address, bits) = text.split_once('/').ok_or_else(invalid)?;
        let address: Ipv4Addr = address.parse().map_err(|_| invalid())?;
        let bits: u8 = bits.parse().ok().filter(|bits| (8..=30).contains(bits)).ok_or_else(invalid)?;
        Ok(Self { network: u32::from(address) & (u32::MAX << (32 - u32::from(bits))), bits })
    }
}

impl fmt::Display for ServiceCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.network), self.bits)
    }
}

// === impl Addresses ===

impl Addresses {
    pub(super) fn new(cidr: ServiceCidr, entropy: Entropy) -> Self {
        Self { cidr, entropy, taken: Mutex::default() }
    }

    /// Takes note of a stored service.
    pub(super) fn restore(&self, service: &Value) {
        let mut taken = self.taken.lock();
        for claim in claims(service) {
            taken.insert(claim);
        }
    }

    /// Takes note that a service is gone.
    pub(super) fn release(&self, service: &Value) {
        self.give_back(&claims(service));
    }

    fn give_back(&self, claims: &[Claim]) {
        let mut taken = self.taken.lock();
        for claim in claims {
            match claim {
                Claim::Address(address) => taken.addresses.remove(address),
                Claim::Port(port) => taken.ports.remove(port),
            };
        }
    }

    /// A free address: of the upper part of the range, so that the lower one is left to those who choose their own.
    fn take_any_address(&self) -> Option<u32> {
        let size = self.cidr.size();
        let reserved = (size / 16).clamp(16, 256).min(size.saturating_sub(1));
        let offset = u32::try_from(self.entropy.below(u64::from(size - reserved))).unwrap_or_default();
        let upper = (0..size - reserved).map(|step| reserved + (offset + step) % (size - reserved));
        let mut taken = self.taken.lock();
        // The first address is that of the service `kubernetes`, which asks for it by name.
        let mut all = upper.chain(1..reserved).map(|at| self.cidr.network + 1 + at);
        let address = all.find(|address| !taken.addresses.contains(address))?;
        taken.addresses.insert(address);
        Some(address)
    }

    fn take_any_port(&self) -> Option<u16> {
        let (first, count) = (*NODE_PORTS.start(), NODE_PORTS.end() - NODE_PORTS.start() + 1);
        let offset = u16::try_from(self.entropy.below(u64::from(count))).unwrap_or_default();
        let mut taken = self.taken.lock();
        let port = (0..count).map(|step| first + (offset + step) % count).find(|port| !taken.ports.contains(port))?;
        taken.ports.insert(port);
        Some(port)
    }
}

impl Taken {
    fn insert(&mut self, claim: Claim) -> bool {
        match claim {
            Claim::Address(address) => self.addresses.insert(address),
            Claim::Port(port) => self.ports.insert(port),
        }
    }
}

/// What a service has.
fn claims(service: &Value) -> Vec<Claim> {
    let addresses =
        service.items(&["spec", "clusterIPs"]).iter().filter_map(|ip| ip.as_str()?.parse::<Ipv4Addr>().ok());
    let mut claims: Vec<Claim> = addresses.map(|ip| Claim::Address(ip.into())).collect();
    let ports = service.items(&["spec", "ports"]).iter().filter_map(|port| port.int(&["nodePort"]));
    let ports = ports.chain(service.int(&["spec", "healthCheckNodePort"]));
    claims.extend(ports.filter_map(|port| u16::try_from(port).ok()).filter(|port| *port != 0).map(Claim::Port));
    claims.dedup();
    claims
}

// === allocation ===

impl Effect for Allocation {
    fn committed(mut self: Box<Self>, _item: &Item) {
        self.took.clear();
        let gives_up = std::mem::take(&mut self.gives_up);
        self.addresses.give_back(&gives_up);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.addresses.give_back(&self.took);
    }
}

/// Gives a service what it needs, and gives up what it no longer does.
pub(super) fn allocate(
    addresses: &Arc<Addresses>,
    new: &mut Value,
    old: Option<&Value>,
) -> Result<Option<Box<dyn Effect>>, Status> {
    let before = old.map(claims).unwrap_or_default();
    let mut allocation = Allocation { addresses: Arc::clone(addresses), took: Vec::new(), gives_up: Vec::new() };
    let name = new.text(&["metadata", "name"]).to_owned();
    if new.text(&["spec", "type"]) == "ExternalName" {
        let spec = object_mut(new, "spec");
        if old.is_some_and(|old| old.text(&["spec", "type"]) != "ExternalName") {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                spec.shift_remove(key);
            }
        }
    } else {
        allocate_address(&mut allocation, new, &before, &name)?;
    }
    allocate_ports(&mut allocation, new, &before, &name)?;
    allocate_health_check(&mut allocation, new)?;
    let after = claims(new);
    allocation.gives_up = before.into_iter().filter(|claim| !after.contains(claim)).collect();
    Ok(Some(Box::new(allocation)))
}

fn allocate_address(allocation: &mut Allocation, new: &mut Value, before: &[Claim], name: &str) -> Result<(), Status> {
    let spec = object_mut(new, "spec");
    check_families(spec, name)?;
    let asked = match spec.text(&["clusterIP"]) {
        "" => spec.items(&["clusterIPs"]).first().and_then(Value::as_str).unwrap_or_default().to_owned(),
        asked => asked.to_owned(),
    };
    let path = SPEC.child("clusterIPs");
    let refuse = |value: &str, why: &str| {
        let mut errors = Errors::default();
        errors.invalid(&path, &json!([value]), why);
        errors.check(&GroupKind::new("", "Service"), name)
    };
    let address = if asked.is_empty() {
        let Some(address) = allocation.addresses.take_any_address() else {
            return Err(Status::internal("failed to allocate a serviceIP: range is full"));
        };
        allocation.took.push(Claim::Address(address));
        Ipv4Addr::from(address).to_string()
    } else if let Ok(ip) = asked.parse::<Ipv4Addr>() {
        let claim = Claim::Address(ip.into());
        // Who has an address keeps it for life: validation will say so.
        if !before.iter().any(|claim| matches!(claim, Claim::Address(_))) {
            let cidr = allocation.addresses.cidr;
            if !cidr.contains(ip.into()) {
                let why = "the provided network does not match the current range";
                return refuse(&asked, &format!("failed to allocate IP {asked}: {why}"));
            }
            if !allocation.addresses.taken.lock().insert(claim) {
                return refuse(&asked, &format!("failed to allocate IP {asked}: provided IP is already allocated"));
            }
            allocation.took.push(claim);
        }
        asked
    } else if asked == HEADLESS {
        asked
    } else {
        // Validation will say what is wrong with it.
        return Ok(());
    };
    spec.insert("clusterIP".to_owned(), address.clone().into());
    spec.insert("clusterIPs".to_owned(), json!([address]));
    let selects = spec.entries(&["selector"]).next().is_some();
    let families = spec.items(&["ipFamilies"]).is_empty();
    if families {
        let both = address == HEADLESS && !selects;
        spec.insert("ipFamilies".to_owned(), if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) });
        default_pointer(spec, "ipFamilyPolicy", if both { "RequireDualStack" } else { "SingleStack" });
    }
    default_pointer(spec, "ipFamilyPolicy", "SingleStack");
    Ok(())
}

fn allocate_ports(allocation: &mut Allocation, new: &mut Value, before: &[Claim], name: &str) -> Result<(), Status> {
    let spec = object_mut(new, "spec");
    let wanted = match spec.text(&["type"]) {
        "NodePort" => true,
        "LoadBalancer" => spec.at(&["allocateLoadBalancerNodePorts"]).and_then(Value::as_bool).unwrap_or(true),
        _ => false,
    };
    let Some(Value::Array(ports)) = spec.get_mut("ports") else { return Ok(()) };
    for (index, port) in ports.iter_mut().enumerate() {
        let asked = port.int(&["nodePort"]).filter(|port| *port != 0);
        match asked.map(u16::try_from) {
            None if wanted => {
                let Some(number) = allocation.addresses.take_any_port() else {
                    return Err(Status::internal("failed to allocate a nodePort: range is full"));
                };
                allocation.took.push(Claim::Port(number));
                as_object(port).insert("nodePort".to_owned(), number.into());
            }
            Some(Ok(number)) if !before.contains(&Claim::Port(number)) => {
                let list = SPEC.child("ports");
                let path = list.index(index);
                let mut errors = Errors::default();
                if !NODE_PORTS.contains(&number) {
                    let (low, high) = (NODE_PORTS.start(), NODE_PORTS.end());
                    let why =
                        format!("provided port is not in the valid range. The range of valid ports is {low}-{high}");
                    errors.invalid(&path.child("nodePort"), &i64::from(number), &why);
                } else if !allocation.took.contains(&Claim::Port(number)) {
                    // The same port may serve two protocols of one service.
                    if allocation.addresses.taken.lock().insert(Claim::Port(number)) {
                        allocation.took.push(Claim::Port(number));
                    } else {
                        errors.invalid(
                            &path.child("nodePort"),
                            &i64::from(number),
                            "provided port is already allocated",
                        );
                    }
                }
                errors.check(&GroupKind::new("", "Service"), name)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Balancers that keep clients' addresses ask each node whether it has a pod; the service says on which port.
fn allocate_health_check(allocation: &mut Allocation, new: &mut Value) -> Result<(), Status> {
    let spec = object_mut(new, "spec");
    if !checks_health(spec) || spec.int(&["healthCheckNodePort"]).is_some_and(|port| port != 0) {
        return Ok(());
    }
    let Some(port) = allocation.addresses.take_any_port() else {
        return Err(Status::internal("failed to allocate a HealthCheck NodePort: range is full"));
    };
    allocation.took.push(Claim::Port(port));
    spec.insert("healthCheckNodePort".to_owned(), port.into());
    Ok(())
}

fn checks_health(spec: &impl Tree) -> bool {
    spec.text(&["type"]) == "LoadBalancer" && spec.text(&["externalTrafficPolicy"]) == "Local"
}

/// What the addresses that are asked for need and this cluster has not: it has IPv4 only.
fn check_families(spec: &impl Tree, name: &str) -> Result<(), Status> {
    if spec.text(&["clusterIP"]) == HEADLESS && spec.entries(&["selector"]).next().is_none() {
        return Ok(());
    }
    let mut errors = Errors::default();
    let list = SPEC.child("ipFamilies");
    for (index, family) in spec.items(&["ipFamilies"]).iter().enumerate() {
        if family != "IPv4" {
            errors.invalid(&list.index(index), family, "not configured on this cluster");
        }
    }
    if spec.text(&["ipFamilyPolicy"]) == "RequireDualStack" {
        let text = "this cluster is not configured for dual-stack services";
        errors.invalid(&SPEC.child("ipFamilyPolicy"), "RequireDualStack", text);
    }
    errors.check(&GroupKind::new("", "Service"), name)
}

// === defaults, changes, rules ===

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
    let warns = is_plain && !service.items(&["spec", "externalIPs"]).is_empty();
    let text = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
    if warns { vec![text.to_owned()] } else { Vec::new() }
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
