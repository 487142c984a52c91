//! The objects that the server creates at the start.
//!
//! They are created in two steps, as in kube-apiserver. Objects that any request may need exist before the first
//! request is answered. Roles, flow control objects and API services are created with the first request for one of
//! their groups. So clients always find them, and other requests don't wait for them.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::watch, time};
use windlass_api::{Clock, Entropy, Status, format_time};

use crate::{
    admission::{self, AdmissionConfiguration, PodAccounts},
    aggregation::Aggregation,
    apiextensions,
    authz::{self, Authorizer},
    extension::ExtensionApi,
    flow_control::FlowControl,
    kinds::{
        self, KindOptions, RuntimeConfig, SYSTEM_CLASSES,
        core::service::{AddressAllocator, ServiceCidr, start_repair},
    },
    kubernetes::KubernetesVersion,
    object::Tree,
    registry::{ListLag, Registry, WebhookCalls, WriteParams},
    resource::{Body, Target},
    storage::Storage,
};

mod authentication;
mod endpoints;
mod extensions;
mod flow_control;
mod identity_lease;
mod presence;
mod roles;

use self::endpoints::Endpoint;
pub(crate) use self::{
    authentication::{Authorities, publish_authorities},
    presence::Presence,
};

/// The groups whose first request creates the objects of [`ensure_deferred`]. A webhook must not be able to reject these
/// objects, so the group of webhook configurations is one of them.
const DEFERRED_GROUPS: [&str; 4] =
    ["admissionregistration.k8s.io", "apiregistration.k8s.io", flow_control::GROUP, authz::GROUP];

/// The attempts to create the service `kubernetes`, and the pause between them, if another server creates it, too.
const OWN_SERVICE_ATTEMPTS: usize = 50;
const OWN_SERVICE_PAUSE: Duration = Duration::from_millis(100);

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The configurable options of a server's registry.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegistryOptions {
    pub(crate) kubernetes: KubernetesVersion,
    /// The address range of services.
    pub(crate) service_cidr: ServiceCidr,
    pub(crate) pod_accounts: PodAccounts,
    pub(crate) admission: Arc<AdmissionConfiguration>,
    /// The kinds of a program that extends a cluster. The server then has no others.
    pub(crate) extension: Option<Arc<ExtensionApi>>,
    /// The lifetime of events; `None` for the default.
    pub(crate) event_lifetime: Option<Duration>,
    /// The time by which lists can miss recent writes to other kinds.
    pub(crate) list_lag: Duration,
    /// The address in the endpoints of the service `kubernetes`; `None` for that of the listener.
    pub(crate) advertised: Option<IpAddr>,
    /// The removed API versions to serve.
    pub(crate) runtime: RuntimeConfig,
}

/// A server among those over its storage.
pub(crate) struct Announced {
    /// The address of its listener.
    pub(crate) address: SocketAddr,
    /// `true` when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
}

#[cfg(test)]
impl Announced {
    /// Returns a server that never stops.
    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.parse().unwrap(), stopping: watch::channel(false).1 }
    }
}

/// Starts a registry of the built-in kinds over a storage. Returns the presence of the server if others may share the
/// storage.
pub(crate) async fn start(
    storage: Arc<dyn Storage>,
    clock: Clock,
    entropy: Entropy,
    choices: RegistryOptions,
    authorizer: Arc<Authorizer>,
    aggregation: &Arc<Aggregation>,
    own: Announced,
) -> Result<(Registry, Option<Presence>), Status> {
    let RegistryOptions {
        kubernetes,
        service_cidr,
        pod_accounts,
        admission,
        extension,
        event_lifetime,
        list_lag,
        advertised,
        runtime,
    } = choices;
    let allocator = AddressAllocator::new(entropy.clone(), kubernetes);
    let removed = runtime.enabled().collect();
    let options = KindOptions { kubernetes, allocator: Arc::clone(&allocator), event_lifetime, removed };
    let commits = authorizer.last_commits();
    let plugins = match &extension {
        Some(api) => admission::extension_chain(api.rules().clone(), authorizer),
        None => admission::chain(kubernetes, pod_accounts, &admission, authorizer, aggregation),
    };
    let registry = Registry::new(storage, kinds::built_ins(&options), plugins, clock, entropy).await?;
    if let Some(api) = &extension {
        registry.set_own_rules(api.rules().clone());
    }
    registry.record_commits(commits);
    allocator.attach(&registry);
    let is_shared = registry.storage().is_shared();
    let (address, is_reachable) = match advertised {
        Some(address) => (address, true),
        None if is_shared => presence::reachable(own.address.ip()),
        None => (own.address.ip(), true),
    };
    let endpoint = Endpoint { address, port: own.address.port() };
    bootstrap(&registry, &allocator, service_cidr, endpoint).await?;
    let presence = if is_shared {
        Some(Presence::start(&registry, service_cidr, endpoint, is_reachable, own.stopping).await?)
    } else {
        endpoints::write_only(&registry, endpoint).await?;
        None
    };
    registry.keep_task(apiextensions::start(&registry).await?);
    if let Some(api) = &extension {
        api.install(&registry).await?;
    }
    if !list_lag.is_zero() {
        registry.set_list_lag(ListLag::new(list_lag));
    }
    Ok((registry, presence))
}

