//! The repair of claims: it creates missing ones, and releases those without a service.
//!
//! A server can end between a claim and the write of its service, or between the deletion of a service and the release of
//! its claims. Clients can change IPAddresses, too. As in kube-apiserver, a pass runs at the start, and every three
//! minutes if other servers share the storage. Without other servers, further passes run only after an IPAddress was
//! deleted that the server has not released, or if a pass has left something for later.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::{task::JoinSet, time};
use windlass_api::{Status, format_micro_time, parse_time};

use super::{
    HEADLESS,
    addresses::{
        self, AddressAllocator, FAMILY, MANAGED_BY, MANAGER, Owner, create, delete, family, ip_of, is_of_service,
        stored,
    },
    node_ports::{NodePorts, PortError, PortSet},
};
use crate::{
    kinds::prelude::*,
    registry::{Registry, WeakRegistry, WebhookCalls, WriteParams},
    resource::{Body, Target},
};

/// The time between two passes.
const INTERVAL: Duration = Duration::from_mins(3);

/// The age from which a claim without a service has leaked.
const LEAKED_AFTER: Duration = Duration::from_mins(1);

/// The age up to which a service may not have the address yet that it has claimed.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// The number of passes that leave a port without a service alone: the service may be about to be stored.
const SPARED: u32 = 2;

/// The number of attempts of a pass, if other servers change the ports at the same time.
const ATTEMPTS: usize = 10;

struct Repair {
    allocator: Arc<AddressAllocator>,
    registry: WeakRegistry,
    is_shared: bool,
    /// The ports without a service, and the number of further passes that spare them.
    leaks: BTreeMap<i64, u32>,
}

/// The services, by namespace and name.
type Services = BTreeMap<(String, String), Value>;

/// A verdict on an IPAddress.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Keep,
    /// It may be right later. The time after which it is checked again.
    Wait(Duration),
    /// The reason and the note of the event.
    Delete(&'static str, String),
}

/// Runs the first pass, and later ones until the returned tasks are dropped.
pub(crate) async fn start(allocator: &Arc<AddressAllocator>, registry: &Registry) -> JoinSet<()> {
    let mut repair = Repair {
        allocator: Arc::clone(allocator),
        registry: registry.downgrade(),
        is_shared: registry.storage().is_shared(),
        leaks: BTreeMap::new(),
    };
    // Without other servers, no service is being stored now.
    let grace = if repair.is_shared { LEAKED_AFTER } else { Duration::ZERO };
    // A failure must not keep the server from starting: it may be needed to remove the cause.
    let mut next = repair.checked_pass(registry, grace).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            repair.wait(next).await;
            let Some(registry) = repair.registry.upgrade() else { return };
            next = repair.checked_pass(&registry, LEAKED_AFTER).await;
        }
    });
    tasks
}

impl Repair {
    /// Waits until the next pass. `next` is the time after which the last one wants to check something again.
    async fn wait(&self, next: Option<Duration>) {
        match next {
            Some(next) => time::sleep(next.min(INTERVAL)).await,
            None if self.is_shared => time::sleep(INTERVAL).await,
            None => {
                self.allocator.changed.notified().await;
                time::sleep(INTERVAL).await;
            }
        }
    }

