//! The claims of one write of a service.

use std::{net::IpAddr, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use windlass_api::{GroupKind, Status};

use super::{
    HEADLESS,
    addresses::{AddressAllocator, AddressError, Owner},
    needs_health_check,
    node_ports::{NodePorts, PortError, PortSet},
    rules::validate_addresses,
};
use crate::{kinds::prelude::*, registry::WebhookCalls, resource::AllocationMode};

/// The port of the first node port in a dry run, which claims no port: a guess that is as good as any other.
const DRY_RUN_PORT: i64 = 32_769;

/// The addresses and ports that a write of a service claims and releases.
///
/// If dropped before the write, the claims are released in the background. If the result of the write is unknown, they
/// stay: the service may have been stored. The repair releases them if it was not.
struct ServiceAllocation {
    allocator: Arc<AddressAllocator>,
    owner: Owner,
    mode: AllocationMode,
    /// The claims of the service before the write.
    before: Claims,
    /// The claims that the write adds.
    added: Claims,
    /// The claims that the service no longer needs after the write.
    unused: Claims,
    /// `true` while the write is being stored.
    is_storing: bool,
}

/// Addresses and ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Claims {
    addresses: Vec<IpAddr>,
    ports: Vec<i64>,
}

/// The error of a claim on a port, and the field that requested the port.
enum PortFailure {
    /// The index of the service port, and its node port.
    Requested(usize, i64, PortError),
    Any(PortError),
    HealthCheck(i64, PortError),
}

/// Claims the addresses and ports of a new or changed service, and writes them into the service.
pub(in crate::kinds) async fn allocate(
    allocator: &Arc<AddressAllocator>,
    service: &mut Value,
    old: Option<&Value>,
    mode: AllocationMode,
) -> Result<Box<dyn Allocation>, Status> {
    let mut allocation = Box::new(ServiceAllocation {
        allocator: Arc::clone(allocator),
        owner: Owner::of(service),
        mode,
        before: old.map(Claims::of).unwrap_or_default(),
        added: Claims::default(),
        unused: Claims::default(),
        is_storing: false,
    });
    match allocation.fill(service, old).await {
        Ok(()) => Ok(allocation),
        Err(status) => {
            allocation.revert().await;
            Err(status)
        }
    }
}

/// Releases the addresses and ports of a deleted service.
pub(in crate::kinds) async fn release_all(allocator: &Arc<AddressAllocator>, service: &Value) {
    Claims::of(service).release(allocator, &Owner::of(service)).await;
}

// === impl Claims ===

impl Claims {
    /// Returns the addresses and ports of a service.
    fn of(service: &Value) -> Self {
        let addresses = service.items(&["spec", "clusterIPs"]).iter().filter_map(|ip| parse_address(ip.as_str()?));
        let ports = service.items(&["spec", "ports"]).iter().filter_map(|port| port.int(&["nodePort"]));
        let ports = ports.chain(service.int(&["spec", "healthCheckNodePort"])).filter(|port| *port != 0);
        Self { addresses: addresses.collect(), ports: ports.collect() }
    }

    fn without(&self, others: &Self) -> Self {
        Self {
            addresses: self.addresses.iter().copied().filter(|ip| !others.addresses.contains(ip)).collect(),
            ports: self.ports.iter().copied().filter(|port| !others.ports.contains(port)).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.ports.is_empty()
    }

    /// Releases the claims. Failures are logged: the repair releases the claims later.
    async fn release(self, allocator: &AddressAllocator, owner: &Owner) {
        if self.is_empty() {
            return;
        }
        let Ok(registry) = allocator.registry() else { return };
        let (namespace, name) = (&owner.namespace, &owner.name);
        for ip in self.addresses {
            if let Err(error) = allocator.release_address(&registry, ip, owner).await {
                tracing::warn!(%error, %ip, namespace, name, "the cluster IP of a service cannot be released yet");
            }
        }
        if self.ports.is_empty() {
            return;
        }
        let release = |ports: &mut PortSet| {
            self.ports.iter().for_each(|port| ports.release(*port));
            Ok::<_, PortError>(())
        };
        if let Err(error) = allocator.ports.change(&**registry.storage(), release).await {
            tracing::warn!(%error, namespace, name, "the node ports of a service cannot be released yet");
        }
    }
}

// === impl ServiceAllocation ===

impl ServiceAllocation {
    async fn fill(&mut self, service: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if service.text(&["spec", "type"]) == "ExternalName" {
            if old.is_some_and(|old| old.text(&["spec", "type"]) != "ExternalName") {
                let spec = object_mut(service, "spec");
                for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                    spec.shift_remove(key);
                }
            }
        } else {
            self.validate_request(&Field::object(service).child("spec"))?;
            self.claim_address(object_mut(service, "spec")).await?;
        }
        self.claim_ports(object_mut(service, "spec"), old).await?;
        self.unused = self.before.without(&Claims::of(service));
        Ok(())
    }

