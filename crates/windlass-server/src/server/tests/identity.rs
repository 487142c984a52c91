//! End-to-end tests of authorization attacks: writes that need more than their verb, and the server's public
//! information.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{CertificateParams, DnType, KeyPair};

use super::*;
use crate::identity::User;

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a";
const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system/configmaps";

/// Grants these rules to jane in the whole cluster.
async fn grant(admin: &Service, rules: Value) {
    let role = json!({"metadata": {"name": "janes"}, "rules": rules});
    assert_eq!(post(admin, &format!("{ROLES}/clusterroles"), role).await.code, 201);
    let binding = json!({
        "metadata": {"name": "janes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "janes"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    assert_eq!(post(admin, &format!("{ROLES}/clusterrolebindings"), binding).await.code, 201);
}

fn message(answer: &Answer) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn apply_and_put_cannot_create_without_create() {
    let server = server();
    let (admin, jane) = (server.service(), server.service().acting_as(User::new("jane")));
    let rule = json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"],
        "verbs": ["get", "patch", "update"]}]);
    grant(&admin, rule).await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let applied = format!("{CONFIG_MAPS}/a?fieldManager=m");
    let refused = |answer: &Answer, resource: &str, group: &str| {
        assert_eq!(answer.verdict(), (403, "Forbidden".to_owned()));
        let why = format!(
            "{resource} \"a\" is forbidden: User \"jane\" cannot create resource \"{resource}\" in API group \"{group}\" in \
             the namespace \"default\""
        );
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        assert_eq!(message(answer), why.replacen(resource, &format!("{resource}{group}"), 1));
    };
    refused(&with_body(&jane, "PATCH", &applied, APPLY, &config).await, "configmaps", "");
    refused(&with_body(&jane, "PATCH", &format!("{applied}&dryRun=All"), APPLY, &config).await, "configmaps", "");
    let lease = json!({"metadata": {"name": "a"}});
    refused(&with_body(&jane, "PUT", LEASE, "application/json", &lease).await, "leases", "coordination.k8s.io");
    assert_eq!(get(&admin, &format!("{CONFIG_MAPS}/a")).await.code, 404);
    // Existing objects can still be changed.
    assert_eq!(with_body(&admin, "PATCH", &applied, APPLY, &config).await.code, 201);
    let changed = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    assert_eq!(with_body(&jane, "PATCH", &applied, APPLY, &changed).await.code, 200);
}

fn signing_request(name: &str, signer: &str, organization: &str) -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, "jane");
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    json!({"metadata": {"name": name}, "spec":
        {"signerName": signer, "request": STANDARD.encode(pem), "usages": ["client auth"]}})
}

#[tokio::test]
async fn client_certificates_for_masters_are_rejected() {
    let admin = server().service();
    let signer = "kubernetes.io/kube-apiserver-client";
    let answer = post(&admin, REQUESTS, signing_request("a", signer, "system:masters")).await;
    assert_eq!(answer.verdict(), (403, "Forbidden".to_owned()));
    assert_eq!(
        message(&answer),
        "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: use of kubernetes.io/kube-apiserver-client \
         signer with system:masters group is not allowed"
    );
    assert_eq!(post(&admin, REQUESTS, signing_request("b", signer, "developers")).await.code, 201);
    assert_eq!(post(&admin, REQUESTS, signing_request("c", "example.com/s", "system:masters")).await.code, 201);
}

#[tokio::test]
async fn approving_and_signing_require_signer_permission() {
    let server = server();
    let (admin, jane) = (server.service(), server.service().acting_as(User::new("jane")));
    let parts = ["", "/approval", "/status"].map(|part| format!("certificatesigningrequests{part}"));
    let rules = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": parts, "verbs": ["get", "patch", "update"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["mine.io/s", "ours.io/*"],
            "verbs": ["approve", "sign"]},
    ]);
    grant(&admin, rules).await;
    let approved = json!({"type": "Approved", "status": "True", "reason": "R"});
    let failed = json!({"type": "Failed", "status": "True", "reason": "R"});
    let approval = json!({"status": {"conditions": [approved]}});
    for (name, signer, code) in [("a", "mine.io/s", 200), ("b", "ours.io/any", 200), ("c", "theirs.io/s", 403)] {
        assert_eq!(post(&admin, REQUESTS, signing_request(name, signer, "developers")).await.code, 201);
        let patched = async |part: &str, body: &Value| {
            let answer = with_body(&jane, "PATCH", &format!("{REQUESTS}/{name}/{part}"), MERGE, body).await;
            (answer.code, message(&answer))
        };
        let refused = |verb: &str| {
            let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
            format!("certificatesigningrequests.certificates.k8s.io {name:?} is forbidden: {why}")
        };
        let expected = |verb: &str| (code, if code == 403 { refused(verb) } else { String::new() });
        assert_eq!(patched("approval", &approval).await, expected("approve"));
        let conditions = if code == 403 { json!([failed]) } else { json!([approved, failed]) };
        let failure = json!({"status": {"conditions": conditions}});
        assert_eq!(patched("status", &failure).await, expected("sign"));
        // Other changes need no permission to sign or approve.
        assert_eq!(patched("status", &json!({"metadata": {"labels": {"a": "b"}}})).await.0, 200);
    }
}

#[tokio::test]
async fn legacy_token_tracking_config_map_exists_at_start() {
    let service = server().service();
    let path = format!("{KUBE_SYSTEM}/kube-apiserver-legacy-service-account-token-tracking");
    let map = get(&service, &path).await.json();
    assert_eq!(map["data"], json!({"since": "2026-01-02"}));
    assert_eq!(map["metadata"]["managedFields"][0]["manager"], "kube-apiserver");
}

#[tokio::test]
async fn client_ca_is_published_in_kube_system() {
    let path = format!("{KUBE_SYSTEM}/extension-apiserver-authentication");
    let server = server();
    assert_eq!(get(&server.service(), &path).await.code, 404, "no CA is published yet");
    let tls = TlsIdentity::generate(["127.0.0.1"]).unwrap();
    let ca = TlsIdentity::generate(["ca"]).unwrap().ca_pem().to_owned();
    let tls = tls.with_client_ca(&ca).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // The CA is published before the first connection is accepted.
    server.serve(listener, tls, std::future::ready(())).await.unwrap();
    assert_eq!(get(&server.service(), &path).await.json()["data"], json!({"client-ca-file": ca}));
}
