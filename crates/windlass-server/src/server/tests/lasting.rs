//! Storage that outlasts a server: the next server continues with its content.

use std::sync::Arc;

use super::*;
use crate::storage::{MemoryStorage, Storage};

fn server_over(storage: &Arc<dyn Storage>, port: u16) -> Service {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    Server::builder().storage(Arc::clone(storage)).address(address).build().service()
}

const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

async fn read(service: &Service, path: &str) -> Value {
    get(service, path).await.json()
}

#[tokio::test]
async fn next_server_continues_with_addresses_and_custom_resources() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let first = server_over(&storage, 1111);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Site", "plural": "sites"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let created = post(&first, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let established = async {
        while get(&first, "/apis/example.com/v1/sites").await.code != 200 {
            tokio::task::yield_now().await;
        }
    };
    time::timeout(DEADLINE, established).await.unwrap();
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    let taken = post(&first, services, &service("first")).await.json()["spec"]["clusterIP"].clone();
    drop(first);

    let second = server_over(&storage, 2222);
    let site = json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "a"}});
    assert_eq!(post(&second, "/apis/example.com/v1/sites", &site).await.code, 201, "the kind is served at once");
    for number in 0..20 {
        let own =
            post(&second, services, &service(&format!("later-{number}"))).await.json()["spec"]["clusterIP"].clone();
        assert_ne!(own, taken);
    }
    let endpoints = read(&second, "/api/v1/namespaces/default/endpoints/kubernetes").await;
    assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], 2222, "the address of the new server");
    let slice = read(&second, SLICE).await;
    assert_eq!((&slice["addressType"], &slice["ports"][0]["port"]), (&"IPv4".into(), &2222.into()));
    let service = read(&second, "/api/v1/namespaces/default/services/kubernetes").await;
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 2222);
    drop(second);

    let address = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 3333));
    let third = Server::builder().storage(storage).address(address).build().service();
    let slice = read(&third, SLICE).await;
    assert_eq!((&slice["addressType"], &slice["ports"][0]["port"]), (&"IPv6".into(), &3333.into()));
}

/// A webhook for everything that nobody serves must not keep the next server from starting.
#[tokio::test]
async fn stored_webhooks_do_not_prevent_the_start() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let first = server_over(&storage, 1111);
    let everything = json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]});
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "closed"},
        "webhooks": [{
            "name": "closed.example.com", "rules": [everything], "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"},
        }],
    });
    const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let created = post(&first, CONFIGURATIONS, &configuration).await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(post(&first, CONFIG_MAPS, config_map("a")).await.code, 500, "the webhook is called");
    drop(first);

    let second = server_over(&storage, 2222);
    let endpoints = read(&second, "/api/v1/namespaces/default/endpoints/kubernetes").await;
    assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], 2222);
    let removed = with_body(&second, "DELETE", &format!("{CONFIGURATIONS}/closed"), "application/json", "").await;
    assert_eq!(removed.code, 200, "{}", removed.body);
    assert_eq!(post(&second, CONFIG_MAPS, config_map("a")).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn events_are_deleted_after_their_lifetime() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let service = Server::builder().event_lifetime(Duration::from_mins(10)).build().service();
    let event = |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "Tested"});
    for name in ["brief", "repeated"] {
        let created = post(&service, EVENTS, event(name)).await;
        assert_eq!(created.code, 201, "{}", created.body);
    }
    let path = |name: &str| format!("{EVENTS}/{name}");
    time::advance(Duration::from_mins(9)).await;
    let mut repeated = read(&service, &path("repeated")).await;
    repeated["count"] = 2.into();
    let updated = with_body(&service, "PUT", &path("repeated"), "application/json", repeated).await;
    assert_eq!(updated.code, 200, "{}", updated.body);
    time::advance(Duration::from_mins(2)).await;
    // The memory storage deletes expired values with the next write.
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    assert_eq!(get(&service, &path("brief")).await.code, 404);
    assert_eq!(get(&service, &path("repeated")).await.code, 200);
    assert_eq!(get(&service, &format!("{CONFIG_MAPS}/a")).await.code, 200, "other objects have no lifetime");
}