/// Creates missing objects. Existing ones keep their content, except for the port of this server.
async fn bootstrap(
    registry: &Registry,
    allocator: &Arc<AddressAllocator>,
    cidr: ServiceCidr,
    endpoint: Endpoint,
) -> Result<(), Status> {
    for name in NAMESPACES {
        ensure(registry, "", "namespaces", None, json!({"metadata": {"name": name}})).await?;
    }
    service_range(registry, cidr).await?;
    registry.keep_task(start_repair(allocator, registry).await);
    ensure_own_service(registry, cidr, endpoint.port).await?;
    authentication::ensure_tracking(registry, registry.clock()).await?;
    for (name, value, description) in SYSTEM_CLASSES {
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        ensure(registry, "scheduling.k8s.io", "priorityclasses", None, class).await?;
    }
    Ok(())
}

/// Creates the service `kubernetes` if it is missing.
async fn ensure_own_service(registry: &Registry, cidr: ServiceCidr, port: u16) -> Result<(), Status> {
    let service = json!({
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": cidr.first().to_string(),
            "sessionAffinity": "None",
            "ipFamilyPolicy": "SingleStack",
            "type": "ClusterIP",
        },
    });
    let fields = ["/spec/ports/0/targetPort"];
    let mut attempts = if registry.storage().is_shared() { OWN_SERVICE_ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        match ensure_with(registry, "", "services", Some("default"), service.clone(), &fields).await {
            // Another server has claimed the address, and creates the service now. If it has ended instead, the repair
            // releases the address after a minute.
            Err(status) if status.code == 422 && attempts > 0 => time::sleep(OWN_SERVICE_PAUSE).await,
            Err(status) if registry.storage().is_shared() => {
                tracing::warn!(error = %status, "the service kubernetes cannot be created yet");
                return Ok(());
            }
            result => return result,
        }
    }
}

/// Reports whether [`ensure_deferred`] has to run before requests of a group.
pub(crate) fn is_deferred(group: &str) -> bool {
    DEFERRED_GROUPS.contains(&group)
}

/// Creates or completes the roles, and creates missing flow control objects and API services. Applies the flow control
/// objects from now on.
pub(crate) async fn ensure_deferred(registry: &Registry, flow_control: &FlowControl) -> Result<(), Status> {
    roles::ensure_all(registry).await?;
    extensions::ensure_all(registry).await?;
    flow_control::start(registry, flow_control.fairness()).await
}

/// Creates the default address range of services.
async fn service_range(registry: &Registry, cidr: ServiceCidr) -> Result<(), Status> {
    const GROUP: &str = "networking.k8s.io";
    let range = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [cidr.to_string()]}});
    ensure(registry, GROUP, "servicecidrs", None, range).await?;
    let resources = registry.resources();
    let Some(ranges) = resources.get(GROUP, "v1", "servicecidrs") else { return Ok(()) };
    let target = Target::object(ranges, None, "kubernetes");
    let ready =
        registry.peek(&target).await?.is_some_and(|range| range.value().at(&["status", "conditions"]).is_some());
    if ready {
        return Ok(());
    }
    let condition = json!({
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": format_time(registry.clock().now()),
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    });
    let status = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"},
        "status": {"conditions": [condition]},
    });
    let params =
        WriteParams { field_manager: "kubernetes-service-cidr-controller".to_owned(), ..WriteParams::default() };
    registry.apply(&target.subresource("status"), status.to_string().as_bytes(), true, params).await?;
    Ok(())
}

/// Creates an object if it is missing. Existing objects are not changed.
async fn ensure(
    registry: &Registry,
    group: &str,
    plural: &str,
    namespace: Option<&str>,
    object: Value,
) -> Result<(), Status> {
    ensure_with(registry, group, plural, namespace, object, &[]).await
}

/// Creates an object if it is missing. Otherwise sets `fields` (JSON pointers) of the existing one: this server may have
/// another port than the last one over the same storage. In a shared storage, existing objects may be those of another
/// server, and are not changed.
async fn ensure_with(
    registry: &Registry,
    group: &str,
    plural: &str,
    namespace: Option<&str>,
    object: Value,
    fields: &[&str],
) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get(group, "v1", plural) else { return Ok(()) };
    let existing = Target::object(resource, namespace, object.text(&["metadata", "name"]));
    let Some(current) = registry.peek(&existing).await? else {
        return create_or_ignore(registry, &Target::collection(resource, namespace), object).await;
    };
    if registry.storage().is_shared() {
        return Ok(());
    }
    let mut current = current.value();
    let outdated: Vec<&str> =
        fields.iter().copied().filter(|field| current.pointer(field) != object.pointer(field)).collect();
    if outdated.is_empty() {
        return Ok(());
    }
    for field in outdated {
        if let (Some(old), Some(new)) = (current.pointer_mut(field), object.pointer(field)) {
            old.clone_from(new);
        }
    }
    match registry.update(&existing, Body::Value(current), own_params()).await {
        Err(status) if !status.is_conflict() => Err(status),
        _ => Ok(()),
    }
}

/// Creates an object, unless another server over the same storage has created it.
async fn create_or_ignore(registry: &Registry, target: &Target, object: Value) -> Result<(), Status> {
    match registry.create(target, Body::Value(object), own_params()).await {
        Err(status) if !status.is_already_exists() => Err(status),
        _ => Ok(()),
    }
}

/// The parameters of writes by the server itself, which no webhook may reject.
fn own_params() -> WriteParams {
    WriteParams { field_manager: "kube-apiserver".to_owned(), webhooks: WebhookCalls::Never, ..WriteParams::default() }
}
