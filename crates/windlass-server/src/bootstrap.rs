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
use windlass_api::{Clock, Entropy, Status, format_time};

use crate::{
    admission::{self, PodAccounts},
    apiextensions,
    authz::Authorizer,
    kinds::{self, KindOptions, SYSTEM_CLASSES, core::service::ServiceCidr},
    kubernetes::KubernetesVersion,
    object::Tree,
    registry::{AdmissionState, DeleteParams, ListLag, Registry, WebhookCalls, WriteParams},
    resource::{Body, Target},
    storage::Storage,
};

mod authentication;
mod extensions;
mod roles;

pub(crate) use self::authentication::publish_client_ca;

/// The address of this server for the service `kubernetes`.
#[derive(Clone, Copy, Debug)]
struct Endpoint {
    address: IpAddr,
    port: u16,
}

/// The groups whose first request creates the objects of [`ensure_deferred`]. A webhook must not be able to reject these
/// objects, so the group of webhook configurations is one of them.
const DEFERRED_GROUPS: [&str; 4] =
    ["admissionregistration.k8s.io", "apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io", roles::GROUP];

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The configurable options of a server's registry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegistryOptions {
    pub(crate) kubernetes: KubernetesVersion,
    /// The address range of services.
    pub(crate) service_cidr: ServiceCidr,
    pub(crate) pod_accounts: PodAccounts,
    /// The lifetime of events; `None` for the default.
    pub(crate) event_lifetime: Option<Duration>,
    /// The time by which lists can miss recent writes to other kinds.
    pub(crate) list_lag: Duration,
}

/// Starts a registry of the built-in kinds over a storage. `address` is the address of this server.
pub(crate) async fn start(
    storage: Arc<dyn Storage>,
    clock: Clock,
    entropy: Entropy,
    choices: RegistryOptions,
    authorizer: Arc<Authorizer>,
    address: SocketAddr,
) -> Result<Registry, Status> {
    let RegistryOptions { kubernetes, service_cidr, pod_accounts, event_lifetime, list_lag } = choices;
    let options = KindOptions { kubernetes, service_cidr, entropy: entropy.clone(), event_lifetime };
    let commits = authorizer.last_commits();
    let registry =
        Registry::new(storage, kinds::built_ins(&options), admission::chain(pod_accounts, authorizer), clock, entropy)
            .await?;
    registry.record_commits(commits);
    bootstrap(&registry, service_cidr, Endpoint { address: address.ip(), port: address.port() }).await?;
    registry.keep_task(apiextensions::start(&registry).await?);
    if !list_lag.is_zero() {
        registry.set_list_lag(ListLag::new(list_lag));
    }
    Ok(registry)
}

/// Creates missing objects. Existing ones keep their content, except for the address of this server.
async fn bootstrap(registry: &Registry, cidr: ServiceCidr, endpoint: Endpoint) -> Result<(), Status> {
    for name in NAMESPACES {
        ensure(registry, "", "namespaces", None, json!({"metadata": {"name": name}})).await?;
    }
    let service = json!({
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": endpoint.port}],
            "clusterIP": cidr.first().to_string(),
            "sessionAffinity": "None",
            "ipFamilyPolicy": "SingleStack",
            "type": "ClusterIP",
        },
    });
    ensure_with(registry, "", "services", Some("default"), service, &["/spec/ports/0/targetPort"]).await?;
    let port = json!({"name": "https", "protocol": "TCP", "port": endpoint.port});
    let address = endpoint.address.to_string();
    let endpoints = json!({
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": [port]}],
    });
    ensure_with(registry, "", "endpoints", Some("default"), endpoints, &["/subsets"]).await?;
    let slice = json!({
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": if endpoint.address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": [port],
    });
    remove_slice_of_another_family(registry, &slice).await?;
    ensure_with(registry, "discovery.k8s.io", "endpointslices", Some("default"), slice, &["/endpoints", "/ports"])
        .await?;
    service_addresses(registry, cidr).await?;
    authentication::ensure_tracking(registry, registry.clock()).await?;
    for (name, value, description) in SYSTEM_CLASSES {
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        ensure(registry, "scheduling.k8s.io", "priorityclasses", None, class).await?;
    }
    Ok(())
}

/// Reports whether [`ensure_deferred`] has to run before requests of a group.
pub(crate) fn is_deferred(group: &str) -> bool {
    DEFERRED_GROUPS.contains(&group)
}

/// Creates missing roles, flow control objects and API services.
pub(crate) async fn ensure_deferred(registry: &Registry) -> Result<(), Status> {
    for role in roles::recorded(registry.resources().kubernetes()) {
        ensure(registry, roles::GROUP, role.plural, role.namespace, role.object).await?;
    }
    extensions::ensure_all(registry).await
}

/// Creates the address range of services and the address of the service `kubernetes`.
async fn service_addresses(registry: &Registry, cidr: ServiceCidr) -> Result<(), Status> {
    const GROUP: &str = "networking.k8s.io";
    let range = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [cidr.to_string()]}});
    ensure(registry, GROUP, "servicecidrs", None, range).await?;
    let address = json!({
        "metadata": {
            "name": cidr.first().to_string(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}},
    });
    ensure(registry, GROUP, "ipaddresses", None, address).await?;
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

/// Removes the EndpointSlice of the API server if its addresses are of another family than those of `slice`: the type of
/// addresses cannot be changed.
async fn remove_slice_of_another_family(registry: &Registry, slice: &Value) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get("discovery.k8s.io", "v1", "endpointslices") else { return Ok(()) };
    if registry.storage().is_shared() {
        return Ok(());
    }
    let target = Target::object(resource, Some("default"), slice.text(&["metadata", "name"]));
    let Some(current) = registry.peek(&target).await? else { return Ok(()) };
    if current.value()["addressType"] == slice["addressType"] {
        return Ok(());
    }
    let params = DeleteParams { admission: AdmissionState::Granted, ..DeleteParams::default() };
    match registry.delete(&target, params).await {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
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

/// Creates an object if it is missing. Otherwise sets `fields` (JSON pointers) of the existing one: this server may have another address
/// than the last one over the same storage. In a shared storage, existing objects may be those of another server, and are
/// not changed: kube-apiserver corrects the addresses in its endpoints, but not the ports.
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
    let name = object.text(&["metadata", "name"]);
    let params = WriteParams {
        field_manager: "kube-apiserver".to_owned(),
        webhooks: WebhookCalls::Never,
        ..WriteParams::default()
    };
    let existing = Target::object(resource, namespace, name);
    if let Some(current) = registry.peek(&existing).await? {
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
        return match registry.update(&existing, Body::Value(current), params).await {
            Err(status) if !status.is_conflict() => Err(status),
            _ => Ok(()),
        };
    }
    let target = Target::collection(resource, namespace);
    match registry.create(&target, Body::Value(object), params).await {
        // Another server over the same storage may create it at the same time.
        Err(status) if !status.is_already_exists() => Err(status),
        _ => Ok(()),
    }
}
