//! `ComponentStatus`: a deprecated resource without storage.

use serde_json::{Value, json};

use crate::kinds::{BASE, Kind};

pub(super) const KINDS: &[Kind] = &[Kind {
    name: "ComponentStatus",
    fixed: Some(components),
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    ..BASE
}];

/// Returns the statuses that a real server reports if no other components run on its machine and its storage is
/// healthy.
fn components() -> Vec<Value> {
    let unreachable = |name: &str, port: u16| {
        let message =
            format!("Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection refused");
        component(name, "False", &message)
    };
    vec![unreachable("controller-manager", 10257), unreachable("scheduler", 10259), component("etcd-0", "True", "ok")]
}

fn component(name: &str, status: &str, message: &str) -> Value {
    json!({
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": status, "message": message}],
    })
}