    /// Runs a pass. If it fails, the next one follows later.
    async fn checked_pass(&mut self, registry: &Registry, grace: Duration) -> Option<Duration> {
        self.pass(registry, grace).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the claims of services cannot be checked");
            Some(INTERVAL)
        })
    }

    /// Repairs everything. `grace` is the age from which a claim without a service has leaked. Returns the time after which
    /// something should be checked again.
    async fn pass(&mut self, registry: &Registry, grace: Duration) -> Result<Option<Duration>, Status> {
        for _ in 0..ATTEMPTS {
            if let Some(leaks) = self.repair_ports(registry, !grace.is_zero()).await? {
                self.leaks = leaks;
                break;
            }
        }
        let next = self.repair_addresses(registry, grace).await?;
        Ok(next.or_else(|| (!self.leaks.is_empty()).then_some(INTERVAL)))
    }

    /// Returns the ports without a service that are still claimed. Returns `None` if the ports were changed in the
    /// meantime.
    async fn repair_ports(&self, registry: &Registry, spares: bool) -> Result<Option<BTreeMap<i64, u32>>, Status> {
        let storage = &**registry.storage();
        // The ports are read first: the services of later claims are spared.
        let (revision, ports) = NodePorts::read(storage).await?;
        let services = services(registry).await?;
        let (rebuilt, leaks) = rebuild(&ports, services.values(), &self.leaks, spares);
        // kube-apiserver cannot claim ports before the value exists.
        if rebuilt == ports && (revision.is_some() || !self.is_shared) {
            return Ok(Some(leaks));
        }
        Ok(self.allocator.ports.replace(storage, revision, rebuilt).await?.then_some(leaks))
    }

    async fn repair_addresses(&self, registry: &Registry, grace: Duration) -> Result<Option<Duration>, Status> {
        let Some(resource) = addresses::addresses(registry) else { return Ok(None) };
        // The addresses are read first: a service that is stored afterwards has claimed its address before.
        let found = stored(&**registry.storage(), &resource).await?;
        let found: BTreeMap<IpAddr, Value> =
            found.into_iter().filter_map(|address| Some((ip_of(&address)?, address))).collect();
        let services = services(registry).await?;
        let mut next = None;
        for service in services.values() {
            for ip in cluster_ips(service) {
                if let Err(error) = self.repair_service(registry, service, ip, found.get(&ip), &services).await {
                    let Owner { namespace, name } = Owner::of(service);
                    tracing::warn!(%error, %ip, namespace, name, "the claim of a service cannot be repaired");
                    next = Some(INTERVAL);
                }
            }
        }
        for (ip, address) in &found {
            match verdict(*ip, address, &services, registry.clock().now(), grace) {
                Verdict::Keep => {}
                Verdict::Wait(time) => next = Some(next.map_or(time, |next: Duration| next.min(time))),
                Verdict::Delete(reason, note) => {
                    report(registry, "IPAddress", address, [reason, "IPAddressAllocation"], &note).await;
                    let target = Target::object(&resource, None, &ip.to_string());
                    if let Err(error) = delete(registry, &target, address.text(&["metadata", "uid"])).await {
                        tracing::warn!(%error, %ip, "a claim without a service cannot be released");
                        next = Some(INTERVAL);
                    }
                }
            }
        }
        Ok(next)
    }

    /// Creates or replaces the IPAddress of a service.
    async fn repair_service(
        &self,
        registry: &Registry,
        service: &Value,
        ip: IpAddr,
        address: Option<&Value>,
        services: &Services,
    ) -> Result<(), Status> {
        let owner = Owner::of(service);
        let family = family(ip);
        let tell = |reason: &'static str, note: String| async move {
            report(registry, "Service", service, [reason, "ClusterIPAllocation"], &note).await;
        };
        if let IpAddr::V4(ip) = ip
            && self.allocator.range_of(ip).is_none()
        {
            let note = format!(
                "Cluster IP [{family}]: {ip} is not within any configured Service CIDR; please recreate service"
            );
            tell("ClusterIPOutOfRange", note).await;
            return Ok(());
        }
        let Some(address) = address else {
            match create(registry, owner.claim(ip), WebhookCalls::Never).await {
                // It was claimed after the addresses were read.
                Err(status) if status.is_already_exists() => return Ok(()),
                result => result?,
            }
            tell("ClusterIPNotAllocated", format!("Cluster IP [{family}]: {ip} is not allocated; repairing")).await;
            return Ok(());
        };
        let parent = |field| address.text(&["spec", "parentRef", field]).to_owned();
        let other = services.get(&(parent("namespace"), parent("name")));
        if is_of_service(address)
            && !owner.owns(address)
            && let Some(other) = other
        {
            if cluster_ips(other).contains(&ip) {
                let note =
                    format!("Cluster IP [{family}]:{ip} was assigned to multiple services; please recreate service");
                tell("ClusterIPAlreadyAllocated", note).await;
            }
            return Ok(());
        }
        let label = |name| address.text(&["metadata", "labels", name]);
        let has_labels = label(FAMILY) == family && label(MANAGED_BY) == MANAGER;
        if owner.owns(address) && has_labels {
            return Ok(());
        }
        if !owner.owns(address) {
            let Owner { namespace, name } = &owner;
            let note = format!(
                "the ClusterIP [{family}]: {ip} for Service {namespace}/{name} has a wrong reference; repairing"
            );
            tell("ClusterIPNotAllocated", note).await;
        }
        let Some(resource) = addresses::addresses(registry) else { return Ok(()) };
        let target = Target::object(&resource, None, &ip.to_string());
        delete(registry, &target, address.text(&["metadata", "uid"])).await?;
        match create(registry, owner.claim(ip), WebhookCalls::Never).await {
            Err(status) if !status.is_already_exists() => Err(status),
            _ => Ok(()),
        }
    }
}

