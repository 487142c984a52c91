//! The claims of services on cluster IPs and node ports.
//!
//! Several API servers can use one storage, so a claim is an object that can be created only once: an IPAddress for each
//! cluster IP, as in kube-apiserver, and a bit in the value of [`NodePorts`] for each node port. The memory of this
//! server only helps to find addresses that are probably free.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, OnceLock},
};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_api::{Entropy, Preconditions, Status};

use super::{cidr::AddressRange, node_ports::NodePorts};
use crate::{
    identity::User,
    kinds::prelude::*,
    registry::{DeleteParams, Registry, WeakRegistry, WebhookCalls, WriteParams},
    resource::{Body, ResourceInfo, Target},
    storage::{RangeQuery, Storage},
};

pub(super) const GROUP: &str = "networking.k8s.io";
/// The label of the IP family, and that of the program which manages an IPAddress.
pub(super) const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
pub(super) const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// The value of the latter for the addresses of services.
pub(super) const MANAGER: &str = "ipallocator.k8s.io";
/// The default range.
const DEFAULT: &str = "kubernetes";

/// The number of times that the ranges are read again, because they have changed in the meantime.
const REFRESHES: usize = 3;

/// Claims the addresses and ports of services.
pub(crate) struct AddressAllocator {
    pub(super) entropy: Entropy,
    /// The version in whose wording errors are reported.
    pub(super) kubernetes: KubernetesVersion,
    pub(super) ports: NodePorts,
    registry: OnceLock<WeakRegistry>,
    known: Mutex<Known>,
    /// Wakes the repair after a client has deleted an IPAddress.
    pub(super) changed: Notify,
}

/// The ServiceCIDRs and the IPAddresses that this server has seen. Those of other servers come later.
#[derive(Debug, Default)]
struct Known {
    ranges: Ranges,
    /// The number of changes of `ranges`.
    range_changes: u64,
    addresses: BTreeSet<IpAddr>,
}

/// The IPv4 ranges of the ServiceCIDRs that are ready, by name.
type Ranges = BTreeMap<String, Vec<AddressRange>>;

/// The service that claims an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The reason why an address cannot be claimed.
#[derive(Debug)]
pub(super) enum AddressError {
    /// No address is free.
    Full,
    Allocated,
    /// No range contains the address.
    OutOfRange,
    /// The IPAddress cannot be created.
    Failed(Box<Status>),
}

impl AddressError {
    fn failed(status: Status) -> Self {
        Self::Failed(Box::new(status))
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("range is full"),
            Self::Allocated => f.write_str("provided IP is already allocated"),
            Self::OutOfRange => f.write_str("the provided network does not match the current range"),
            Self::Failed(status) => f.write_str(&status.message),
        }
    }
}

impl Owner {
    pub(super) fn of(service: &Value) -> Self {
        let text = |field| service.text(&["metadata", field]).to_owned();
        Self { namespace: text("namespace"), name: text("name") }
    }

    /// Reports whether an IPAddress belongs to this service.
    pub(super) fn owns(&self, address: &Value) -> bool {
        let text = |field| address.text(&["spec", "parentRef", field]);
        is_of_service(address) && text("namespace") == self.namespace && text("name") == self.name
    }

    /// Returns the IPAddress with which the service claims an address.
    pub(super) fn claim(&self, ip: IpAddr) -> Value {
        json!({
            "metadata": {
                "name": ip.to_string(),
                "labels": {FAMILY: family(ip), MANAGED_BY: MANAGER},
            },
            "spec": {"parentRef": {"resource": "services", "namespace": self.namespace, "name": self.name}},
        })
    }
}

pub(super) fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Reports whether the parent of an IPAddress is a service.
pub(super) fn is_of_service(address: &Value) -> bool {
    let text = |field| address.text(&["spec", "parentRef", field]);
    text("group").is_empty() && text("resource") == "services"
}

// === impl AddressAllocator ===

