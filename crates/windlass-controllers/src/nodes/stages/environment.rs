//! The functions of templates that depend on the object and its node, with the names of kwok.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{super::addresses::Host, template::Environment};

/// The functions in templates for pods.
pub(super) const OF_PODS: &[&str] = &[
    "Now",
    "StartTime",
    "Version",
    "NodeConditions",
    "NodeIP",
    "NodeName",
    "NodePort",
    "PodIP",
    "NodeIPWith",
    "NodeIPsWith",
    "PodIPWith",
    "PodIPsWith",
];
/// The functions in templates for nodes.
pub(super) const OF_NODES: &[&str] =
    &["Now", "StartTime", "Version", "NodeConditions", "NodeIP", "NodeName", "NodePort"];

/// The conditions of a healthy node: type, status, reason, message.
const CONDITIONS: [(&str, &str, &str, &str); 5] = [
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
];

/// The time and the place of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) now: Timestamp,
    /// The start of the program.
    pub(crate) started: Timestamp,
    pub(crate) host: Host,
    /// The number of simulated nodes.
    pub(crate) nodes: u16,
    /// The address of the pod; `None` for a node, and if the node has no free address.
    pub(crate) pod_ip: Option<Ipv4Addr>,
}

impl Scene {
    fn node_ip(&self, name: &Value) -> Result<String, String> {
        let host = name.as_str().and_then(|name| Host::named(name, self.nodes));
        host.map(|host| host.ip().to_string()).ok_or_else(|| format!("{name} is not a simulated node"))
    }

    /// Returns the address of the pod, or of its node if it uses the network of the node.
    fn pod_ip(&self, node: &Value, is_on_host: &Value) -> Result<String, String> {
        if is_on_host.as_bool() == Some(true) {
            return self.node_ip(node);
        }
        if node.as_str() != Some(&self.host.name()) {
            return Err(format!("the pod is not on the node {node}"));
        }
        self.own_ip()
    }

    fn own_ip(&self) -> Result<String, String> {
        let ip = self.pod_ip.ok_or_else(|| format!("{} has no address left", self.host.name()))?;
        Ok(ip.to_string())
    }
}

impl Environment for Scene {
    fn call(&self, name: &str, arguments: &[&Value]) -> Result<Value, String> {
        match (name, arguments) {
            ("Now", []) => Ok(json!(self.now.to_string())),
            ("StartTime", []) => Ok(json!(self.started.to_string())),
            ("Version", []) => Ok(json!(env!("CARGO_PKG_VERSION"))),
            ("NodeConditions", []) => {
                let condition = |(type_, status, reason, message)| json!({"type": type_, "status": status, "reason": reason, "message": message});
                Ok(Value::Array(CONDITIONS.into_iter().map(condition).collect()))
            }
            ("NodeIP", []) => Ok(json!(self.host.ip().to_string())),
            ("NodeName", []) => Ok(json!(self.host.name())),
            // The simulated kubelets do not listen.
            ("NodePort", []) => Ok(json!(0)),
            ("PodIP", []) => self.own_ip().map(Value::from),
            ("NodeIPWith", [node]) => self.node_ip(node).map(Value::from),
            ("NodeIPsWith", [node]) => Ok(json!([self.node_ip(node)?])),
            ("PodIPWith", [node, is_on_host, _, _, _]) => self.pod_ip(node, is_on_host).map(Value::from),
            ("PodIPsWith", [node, is_on_host, _, _, _]) => Ok(json!([self.pod_ip(node, is_on_host)?])),
            (_, arguments) => Err(format!("{} arguments are too few or too many", arguments.len())),
        }
    }
}
