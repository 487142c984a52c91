//! `ComponentStatus`: a deprecated resource without storage.

use crate::kinds::prelude::*;

pub(super) const KIND: Kind = Kind {
    name: "ComponentStatus",
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    // A real server reports these statuses if no other components run on its machine and its storage is healthy.
    fixed: || {
        Some(vec![
            unreachable("controller-manager", 10257),
            unreachable("scheduler", 10259),
            component("etcd-0", "True", "ok"),
        ])
    },
    ..BASE
};

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
