//! Uniform and varied pods.

use serde_json::{Map, Value, json};
use windlass_api::Entropy;

use super::{
    manifest::with_meta,
    strings::{value, words},
    template::{Mark, mark},
};

/// Returns a container; `number` is unique within the pod.
fn container(name: &str, env: Vec<Value>, args: Vec<String>, image: &str) -> Value {
    let probe = |path: &str| {
        json!({"httpGet": {"path": path, "port": 8080, "scheme": "HTTP"}, "initialDelaySeconds": 5,
        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
    };
    let mut container = json!({
        "name": name, "image": image,
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": env,
        "resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "config", "readOnly": true, "mountPath": "/etc/app"},
            {"name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"),
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
    });
    if !args.is_empty() {
        container["args"] = args.into();
    }
    container
}

fn pod(app: &str, labels: Value, annotations: Value, containers: &[Value]) -> Value {
    let statuses: Vec<_> = containers
        .iter()
        .map(|container| {
            json!({"name": container["name"], "state": {"running": {"startedAt": mark(Mark::Time)}}, "lastState": {}, "ready": true,
                "restartCount": 0, "image": container["image"], "imageID": format!("sha256:{}", mark(Mark::Digest)),
                "containerID": format!("containerd://{}", mark(Mark::Digest)), "started": true})
        })
        .collect();
    let conditions: Vec<_> = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|kind| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": mark(Mark::Time)}))
        .into();
    with_meta(
        app,
        labels,
        annotations,
        Some(app),
        json!({
            "spec": {
                "volumes": [{"name": "config", "configMap": {"name": format!("{app}-settings"), "defaultMode": 420}},
                    {"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}], "defaultMode": 420}}],
                "containers": containers,
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "serviceAccountName": "default", "nodeName": format!("node-{}", mark(Mark::Node)), "securityContext": {},
                "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            },
            "status": {
                "phase": "Running", "conditions": conditions, "hostIP": format!("10.0.0.{}", mark(Mark::Namespace)),
                "podIP": format!("10.1.{}", mark(Mark::Number)), "startTime": mark(Mark::Time), "qosClass": "Burstable",
                "containerStatuses": statuses,
            },
        }),
    )
}

/// Returns a pod with two containers. Pods differ in names, numbers and hashes only.
pub(super) fn uniform(_: &Entropy, at: usize) -> Value {
    let app = format!("app-{}", at % 50);
    let env = |of: &str| {
        (0..6).map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-for-{of}")})).collect()
    };
    let containers = ["app", "sidecar"]
        .map(|name| container(name, env(name), Vec::new(), &format!("registry.example/team/{name}:1.2.3")));
    let labels = json!({"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "tier": "backend", "team": "blue",
        "pod-template-hash": mark(Mark::OwnerHash)});
    let annotations = json!({"prometheus.io/scrape": "true", "prometheus.io/port": "8080",
        "checksum/config": mark(Mark::Hash)});
    pod(&app, labels, annotations, &containers)
}

/// Returns a pod with one to three containers, with their own environment, arguments and annotations.
pub(super) fn varied(entropy: &Entropy, at: usize) -> Value {
    let app = format!("{}-{}", words(entropy, 1), at % 150);
    let containers: Vec<_> = (0..=entropy.below(3))
        .map(|_| {
            let env = (0..4 + entropy.below(28))
                .map(|_| json!({"name": words(entropy, 2).to_uppercase().replace('-', "_"), "value": value(entropy)}));
            let args = (0..entropy.below(8)).map(|_| format!("--{}={}", words(entropy, 2), value(entropy)));
            let image = format!(
                "registry.example/{}/{}:v{}.{}",
                words(entropy, 1),
                words(entropy, 2),
                entropy.below(9),
                entropy.below(40)
            );
            container(&words(entropy, 2), env.collect(), args.collect(), &image)
        })
        .collect();
    let labels = json!({"app.kubernetes.io/name": app, "app.kubernetes.io/instance": words(entropy, 2), "team": words(entropy, 1),
        "apps.kubernetes.io/pod-index": entropy.below(20).to_string(), "pod-template-hash": mark(Mark::OwnerHash)});
    let annotations: Map<_, _> = (0..2 + entropy.below(6))
        .map(|_| (format!("{}.example/{}", words(entropy, 1), words(entropy, 2)), value(entropy).into()))
        .collect();
    pod(&app, labels, annotations.into(), &containers)
}
