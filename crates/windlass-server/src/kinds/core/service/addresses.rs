//! The allocation of service addresses and ports.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    net::{IpAddr, Ipv4Addr},
    ops::RangeInclusive,
    str::FromStr,
    sync::Arc,
};

use parking_lot::Mutex;
use windlass_api::{Entropy, GroupKind, Status};

use crate::kinds::{
    core::service::{HEADLESS, needs_health_check, rules::validate_addresses},
    prelude::*,
};

const NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;

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

/// Allocates the addresses and ports of services. Initialized from the stored services when the server starts, and changed
/// by the writes of other servers to the same storage.
#[derive(Debug)]
pub(in crate::kinds) struct AddressAllocator {
    cidr: ServiceCidr,
    entropy: Entropy,
    /// The version in whose wording errors are reported.
    kubernetes: KubernetesVersion,
    /// The allocated addresses and ports, with the UIDs of their services: an event may arrive after another service has
    /// got the address.
    in_use: Mutex<BTreeMap<Claim, Box<str>>>,
}

/// An address or port of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Address(u32),
    Port(u16),
}

/// The addresses and ports that a write of a service allocates and releases. If dropped before the write, the allocated
/// ones are released.
pub(in crate::kinds) struct ServiceAllocation {
    allocator: Arc<AddressAllocator>,
    /// The name of the service, for errors.
    name: String,
    /// Its UID.
    owner: Box<str>,
    /// The addresses and ports of the service before the write.
    before: Vec<Claim>,
    /// The addresses and ports that the write adds.
    allocated: Vec<Claim>,
    /// The addresses and ports that the service no longer has after the write.
    unused: Vec<Claim>,
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

// === impl AddressAllocator ===

impl AddressAllocator {
    pub(in crate::kinds) fn new(cidr: ServiceCidr, entropy: Entropy, kubernetes: KubernetesVersion) -> Arc<Self> {
        Arc::new(Self { cidr, entropy, kubernetes, in_use: Mutex::default() })
    }

    /// Records the addresses and ports of a stored service as allocated.
    pub(in crate::kinds) fn restore(&self, service: &Value) {
        let mut in_use = self.in_use.lock();
        for claim in claims(service) {
            in_use.entry(claim).or_insert_with(|| owner(service));
        }
    }

    /// Releases the addresses and ports of a deleted service.
    pub(in crate::kinds) fn release_all(&self, service: &Value) {
        self.release(&claims(service), &owner(service));
    }

    /// Follows a change of a service by any server.
    pub(in crate::kinds) fn follow(&self, previous: Option<&Value>, current: Option<&Value>) {
        let kept = current.map(claims).unwrap_or_default();
        if let Some(previous) = previous {
            let released: Vec<Claim> = claims(previous).into_iter().filter(|claim| !kept.contains(claim)).collect();
            self.release(&released, &owner(previous));
        }
        if let Some(current) = current {
            self.restore(current);
        }
    }

    fn release(&self, claims: &[Claim], owner: &str) {
        let mut in_use = self.in_use.lock();
        for claim in claims {
            if in_use.get(claim).is_some_and(|found| **found == *owner) {
                in_use.remove(claim);
            }
        }
    }

    /// Allocates an address or port. Returns `false` if it is already allocated.
    fn take(&self, claim: Claim, owner: &Box<str>) -> bool {
        insert(&mut self.in_use.lock(), claim, owner)
    }

    /// Allocates a free address. Prefers the upper part of the range, because the lower part is for services that
    /// request a specific address.
    fn take_any_address(&self, owner: &Box<str>) -> Option<u32> {
        let size = self.cidr.size();
        let reserved = (size / 16).clamp(16, 256).min(size.saturating_sub(1));
        let offset = u32::try_from(self.entropy.below(u64::from(size - reserved))).unwrap_or_default();
        let upper = (0..size - reserved).map(|step| reserved + (offset + step) % (size - reserved));
        // The first address is excluded, because the service `kubernetes` requests it explicitly.
        let mut addresses = upper.chain(1..reserved).map(|index| self.cidr.network + 1 + index);
        let mut in_use = self.in_use.lock();
        addresses.find(|address| insert(&mut in_use, Claim::Address(*address), owner))
    }