impl AddressAllocator {
    pub(crate) fn new(entropy: Entropy, kubernetes: KubernetesVersion) -> Arc<Self> {
        Arc::new(Self {
            entropy,
            kubernetes,
            ports: NodePorts::default(),
            registry: OnceLock::new(),
            known: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Sets the registry that stores the claims.
    pub(crate) fn attach(&self, registry: &Registry) {
        // Set once, when the server starts.
        let _ = self.registry.set(registry.downgrade());
    }

    pub(super) fn registry(&self) -> Result<Registry, Status> {
        let registry = self.registry.get().and_then(WeakRegistry::upgrade);
        registry.ok_or_else(|| Status::internal("claiming an address of a service: the server is stopping"))
    }

    /// Records an existing or changed ServiceCIDR.
    pub(in crate::kinds) fn record_range(&self, range: &Value) {
        let mut known = self.known.lock();
        known.range_changes += 1;
        match ready_range(range) {
            Some((name, parts)) => drop(known.ranges.insert(name, parts)),
            None => drop(known.ranges.remove(name_of(range))),
        }
    }

    pub(in crate::kinds) fn forget_range(&self, range: &Value) {
        let mut known = self.known.lock();
        known.range_changes += 1;
        known.ranges.remove(name_of(range));
    }

    /// Records that these are all ServiceCIDRs.
    pub(in crate::kinds) fn record_all_ranges(&self, ranges: &[Value]) {
        self.known.lock().replace_ranges(ranges.iter().filter_map(ready_range).collect());
    }

    /// Records an existing IPAddress.
    pub(in crate::kinds) fn record_address(&self, address: &Value) {
        if let Some(ip) = ip_of(address) {
            self.known.lock().addresses.insert(ip);
        }
    }

    /// Records that these are all IPAddresses.
    pub(in crate::kinds) fn record_all_addresses(&self, addresses: &[Value]) {
        let mut all = addresses.iter().filter_map(ip_of).collect();
        std::mem::swap(&mut self.known.lock().addresses, &mut all);
        // A client may have deleted one.
        self.changed.notify_one();
    }

    /// Forgets an IPAddress that has been deleted, by another server, too.
    pub(in crate::kinds) fn forget_address(&self, address: &Value) {
        let Some(ip) = ip_of(address) else { return };
        // An address that this server releases is already forgotten.
        if self.known.lock().addresses.remove(&ip) {
            self.changed.notify_one();
        }
    }

    /// Returns the range that contains an address.
    pub(super) fn range_of(&self, ip: Ipv4Addr) -> Option<AddressRange> {
        self.known.lock().ranges.values().flatten().copied().find(|range| range.contains(ip))
    }

    /// Returns the IPv4 ranges, the default one first.
    pub(super) fn ranges(&self) -> Vec<AddressRange> {
        let known = self.known.lock();
        let first = known.ranges.get(DEFAULT).into_iter().flatten();
        let others = known.ranges.iter().filter(|(name, _)| *name != DEFAULT).flat_map(|(_, ranges)| ranges);
        first.chain(others).copied().collect()
    }

    /// Claims an address that a service requests.
    pub(super) async fn take_address(
        &self,
        ip: Ipv4Addr,
        owner: &Owner,
        hooks: WebhookCalls,
    ) -> Result<(), AddressError> {
        let registry = self.registry().map_err(AddressError::failed)?;
        if self.range_of(ip).is_none() {
            // Another server may have created the range just now.
            self.refresh(&registry).await.map_err(AddressError::failed)?;
            self.range_of(ip).ok_or(AddressError::OutOfRange)?;
        }
        match create(&registry, owner.claim(ip.into()), hooks).await {
            Err(status) if status.is_already_exists() => Err(AddressError::Allocated),
            Err(status) => Err(AddressError::failed(status)),
            Ok(()) => Ok(()),
        }
    }

    /// Claims a free address.
    pub(super) async fn take_any_address(&self, owner: &Owner, hooks: WebhookCalls) -> Result<Ipv4Addr, AddressError> {
        let registry = self.registry().map_err(AddressError::failed)?;
        for is_refreshed in [false, true] {
            if is_refreshed {
                // Other servers may have released addresses or created ranges just now.
                self.refresh(&registry).await.map_err(AddressError::failed)?;
            }
            for range in self.ranges() {
                if let Some(ip) = self.take_from(&registry, range, owner, hooks).await? {
                    return Ok(ip);
                }
            }
        }
        Err(AddressError::Full)
    }

    /// Claims a free address of a range. Prefers the upper part, because the lower part is for services that request a
    /// specific address.
    async fn take_from(
        &self,
        registry: &Registry,
        range: AddressRange,
        owner: &Owner,
        hooks: WebhookCalls,
    ) -> Result<Option<Ipv4Addr>, AddressError> {
        let (size, reserved) = (range.size(), range.reserved());
        for (first, count) in [(reserved, size - reserved), (0, reserved)] {
            if count == 0 {
                continue;
            }
            let offset = u32::try_from(self.entropy.below(u64::from(count))).unwrap_or_default();
            let mut candidates = (0..count).map(|step| {
                let index = (u64::from(offset) + u64::from(step)) % u64::from(count);
                range.at(first + u32::try_from(index).unwrap_or_default())
            });
            loop {
                let free = {
                    let known = self.known.lock();
                    candidates.find(|ip| !known.addresses.contains(&IpAddr::V4(*ip)))
                };
                let Some(ip) = free else { break };
                match create(registry, owner.claim(ip.into()), hooks).await {
                    Ok(()) => return Ok(Some(ip)),
                    // Another server was faster.
                    Err(status) if status.is_already_exists() => drop(self.known.lock().addresses.insert(ip.into())),
                    Err(status) => return Err(AddressError::failed(status)),
                }
            }
        }
        Ok(None)
    }

    /// Deletes the IPAddress of a service. One that belongs to another service stays.
    pub(super) async fn release_address(&self, registry: &Registry, ip: IpAddr, owner: &Owner) -> Result<(), Status> {
        let Some(addresses) = addresses(registry) else { return Ok(()) };
        let target = Target::object(&addresses, None, &ip.to_string());
        let Some(found) = registry.peek(&target).await? else { return Ok(()) };
        let found = found.value();
        if !owner.owns(&found) {
            return Ok(());
        }
        self.known.lock().addresses.remove(&ip);
        delete(registry, &target, found.text(&["metadata", "uid"])).await
    }

    /// Reads all ranges and addresses.
    async fn refresh(&self, registry: &Registry) -> Result<(), Status> {
        let resources = registry.resources();
        let read = |plural| -> BoxFuture<'_, _> {
            let resource = resources.get(GROUP, "v1", plural).cloned();
            Box::pin(async move {
                match resource {
                    Some(resource) => stored(&**registry.storage(), &resource).await,
                    None => Ok(Vec::new()),
                }
            })
        };
        self.refresh_from(read).await
    }

    /// Replaces the known ranges and addresses by those that `read` returns. Until then, they stay in use.
    async fn refresh_from<'r>(
        &self,
        mut read: impl FnMut(&'static str) -> BoxFuture<'r, Result<Vec<Value>, Status>>,
    ) -> Result<(), Status> {
        for _ in 0..REFRESHES {
            let changes = self.known.lock().range_changes;
            let ranges = read("servicecidrs").await?.iter().filter_map(ready_range).collect();
            let mut addresses = read("ipaddresses").await?.iter().filter_map(ip_of).collect();
            let mut known = self.known.lock();
            std::mem::swap(&mut known.addresses, &mut addresses);
            // A change in the meantime may be later than these ranges. An address that was released or claimed in the
            // meantime is found out by claiming it.
            if known.range_changes == changes {
                known.replace_ranges(ranges);
                break;
            }
        }
        Ok(())
    }
}

impl Known {
    fn replace_ranges(&mut self, ranges: Ranges) {
        // Several refreshes at a time must not invalidate each other.
        if self.ranges != ranges {
            self.range_changes += 1;
            self.ranges = ranges;
        }
    }
}

impl fmt::Debug for AddressAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressAllocator").field("known", &self.known).finish_non_exhaustive()
    }
}

