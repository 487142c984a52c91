//! Connections to a pod, to the kubelet of its node, or to the endpoints of a service.
//!
//! This server does not connect to any of them. It answers as kube-apiserver does if the other side is unreachable. It
//! validates the request against the stored objects and reports a pod without a node, a node without an address, or a
//! service without endpoints. If there is an address, it reports that the address is unreachable.
//!
//! A [`ContainerRuntime`] of the program answers commands and requests for logs in place of the kubelets ([`container`]).

pub(crate) mod container;

use http::Method;
use serde_json::{Map, Value, json};
use windlass_api::{ContainerId, ContainerRuntime, GroupKind, GroupResource, Status, reason};

use self::container::{Command, Log, LogOptions};
use crate::{
    object::{Errors, Path, Tree},
    registry::{Attributes, ListParams, Operation, Registry, RequestContext, SubresourceKind},
    request::Query,
    resource::{Item, Target},
};

/// The target of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    Log,
    /// Executes a command in a container and connects to its streams.
    Command,
    /// Attaches to the streams of a running container.
    Attach,
    Ports,
    PodProxy,
    NodeProxy,
    ServiceProxy,
}

/// The answer to a connection that does not fail.
#[derive(Debug)]
pub(crate) enum Connected {
    /// The log of a pod without a node.
    Nothing,
    Log(Box<Log>),
    Command(Box<Command>),
}

impl Registry {
    /// Runs the admission plugins for a connection.
    pub(crate) async fn admit_connection(
        &self,
        target: &Target,
        options: Value,
        context: RequestContext,
    ) -> Result<(), Status> {
        let name = target.subresource.as_deref().unwrap_or_default();
        let Some(part) = target.resource.subresource(name) else { return Err(Status::unknown_resource()) };
        let part = SubresourceKind::from(part);
        let write = Attributes::new(Operation::Connect, target, options, context);
        let mut write = write.with_kind(part);
        self.admit(&mut write).await?;
        self.validate_admission(&mut write).await
    }
}

impl Connection {
    /// Returns the connection of a subresource in the core group.
    pub(crate) fn of(plural: &str, subresource: &str) -> Option<Self> {
        Some(match (plural, subresource) {
            ("pods", "log") => Self::Log,
            ("pods", "exec") => Self::Command,
            ("pods", "attach") => Self::Attach,
            ("pods", "portforward") => Self::Ports,
            ("pods", "proxy") => Self::PodProxy,
            ("nodes", "proxy") => Self::NodeProxy,
            ("services", "proxy") => Self::ServiceProxy,
            _ => return None,
        })
    }

    /// Reports whether requests are proxied unchanged: with any method and for any path.
    pub(crate) fn is_proxy(self) -> bool {
        matches!(self, Self::PodProxy | Self::NodeProxy | Self::ServiceProxy)
    }

    /// Reports whether a connection accepts a method. Proxies accept all methods.
    pub(crate) fn accepts_method(self, method: &Method) -> bool {
        match self {
            Self::Log => method == Method::GET,
            Self::Command | Self::Attach | Self::Ports => method == Method::GET || method == Method::POST,
            Self::PodProxy | Self::NodeProxy | Self::ServiceProxy => true,
        }
    }

    /// Reports whether admission runs before the connection. Reading logs needs no admission.
    pub(crate) fn is_admitted(self) -> bool {
        self != Self::Log
    }