    fn take_any_port(&self, owner: &Box<str>) -> Option<u16> {
        let (first, count) = (*NODE_PORTS.start(), NODE_PORTS.end() - NODE_PORTS.start() + 1);
        let offset = u16::try_from(self.entropy.below(u64::from(count))).unwrap_or_default();
        let mut ports = (0..count).map(|step| first + (offset + step) % count);
        let mut in_use = self.in_use.lock();
        ports.find(|port| insert(&mut in_use, Claim::Port(*port), owner))
    }
}

/// Allocates an address or port. Returns `false` if it is already allocated.
fn insert(in_use: &mut BTreeMap<Claim, Box<str>>, claim: Claim, owner: &Box<str>) -> bool {
    match in_use.entry(claim) {
        Entry::Vacant(free) => {
            free.insert(owner.clone());
            true
        }
        Entry::Occupied(_) => false,
    }
}

/// Returns the UID of a service.
fn owner(service: &Value) -> Box<str> {
    service.text(&["metadata", "uid"]).into()
}

/// Parses an IPv4 address, which may have leading zeros. Since 1.36, the validation rejects them.
fn ipv4_address(text: &str) -> Option<Ipv4Addr> {
    match parse_address(text)? {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    }
}

/// Returns the addresses and ports of a service.
fn claims(service: &Value) -> Vec<Claim> {
    let addresses = service.items(&["spec", "clusterIPs"]).iter().filter_map(|ip| ipv4_address(ip.as_str()?));
    let ports = service.items(&["spec", "ports"]).iter().filter_map(|port| port.int(&["nodePort"]));
    let ports = ports.chain(service.int(&["spec", "healthCheckNodePort"]));
    let ports = ports.filter_map(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
    addresses.map(|ip| Claim::Address(ip.into())).chain(ports.map(Claim::Port)).collect()
}

// === impl ServiceAllocation ===

impl ServiceAllocation {
    /// Allocates the addresses and ports of a new or changed service, and writes them into the service.
    pub(in crate::kinds) fn new(
        allocator: &Arc<AddressAllocator>,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<Self, Status> {
        let mut allocation = Self {
            allocator: Arc::clone(allocator),
            name: service.text(&["metadata", "name"]).to_owned(),
            owner: owner(service),
            before: old.map(claims).unwrap_or_default(),
            allocated: Vec::new(),
            unused: Vec::new(),
        };
        if service.text(&["spec", "type"]) == "ExternalName" {
            if old.is_some_and(|old| old.text(&["spec", "type"]) != "ExternalName") {
                let spec = object_mut(service, "spec");
                for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                    spec.shift_remove(key);
                }
            }
        } else {
            allocation.validate_request(&Field::object(service).child("spec"))?;
            allocation.allocate_address(object_mut(service, "spec"))?;
        }
        let spec = object_mut(service, "spec");
        allocation.allocate_ports(spec)?;
        allocation.allocate_health_check_port(spec)?;
        let after = claims(service);
        allocation.unused = allocation.before.iter().copied().filter(|claim| !after.contains(claim)).collect();
        Ok(allocation)
    }

    /// Validates the requested addresses and families before the allocation. They are thus reported without other
    /// errors.
    fn validate_request(&self, spec: &Field<'_>) -> Result<(), Status> {
        let mut errors = Errors::of(self.allocator.kubernetes);
        validate_addresses(spec, &mut errors);
        if errors.is_empty() {
            validate_families(spec, &mut errors);
        }
        errors.check(&GroupKind::new("", "Service"), &self.name)
    }

    fn allocate_address(&mut self, spec: &mut Map<String, Value>) -> Result<(), Status> {
        let requested = spec.text(&["clusterIP"]).to_owned();
        let address = if requested.is_empty() {
            let Some(address) = self.allocator.take_any_address(&self.owner) else {
                return Err(Status::internal("failed to allocate a serviceIP: range is full"));
            };
            self.allocated.push(Claim::Address(address));
            Ipv4Addr::from(address).to_string()
        } else if let Some(ip) = ipv4_address(&requested) {
            self.take_address(ip).map_err(|problem| {
                let detail = format!("failed to allocate IP {requested}: {problem}");
                self.rejection(&Path::new("spec.clusterIPs"), &json!([requested]), &detail)
            })?;
            requested
        } else if requested == HEADLESS {
            requested
        } else {
            // Validation reports the invalid address.
            return Ok(());
        };
        spec.insert("clusterIP".to_owned(), address.clone().into());
        if spec.items(&["clusterIPs"]).is_empty() {
            spec.insert("clusterIPs".to_owned(), json!([address]));
        }
        if spec.items(&["ipFamilies"]).is_empty() {
            let has_both = is_headless_without_selector(spec);
            spec.insert("ipFamilies".to_owned(), if has_both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) });
            default_pointer(spec, "ipFamilyPolicy", if has_both { "RequireDualStack" } else { "SingleStack" });
        }
        default_pointer(spec, "ipFamilyPolicy", "SingleStack");
        Ok(())
    }

