//! The annotations of Pod Security.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Recorder, blocking, policy, send};
use crate::{AdmissionConfiguration, AuditConfiguration, AuditWebhook, Server};

/// Returns a server with exemptions, whose namespace `default` enforces `baseline` and audits `restricted`.
async fn server() -> (Server, Arc<Recorder>) {
    let file = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": {
            "apiVersion": "pod-security.admission.config.k8s.io/v1",
            "kind": "PodSecurityConfiguration",
            "exemptions": {"namespaces": ["kube-public"], "runtimeClasses": ["sandboxed"]},
        }}],
    });
    let admission = AdmissionConfiguration::parse(file, |_| Err("there is no other file".into())).unwrap();
    let recorder = Recorder::new();
    let webhook: Arc<dyn AuditWebhook> = recorder.clone();
    let rules = json!([{"level": "Metadata", "omitStages": ["RequestReceived"]}]);
    let audit = AuditConfiguration::new(policy(rules)).with_webhook(webhook, &blocking()).unwrap();
    let server = Server::builder().admission(admission).audit(audit).build();
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/audit-version": "v1.20",
    });
    let patch = json!({"metadata": {"labels": labels}});
    assert_eq!(send(&server, "PATCH", "/api/v1/namespaces/default", patch).await.status(), 200);
    let class = json!({"metadata": {"name": "sandboxed"}, "handler": "h"});
    assert_eq!(send(&server, "POST", "/apis/node.k8s.io/v1/runtimeclasses", class).await.status(), 201);
    recorder.lists.lock().clear();
    (server, recorder)
}

fn pod(fields: &Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec})
}

/// Writes an object, and returns the annotations of Pod Security.
async fn annotations((server, recorder): &(Server, Arc<Recorder>), path: &str, body: Value, code: u16) -> Value {
    let response = send(server, "POST", &format!("{path}?dryRun=All"), body).await;
    assert_eq!(response.status(), code, "{}", String::from_utf8_lossy(response.body()));
    let events = recorder.events();
    recorder.lists.lock().clear();
    let annotations = events.last().unwrap()["annotations"].as_object().unwrap().iter();
    let prefix = "pod-security.kubernetes.io/";
    annotations.filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.to_owned(), value.clone()))).collect()
}

#[tokio::test]
async fn pod_has_the_enforced_policy_and_its_violations() {
    let audited = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let violations = |host: &str| {
        format!(
            "would violate PodSecurity \"restricted:v1.20\": {host}allowPrivilegeEscalation != false (container \"c\" must \
             set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or container \"c\" must set \
             securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set \
             securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        )
    };
    let found = annotations(&audited, pods, pod(&json!({})), 201).await;
    assert_eq!(found, json!({"enforce-policy": "baseline:latest", "audit-violations": violations("")}));
    let found = annotations(&audited, pods, pod(&json!({"hostNetwork": true})), 403).await;
    let host = "host namespaces (hostNetwork=true), ";
    assert_eq!(found, json!({"enforce-policy": "baseline:latest", "audit-violations": violations(host)}));
    let found = annotations(&audited, pods, pod(&json!({"runtimeClassName": "sandboxed"})), 201).await;
    assert_eq!(found, json!({"exempt": "runtimeClass"}));
    let found = annotations(&audited, "/api/v1/namespaces/kube-public/pods", pod(&json!({})), 201).await;
    assert_eq!(found, json!({"exempt": "namespace"}));
    let found = annotations(&audited, "/api/v1/namespaces/kube-system/pods", pod(&json!({})), 201).await;
    assert_eq!(found, json!({"enforce-policy": "privileged:latest"}));
}

#[tokio::test]
async fn workload_has_its_violations_only() {
    let audited = server().await;
    let job = |fields: &Value| {
        let mut template = pod(fields);
        template["spec"]["restartPolicy"] = "Never".into();
        template["metadata"].as_object_mut().unwrap().remove("name");
        json!({"metadata": {"name": "j"}, "spec": {"template": template}})
    };
    let jobs = |namespace: &str| format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    let found = annotations(&audited, &jobs("default"), job(&json!({})), 201).await;
    assert_eq!(found.as_object().unwrap().keys().collect::<Vec<_>>(), ["audit-violations"]);
    let exempt = || job(&json!({"runtimeClassName": "sandboxed"}));
    let found = annotations(&audited, &jobs("default"), exempt(), 201).await;
    assert_eq!(found, json!({"exempt": "runtimeClass"}));
    // The policy of this namespace is privileged, so nothing is evaluated.
    let found = annotations(&audited, &jobs("kube-system"), exempt(), 201).await;
    assert_eq!(found, json!({}));
}