    /// Validates the requested addresses and families before the allocation. They are thus reported without other
    /// errors.
    fn validate_request(&self, spec: &Field<'_>) -> Result<(), Status> {
        let mut errors = Errors::of(self.allocator.kubernetes);
        validate_addresses(spec, &mut errors);
        if errors.is_empty() {
            validate_families(spec, &mut errors);
        }
        errors.check(&GroupKind::new("", "Service"), &self.owner.name)
    }

    async fn claim_address(&mut self, spec: &mut Map<String, Value>) -> Result<(), Status> {
        let requested = spec.text(&["clusterIP"]).to_owned();
        let address = if requested.is_empty() {
            self.claim_any_address().await?
        } else if let Some(IpAddr::V4(ip)) = parse_address(&requested) {
            // Cluster IPs are immutable; validation rejects changes.
            if self.before.addresses.is_empty() {
                self.claim_requested_address(ip, &requested).await?;
            }
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

    async fn claim_any_address(&mut self) -> Result<String, Status> {
        if self.mode.is_dry_run {
            // A dry run claims nothing: it shows an address that no service can have.
            let range = self.allocator.ranges().first().copied();
            return Ok(range.map_or_else(|| HEADLESS.to_owned(), |range| range.network().to_string()));
        }
        match self.allocator.take_any_address(&self.owner, self.webhooks()).await {
            Ok(ip) => {
                self.added.addresses.push(ip.into());
                Ok(ip.to_string())
            }
            Err(AddressError::Failed(status)) => {
                let detail = format!("failed to allocate IP: {}", status.message);
                Err(self.rejection(&Path::new("spec.clusterIPs"), &json!([""]), &detail))
            }
            Err(full) if self.allocator.kubernetes >= V1_36 => {
                let name = &self.owner.name;
                Err(Status::internal(format!("failed to allocate a serviceIP for Service {name:?}: {full}")))
            }
            Err(full) => Err(Status::internal(format!("failed to allocate a serviceIP: {full}"))),
        }
    }

    async fn claim_requested_address(&mut self, ip: std::net::Ipv4Addr, requested: &str) -> Result<(), Status> {
        let result = if self.mode.is_dry_run {
            match (self.allocator.range_of(ip), self.allocator.ranges().first()) {
                (None, Some(range)) => {
                    Err(format!("the provided IP ({ip}) is not in the valid range. The range of valid IPs is {range}"))
                }
                (None, None) => Err(AddressError::OutOfRange.to_string()),
                (Some(_), _) => return Ok(()),
            }
        } else {
            let taken = self.allocator.take_address(ip, &self.owner, self.webhooks()).await;
            taken.map_err(|error| error.to_string())
        };
        result.map_err(|problem| {
            let detail = format!("failed to allocate IP {requested}: {problem}");
            self.rejection(&Path::new("spec.clusterIPs"), &json!([requested]), &detail)
        })?;
        self.added.addresses.push(ip.into());
        Ok(())
    }

    /// Claims all ports of the service with one change.
    async fn claim_ports(&mut self, spec: &mut Map<String, Value>, old: Option<&Value>) -> Result<(), Status> {
        let needed_before = old.is_some_and(|old| old.get("spec").is_some_and(needs_health_check));
        let claims_health_check = needs_health_check(spec) && !needed_before;
        if !super::has_node_ports(spec) && !claims_health_check {
            return Ok(());
        }
        let (before, entropy) = (&self.before.ports, &self.allocator.entropy);
        let is_dry_run = self.mode.is_dry_run;
        let requested: &Map<String, Value> = spec;
        let change = |ports: &mut PortSet| {
            let mut spec = requested.clone();
            let mut claiming = Claiming { ports, entropy, is_dry_run, claimed: Vec::new() };
            if super::has_node_ports(&spec) {
                match old {
                    None => claiming.claim_new(&mut spec)?,
                    Some(_) => claiming.claim_changed(&mut spec, before)?,
                }
            }
            if claims_health_check {
                claiming.claim_health_check(&mut spec)?;
            }
            Ok::<_, PortFailure>((spec, claiming.claimed))
        };
        let registry = self.allocator.registry()?;
        let storage = &**registry.storage();
        let result = if is_dry_run {
            let (_, mut ports) = NodePorts::read(storage).await?;
            change(&mut ports)
        } else {
            self.allocator.ports.change(storage, &change).await?
        };
        let (filled, claimed) = result.map_err(|failure| self.port_rejection(failure))?;
        *spec = filled;
        self.added.ports = claimed;
        Ok(())
    }

    fn port_rejection(&self, failure: PortFailure) -> Status {
        match failure {
            PortFailure::Requested(index, number, error) => {
                let detail = error.to_string();
                self.rejection(&Path::new("spec.ports").index(index).child("nodePort"), &number.into(), &detail)
            }
            PortFailure::Any(error) => Status::internal(format!("failed to allocate a nodePort: {error}")),
            PortFailure::HealthCheck(0, error) => {
                Status::internal(format!("failed to allocate a HealthCheck NodePort 0: {error}"))
            }
            PortFailure::HealthCheck(number, error) => {
                Status::internal(format!("failed to allocate requested HealthCheck NodePort {number}: {error}"))
            }
        }
    }

    /// Returns the error for a requested address or port that is not available.
    fn rejection(&self, path: &Path<'_>, value: &Value, detail: &str) -> Status {
        let mut errors = Errors::of(self.allocator.kubernetes);
        errors.invalid(path, value, detail);
        Status::invalid(&GroupKind::new("", "Service"), &self.owner.name, errors.into_causes())
    }

    fn webhooks(&self) -> WebhookCalls {
        if self.mode.calls_webhooks { WebhookCalls::Configured } else { WebhookCalls::Never }
    }

    fn take_added(&mut self) -> Claims {
        let added = std::mem::take(&mut self.added);
        if self.mode.is_dry_run { Claims::default() } else { added }
    }
}

impl Allocation for ServiceAllocation {
    fn storing(&mut self) {
        self.is_storing = true;
    }

    fn rejected(&mut self) {
        self.is_storing = false;
    }

    fn committed(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        self.added = Claims::default();
        async move {
            if !self.mode.is_dry_run {
                std::mem::take(&mut self.unused).release(&self.allocator, &self.owner).await;
            }
        }
        .boxed()
    }

    fn revert(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        let added = self.take_added();
        if self.is_storing {
            // The service may have been stored.
            return async {}.boxed();
        }
        async move { added.release(&self.allocator, &self.owner).await }.boxed()
    }
}

impl Drop for ServiceAllocation {
    fn drop(&mut self) {
        let added = self.take_added();
        if added.is_empty() || self.is_storing {
            return;
        }
        // The client has disconnected. Without a runtime, the repair of the next run releases the claims.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (allocator, owner) = (Arc::clone(&self.allocator), self.owner.clone());
            drop(runtime.spawn(async move { added.release(&allocator, &owner).await }));
        }
    }
}

/// Claims ports in a set.
struct Claiming<'c> {
    ports: &'c mut PortSet,
    entropy: &'c windlass_api::Entropy,
    is_dry_run: bool,
    claimed: Vec<i64>,
}