    /// Allocates a requested address, or returns the reason why it is not available.
    fn take_address(&mut self, ip: Ipv4Addr) -> Result<(), &'static str> {
        // Cluster IPs are immutable; validation rejects changes.
        if self.before.iter().any(|claim| matches!(claim, Claim::Address(_))) {
            return Ok(());
        }
        if !self.allocator.cidr.contains(ip.into()) {
            return Err("the provided network does not match the current range");
        }
        if !self.allocator.take(Claim::Address(ip.into()), &self.owner) {
            return Err("provided IP is already allocated");
        }
        self.allocated.push(Claim::Address(ip.into()));
        Ok(())
    }

    fn allocate_ports(&mut self, spec: &mut Map<String, Value>) -> Result<(), Status> {
        let allocates = match spec.text(&["type"]) {
            "NodePort" => true,
            "LoadBalancer" => spec.at(&["allocateLoadBalancerNodePorts"]).and_then(Value::as_bool).unwrap_or(true),
            // Validation reports unsupported node ports.
            _ => return Ok(()),
        };
        let Some(Value::Array(ports)) = spec.get_mut("ports") else { return Ok(()) };
        for (index, port) in ports.iter_mut().enumerate() {
            let requested = port.int(&["nodePort"]).filter(|number| *number != 0);
            match requested.map(u16::try_from) {
                None if allocates => {
                    let number = self.allocate_any_port("failed to allocate a nodePort: range is full")?;
                    as_object(port).insert("nodePort".to_owned(), number.into());
                }
                Some(Ok(number)) => self.take_port(number).map_err(|detail| {
                    self.rejection(&Path::new("spec.ports").index(index).child("nodePort"), &number.into(), &detail)
                })?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Allocates a requested port, or returns the reason why it is not available.
    fn take_port(&mut self, number: u16) -> Result<(), String> {
        let claim = Claim::Port(number);
        if self.before.contains(&claim) {
            return Ok(());
        }
        if !NODE_PORTS.contains(&number) {
            let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
            return Err(format!("provided port is not in the valid range. The range of valid ports is {first}-{last}"));
        }
        // A service may use the same port for two protocols.
        if !self.allocated.contains(&claim) {
            if !self.allocator.take(claim, &self.owner) {
                return Err("provided port is already allocated".to_owned());
            }
            self.allocated.push(claim);
        }
        Ok(())
    }

    fn allocate_health_check_port(&mut self, spec: &mut Map<String, Value>) -> Result<(), Status> {
        if needs_health_check(spec) && spec.int(&["healthCheckNodePort"]).is_none_or(|port| port == 0) {
            let port = self.allocate_any_port("failed to allocate a HealthCheck NodePort: range is full")?;
            spec.insert("healthCheckNodePort".to_owned(), port.into());
        }
        Ok(())
    }

    /// Allocates a free port. `message` is the error if there is none.
    fn allocate_any_port(&mut self, message: &str) -> Result<u16, Status> {
        let port = self.allocator.take_any_port(&self.owner).ok_or_else(|| Status::internal(message))?;
        self.allocated.push(Claim::Port(port));
        Ok(port)
    }

    /// Returns the error for a requested address or port that is not available.
    fn rejection(&self, path: &Path<'_>, value: &Value, detail: &str) -> Status {
        let mut errors = Errors::of(self.allocator.kubernetes);
        errors.invalid(path, value, detail);
        Status::invalid(&GroupKind::new("", "Service"), &self.name, errors.into_causes())
    }
}

impl Allocation for ServiceAllocation {
    fn committed(mut self: Box<Self>, _item: &Item) {
        self.allocated.clear();
        self.allocator.release(&self.unused, &self.owner);
    }
}

impl Drop for ServiceAllocation {
    fn drop(&mut self) {
        self.allocator.release(&self.allocated, &self.owner);
    }
}

/// Reports whether this is a headless service without a selector, whose endpoints may be of any IP family.
fn is_headless_without_selector(spec: &impl Tree) -> bool {
    spec.text(&["clusterIP"]) == HEADLESS && spec.entries(&["selector"]).next().is_none()
}

/// Validates the requested IP families. The cluster only supports IPv4.
fn validate_families(spec: &Field<'_>, errors: &mut Errors) {
    if is_headless_without_selector(spec.json()) {
        return;
    }
    let policy = spec.child("ipFamilyPolicy");
    let families = spec.child("ipFamilies");
    // Without a policy, a service has a single family.
    if matches!(policy.text(), "" | "SingleStack") && families.len() == 2 {
        let text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
        return policy.invalid_as("SingleStack", text, errors);
    }
    if policy.text() == "RequireDualStack" {
        policy.invalid("this cluster is not configured for dual-stack services", errors);
    }
    for family in families.items().filter(|family| family.text() != "IPv4") {
        family.invalid("not configured on this cluster", errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(uid: &str, ip: &str, port: u16) -> Value {
        json!({"metadata": {"name": "s", "uid": uid},
            "spec": {"type": "NodePort", "clusterIP": ip, "clusterIPs": [ip], "ports": [{"port": 80, "nodePort": port}]}})
    }

    fn allocator() -> Arc<AddressAllocator> {
        AddressAllocator::new(ServiceCidr::default(), Entropy::seeded(1), KubernetesVersion::default())
    }

    fn is_free(allocator: &Arc<AddressAllocator>, ip: &str, port: u16) -> [bool; 2] {
        let mut in_use = allocator.in_use.lock().clone();
        let claims = [Claim::Address(ip.parse::<Ipv4Addr>().unwrap().into()), Claim::Port(port)];
        claims.map(|claim| insert(&mut in_use, claim, &"new".into()))
    }

    #[test]
    fn services_of_other_servers_keep_their_addresses_and_ports() {
        let allocator = allocator();
        let other = service("u1", "10.0.0.20", 30_001);
        allocator.follow(None, Some(&other));
        assert_eq!(is_free(&allocator, "10.0.0.20", 30_001), [false, false]);
        let requested = |uid: &str| {
            let mut new = service(uid, "10.0.0.20", 30_002);
            ServiceAllocation::new(&allocator, &mut new, None).err().map(|status| status.message)
        };
        let error = requested("u2").unwrap();
        assert!(error.contains("failed to allocate IP 10.0.0.20: provided IP is already allocated"), "{error}");
        let moved = service("u1", "10.0.0.20", 30_003);
        allocator.follow(Some(&other), Some(&moved));
        assert_eq!(is_free(&allocator, "10.0.0.20", 30_001), [false, true]);
        allocator.follow(Some(&moved), None);
        assert_eq!(is_free(&allocator, "10.0.0.20", 30_003), [true, true]);
        assert_eq!(requested("u3"), None);
    }

    #[test]
    fn late_event_of_a_deletion_releases_nothing_of_a_newer_service() {
        let allocator = allocator();
        let first = service("u1", "10.0.0.20", 30_001);
        allocator.restore(&first);
        allocator.release_all(&first);
        let mut second = service("u2", "10.0.0.20", 30_001);
        let allocation = ServiceAllocation::new(&allocator, &mut second, None).unwrap();
        allocator.follow(Some(&first), None);
        assert_eq!(is_free(&allocator, "10.0.0.20", 30_001), [false, false]);
        drop(allocation);
        assert_eq!(is_free(&allocator, "10.0.0.20", 30_001), [true, true]);
    }
}
