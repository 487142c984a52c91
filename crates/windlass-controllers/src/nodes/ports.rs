//! The host ports that pods take on their nodes.

use k8s_openapi::api::core::v1::{Container, Pod};

/// A port of a node that a container listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    protocol: String,
    /// The address; `None` for all addresses of the node.
    address: Option<String>,
    number: i32,
}

impl HostPort {
    /// Returns the host ports of a pod.
    pub(crate) fn of(pod: &Pod) -> Vec<Self> {
        let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
        let spec = pod.spec.iter();
        let sidecars = spec.clone().flat_map(|spec| spec.init_containers.iter().flatten()).filter(is_sidecar);
        let containers = spec.flat_map(|spec| &spec.containers).chain(sidecars);
        let ports = containers.flat_map(|container| container.ports.iter().flatten());
        ports
            .filter_map(|port| {
                let number = port.host_port.filter(|number| *number > 0)?;
                let address = port.host_ip.clone().filter(|address| !["", "0.0.0.0"].contains(&&**address));
                Some(Self { protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), address, number })
            })
            .collect()
    }

    /// Reports whether two ports cannot be taken on the same node.
    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        let overlap = self.address.is_none() || other.address.is_none() || self.address == other.address;
        overlap && self.number == other.number && self.protocol == other.protocol
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn port(value: serde_json::Value) -> HostPort {
        let containers = json!([{"name": "c", "ports": [value, {"containerPort": 80}]}]);
        let pod = serde_json::from_value(json!({"spec": {"containers": containers}})).unwrap();
        let [port] = <[_; 1]>::try_from(HostPort::of(&pod)).unwrap();
        port
    }

    #[test]
    fn ports_conflict_by_number_protocol_and_address() {
        let everywhere = port(json!({"containerPort": 1, "hostPort": 8080}));
        let local = port(json!({"containerPort": 1, "hostPort": 8080, "hostIP": "127.0.0.1"}));
        let other = port(json!({"containerPort": 1, "hostPort": 8080, "hostIP": "127.0.0.2"}));
        let udp = port(json!({"containerPort": 1, "hostPort": 8080, "protocol": "UDP"}));
        let another = port(json!({"containerPort": 1, "hostPort": 8081, "hostIP": "0.0.0.0"}));
        assert!(everywhere.conflicts_with(&everywhere) && everywhere.conflicts_with(&local));
        assert!(local.conflicts_with(&everywhere) && !local.conflicts_with(&other));
        assert!(!everywhere.conflicts_with(&udp) && !everywhere.conflicts_with(&another));
    }
}