/// Returns the ports that should be in use, and those of them without a service. `spares` is `false` if no service can be
/// about to be stored.
fn rebuild<'s>(
    ports: &PortSet,
    services: impl Iterator<Item = &'s Value>,
    spared: &BTreeMap<i64, u32>,
    spares: bool,
) -> (PortSet, BTreeMap<i64, u32>) {
    let mut rebuilt = PortSet::new(ports.range());
    let mut without_service = ports.clone();
    for service in services {
        let Owner { namespace, name } = Owner::of(service);
        for port in node_ports(service) {
            match rebuilt.take(port) {
                Ok(()) if !ports.contains(port) => {
                    tracing::warn!(port, namespace, name, "the node port of a service is not allocated; repairing");
                }
                Ok(()) => without_service.release(port),
                Err(error @ (PortError::Allocated | PortError::OutOfRange(_) | PortError::Full)) => {
                    tracing::warn!(port, namespace, name, %error, "recreate the service to get another node port");
                }
            }
        }
    }
    let mut leaks = BTreeMap::new();
    for port in without_service.iter() {
        let left = spared.get(&port).copied().unwrap_or(SPARED);
        if !spares || left == 0 {
            tracing::warn!(port, "a node port has no service; releasing it");
        } else if rebuilt.take(port).is_ok() {
            leaks.insert(port, left - 1);
        }
    }
    (rebuilt, leaks)
}

fn verdict(ip: IpAddr, address: &Value, services: &Services, now: Timestamp, grace: Duration) -> Verdict {
    if address.text(&["metadata", "labels", MANAGED_BY]) != MANAGER {
        return Verdict::Keep;
    }
    let parent = |field| address.text(&["spec", "parentRef", field]);
    if !is_of_service(address) {
        let note = format!("IPAddress {ip} appears to have been modified, not referencing a Service: cleaning up");
        return Verdict::Delete("IPAddressNotAllocated", note);
    }
    let created = parse_time(address.text(&["metadata", "creationTimestamp"])).unwrap_or(now);
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    let (namespace, name) = (parent("namespace"), parent("name"));
    let Some(service) = services.get(&(namespace.to_owned(), name.to_owned())) else {
        if !grace.is_zero() && age <= grace {
            return Verdict::Wait(grace.saturating_sub(age) + Duration::from_secs(1));
        }
        let note = format!("IPAddress: {ip} for Service {namespace}/{name} appears to have leaked: cleaning up");
        return Verdict::Delete("IPAddressNotAllocated", note);
    };
    if cluster_ips(service).contains(&ip) {
        return Verdict::Keep;
    }
    let is_external = service.text(&["spec", "type"]) == "ExternalName";
    if is_external && age < grace {
        return Verdict::Wait(grace.saturating_sub(age));
    }
    if age < SETTLED_AFTER.min(grace) {
        return Verdict::Wait(SETTLED_AFTER);
    }
    let note = format!("IPAddress: {ip} for Service {namespace}/{name} has a wrong reference; cleaning up");
    Verdict::Delete("IPAddressWrongReference", note)
}

async fn services(registry: &Registry) -> Result<Services, Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get("", "v1", "services") else { return Ok(Services::new()) };
    let services = stored(&**registry.storage(), resource).await?.into_iter();
    Ok(services
        .map(|service| {
            let Owner { namespace, name } = Owner::of(&service);
            ((namespace, name), service)
        })
        .collect())
}

fn cluster_ips(service: &Value) -> Vec<IpAddr> {
    let texts = service.items(&["spec", "clusterIPs"]).iter().filter_map(Value::as_str);
    texts.filter(|text| *text != HEADLESS).filter_map(parse_address).collect()
}

fn node_ports(service: &Value) -> BTreeSet<i64> {
    let ports = service.items(&["spec", "ports"]).iter().filter_map(|port| port.int(&["nodePort"]));
    ports.chain(service.int(&["spec", "healthCheckNodePort"])).filter(|port| *port != 0).collect()
}

