//! Measures both conversions, decoding into a Rust type, and parsing the same JSON with serde_json:
//!
//! ```sh
//! cargo run --profile dist --package windlass-protobuf --example speed
//! ```
#![allow(clippy::disallowed_methods, reason = "a measurement needs the real time")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_protobuf::{Error, Metadata, from_protobuf, to_json, to_protobuf};

/// The duration of one round. The fastest of several rounds counts.
const ROUND: Duration = Duration::from_millis(200);
const ROUNDS: usize = 10;

fn main() -> Result<(), Error> {
    measure::<ConfigMap>("ConfigMap", &config_map())?;
    measure::<Pod>("Pod", &pod())
}

fn measure<K: DeserializeOwned>(name: &str, object: &Value) -> Result<(), Error> {
    // In Go's form and order.
    let value = to_protobuf(object.to_string().as_bytes())?;
    let json = to_json(&value)?;
    println!("{name}: {} bytes of JSON, {} bytes of protobuf", json.len(), value.len());
    report("serde_json::from_slice::<Value>", || {
        let value: Value = serde_json::from_slice(black_box(&json)).unwrap_or_default();
        drop(black_box(value));
    });
    report("serde_json::from_slice::<K>", || {
        let object: Option<K> = serde_json::from_slice(black_box(&json)).ok();
        drop(black_box(object));
    });
    report("from_protobuf::<K>", || drop(black_box(from_protobuf::<K>(black_box(&value)))));
    report("Metadata::read", || drop(black_box(Metadata::read(black_box(&value)))));
    report("to_protobuf", || drop(black_box(to_protobuf(black_box(&json)))));
    report("to_json", || drop(black_box(to_json(black_box(&value)))));
    Ok(())
}

fn report(name: &str, run: impl Fn()) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut count = 0u32;
        while start.elapsed() < ROUND {
            for _ in 0..100 {
                run();
            }
            count += 100;
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(count));
    }
    println!("  {name}: {:.2} µs", best * 1e6);
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name, "namespace": "default", "uid": "0b8f1a3e-6e0c-4a25-9f4e-5d2f1b6a7c80", "resourceVersion": "123456",
        "generation": 2, "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "web", "pod-template-hash": "5d78c9869d"},
        "managedFields": [{
            "manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}, "f:pod-template-hash": {}}}},
        }],
    })
}

fn config_map() -> Value {
    let line = "key = value of a line in a configuration file\n";
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("settings"),
        "data": {"a.conf": line.repeat(3), "b.conf": line.repeat(3), "level": "info", "replicas": "3"},
    })
}

fn pod() -> Value {
    let probe = json!({
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
        "successThreshold": 1, "failureThreshold": 3,
    });
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example.com/team/web:1.27.3", "args": ["--listen=:8080", "--verbose"],
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "LEVEL", "value": "info"},
            ],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/web"},
                {"name": "kube-api-access-x7k2p", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
            ],
            "livenessProbe": probe, "readinessProbe": probe, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        })
    };
    let status = |name: &str| {
        json!({
            "name": name, "state": {"running": {"startedAt": "2026-01-02T03:04:10Z"}}, "lastState": {}, "ready": true, "restartCount": 0,
            "image": "registry.example.com/team/web:1.27.3", "started": true,
            "imageID": "registry.example.com/team/web@sha256:4c0fdaa8b6341bfdeca5f18f7837462c80cff90527ee35ef185571e1c327beac",
            "containerID": "containerd://9b1b1e3f6e0d4a5c8b7a6d5e4f3c2b1a09f8e7d6c5b4a3928170615243342516",
        })
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:10Z"});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata("web-5d78c9869d-x7k2p"),
        "spec": {
            "volumes": [
                {"name": "config", "configMap": {"name": "settings", "defaultMode": 420}},
                {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]}},
            ],
            "containers": [container("web"), container("proxy")], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst", "serviceAccountName": "default", "serviceAccount": "default", "nodeName": "node-1",
            "securityContext": {"runAsNonRoot": true}, "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "priority": 0, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.7", "podIPs": [{"ip": "10.1.0.7"}], "qosClass": "Burstable",
            "startTime": "2026-01-02T03:04:05Z", "containerStatuses": [status("web"), status("proxy")],
            "conditions": [condition("PodReadyToStartContainers"), condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")],
        },
    })
}
