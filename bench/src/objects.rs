//! The written objects, and the content types of their bodies.

use serde_json::{Value, json};

pub(crate) const JSON: &str = "application/json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// Returns a realistic pod: two containers with environment, probes, resources and mounts.
pub(crate) fn pod(at: usize) -> Value {
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "initialDelaySeconds": 5});
    let container = |name: &str| {
        let env: Vec<_> =
            (0..12).map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-{name}")})).collect();
        json!({
            "name": name, "image": format!("registry.example/{name}:1.2.3"), "env": env,
            "ports": [{"containerPort": 8080, "name": "http"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
            "livenessProbe": probe, "readinessProbe": probe,
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}, {"name": "data", "mountPath": "/var/lib/app"}],
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{at}"),
            "labels": {"app": format!("app-{}", at % 50), "tier": "back", "version": "v1", "team": "a", "pod-template-hash": "abc"},
            "annotations": {"note/one": "some text that annotations have", "note/two": "some more of it", "note/three": "3"},
        },
        "spec": {
            "containers": [container("app"), container("sidecar")],
            "volumes": [{"name": "config", "configMap": {"name": "settings"}}, {"name": "data", "emptyDir": {}}],
        },
    })
}

/// Returns a Deployment of such pods.
pub(crate) fn deployment(at: usize) -> Value {
    let mut pod = pod(at);
    let labels = pod["metadata"]["labels"].clone();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("deployment-{at}"), "labels": labels},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": labels["app"]}},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"].take()},
        },
    })
}

/// Returns a Service with a cluster IP.
pub(crate) fn service(at: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("service-{at}"), "labels": {"app": format!("app-{}", at % 50)}},
        "spec": {"selector": {"app": format!("app-{}", at % 50)}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    })
}

/// Returns a Service with a cluster IP and a node port.
pub(crate) fn node_port_service(at: usize) -> Value {
    let mut service = service(at);
    service["metadata"]["name"] = format!("node-port-service-{at}").into();
    service["spec"]["type"] = "NodePort".into();
    service
}

/// Returns a ConfigMap of ten entries with the same value.
pub(crate) fn config_map(name: &str, value: &str) -> Value {
    let data: serde_json::Map<_, _> = (0..10).map(|key| (format!("key-{key}"), json!(value))).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "bench"}}, "data": data})
}
