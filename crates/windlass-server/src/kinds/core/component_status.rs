//! `ComponentStatus`: a deprecated resource without storage.

use crate::kinds::prelude::*;

pub(super) const KIND: Kind = Kind {
    name: "ComponentStatus",
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    strategy: |_| Arc::new(ComponentStatus),
    ..BASE
};

#[derive(Debug)]
struct ComponentStatus;

impl Strategy for ComponentStatus {
    fn rules(&self) -> &Rules {
        &Rules::COMMON
    }

    /// Returns the statuses that a real server reports if no other components run on its machine and its storage is
    /// healthy.
    fn fixed(&self) -> Option<Vec<Value>> {
        Some(vec![
            unreachable("controller-manager", 10257),
            unreachable("scheduler", 10259),
            component("etcd-0", "True", "ok"),
        ])
    }
}

fn unreachable(name: &str, port: u16) -> Value {
    let message =
        format!("Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection refused");
    component(name, "False", &message)
}

fn component(name: &str, status: &str, message: &str) -> Value {
    json!({
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": status, "message": message}],
    })
}