    /// Returns the options of a connection as an object for admission. `path` is the path for a proxy.
    pub(crate) fn options(self, query: &Query, path: &str) -> Result<Value, Status> {
        let mut options = Map::new();
        match self {
            Self::Log => {}
            Self::Command | Self::Attach => {
                // Options in a query are not defaulted.
                for field in ["stdin", "stdout", "stderr", "tty"] {
                    if query.boolean(field) {
                        options.insert(field.to_owned(), true.into());
                    }
                }
                if let Some(container) = query.text("container") {
                    options.insert("container".to_owned(), container.into());
                }
                if self == Self::Command {
                    let command: Vec<&str> = query.all("command").collect();
                    options.insert("command".to_owned(), if command.is_empty() { Value::Null } else { json!(command) });
                }
            }
            Self::Ports => {
                let ports = query.all("ports").flat_map(|ports| ports.split(','));
                let ports: Result<Vec<i32>, _> = ports.map(str::parse).collect();
                let ports = ports.map_err(|_| Status::bad_request("unable to parse the ports of a port-forward"))?;
                if !ports.is_empty() {
                    options.insert("ports".to_owned(), ports.into());
                }
            }
            Self::PodProxy | Self::NodeProxy | Self::ServiceProxy => {
                if !path.is_empty() {
                    options.insert("path".to_owned(), path.into());
                }
            }
        }
        Ok(options.into())
    }

    /// Connects. Without a runtime it always fails at some step, except that a pod without a node has an empty log.
    pub(crate) async fn connect(
        self,
        registry: &Registry,
        runtime: Option<&dyn ContainerRuntime>,
        target: &Target,
        query: &Query,
    ) -> Result<Connected, Status> {
        let name = target.name.as_deref().unwrap_or_default();
        let now = registry.clock().now();
        match self {
            Self::Log => {
                validate_log_options(name, query)?;
                let pod = object(registry, target, name).await?;
                let container = container_name(&pod, query.get("container").unwrap_or_default())?;
                if pod.text(&["spec", "nodeName"]).is_empty() {
                    return Ok(Connected::Nothing);
                }
                let runtime = reachable(registry, runtime, &pod).await?;
                let options = LogOptions::parse(query, now)?;
                let container = ContainerId { pod: &pod, name: &container, now };
                Ok(Connected::Log(Box::new(Log::read(runtime, &container, target, options)?)))
            }
            Self::Command => {
                let pod = object(registry, target, name).await?;
                let container = container_name(&pod, query.get("container").unwrap_or_default())?;
                let runtime = reachable(registry, runtime, &pod).await?;
                let container = ContainerId { pod: &pod, name: &container, now };
                Ok(Connected::Command(Box::new(Command::run(runtime, &container, query))))
            }
            Self::Attach => {
                let pod = object(registry, target, name).await?;
                container_name(&pod, query.get("container").unwrap_or_default())?;
                Err(node_error(registry, &pod).await)
            }
            Self::Ports => Err(node_error(registry, &object(registry, target, name).await?).await),
            Self::PodProxy => {
                let (scheme, name, port) =
                    parse_id(name).ok_or_else(|| Status::bad_request(format!("invalid pod request {name:?}")))?;
                tracing::trace!(scheme, name, "a request for a pod");
                let pod = object(registry, target, name).await?;
                let port = if port.is_empty() { first_port(&pod).unwrap_or_default() } else { port.to_owned() };
                Err(match pod.text(&["status", "podIP"]) {
                    "" => Status::bad_request("address not allowed"),
                    address => unreachable_address(address, &port),
                })
            }
            Self::NodeProxy => {
                let (_, name, _) =
                    parse_id(name).ok_or_else(|| Status::bad_request(format!("invalid node request {name:?}")))?;
                Err(unreachable_node(registry, name, "nodes").await)
            }
            Self::ServiceProxy => Err(service(registry, target, name).await?),
        }
    }
}

/// Returns the runtime of a pod's node, or the error for connections to the node.
async fn reachable<'r>(
    registry: &Registry,
    runtime: Option<&'r dyn ContainerRuntime>,
    pod: &Value,
) -> Result<&'r dyn ContainerRuntime, Status> {
    let kubelet = kubelet_of(registry, pod).await?;
    runtime.filter(|runtime| runtime.is_reachable(&kubelet.node)).ok_or_else(|| kubelet.unreachable())
}

/// Returns the error for connections to a pod's node.
async fn node_error(registry: &Registry, pod: &Value) -> Status {
    kubelet_of(registry, pod).await.map_or_else(|status| status, |kubelet| kubelet.unreachable())
}