impl Claiming<'_> {
    /// Claims the ports of a new service. Service ports with the same number, of different protocols, get the same node
    /// port.
    fn claim_new(&mut self, spec: &mut Map<String, Value>) -> Result<(), PortFailure> {
        let allocates = allocates_node_ports(spec);
        let number = |port: &Value| port.int(&["port"]).unwrap_or_default();
        let requested: Vec<(i64, i64)> =
            spec.items(&["ports"]).iter().map(|port| (number(port), node_port(port))).collect();
        let mut claimed: Vec<(i64, i64)> = Vec::new();
        let Some(Value::Array(ports)) = spec.get_mut("ports") else { return Ok(()) };
        for (index, port) in ports.iter_mut().enumerate() {
            let (own, given) = (number(port), node_port(port));
            if given == 0 && !allocates {
                continue;
            }
            let first = claimed.iter().find(|(number, _)| *number == own).map(|(_, node_port)| *node_port);
            let node_port = match first {
                Some(first) if given == 0 || given == first => first,
                Some(_) => self.take(given).map_err(|error| PortFailure::Requested(index, given, error))?,
                None => {
                    let wanted = requested.iter().find(|(number, given)| *number == own && *given != 0);
                    let node_port = match wanted {
                        Some((_, wanted)) => {
                            self.take(*wanted).map_err(|error| PortFailure::Requested(index, *wanted, error))?
                        }
                        None => self.take_any().map_err(PortFailure::Any)?,
                    };
                    claimed.push((own, node_port));
                    node_port
                }
            };
            as_object(port).insert("nodePort".to_owned(), node_port.into());
        }
        Ok(())
    }

    /// Claims the ports that a changed service did not have before.
    fn claim_changed(&mut self, spec: &mut Map<String, Value>, before: &[i64]) -> Result<(), PortFailure> {
        let allocates = allocates_node_ports(spec);
        let Some(Value::Array(ports)) = spec.get_mut("ports") else { return Ok(()) };
        for (index, port) in ports.iter_mut().enumerate() {
            match node_port(port) {
                0 if allocates => {
                    let node_port = self.take_any().map_err(PortFailure::Any)?;
                    as_object(port).insert("nodePort".to_owned(), node_port.into());
                }
                0 => {}
                // A service may use the same port for two protocols.
                given if before.contains(&given) || self.claimed.contains(&given) => {}
                given => drop(self.take(given).map_err(|error| PortFailure::Requested(index, given, error))?),
            }
        }
        Ok(())
    }

    fn claim_health_check(&mut self, spec: &mut Map<String, Value>) -> Result<(), PortFailure> {
        let given = spec.int(&["healthCheckNodePort"]).unwrap_or_default();
        let port = if given == 0 { self.take_any() } else { self.take(given) };
        let port = port.map_err(|error| PortFailure::HealthCheck(given, error))?;
        spec.insert("healthCheckNodePort".to_owned(), port.into());
        Ok(())
    }

    fn take(&mut self, port: i64) -> Result<i64, PortError> {
        if self.is_dry_run {
            if self.ports.contains(port) || self.claimed.contains(&port) {
                return Err(PortError::Allocated);
            }
        } else {
            self.ports.take(port)?;
        }
        self.claimed.push(port);
        Ok(port)
    }

    fn take_any(&mut self) -> Result<i64, PortError> {
        let port = if self.is_dry_run {
            self.claimed.iter().max().map_or(DRY_RUN_PORT, |last| last + 1)
        } else {
            self.ports.take_any(self.entropy)?
        };
        self.claimed.push(port);
        Ok(port)
    }
}

fn node_port(port: &Value) -> i64 {
    port.int(&["nodePort"]).unwrap_or_default()
}

/// Reports whether the ports of the service get node ports if they request none.
fn allocates_node_ports(spec: &impl Tree) -> bool {
    match spec.text(&["type"]) {
        "NodePort" => true,
        "LoadBalancer" => spec.at(&["allocateLoadBalancerNodePorts"]).and_then(Value::as_bool).unwrap_or(true),
        _ => false,
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
