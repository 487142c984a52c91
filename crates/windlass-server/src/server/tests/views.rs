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

#[tokio::test]
async fn long_lists_equal_their_parts_in_each_form() {
    let service = server().service();
    for name in ["a", "b", "c"] {
        let object = json!({"metadata": {"name": name, "labels": {"l": name}, "annotations": {"x": "- : y\n\n"}},
            "data": {"long": "word ".repeat(40_000), "z": "yes"}});
        assert_eq!(post(&service, CONFIG_MAPS, object).await.code, 201);
    }
    let list = get(&service, CONFIG_MAPS).await;
    let whole: Value = list.json();
    let yaml = accepting(&service, CONFIG_MAPS, "application/yaml").await;
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert_eq!(yaml.body, crate::codec::to_yaml(&whole));
    let pretty = get(&service, &format!("{CONFIG_MAPS}?pretty=true")).await;
    assert_eq!(pretty.body, serde_json::to_string_pretty(&whole).unwrap());
    let pretty = request("GET", &format!("{CONFIG_MAPS}?pretty=true")).body(String::new()).unwrap();
    let pretty = service.clone().oneshot(pretty).await.unwrap();
    assert_eq!(pretty.body().length(), None, "it is indented while it is sent");
    let none = accepting(&service, &format!("{CONFIG_MAPS}?labelSelector=l%3Dd"), "application/yaml").await;
    assert!(none.body.contains("\nitems: []\n"), "{}", none.body);
    let one = accepting(&service, &format!("{CONFIG_MAPS}?labelSelector=l%3Db"), "application/yaml").await;
    assert!(one.body.contains("    name: b\n") && !one.body.contains("    name: a\n"));
    let object = accepting(&service, &format!("{CONFIG_MAPS}/b"), "application/yaml").await;
    assert_eq!(object.body, crate::codec::to_yaml(&get(&service, &format!("{CONFIG_MAPS}/b")).await.json()));

    let table = accepting(&service, &format!("{CONFIG_MAPS}?includeObject=Object"), TABLE).await.json();
    for (row, item) in table["rows"].as_array().unwrap().iter().zip(whole["items"].as_array().unwrap()) {
        assert_eq!(row["cells"].as_array().unwrap()[..2], [item["metadata"]["name"].clone(), json!(2)]);
        assert_eq!(row["object"]["data"], item["data"]);
    }
    assert_eq!(table["rows"].as_array().unwrap().len(), 3);
    let partial = accepting(&service, CONFIG_MAPS, &METADATA.replace("Metadata;", "MetadataList;")).await.json();
    let names = |list: &Value| list["items"].as_array().unwrap().iter().map(|item| item["metadata"].clone()).collect();
    let (expected, found): (Vec<Value>, Vec<Value>) = (names(&whole), names(&partial));
    assert_eq!(found, expected);
    assert!(partial["items"][0].get("data").is_none());
}
