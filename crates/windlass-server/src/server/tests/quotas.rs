//! The admission plugin `ResourceQuota`.

use futures::future::join_all;

use super::*;
use crate::storage::{MemoryStorage, Storage};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Creates secrets with one of the services each, concurrently. Returns the status codes.
async fn create_secrets(services: &[Service]) -> Vec<u16> {
    let creations = services.iter().cloned().enumerate().map(|(number, service)| {
        tokio::spawn(async move { post(&service, SECRETS, secret(&format!("s{number}"))).await.code })
    });
    join_all(creations).await.into_iter().map(Result::unwrap).collect()
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Creates a quota whose usage is known to be zero.
async fn create_quota(service: &Service, namespace: &str, name: &str, hard: Value) {
    let path = format!("/api/v1/namespaces/{namespace}/resourcequotas");
    let created = post(service, &path, json!({"metadata": {"name": name}, "spec": {"hard": hard}})).await;
    let mut quota = created.json();
    let used: serde_json::Map<String, Value> =
        hard.as_object().unwrap().keys().map(|name| (name.clone(), "0".into())).collect();
    quota["status"] = json!({"hard": hard, "used": used});
    let updated = with_body(service, "PUT", &format!("{path}/{name}/status"), "application/json", quota).await;
    assert_eq!(updated.code, 200, "{}", updated.body);
}

async fn used(service: &Service, name: &str) -> Value {
    get(service, &format!("{QUOTAS}/{name}")).await.json()["status"]["used"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creations_fill_a_quota_exactly() {
    let service = server().service();
    create_quota(&service, "default", "q", json!({"secrets": "5", "count/secrets": "7"})).await;
    create_quota(&service, "default", "r", json!({"secrets": "6"})).await;
    let codes = create_secrets(&vec![service.clone(); 20]).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 5, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, 201 | 403)), "{codes:?}");
    assert_eq!(used(&service, "q").await, json!({"count/secrets": "5", "secrets": "5"}));
    assert_eq!(used(&service, "r").await, json!({"secrets": "5"}));
    let refused = post(&service, SECRETS, secret("one-more")).await;
    let message = "secrets \"one-more\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=5, limited: \
                   secrets=5";
    assert_eq!(refused.json()["message"], message);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_over_one_storage_fill_a_quota_exactly() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let services = [1, 2]
        .map(|seed| Server::builder().entropy(Entropy::seeded(seed)).storage(Arc::clone(&storage)).build().service());
    create_quota(&services[0], "default", "q", json!({"secrets": "7"})).await;
    let codes = create_secrets(&services.iter().cloned().cycle().take(20).collect::<Vec<_>>()).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 7, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, 201 | 403)), "{codes:?}");
    assert_eq!(used(&services[1], "q").await, json!({"secrets": "7"}));
}

#[tokio::test]
async fn charges_belong_to_the_status_of_the_quota() {
    let service = server().service();
    create_quota(&service, "default", "q", json!({"secrets": "5"})).await;
    post(&service, SECRETS, secret("s")).await;
    let quota = get(&service, &format!("{QUOTAS}/q")).await.json();
    let managers = quota["metadata"]["managedFields"].as_array().unwrap();
    let charging = managers.iter().find(|manager| manager["manager"] == "kube-apiserver").unwrap();
    assert_eq!((&charging["operation"], &charging["subresource"]), (&json!("Update"), &json!("status")));
}

#[tokio::test]
async fn dry_runs_are_refused_but_not_charged() {
    let service = server().service();
    create_quota(&service, "default", "q", json!({"secrets": "1"})).await;
    let dry_run = format!("{SECRETS}?dryRun=All");
    assert_eq!(post(&service, &dry_run, secret("s")).await.code, 201);
    assert_eq!(used(&service, "q").await, json!({"secrets": "0"}));
    assert_eq!(post(&service, SECRETS, secret("s")).await.code, 201);
    assert_eq!(post(&service, &dry_run, secret("t")).await.code, 403);
    assert_eq!(used(&service, "q").await, json!({"secrets": "1"}));
}

#[tokio::test]
async fn custom_resources_are_counted() {
    let service = server().service();
    let group = json!({"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&service, definitions, json!({"metadata": {"name": "things.example.com"}, "spec": group})).await;
    create_quota(&service, "default", "q", json!({"count/things.example.com": "1"})).await;
    let path = "/apis/example.com/v1/namespaces/default/things";
    let thing = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}});
    time::timeout(DEADLINE, async {
        while post(&service, path, thing("a")).await.code == 404 {
            time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the resource is served");
    let refused = post(&service, path, thing("b")).await;
    let message = "things.example.com \"b\" is forbidden: exceeded quota: q, requested: count/things.example.com=1, \
                   used: count/things.example.com=1, limited: count/things.example.com=1";
    assert_eq!(refused.json()["message"], message);
}

#[tokio::test]
async fn other_namespaces_are_not_limited() {
    let service = server().service();
    create_quota(&service, "kube-system", "q", json!({"secrets": "0"})).await;
    assert_eq!(post(&service, SECRETS, secret("s")).await.code, 201);
    let limited = "/api/v1/namespaces/kube-system/secrets";
    assert_eq!(post(&service, limited, secret("s")).await.code, 403);
}

#[tokio::test]
async fn limited_resources_need_a_quota() {
    let content = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "ResourceQuotaConfiguration",
        "limitedResources": [{"resource": "secrets", "matchContains": ["count/"]}],
    });
    let file = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ResourceQuota", "configuration": content}],
    });
    let configuration = crate::AdmissionConfiguration::parse(file, |_| Err("there is no other file".into())).unwrap();
    let service = Server::builder().entropy(Entropy::seeded(1)).admission(configuration).build().service();
    let refused = post(&service, SECRETS, secret("s")).await;
    let message = "secrets \"s\" is forbidden: insufficient quota to consume: count/secrets";
    assert_eq!(refused.json()["message"], message);
    create_quota(&service, "default", "q", json!({"count/secrets": "1"})).await;
    assert_eq!(post(&service, SECRETS, secret("s")).await.code, 201);
}
