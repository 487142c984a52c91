//! End-to-end tests of the kinds that extend, secure and configure the server.

use super::*;

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const FLOW_CONTROL: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn post(service: &Service, path: &str, body: Value) -> Answer {
    with_body(service, "POST", path, "application/json", body).await
}

async fn merge(service: &Service, path: &str, body: Value) -> Answer {
    with_body(service, "PATCH", path, MERGE, body).await
}

#[tokio::test(start_paused = true)]
async fn api_services_exist_while_their_version_is_served() {
    let service = server().service();
    let batch = get(&service, &format!("{API_SERVICES}/v1.batch")).await.json();
    assert_eq!(
        batch["spec"],
        json!({"group": "batch", "version": "v1", "groupPriorityMinimum": 17400, "versionPriority": 15})
    );
    assert_eq!(batch["status"]["conditions"][0]["reason"], "Local");

    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({"metadata": {"name": "foos.ex.io"}, "spec": {"group": "ex.io", "scope": "Cluster",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    assert_eq!(post(&service, definitions, definition).await.code, 201);
    let registration = format!("{API_SERVICES}/v1.ex.io");
    let becomes = async |code| {
        while get(&service, &registration).await.code != code {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(DEADLINE, becomes(200)).await.unwrap();
    let request = request("DELETE", &format!("{definitions}/foos.ex.io")).body(String::new()).unwrap();
    assert_eq!(send(&service, request).await.code, 200);
    time::timeout(DEADLINE, becomes(404)).await.unwrap();
}

#[tokio::test]
async fn flow_schemas_refer_to_existing_priority_levels() {
    let service = server().service();
    let list = async |plural| get(&service, &format!("{FLOW_CONTROL}/{plural}")).await.json()["items"].clone();
    let (levels, schemas) = (list("prioritylevelconfigurations").await, list("flowschemas").await);
    assert_eq!((levels.as_array().unwrap().len(), schemas.as_array().unwrap().len()), (8, 11));
    for schema in schemas.as_array().unwrap() {
        let level = &schema["spec"]["priorityLevelConfiguration"]["name"];
        assert!(levels.as_array().unwrap().iter().any(|found| found["metadata"]["name"] == *level), "{level}");
        assert_eq!(schema["status"]["conditions"][0]["type"], "Dangling");
    }
    let path = format!("{FLOW_CONTROL}/prioritylevelconfigurations/catch-all");
    assert_eq!(merge(&service, &path, json!({"spec": {"limited": {"lendablePercent": 7}}})).await.code, 422);
}

#[tokio::test]
async fn certificate_request_is_signed_and_approved_separately() {
    let service = server().service();
    let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
    let spec =
        json!({"request": pem, "signerName": "example.com/signer", "usages": ["client auth"], "username": "eve"});
    let made = post(&service, REQUESTS, json!({"metadata": {"name": "r"}, "spec": spec})).await;
    assert_eq!((made.code, &made.json()["spec"]["username"]), (201, &json!("admin")));

    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let (status, approval) = (format!("{REQUESTS}/r/status"), format!("{REQUESTS}/r/approval"));
    assert_eq!(merge(&service, &status, approved.clone()).await.verdict(), (422, "Invalid".to_owned()));
    let answer = merge(&service, &approval, approved).await.json();
    assert_eq!(answer["status"]["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
    let taken_back = merge(&service, &approval, json!({"status": {"conditions": []}})).await.json();
    assert!(taken_back["message"].as_str().unwrap().contains("may not remove a condition of type \"Approved\""));
}

#[tokio::test]
async fn pod_subresources_change_only_their_fields() {
    let service = server().service();
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
    assert_eq!(post(&service, PODS, pod).await.code, 201);

    let debugger = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"nodeName": "n", "ephemeralContainers": [{"name": "d", "image": "debug"}]}});
    let path = format!("{PODS}/p/ephemeralcontainers");
    let changed = with_body(&service, "PATCH", &path, STRATEGIC, debugger).await.json();
    assert_eq!(changed["spec"]["ephemeralContainers"][0]["name"], "d");
    assert_eq!((&changed["spec"]["nodeName"], &changed["metadata"]["labels"]), (&Value::Null, &Value::Null));
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(merge(&service, &path, json!({"spec": {"ephemeralContainers": []}})).await.code, 422);

    let path = format!("{PODS}/p/resize");
    let more =
        json!({"spec": {"containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "2"}}}]}});
    let changed = with_body(&service, "PATCH", &path, STRATEGIC, more).await.json();
    assert_eq!(changed["spec"]["containers"][0]["resources"], json!({"requests": {"cpu": "2"}}));
    assert_eq!(changed["spec"]["containers"][0]["image"], "i");
}

#[tokio::test]
async fn kubelet_requests_report_a_missing_kubelet() {
    let service = server().service();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(post(&service, PODS, pod).await.code, 201);
    assert_eq!(get(&service, &format!("{PODS}/p/log")).await.code, 204);
    let refusal = post(&service, &format!("{PODS}/p/exec?command=ls"), json!({})).await.json();
    assert_eq!(refusal["message"], "pod p does not have a host assigned");

    assert_eq!(post(&service, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.code, 201);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(post(&service, "/api/v1/namespaces/default/bindings", binding).await.code, 201);
    let refusal = get(&service, &format!("{PODS}/p/log")).await;
    assert_eq!(
        (refusal.code, &refusal.json()["message"]),
        (500, &json!("no preferred addresses found; known addresses: []"))
    );
    assert_eq!(get(&service, "/api/v1/nodes/n/proxy/metrics").await.code, 500);
}
