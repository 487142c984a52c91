//! Which pods are behind a service, and on which ports. Values only, no I/O.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ObjectReference, Pod, Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use windlass_api::{Meta, ObjectExt, ObjectRef};
use windlass_cache::{Cached, Lister};
use windlass_runtime::Context;

use crate::{error::ReconcileError, pods};

/// When what made the endpoints change has happened; for those who measure how long it takes to be known.
pub(super) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// On endpoints of services without an address of their own.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

/// A pod behind a service.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    pub(super) pod: Arc<Pod>,
    pub(super) address: String,
    /// Those of the service's ports that the pod has.
    pub(super) ports: Vec<Port>,
    /// Whether it is to be sent new connections.
    pub(super) ready: bool,
    /// Whether it answers, be it about to end.
    pub(super) serving: bool,
}

/// A port of a service as one pod has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) protocol: String,
    pub(super) number: i32,
    pub(super) app_protocol: Option<String>,
}

/// Whether endpoints are kept for a service: it selects pods, and is no mere name.
pub(super) fn has_endpoints(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let is_name = spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    !is_name && spec.and_then(|spec| spec.selector.as_ref()).is_some_and(|selector| !selector.is_empty())
}

/// Whether a service selects a pod, by the labels of the latter.
pub(super) fn selects(service: &Service, pod: &Meta) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    has_endpoints(service) && selector.into_iter().flatten().all(|(key, value)| pod.label(key) == Some(value))
}

/// The services that a pod is behind.
pub(super) fn services_of(services: &Lister<Service>, pod: &Cached<Pod>) -> Vec<ObjectRef<Service>> {
    let Some(namespace) = pod.meta().namespace() else { return Vec::new() };
    let found = services.within(Arc::clone(namespace)).list();
    let behind = |service: &&Cached<Service>| service.get().is_ok_and(|service| selects(&service, pod.meta()));
    found.iter().filter(behind).map(Cached::object_ref).collect()
}

/// The pods behind a service that have an address and have not ended, in the order of their names.
pub(super) fn backends(cx: &Context, service: &Service) -> Result<Vec<Backend>, ReconcileError> {
    let mut found = Vec::new();
    for cached in cx.store::<Pod>().within(service.namespace().unwrap_or_default()).list() {
        if selects(service, cached.meta()) {
            found.extend(backend(service, cached.get()?));
        }
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

/// A service's port on a pod; nothing if it is known by a name that the pod does not have.
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

/// Whether a service has an address of its own.
pub(super) fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

/// When the first of the changes has happened that new endpoints tell of: a pod has become ready that was not among the
/// `known`, or the service has come. Nothing when there is no such change.
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

    /// The name under which the service makes the pod known.
    pub(super) fn hostname(&self, service: &Service) -> Option<String> {
        let spec = self.pod.spec.as_ref()?;
        let known = spec.subdomain.as_deref() == Some(service.name());
        spec.hostname.clone().filter(|hostname| known && !hostname.is_empty())
    }
}
