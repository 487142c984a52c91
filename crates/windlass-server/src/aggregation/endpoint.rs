//! The address of a service.
//!
//! Nothing routes cluster IPs to a pod here, so the address is that of a ready endpoint, as with the flag
//! `--enable-aggregator-routing` of kube-apiserver. A service of type ExternalName is reached by its external name.

use serde_json::Value;
use windlass_api::{Entropy, Status};

use super::{connection::address, remote::ServiceReference};
use crate::{
    object::Tree,
    registry::{ListParams, Registry},
    resource::Target,
};

/// The label of the endpoints of a service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The state of a service.
pub(super) enum Service {
    /// The service does not exist.
    Missing,
    Found {
        /// The type of the service.
        kind: String,
        route: Result<Route, NoRoute>,
    },
}

/// The addresses of a service, each with its port. There is at least one.
pub(super) struct Route(Vec<String>);

/// The reason why a service has no address.
pub(super) enum NoRoute {
    NoPort,
    NoEndpointSlices,
    NoEndpoints { port_name: String },
    Unsupported,
}

impl Route {
    /// Returns one of the addresses at random.
    pub(super) fn pick(&self, entropy: &Entropy) -> &str {
        let at = entropy.below(self.0.len() as u64);
        &self.0[usize::try_from(at).unwrap_or_default()]
    }

    /// Returns some of the addresses, for attempts at the same time.
    pub(super) fn first(&self, count: usize) -> impl Iterator<Item = &str> {
        self.0.iter().take(count).map(String::as_str)
    }
}

/// Finds the addresses of a service.
pub(super) async fn resolve(registry: &Registry, reference: &ServiceReference) -> Result<Service, Status> {
    let resources = registry.resources();
    let Some(services) = resources.get("", "v1", "services") else { return Ok(Service::Missing) };
    let target = Target::object(services, Some(&reference.namespace), &reference.name);
    let Some(service) = registry.peek_recent(&target).await? else { return Ok(Service::Missing) };
    let service = service.value();
    let kind = match service.text(&["spec", "type"]) {
        "" => "ClusterIP",
        kind => kind,
    };
    let route = match kind {
        "ExternalName" => {
            let host = service.text(&["spec", "externalName"]);
            u16::try_from(reference.port).map(|port| Route(vec![address(host, port)])).map_err(|_| NoRoute::Unsupported)
        }
        "ClusterIP" | "NodePort" | "LoadBalancer" => endpoints(registry, reference, &service).await?,
        _ => Err(NoRoute::Unsupported),
    };
    Ok(Service::Found { kind: kind.to_owned(), route })
}

/// Returns the ready endpoints of a service.
async fn endpoints(
    registry: &Registry,
    reference: &ServiceReference,
    service: &Value,
) -> Result<Result<Route, NoRoute>, Status> {
    let ports = service.items(&["spec", "ports"]);
    let Some(port) = ports.iter().find(|port| port.int(&["port"]) == Some(reference.port)) else {
        return Ok(Err(NoRoute::NoPort));
    };
    let port_name = port.text(&["name"]);
    let resources = registry.resources();
    let Some(slices) = resources.get("discovery.k8s.io", "v1", "endpointslices") else {
        return Ok(Err(NoRoute::NoEndpointSlices));
    };
    let labels = Some(format!("{SERVICE_NAME}={}", reference.name));
    let params = ListParams { labels, resource_version: Some("0".to_owned()), ..ListParams::default() };
    let slices = registry.list(&Target::collection(slices, Some(&reference.namespace)), params).await?.items;
    if slices.is_empty() {
        return Ok(Err(NoRoute::NoEndpointSlices));
    }
    let mut found = Vec::new();
    for slice in slices {
        let slice = slice.value();
        let of_port = |port: &&Value| port.text(&["name"]) == port_name && port.int(&["port"]).is_some();
        let Some(port) = slice.items(&["ports"]).iter().find(of_port) else { continue };
        let Some(port) = port.int(&["port"]).and_then(|port| u16::try_from(port).ok()) else { continue };
        for endpoint in slice.items(&["endpoints"]) {
            let is_ready = endpoint.at(&["conditions", "ready"]).is_none_or(|ready| ready == true);
            if let Some(host) = endpoint.items(&["addresses"]).first().and_then(Value::as_str).filter(|_| is_ready) {
                found.push(address(host, port));
            }
        }
    }
    if found.is_empty() {
        return Ok(Err(NoRoute::NoEndpoints { port_name: port_name.to_owned() }));
    }
    Ok(Ok(Route(found)))
}
