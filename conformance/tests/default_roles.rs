//! The default roles and bindings over two starts of a server with the same data directory.

use std::{path::Path, sync::Arc, time::Duration};

use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::{self, Instant};
use windlass_client::Client;
use windlass_server::{Server, storage::Storage};
use windlass_storage::{DiskStorage, Options};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Starts a server. The tasks of the last one may still hold the directory for a moment.
async fn start(directory: &Path) -> Client {
    let deadline = Instant::now() + Duration::from_secs(30);
    let storage: Arc<dyn Storage> = loop {
        match DiskStorage::open_with(directory, Options::default()) {
            Ok(storage) => break Arc::new(storage),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        time::sleep(Duration::from_millis(10)).await;
    };
    Client::from_service(Server::builder().storage(storage).build().service(), "default")
}

async fn send(client: &Client, method: Method, path: &str, body: Option<Value>) -> Value {
    let request = Request::builder().method(&method).uri(path).header("Content-Type", "application/json");
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let response = client.request(request.body(body).unwrap()).await.unwrap();
    let code = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert!(code.is_success(), "{method} {path}: {answer}");
    answer
}

/// Changes an object.
async fn edit(client: &Client, path: &str, change: impl FnOnce(&mut Value)) {
    let mut object = send(client, Method::GET, path, None).await;
    change(&mut object);
    send(client, Method::PUT, path, Some(object)).await;
}

#[tokio::test]
async fn restart_completes_default_roles_and_keeps_additions() {
    let directory = tempfile::tempdir().unwrap();
    let group = |name: &str| json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name});
    let own_rule = json!({"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["foos"]});
    let own_selector = json!({"matchLabels": {"example.com/view": "true"}});
    let (user, discovery, view) =
        (format!("{ROLES}/system:basic-user"), format!("{ROLES}/system:discovery"), format!("{ROLES}/view"));
    let (basic, monitoring) = (format!("{BINDINGS}/system:basic-user"), format!("{BINDINGS}/system:monitoring"));
    let first = {
        let client = start(directory.path()).await;
        let first = send(&client, Method::GET, &user, None).await;
        edit(&client, &user, |role| {
            role["rules"] = json!([own_rule]);
            role["metadata"]["labels"] = json!({"mine": "x"});
        })
        .await;
        edit(&client, &discovery, |role| {
            role["rules"] = json!([]);
            role["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = json!("false");
        })
        .await;
        edit(&client, &view, |role| role["aggregationRule"]["clusterRoleSelectors"] = json!([own_selector])).await;
        edit(&client, &basic, |binding| binding["subjects"] = json!([group("mine")])).await;
        send(&client, Method::DELETE, &monitoring, None).await;
        let other = json!({"metadata": {"name": "system:monitoring"}, "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [group("mine")]});
        send(&client, Method::POST, BINDINGS, Some(other)).await;
        first
    };
    let client = start(directory.path()).await;
    let role = send(&client, Method::GET, &user, None).await;
    assert_eq!(role["rules"][0], own_rule);
    assert_eq!(role["metadata"]["labels"], json!({"mine": "x", "kubernetes.io/bootstrapping": "rbac-defaults"}));
    let verbs = |role: &Value| -> usize {
        role["rules"].as_array().unwrap().iter().map(|rule| rule["verbs"].as_array().unwrap().len()).sum()
    };
    let resources: usize =
        first["rules"].as_array().unwrap().iter().map(|rule| rule["resources"].as_array().unwrap().len()).sum();
    assert_eq!(verbs(&role), 1 + resources, "each missing permission is a rule: {role}");
    let role_of_discovery = send(&client, Method::GET, &discovery, None).await;
    assert!(role_of_discovery["rules"].as_array().is_none_or(Vec::is_empty), "{role_of_discovery}");
    let selectors = send(&client, Method::GET, &view, None).await["aggregationRule"]["clusterRoleSelectors"].clone();
    let default = json!({"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}});
    assert_eq!(selectors, json!([own_selector, default]));
    let subjects = send(&client, Method::GET, &basic, None).await["subjects"].clone();
    assert_eq!(subjects, json!([group("mine"), group("system:authenticated")]));
    let binding = send(&client, Method::GET, &monitoring, None).await;
    assert_eq!(binding["roleRef"]["name"], "system:monitoring");
    assert_eq!(binding["subjects"], json!([group("system:monitoring")]));
    // Another start changes nothing.
    let version = role["metadata"]["resourceVersion"].clone();
    drop(client);
    let role = send(&start(directory.path()).await, Method::GET, &user, None).await;
    assert_eq!(role["metadata"]["resourceVersion"], version);
}