/// Returns the kubelet of a pod's node.
async fn kubelet_of(registry: &Registry, pod: &Value) -> Result<Kubelet, Status> {
    match pod.text(&["spec", "nodeName"]) {
        "" => {
            let name = pod.text(&["metadata", "name"]);
            Err(Status::bad_request(format!("pod {name} does not have a host assigned")))
        }
        node => kubelet(registry, node, "pods").await,
    }
}

/// Returns the error for connections to a node. `resource` is the requested resource: kube-apiserver reports a missing
/// node under its name.
async fn unreachable_node(registry: &Registry, name: &str, resource: &str) -> Status {
    kubelet(registry, name, resource).await.map_or_else(|status| status, |kubelet| kubelet.unreachable())
}

/// The kubelet of a node.
struct Kubelet {
    node: Value,
    /// The host and the port.
    address: String,
}

impl Kubelet {
    fn unreachable(&self) -> Status {
        let address = &self.address;
        Status::unclassified(format!("error dialing backend: {address}: this server does not connect to kubelets"))
    }
}

/// Returns the kubelet of a node.
async fn kubelet(registry: &Registry, name: &str, resource: &str) -> Result<Kubelet, Status> {
    let table = registry.resources();
    let nodes = table.get("", "v1", "nodes").ok_or_else(Status::unknown_resource)?;
    let node = match registry.peek(&Target::object(nodes, None, name)).await? {
        Some(node) => node.value(),
        None => return Err(Status::not_found(&GroupResource::new("", resource.to_owned()), name)),
    };
    const PREFERRED: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
    let addresses = node.items(&["status", "addresses"]);
    let of_kind = |kind: &&str| addresses.iter().find(|address| address.text(&["type"]) == *kind);
    match PREFERRED.iter().find_map(of_kind) {
        None => {
            let known: Vec<String> = addresses
                .iter()
                .map(|address| format!("{{{} {}}}", address.text(&["type"]), address.text(&["address"])))
                .collect();
            let text = format!("no preferred addresses found; known addresses: [{}]", known.join(" "));
            Err(Status::unclassified(text))
        }
        Some(address) => {
            let port = node.int(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).unwrap_or(10250);
            let address = format!("{}:{port}", address.text(&["address"]));
            Ok(Kubelet { node, address })
        }
    }
}

fn unreachable_address(address: &str, port: &str) -> Status {
    unavailable(format!("error trying to reach service: {address}:{port}: this server does not connect to pods"))
}

fn unavailable(why: String) -> Status {
    Status::failure(503, reason::SERVICE_UNAVAILABLE, why)
}

/// Returns the error for connections to a service.
async fn service(registry: &Registry, target: &Target, id: &str) -> Result<Status, Status> {
    let (_, name, port) = parse_id(id).ok_or_else(|| Status::bad_request(format!("invalid service request {id:?}")))?;
    let mut port_name = port.to_owned();
    if let Ok(number) = port.parse::<i64>() {
        let service = object(registry, target, name).await?;
        let ports = service.items(&["spec", "ports"]);
        match ports.iter().find(|port| port.int(&["port"]) == Some(number)) {
            Some(port) => port_name = port.text(&["name"]).to_owned(),
            None => return Err(unavailable(format!("no service port {number} found for service {name:?}"))),
        }
    }
    let table = registry.resources();
    let slices = table.get("discovery.k8s.io", "v1", "endpointslices").ok_or_else(Status::unknown_resource)?;
    let params = ListParams { labels: Some(format!("kubernetes.io/service-name={name}")), ..ListParams::default() };
    let slices = registry.list(&Target::collection(slices, target.namespace.as_deref()), params).await?;
    if slices.items.is_empty() {
        return Err(Status::not_found(&target.resource.group_resource(), name));
    }
    for slice in slices.items.iter().map(Item::value) {
        let named = |port: &&Value| port_name.is_empty() || port.text(&["name"]) == port_name;
        let Some(port) = slice.items(&["ports"]).iter().find(named) else { continue };
        let ready = |endpoint: &&Value| endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool).unwrap_or(true);
        let address = slice
            .items(&["endpoints"])
            .iter()
            .filter(ready)
            .find_map(|endpoint| endpoint.items(&["addresses"]).first().and_then(Value::as_str).map(str::to_owned));
        if let Some(address) = address {
            let port = port.int(&["port"]).unwrap_or_default().to_string();
            return Ok(unreachable_address(&address, &port));
        }
    }
    Err(unavailable(format!("no endpoints available for service {name:?}")))
}

