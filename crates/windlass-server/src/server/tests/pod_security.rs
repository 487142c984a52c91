//! The admission plugin `PodSecurity` with a configuration. The cases of the conformance suite cover the default one.

use super::*;
use crate::{AdmissionConfiguration, User};

const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All";

/// Returns a server with the defaults `baseline`, and with exemptions.
fn server() -> Server {
    let content = json!({
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "baseline"},
        "exemptions": {"usernames": ["robot"], "namespaces": ["kube-system", "system"], "runtimeClasses": ["sandboxed"]},
    });
    let file = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": content}],
    });
    let configuration = AdmissionConfiguration::parse(file, |_| Err("there is no other file".into())).unwrap();
    Server::builder().entropy(Entropy::seeded(1)).admission(configuration).build()
}

fn pod(fields: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "a", "image": "i"}], "hostNetwork": true});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"metadata": {"name": "p"}, "spec": spec})
}

async fn relabel(service: &Service, namespace: &str, labels: Value) -> Answer {
    let patch = json!({"metadata": {"labels": labels}});
    let path = format!("/api/v1/namespaces/{namespace}");
    with_body(service, "PATCH", &path, "application/merge-patch+json", patch).await
}

#[tokio::test]
async fn defaults_apply_to_namespaces_without_labels() {
    let service = server().service();
    let refused = post(&service, PODS, pod(json!({}))).await;
    let message =
        "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    assert_eq!(refused.json()["message"], message);
    relabel(&service, "default", json!({"pod-security.kubernetes.io/enforce": "privileged"})).await;
    assert_eq!(post(&service, PODS, pod(json!({}))).await.code, 201);
}

#[tokio::test]
async fn exempt_users_namespaces_and_classes_are_not_checked() {
    let service = server().service();
    let robot = service.clone().acting_as(User::new("robot").in_groups(["system:masters"]));
    assert_eq!(post(&robot, PODS, pod(json!({}))).await.code, 201);
    let system = "/api/v1/namespaces/kube-system/pods?dryRun=All";
    assert_eq!(post(&service, system, pod(json!({}))).await.code, 201);
    let class = json!({"metadata": {"name": "sandboxed"}, "handler": "h"});
    post(&service, "/apis/node.k8s.io/v1/runtimeclasses", class).await;
    assert_eq!(post(&service, PODS, pod(json!({"runtimeClassName": "sandboxed"}))).await.code, 201);
    assert_eq!(post(&service, PODS, pod(json!({}))).await.code, 403);
}

#[tokio::test]
async fn labels_of_an_exempt_namespace_cause_a_warning() {
    let service = server().service();
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn-version": "v1.20",
    });
    let warned = relabel(&service, "kube-system", labels.clone()).await;
    let warning = "299 - \"namespace \\\"kube-system\\\" is exempt from Pod Security, and the policy \
                   (enforce=restricted:latest, warn=restricted:v1.20) will be ignored\"";
    assert_eq!(warned.header("warning"), warning);
    let create = async |name: &str, labels: &Value| {
        post(&service, "/api/v1/namespaces", json!({"metadata": {"name": name, "labels": labels}})).await
    };
    let warned = create("system", &labels).await;
    assert_eq!((warned.code, warned.header("warning")), (201, &*warning.replace("kube-system", "system")));
    let other = create("other", &labels).await;
    assert_eq!((other.code, other.headers.get("warning")), (201, None));
}
