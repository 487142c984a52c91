//! API servers that share an etcd: the claims of their services, and the endpoints of the service `kubernetes`.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_server::{Server, ServerBuilder, Service, User};

use super::{
    servers::{get, post, send},
    *,
};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// The time after which a killed server has left: its lease of 15 s, the interval of 10 s, and some time for etcd.
const GONE: Duration = Duration::from_secs(45);

/// The time after which a write of another server has an effect. docs/how-to/use-etcd.md states it.
const VISIBLE: Duration = Duration::from_secs(5);

/// Starts a server with an address of its own.
async fn server(etcd: &Etcd, address: &str, options: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Server {
    let storage = Arc::new(etcd::connect_to(&[etcd]).await) as Arc<dyn Storage>;
    let builder = Server::builder().storage(storage).advertise_address(address.parse().unwrap());
    let server = options(builder).build();
    within(Box::pin(server.start())).await.unwrap();
    server
}

fn node_port(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
}

async fn listed(service: &Service) -> [Vec<String>; 2] {
    let texts = |value: &Value, path: &str| -> Vec<String> {
        let found = value.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
        found.iter().map(|item| item["ip"].as_str().or(item["addresses"][0].as_str()).unwrap().to_owned()).collect()
    };
    let (_, endpoints) = get(service, ENDPOINTS).await;
    let (_, slice) = get(service, SLICE).await;
    [texts(&endpoints, "/subsets/0/addresses"), texts(&slice, "/endpoints")]
}

async fn identities(service: &Service) -> Vec<Value> {
    let (_, leases) =
        get(service, &format!("{LEASES}?labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver")).await;
    leases["items"].as_array().unwrap().clone()
}

/// Repeats a check until it returns a value, for longer than [`until`].
async fn until_within<T>(limit: Duration, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let repeated = async {
        loop {
            if let Some(value) = check().await {
                return value;
            }
            time::sleep(Duration::from_millis(50)).await;
        }
    };
    time::timeout(limit, repeated).await.expect("the state in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn services_of_two_servers_never_share_an_address_or_port() {
    let etcd = Etcd::start();
    let small = |builder: ServerBuilder| builder.service_cidr("10.0.0.0/27".parse().unwrap());
    // Both start at the same time, on an empty etcd.
    let servers = tokio::join!(server(&etcd, "10.1.1.1", small), server(&etcd, "10.1.1.2", small));
    let services = [servers.0.service(), servers.1.service()];
    // 30 addresses, one of which the service `kubernetes` has. Every service is created at once.
    let bodies: Vec<Value> = (0..29).map(|number| node_port(&format!("s{number}"))).collect();
    let creations = bodies.iter().enumerate().map(|(number, body)| post(&services[number % 2], SERVICES, body));
    let created = join_all(creations).await;
    let ips: BTreeSet<&str> = created.iter().map(|service| service["spec"]["clusterIP"].as_str().unwrap()).collect();
    let ports: BTreeSet<i64> =
        created.iter().map(|service| service["spec"]["ports"][0]["nodePort"].as_i64().unwrap()).collect();
    assert_eq!((ips.len(), ports.len()), (29, 29), "{ips:?} {ports:?}");
    for service in &services {
        let (code, answer) = send(service, "POST", SERVICES, &node_port("more")).await;
        assert!(code == 500 && answer["message"].as_str().unwrap().ends_with("range is full"), "{answer}");
        let (_, list) = get(service, ADDRESSES).await;
        assert_eq!(list["items"].as_array().unwrap().len(), 30);
    }
    // Released by one server, and claimed by the other at once.
    assert_eq!(send(&services[0], "DELETE", &format!("{SERVICES}/s3"), &Value::Null).await.0, 200);
    let mut next = node_port("next");
    next["spec"]["ports"][0]["nodePort"] = created[3]["spec"]["ports"][0]["nodePort"].clone();
    let next = post(&services[1], SERVICES, &next).await;
    assert_eq!(next["spec"]["clusterIP"], created[3]["spec"]["clusterIP"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn endpoints_list_the_servers_that_run() {
    let etcd = Etcd::start();
    let same = |builder| builder;
    let first = server(&etcd, "10.1.1.1", same).await;
    let service = first.service();
    assert_eq!(listed(&service).await, [["10.1.1.1"], ["10.1.1.1"]]);
    let second = server(&etcd, "10.1.1.2", same).await;
    let third = server(&etcd, "10.1.1.3", same).await;
    let all = vec!["10.1.1.1".to_owned(), "10.1.1.2".to_owned(), "10.1.1.3".to_owned()];
    for server in [&first, &second, &third] {
        assert_eq!(listed(&server.service()).await, [all.clone(), all.clone()]);
    }
    let leases = identities(&service).await;
    assert_eq!(leases.len(), 3, "{leases:?}");
    for lease in &leases {
        let (name, spec) = (lease["metadata"]["name"].as_str().unwrap(), &lease["spec"]);
        assert!(name.starts_with("apiserver-") && lease["metadata"]["labels"]["kubernetes.io/hostname"].is_string());
        assert!(spec["holderIdentity"].as_str().unwrap().starts_with(&format!("{name}_")), "{spec}");
        assert_eq!((&spec["leaseDurationSeconds"], spec["renewTime"].is_string()), (&json!(3600), true));
    }
    // A server that stops leaves at once.
    second.stop();
    second.leave().await;
    let two = vec!["10.1.1.1".to_owned(), "10.1.1.3".to_owned()];
    assert_eq!(listed(&service).await, [two.clone(), two]);
    assert_eq!(identities(&service).await.len(), 2);
    // One that ends without that leaves when its lease expires.
    let killed = Instant::now();
    drop(third);
    until_within(GONE, async || (listed(&service).await == [["10.1.1.1"], ["10.1.1.1"]]).then_some(())).await;
    assert!(killed.elapsed() > Duration::from_secs(4), "its lease was still valid");
    assert_eq!(identities(&service).await.len(), 2, "identities are valid for an hour");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn roles_webhooks_and_definitions_of_another_server_apply_in_time() {
    let etcd = Etcd::start();
    let same = |builder| builder;
    let (first, second) = tokio::join!(server(&etcd, "10.1.1.1", same), server(&etcd, "10.1.1.2", same));
    let (writer, reader) = (first.service(), second.service());
    let jane = reader.clone().acting_as(User::new("jane"));
    let (code, _) = get(&jane, SERVICES).await;
    assert_eq!(code, 403);
    let binding = json!({
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    post(&writer, bindings, &binding).await;
    until_within(VISIBLE, async || (get(&jane, SERVICES).await.0 == 200).then_some(())).await;
    assert_eq!(send(&writer, "DELETE", &format!("{bindings}/b"), &Value::Null).await.0, 200);
    until_within(VISIBLE, async || (get(&jane, SERVICES).await.0 == 403).then_some(())).await;

    let definition = json!({
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Site", "plural": "sites"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&writer, definitions, &definition).await;
    let sites = "/apis/example.com/v1/sites";
    until_within(VISIBLE, async || (get(&reader, sites).await.0 == 200).then_some(())).await;
    assert_eq!(send(&writer, "DELETE", &format!("{definitions}/sites.example.com"), &Value::Null).await.0, 200);
    until_within(VISIBLE, async || (get(&reader, sites).await.0 == 404).then_some(())).await;

    // A webhook that cannot be reached rejects the next write.
    let hook = json!({
        "metadata": {"name": "h"},
        "webhooks": [{
            "name": "h.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }],
    });
    post(&writer, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &hook).await;
    let (code, answer) =
        send(&reader, "POST", "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "c"}})).await;
    assert_eq!(code, 500, "{answer}");
}