/// Returns the name and the IPv4 ranges of a ServiceCIDR, if it is ready.
fn ready_range(range: &Value) -> Option<(String, Vec<AddressRange>)> {
    let texts = range.items(&["spec", "cidrs"]).iter().filter_map(Value::as_str);
    is_ready(range).then(|| (name_of(range).to_owned(), texts.filter_map(AddressRange::parse).collect()))
}

fn name_of(object: &Value) -> &str {
    object.text(&["metadata", "name"])
}

/// Reports whether addresses of a ServiceCIDR may be given to services.
fn is_ready(range: &Value) -> bool {
    let conditions = range.items(&["status", "conditions"]);
    let ready = conditions.iter().find(|condition| condition.text(&["type"]) == "Ready");
    range.at(&["metadata", "deletionTimestamp"]).is_none()
        && ready.is_none_or(|ready| ready.text(&["status"]) == "True")
}

/// Returns the address that an IPAddress claims.
pub(super) fn ip_of(address: &Value) -> Option<IpAddr> {
    name_of(address).parse().ok()
}

/// Returns the stored objects of a resource. Damaged ones are omitted.
pub(super) async fn stored(storage: &dyn Storage, resource: &ResourceInfo) -> Result<Vec<Value>, Status> {
    let range = storage.range(RangeQuery::prefix(resource.prefix.clone())).await;
    let range = range.map_err(|error| crate::registry::storage_failure(&error))?;
    Ok(range.values.iter().filter_map(|value| Item::stored(value).ok()).map(|item| item.value()).collect())
}

/// Returns the resource of IPAddresses.
pub(super) fn addresses(registry: &Registry) -> Option<Arc<ResourceInfo>> {
    registry.resources().get(GROUP, "v1", "ipaddresses").cloned()
}

