//! API servers that share an etcd.

use http::{Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_server::{Server, Service, User};

use super::*;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

pub(super) async fn send(service: &Service, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
    let response = within(service.clone().oneshot(request.body(body).unwrap())).await.unwrap();
    let code = response.status().as_u16();
    let bytes = within(response.into_body().collect()).await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

pub(super) async fn post(service: &Service, path: &str, body: &Value) -> Value {
    let (code, answer) = send(service, "POST", path, body).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

pub(super) async fn get(service: &Service, path: &str) -> (u16, Value) {
    send(service, "GET", path, &Value::Null).await
}

/// Starts two servers at the same time, on an empty etcd.
async fn servers(etcd: &Etcd) -> [Service; 2] {
    let storages = [etcd::connect_to(&[etcd]).await, etcd::connect_to(&[etcd]).await];
    let servers = storages.map(|storage| Server::builder().storage(Arc::new(storage) as Arc<dyn Storage>).build());
    let starting = Box::pin(futures::future::join_all(servers.iter().map(Server::start)));
    within(starting).await.into_iter().for_each(|started| started.unwrap());
    servers.map(|server| server.service())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn servers_share_objects_watches_and_custom_resources() {
    let etcd = Etcd::start();
    let [first, second] = servers(&etcd).await;
    let (_, list) = get(&second, CONFIG_MAPS).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}");
    let request = Request::builder().uri(path).body(String::new()).unwrap();
    let mut watch = within(second.clone().oneshot(request)).await.unwrap().into_body();
    for number in 0..20 {
        let created = post(&first, CONFIG_MAPS, &json!({"metadata": {"name": format!("c{number}")}})).await;
        let (code, read) = get(&second, &format!("{CONFIG_MAPS}/c{number}")).await;
        assert_eq!((code, &read), (200, &created), "the other server reads it at once");
        let frame = within(watch.frame()).await.unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]), (&json!("ADDED"), &created["metadata"]));
        let version = created["metadata"]["resourceVersion"].as_str().unwrap();
        let (code, list) = get(&second, &format!("{CONFIG_MAPS}?resourceVersion={version}")).await;
        assert_eq!((code, list["items"].as_array().unwrap().len()), (200, number + 1));
    }
    let definition = json!({
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Site", "plural": "sites"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    post(&first, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    for service in [&second, &first] {
        until(async || (get(service, "/apis/example.com/v1/sites").await.0 == 200).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn roles_apply_to_the_next_request() {
    let etcd = Etcd::start();
    let [service, _] = servers(&etcd).await;
    let jane = service.clone().acting_as(User::new("jane"));
    let binding = json!({
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    for round in 0..30 {
        assert_eq!(get(&jane, CONFIG_MAPS).await.0, 403, "in round {round}");
        post(&service, BINDINGS, &binding).await;
        assert_eq!(get(&jane, CONFIG_MAPS).await.0, 200, "in round {round}");
        assert_eq!(send(&service, "DELETE", &format!("{BINDINGS}/b"), &Value::Null).await.0, 200);
    }
}
