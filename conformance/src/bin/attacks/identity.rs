//! Attacks on authentication and authorization: acting as another user, or with more permissions.

use serde_json::{Value, json};

use crate::{
    catalog::{AttackResult, Error},
    server::Server,
    wire::PendingRequest,
};

/// A user without permissions.
const ATTACKER: &str = "attacker";

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// "é" in Latin-1, and invalid UTF-8.
const FOREIGN: &[u8] = b"caf\xe9\xff";

pub(crate) async fn foreign_user(server: Server) -> Result<AttackResult, Error> {
    foreign(&server, &[("Impersonate-User", FOREIGN)]).await
}

pub(crate) async fn foreign_group(server: Server) -> Result<AttackResult, Error> {
    foreign(&server, &[("Impersonate-User", b"x"), ("Impersonate-Group", FOREIGN)]).await
}

pub(crate) async fn foreign_extra(server: Server) -> Result<AttackResult, Error> {
    foreign(&server, &[("Impersonate-User", b"x"), ("Impersonate-Extra-Scopes", FOREIGN)]).await
}

/// The request must be rejected, or run as the user in the headers with all their attributes.
async fn foreign(server: &Server, headers: &[(&str, &[u8])]) -> Result<AttackResult, Error> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let ask =
        headers.iter().fold(PendingRequest::new(server, "POST", SELF), |ask, (name, value)| ask.header(name, value));
    let answer = ask.json(&review).send().await?;
    if answer.code >= 400 {
        return Ok(AttackResult::Held(answer.brief()));
    }
    let user: Value = serde_json::from_str(&answer.body)?;
    let user = &user["status"]["userInfo"];
    let is_other = user["username"].as_str().is_some_and(|name| name == "x" || name.starts_with("caf"));
    let is_complete = headers.len() == 1 || user.to_string().contains("caf");
    Ok(AttackResult::when(is_other && is_complete, format!("{}: as {}", answer.code, user["username"])))
}

/// Grants the attacker some verbs for a resource.
async fn allow(server: &Server, name: &str, group: &str, resource: &str, verbs: &[&str]) -> Result<(), Error> {
    let rules = json!([{"apiGroups": [group], "resources": [resource], "verbs": verbs}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    PendingRequest::new(server, "POST", &format!("{RBAC}/clusterroles")).json(&role).send().await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "subjects": [{"kind": "User", "name": ATTACKER, "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"},
    });
    PendingRequest::new(server, "POST", &format!("{RBAC}/clusterrolebindings")).json(&binding).send().await?;
    Ok(())
}

pub(crate) async fn create_by_apply(server: Server) -> Result<AttackResult, Error> {
    allow(&server, "attack-patch", "", "configmaps", &["get", "patch"]).await?;
    let path = "/api/v1/namespaces/default/configmaps/made-by-apply?fieldManager=attack";
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made-by-apply"}});
    let ask = PendingRequest::new(&server, "PATCH", path)
        .by(ATTACKER)
        .body("application/apply-patch+yaml", object.to_string());
    let answer = eventually(ask.send()).await?;
    Ok(AttackResult::when(answer.code == 403, answer.brief()))
}

pub(crate) async fn create_by_put(server: Server) -> Result<AttackResult, Error> {
    allow(&server, "attack-update", "coordination.k8s.io", "leases", &["get", "update"]).await?;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/made-by-put";
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "made-by-put"}});
    let answer =
        eventually(async { PendingRequest::new(&server, "PUT", path).by(ATTACKER).json(&lease).send().await }).await?;
    Ok(AttackResult::when(answer.code == 403, answer.brief()))
}

/// The real server applies roles with a delay. Retries, because a premature rejection would hide the attack.
async fn eventually<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    answer.await
}

pub(crate) async fn combinatorial_role(server: Server) -> Result<AttackResult, Error> {
    allow(&server, "attack-roles", "rbac.authorization.k8s.io", "roles", &["create"]).await?;
    let many = |prefix: &str| (0..40).map(|number| format!("{prefix}{number}")).collect::<Vec<_>>();
    let rules = json!([{
        "apiGroups": many("g"), "resources": many("r"), "verbs": many("v"), "resourceNames": many("n"),
    }]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "combinatorial"}, "rules": rules,
    });
    let path = format!("{RBAC}/namespaces/default/roles");
    let answer =
        eventually(async { PendingRequest::new(&server, "POST", &path).by(ATTACKER).json(&role).send().await }).await?;
    Ok(AttackResult::when(answer.code == 403, format!("403 with {} KiB", answer.body.len() >> 10)))
}

pub(crate) async fn deleted_account(server: Server) -> Result<AttackResult, Error> {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "short-lived"}});
    PendingRequest::new(&server, "POST", accounts).json(&account).send().await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer =
        PendingRequest::new(&server, "POST", &format!("{accounts}/short-lived/token")).json(&request).send().await?;
    let answer: Value = serde_json::from_str(&answer.body)?;
    let token = answer["status"]["token"].as_str().ok_or("no token was issued")?.to_owned();
    let ask = async || {
        let bearer = format!("Bearer {token}");
        PendingRequest::new(&server, "GET", "/api").header("Authorization", bearer.as_bytes()).send().await
    };
    let before = ask().await?;
    if before.code != 200 {
        return Ok(AttackResult::Broken(format!("the token did not work: {}", before.brief())));
    }
    PendingRequest::new(&server, "DELETE", &format!("{accounts}/short-lived")).send().await?;
    let after = ask().await?;
    Ok(AttackResult::when(after.code == 401, format!("{} right after the deletion", after.code)))
}

pub(crate) async fn masters_certificate(server: Server) -> Result<AttackResult, Error> {
    use base64::Engine as _;
    // A CertificateSigningRequest of a client in the organization system:masters.
    let mut subject = rcgen::CertificateParams::default();
    subject.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
    subject.distinguished_name.push(rcgen::DnType::CommonName, "root");
    let request = subject.serialize_request(&rcgen::KeyPair::generate()?)?.pem()?;
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "masters"},
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(request),
            "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
        },
    });
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let answer = PendingRequest::new(&server, "POST", path).json(&request).send().await?;
    Ok(AttackResult::when(answer.code == 403, answer.brief()))
}
