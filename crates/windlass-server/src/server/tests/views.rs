//! Tests of table views of kinds without tables, with kube-apiserver's responses.

use super::*;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const NO_TABLE: &str = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";

async fn ask(service: &Service, method: &str, path: &str, accept: &str, body: Value) -> Answer {
    let request = request(method, path).header(header::ACCEPT, accept).header(header::CONTENT_TYPE, "application/json");
    send(service, request.body(body.to_string()).unwrap()).await
}

#[tokio::test]
async fn object_without_table_is_returned_to_kubectl() {
    let service = server().service();
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let answer = ask(&service, "POST", REVIEWS, &format!("{TABLE},application/json"), review.clone()).await;
    assert_eq!((answer.code, &answer.json()["kind"]), (201, &json!("SelfSubjectAccessReview")), "{}", answer.body);
    let answer = ask(&service, "POST", REVIEWS, METADATA, review).await;
    assert_eq!((answer.code, &answer.json()["kind"]), (201, &json!("PartialObjectMetadata")), "{}", answer.body);
}

#[tokio::test]
async fn table_of_kinds_without_table_is_not_acceptable() {
    let service = server().service();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(post(&service, "/api/v1/namespaces/default/pods", pod).await.code, 201);
    for (method, path) in [
        ("POST", REVIEWS),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/none/token"),
        ("POST", "/api/v1/namespaces/default/bindings"),
        ("POST", "/api/v1/namespaces/default/pods/p/binding"),
        ("POST", "/api/v1/namespaces/default/pods/p/eviction"),
        ("GET", "/api/v1/namespaces/default/pods/p/resize"),
        ("PUT", "/api/v1/namespaces/default/finalize"),
        ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/none/status"),
    ] {
        let answer = ask(&service, method, path, TABLE, json!({})).await;
        assert_eq!((answer.code, &answer.json()["message"]), (406, &json!(NO_TABLE)), "{method} {path}");
    }
    let status = ask(&service, "GET", "/api/v1/namespaces/default/pods/p/status", TABLE, json!({})).await;
    assert_eq!((status.code, &status.json()["kind"]), (200, &json!("Table")));
}
