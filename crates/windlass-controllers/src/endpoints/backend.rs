//! The pods and ports behind a service. Plain values, no I/O.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ObjectReference, Pod, Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use windlass_api::{ObjectExt, ObjectRef};
use windlass_cache::{Cached, Lister};
use windlass_runtime::Context;

use crate::{error::ReconcileError, pod_labels::selected, pods};

/// The annotation with the time of the change that caused an update, used to measure propagation latency.
pub(super) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The label of the Endpoints of headless services.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

/// A pod behind a service.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    pub(super) pod: Arc<Pod>,
    pub(super) address: String,
    /// The service's ports that the pod has.
    pub(super) ports: Vec<Port>,
    /// `true` if the pod should receive new connections.
    pub(super) ready: bool,
    /// `true` if the pod is ready, even if it is terminating.
    pub(super) serving: bool,
}

/// A service's port on one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) protocol: String,
    pub(super) number: i32,
    pub(super) app_protocol: Option<String>,
}

/// Returns `true` if the controllers maintain endpoints for a service: it has a selector, and is not of type
/// ExternalName.
pub(super) fn has_endpoints(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let is_name = spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    !is_name && spec.and_then(|spec| spec.selector.as_ref()).is_some_and(|selector| !selector.is_empty())
}

/// Returns `true` if a service's selector matches a pod's labels.
pub(super) fn selects<'l>(service: &Service, label: impl Fn(&str) -> Option<&'l str>) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    has_endpoints(service) && selector.into_iter().flatten().all(|(key, value)| label(key) == Some(value))
}

/// Returns the services that select a pod.
pub(super) fn services_of(services: &Lister<Service>, pod: &Cached<Pod>) -> Vec<ObjectRef<Service>> {
    let Some(namespace) = pod.meta().namespace() else { return Vec::new() };
    let found = services.within(Arc::clone(namespace)).list();
    let behind =
        |service: &&Cached<Service>| service.get().is_ok_and(|service| selects(&service, |key| pod.meta().label(key)));
    found.iter().filter(behind).map(Cached::object_ref).collect()
}

/// Returns the unfinished pods of a service that have an address, sorted by name.
pub(super) fn backends(cx: &Context, service: &Service) -> Result<Vec<Backend>, ReconcileError> {
    let mut found = Vec::new();
    let namespace = service.namespace().unwrap_or_default();
    for cached in selected(&cx.store::<Pod>(), namespace, |set| selects(service, |key| set.label(key)))? {
        found.extend(backend(service, cached.get()?));
    }
    found.sort_by(|a, b| a.pod.name().cmp(b.pod.name()));
    Ok(found)
}

fn backend(service: &Service, pod: Arc<Pod>) -> Option<Backend> {
    let address = pod.status.as_ref()?.pod_ip.clone().filter(|_| !pods::is_finished(&pod))?;
    let spec = service.spec.as_ref()?;
    let serving = pods::is_ready(&pod);
    let early = spec.publish_not_ready_addresses == Some(true);
    let ready = early || (serving && !pod.is_deleting());
    let mut ports: Vec<_> = spec.ports.iter().flatten().filter_map(|port| port_of(port, &pod)).collect();
    ports.sort();
    Some(Backend { pod, address, ports, ready, serving })
}

/// Resolves a service's port on a pod. Returns `None` if the pod lacks a port of that name.
fn port_of(port: &ServicePort, pod: &Pod) -> Option<Port> {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let number = match &port.target_port {
        None => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let sidecars = spec.init_containers.iter().flatten();
            let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
            let mut ports =
                spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
            let is_it = |own: &&k8s_openapi::api::core::v1::ContainerPort| {
                own.name.as_ref() == Some(name) && own.protocol.as_deref().unwrap_or("TCP") == protocol
            };
            ports.find(is_it)?.container_port
        }
    };
    Some(Port {
        name: port.name.clone().unwrap_or_default(),
        protocol: protocol.to_owned(),
        number,
        app_protocol: port.app_protocol.clone(),
    })
}

/// Returns `true` if a service has no cluster IP.
pub(super) fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

/// Returns the time of the first change that new endpoints publish: a pod not among the `known` ones became ready, or
/// the service was created. Returns `None` if there is no such change.
pub(super) fn trigger_time(
    service: &Service,
    backends: &[Backend],
    known: Option<&BTreeSet<String>>,
) -> Option<Timestamp> {
    let is_known =
        |backend: &&Backend| known.is_some_and(|known| known.contains(backend.pod.uid().unwrap_or_default()));
    let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0).filter(|_| known.is_none());
    let new = backends.iter().filter(|backend| !is_known(backend));
    new.filter_map(|backend| pods::available_at(&backend.pod, 0)).chain(created).min()
}

impl Backend {
    pub(super) fn target(&self) -> ObjectReference {
        ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: self.pod.metadata.namespace.clone(),
            name: self.pod.metadata.name.clone(),
            uid: self.pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }

    pub(super) fn node(&self) -> Option<String> {
        Some(pods::node_name(&self.pod)).filter(|node| !node.is_empty()).map(str::to_owned)
    }

    /// Returns the pod's hostname, if its subdomain is the service.
    pub(super) fn hostname(&self, service: &Service) -> Option<String> {
        let spec = self.pod.spec.as_ref()?;
        let known = spec.subdomain.as_deref() == Some(service.name());
        spec.hostname.clone().filter(|hostname| known && !hostname.is_empty())
    }
}