/// Logs a repair, and creates an Event about the object.
async fn report(registry: &Registry, kind: &str, object: &Value, [reason, action]: [&str; 2], note: &str) {
    const REPORTER: &str = "ipallocator-repair-controller";
    tracing::warn!(reason, "{note}");
    let resources = registry.resources();
    let Some(events) = resources.get("events.k8s.io", "v1", "events") else { return };
    let text = |field| object.text(&["metadata", field]);
    let namespace = Some(text("namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or("default");
    let event = json!({
        "metadata": {"name": format!("{}.{:016x}", text("name"), registry.entropy().next_u64()), "namespace": namespace},
        "eventTime": format_micro_time(registry.clock().now()),
        "reportingController": REPORTER,
        "reportingInstance": REPORTER,
        "action": action,
        "reason": reason,
        "regarding": {
            "kind": kind,
            "namespace": object.at(&["metadata", "namespace"]).cloned().unwrap_or_default(),
            "name": text("name"),
            "uid": text("uid"),
            "apiVersion": object.text(&["apiVersion"]),
            "resourceVersion": text("resourceVersion"),
        },
        "note": note,
        "type": "Warning",
    });
    let params = WriteParams {
        field_manager: "kube-apiserver".to_owned(),
        webhooks: WebhookCalls::Never,
        ..WriteParams::default()
    };
    if let Err(error) = registry.create(&Target::collection(events, Some(namespace)), Body::Value(event), params).await
    {
        tracing::warn!(%error, "the event about a repaired claim cannot be created");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, ips: &[&str], ports: &[i64]) -> Value {
        let ports: Vec<_> = ports.iter().map(|port| json!({"port": 80, "nodePort": port})).collect();
        json!({"metadata": {"namespace": "n", "name": name}, "spec": {"clusterIPs": ips, "ports": ports}})
    }

    #[test]
    fn ports_without_service_are_spared_twice() {
        let mut ports = PortSet::new(30_000..=30_099);
        for port in [30_001, 30_002] {
            ports.take(port).unwrap();
        }
        let services = [service("a", &[], &[30_001, 30_003])];
        let mut leaks = BTreeMap::new();
        for expected in [vec![30_001, 30_002, 30_003], vec![30_001, 30_002, 30_003], vec![30_001, 30_003]] {
            let (rebuilt, left) = rebuild(&ports, services.iter(), &leaks, true);
            assert_eq!(rebuilt.iter().collect::<Vec<_>>(), expected);
            (ports, leaks) = (rebuilt, left);
        }
        ports.take(30_004).unwrap();
        let (rebuilt, _) = rebuild(&ports, services.iter(), &BTreeMap::new(), false);
        assert_eq!(rebuilt.iter().collect::<Vec<_>>(), [30_001, 30_003], "no service is being stored");
    }

    #[test]
    fn address_without_service_is_deleted_after_a_minute() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let ip: IpAddr = "10.0.0.9".parse().unwrap();
        let address = |created: &str, owner: &str| {
            let mut claim = Owner { namespace: "n".to_owned(), name: owner.to_owned() }.claim(ip);
            claim["metadata"]["creationTimestamp"] = created.into();
            claim
        };
        let named = |service: Value| (("n".to_owned(), "a".to_owned()), service);
        let with = Services::from([named(service("a", &["10.0.0.9"], &[]))]);
        let other = Services::from([named(service("a", &["10.0.0.8"], &[]))]);
        let old = address("2026-01-01T00:58:00Z", "a");
        assert_eq!(verdict(ip, &old, &with, now, LEAKED_AFTER), Verdict::Keep);
        let none = Services::new();
        for services in [&none, &other] {
            assert!(matches!(verdict(ip, &old, services, now, LEAKED_AFTER), Verdict::Delete(..)));
        }
        for (created, services) in [("2026-01-01T00:59:30Z", &none), ("2026-01-01T00:59:58Z", &other)] {
            let address = address(created, "a");
            assert!(matches!(verdict(ip, &address, services, now, LEAKED_AFTER), Verdict::Wait(_)), "{created}");
            assert!(matches!(verdict(ip, &address, services, now, Duration::ZERO), Verdict::Delete(..)), "{created}");
        }
        let mut foreign = old;
        foreign["metadata"]["labels"][MANAGED_BY] = "somebody".into();
        assert_eq!(verdict(ip, &foreign, &Services::new(), now, LEAKED_AFTER), Verdict::Keep);
    }
}
