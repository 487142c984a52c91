//! The allocation of service addresses and ports.

use std::{collections::BTreeSet, fmt, net::Ipv4Addr, str::FromStr, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_api::{Entropy, GroupKind, Status};

use crate::kinds::core::service::rules::validate_addresses;
use crate::kinds::core::service::{HEADLESS, SPEC, checks_health};
use crate::{
    kinds::strategy::Allocator,
    object::{Errors, Tree, as_object, default_pointer, object_mut},
    resource::{Allocation, Item},
};

const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// The IPv4 address range of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCidr {
    network: u32,
    /// The length of the prefix, from 8 to 30 bits.
    bits: u8,
}

/// The text is not a valid service address range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an IPv4 range for services, such as 10.0.0.0/24")]
pub struct InvalidServiceCidr(String);

/// The allocated addresses and ports. Initialized from the stored services when the server starts.
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

/// An address or port of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Address(u32),
    Port(u16),
}

/// The addresses and ports that a write allocates and releases. If dropped before the write, the allocated ones are
/// released.
struct AllocatedAddresses {
    addresses: Arc<Addresses>,
    took: Vec<Claim>,
    gives_up: Vec<Claim>,
}

// === impl ServiceCidr ===

impl ServiceCidr {
    /// Returns the first address of the range, which the service `kubernetes` has.
    #[must_use]
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }

    /// Returns the number of usable addresses, without the network address and the last address.
    fn size(self) -> u32 {
        (1 << (32 - u32::from(self.bits))) - 2
    }

    fn contains(self, address: u32) -> bool {
        (1..=self.size()).contains(&address.wrapping_sub(self.network))
    }
}

impl Default for ServiceCidr {
    /// Returns `10.0.0.0/24`.
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

    fn give_back(&self, claims: &[Claim]) {
        let mut taken = self.taken.lock();
        for claim in claims {
            match claim {
                Claim::Address(address) => taken.addresses.remove(address),
                Claim::Port(port) => taken.ports.remove(port),
            };
        }
    }

    /// Allocates a free address. Prefers the upper part of the range, because the lower part is for services that
    /// request a specific address.
    fn take_any_address(&self) -> Option<u32> {
        let size = self.cidr.size();
        let reserved = (size / 16).clamp(16, 256).min(size.saturating_sub(1));
        let offset = u32::try_from(self.entropy.below(u64::from(size - reserved))).unwrap_or_default();
        let upper = (0..size - reserved).map(|step| reserved + (offset + step) % (size - reserved));
        let mut taken = self.taken.lock();
        // The first address is excluded, because the service `kubernetes` requests it explicitly.
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

impl Allocator for Addresses {
    fn allocate(self: Arc<Self>, new: &mut Value, old: Option<&Value>) -> Result<Option<Box<dyn Allocation>>, Status> {
        let before = old.map(claims).unwrap_or_default();
        let mut allocation = AllocatedAddresses { addresses: self, took: Vec::new(), gives_up: Vec::new() };
        let name = new.text(&["metadata", "name"]).to_owned();
        if new.text(&["spec", "type"]) == "ExternalName" {
            let spec = object_mut(new, "spec");
            if old.is_some_and(|old| old.text(&["spec", "type"]) != "ExternalName") {
                for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                    spec.shift_remove(key);
                }
            }
        } else {
            // Validated before the allocation, and thus reported without other errors.
            let mut errors = Errors::default();
            validate_addresses(new.at(&["spec"]).unwrap_or(&Value::Null), &mut errors);
            errors.check(&GroupKind::new("", "Service"), &name)?;
            allocate_address(&mut allocation, new, &before, &name)?;
        }
        allocate_ports(&mut allocation, new, &before, &name)?;
        allocate_health_check(&mut allocation, new)?;
        let after = claims(new);
        allocation.gives_up = before.into_iter().filter(|claim| !after.contains(claim)).collect();
        Ok(Some(Box::new(allocation)))
    }

    fn restore(&self, service: &Value) {
        let mut taken = self.taken.lock();
        for claim in claims(service) {
            taken.insert(claim);
        }
    }

    fn release(&self, service: &Value) {
        self.give_back(&claims(service));
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

/// Returns the addresses and ports of a service.
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

impl Allocation for AllocatedAddresses {
    fn committed(mut self: Box<Self>, _item: &Item) {
        self.took.clear();
        let gives_up = std::mem::take(&mut self.gives_up);
        self.addresses.give_back(&gives_up);
    }
}

impl Drop for AllocatedAddresses {
    fn drop(&mut self) {
        self.addresses.give_back(&self.took);
    }
}

fn allocate_address(
    allocation: &mut AllocatedAddresses,
    new: &mut Value,
    before: &[Claim],
    name: &str,
) -> Result<(), Status> {
    let spec = object_mut(new, "spec");
    check_families(spec, name)?;
    let asked = spec.text(&["clusterIP"]).to_owned();
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
        // Cluster IPs are immutable; validation rejects changes.
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
        // Validation reports the invalid address.
        return Ok(());
    };
    spec.insert("clusterIP".to_owned(), address.clone().into());
    if spec.items(&["clusterIPs"]).is_empty() {
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
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

fn allocate_ports(
    allocation: &mut AllocatedAddresses,
    new: &mut Value,
    before: &[Claim],
    name: &str,
) -> Result<(), Status> {
    let spec = object_mut(new, "spec");
    let wanted = match spec.text(&["type"]) {
        "NodePort" => true,
        "LoadBalancer" => spec.at(&["allocateLoadBalancerNodePorts"]).and_then(Value::as_bool).unwrap_or(true),
        // Validation reports unsupported node ports.
        _ => return Ok(()),
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
                    // A service may use the same port for two protocols.
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

/// Allocates the health check port. Load balancers with the external traffic policy `Local` use it to find the nodes
/// with pods.
fn allocate_health_check(allocation: &mut AllocatedAddresses, new: &mut Value) -> Result<(), Status> {
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

/// Validates the requested IP families. The cluster only supports IPv4.
fn check_families(spec: &impl Tree, name: &str) -> Result<(), Status> {
    if spec.text(&["clusterIP"]) == HEADLESS && spec.entries(&["selector"]).next().is_none() {
        return Ok(());
    }
    let mut errors = Errors::default();
    // Without a policy, a service has a single family.
    if matches!(spec.text(&["ipFamilyPolicy"]), "" | "SingleStack") && spec.items(&["ipFamilies"]).len() == 2 {
        let text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
        errors.invalid(&SPEC.child("ipFamilyPolicy"), "SingleStack", text);
        return errors.check(&GroupKind::new("", "Service"), name);
    }
    if spec.text(&["ipFamilyPolicy"]) == "RequireDualStack" {
        let text = "this cluster is not configured for dual-stack services";
        errors.invalid(&SPEC.child("ipFamilyPolicy"), "RequireDualStack", text);
    }
    let list = SPEC.child("ipFamilies");
    for (index, family) in spec.items(&["ipFamilies"]).iter().enumerate() {
        if family != "IPv4" {
            errors.invalid(&list.index(index), family, "not configured on this cluster");
        }
    }
    errors.check(&GroupKind::new("", "Service"), name)
}

// === defaults, updates and validation ===