/// Returns the object that a request names.
async fn object(registry: &Registry, target: &Target, name: &str) -> Result<Value, Status> {
    let target = Target { name: Some(name.to_owned()), subresource: None, ..target.clone() };
    let item = registry.peek(&target).await?;
    Ok(item.ok_or_else(|| Status::not_found(&target.resource.group_resource(), name))?.value())
}

/// Parses `scheme:name:port`. The name alone is enough.
fn parse_id(id: &str) -> Option<(&str, &str, &str)> {
    let all: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match all[..] {
        [name] => ("", name, ""),
        [name, port] => ("", name, port),
        [scheme, name, port] => (scheme, name, port),
        _ => return None,
    };
    (matches!(scheme, "" | "http" | "https") && !name.is_empty()).then_some((scheme, name, port))
}

fn first_port(pod: &Value) -> Option<String> {
    let mut ports = pod.items(&["spec", "containers"]).iter().flat_map(|container| container.items(&["ports"]));
    ports.next().and_then(|port| port.int(&["containerPort"])).map(|port| port.to_string())
}

/// Returns the name of the requested container, which the pod must have. A pod with a single container needs no name.
fn container_name(pod: &Value, name: &str) -> Result<String, Status> {
    const KINDS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
    let names = |kind: &str| -> Vec<&str> {
        pod.items(&["spec", kind]).iter().map(|container| container.text(&["name"])).collect()
    };
    let pod_name = pod.text(&["metadata", "name"]);
    if !name.is_empty() {
        if KINDS.iter().any(|kind| names(kind).contains(&name)) {
            return Ok(name.to_owned());
        }
        return Err(Status::bad_request(format!("container {name} is not valid for pod {pod_name}")));
    }
    let [containers, init, _] = KINDS.map(names);
    if let [only] = containers[..] {
        return Ok(only.to_owned());
    }
    let mut text = format!("a container name must be specified for pod {pod_name}");
    if !containers.is_empty() {
        text += &format!(", choose one of: [{}]", containers.join(" "));
        if !init.is_empty() {
            text += &format!(" or one of the init containers: [{}]", init.join(" "));
        }
    }
    Err(Status::bad_request(text))
}

fn validate_log_options(name: &str, query: &Query) -> Result<(), Status> {
    let tail = query.integer("tailLines")?;
    let since = query.integer("sinceSeconds")?;
    let limit = query.integer("limitBytes")?;
    let mut errors = Errors::default();
    if let Some(tail) = tail.filter(|tail| *tail < 0) {
        errors.invalid(&Path::new("tailLines"), &tail, "must be greater than or equal to 0");
    }
    if let Some(limit) = limit.filter(|limit| *limit < 1) {
        errors.invalid(&Path::new("limitBytes"), &limit, "must be greater than 0");
    }
    match (since, query.text("sinceTime")) {
        (Some(_), Some(_)) => {
            errors.forbidden(&Path::new(""), "at most one of `sinceTime` or `sinceSeconds` may be specified");
        }
        (Some(since), None) if since < 1 => {
            errors.invalid(&Path::new("sinceSeconds"), &since, "must be greater than 0");
        }
        _ => {}
    }
    errors.check(&GroupKind::new("", "PodLogOptions"), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxied_name_can_contain_scheme_and_port() {
        assert_eq!(parse_id("web"), Some(("", "web", "")));
        assert_eq!(parse_id("web:http"), Some(("", "web", "http")));
        assert_eq!(parse_id("https:web:443"), Some(("https", "web", "443")));
        assert_eq!(parse_id("ftp:web:21"), None);
        assert_eq!(parse_id("a:b:c:d"), None);
    }
}