/// Creates an IPAddress.
pub(super) fn create(registry: &Registry, address: Value, hooks: WebhookCalls) -> BoxFuture<'_, Result<(), Status>> {
    Box::pin(async move {
        let Some(addresses) = addresses(registry) else { return Ok(()) };
        let user = User::own();
        let params =
            WriteParams { field_manager: "kube-apiserver".to_owned(), user, webhooks: hooks, ..WriteParams::default() };
        registry.create(&Target::collection(&addresses, None), Body::Value(address), params).await.map(drop)
    })
}

/// Deletes an IPAddress, unless it has been replaced.
pub(super) fn delete<'r>(registry: &'r Registry, target: &'r Target, uid: &str) -> BoxFuture<'r, Result<(), Status>> {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
    let params = DeleteParams { preconditions, user: User::own(), ..DeleteParams::default() };
    Box::pin(async move {
        match registry.delete(target, params).await {
            Err(status) if !status.is_not_found() && !status.is_conflict() => Err(status),
            _ => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_used_while_it_is_ready() {
        let allocator = AddressAllocator::new(Entropy::seeded(1), KubernetesVersion::default());
        let range = |status: &str, deleted: Option<&str>| {
            json!({"metadata": {"name": "a", "deletionTimestamp": deleted}, "spec": {"cidrs": ["10.9.0.0/30", "fd00::/112"]},
                "status": {"conditions": [{"type": "Ready", "status": status}]}})
        };
        let uses = |range: Value| {
            allocator.record_range(&range);
            allocator.range_of(Ipv4Addr::new(10, 9, 0, 1)).is_some()
        };
        assert!(uses(json!({"metadata": {"name": "a"}, "spec": {"cidrs": ["10.9.0.0/30"]}})), "without a status");
        assert!(!uses(range("False", None)));
        let mut ready = range("True", None);
        ready["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
        assert!(uses(ready));
        assert!(!uses(range("True", Some("2026-01-01T00:00:00Z"))));
    }

    #[test]
    fn all_ranges_and_addresses_replace_those_that_are_gone() {
        let allocator = AddressAllocator::new(Entropy::seeded(1), KubernetesVersion::default());
        let range = |name: &str, cidr: &str| json!({"metadata": {"name": name}, "spec": {"cidrs": [cidr]}});
        let claim = |name: &str| json!({"metadata": {"name": name}});
        allocator.record_range(&range("gone", "10.8.0.0/30"));
        allocator.record_address(&claim("10.9.0.1"));
        allocator.record_all_ranges(&[range("kept", "10.9.0.0/30")]);
        allocator.record_all_addresses(&[claim("10.9.0.2")]);
        assert_eq!(allocator.range_of(Ipv4Addr::new(10, 8, 0, 1)), None);
        assert_eq!(allocator.ranges(), [AddressRange::parse("10.9.0.0/30").unwrap()]);
        let known: Vec<_> = allocator.known.lock().addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(known, ["10.9.0.2"]);
    }

    #[tokio::test]
    async fn refresh_keeps_later_changes_of_ranges() {
        let allocator = AddressAllocator::new(Entropy::seeded(1), KubernetesVersion::default());
        let range = |name: &str, cidr: &str| json!({"metadata": {"name": name}, "spec": {"cidrs": [cidr]}});
        let (deleted, kept) = (range("deleted", "10.8.0.0/30"), range("kept", "10.9.0.0/30"));
        allocator.record_range(&deleted);
        allocator.record_range(&kept);
        let mut reads = 0;
        let refreshed = allocator.refresh_from(|plural| {
            assert!(allocator.range_of(Ipv4Addr::new(10, 9, 0, 1)).is_some(), "known during the refresh");
            if plural != "servicecidrs" {
                return Box::pin(async { Ok(vec![json!({"metadata": {"name": "10.9.0.2"}})]) });
            }
            reads += 1;
            let mut found = vec![kept.clone()];
            if reads == 1 {
                // Deleted after it was read.
                allocator.forget_range(&deleted);
                found.push(deleted.clone());
            } else {
                found.push(range("new", "10.10.0.0/30"));
            }
            Box::pin(async { Ok(found) })
        });
        refreshed.await.unwrap();
        let expected = ["10.9.0.0/30", "10.10.0.0/30"].map(|text| AddressRange::parse(text).unwrap());
        assert_eq!(allocator.ranges(), expected);
        assert!(allocator.known.lock().addresses.contains(&"10.9.0.2".parse().unwrap()));
    }

    #[test]
    fn claim_belongs_to_its_service_only() {
        let owner = |name: &str| Owner { namespace: "n".to_owned(), name: name.to_owned() };
        let mut claim = owner("a").claim("10.0.0.9".parse().unwrap());
        assert_eq!([owner("a").owns(&claim), owner("b").owns(&claim)], [true, false]);
        claim["spec"]["parentRef"]["resource"] = "gateways".into();
        assert!(!owner("a").owns(&claim));
    }
}
