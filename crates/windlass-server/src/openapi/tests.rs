use std::sync::LazyLock;

use serde_json::Value;

use super::*;
use crate::kinds::{KindOptions, built_ins};

fn table() -> ResourceTable {
    let options = KindOptions::of(KubernetesVersion::default());
    built_ins(&options)
}

fn request() -> Request<'static> {
    static NONE: LazyLock<Descriptions> = LazyLock::new(Descriptions::default);
    let (path, now) = ("", Timestamp::UNIX_EPOCH);
    Request {
        path,
        query: None,
        accept: None,
        if_none_match: None,
        descriptions: &NONE,
        now,
        foreign: &[],
        foreign_paths: &[],
    }
}

fn ask(request: Request<'_>) -> Option<Document> {
    answer(&table(), &request)
}

fn get(path: &str, query: Option<&str>) -> Document {
    ask(Request { path, query, ..request() }).unwrap()
}

fn json(document: &Document) -> Value {
    serde_json::from_slice(&document.body).unwrap()
}

fn header<'d>(document: &'d Document, name: &str) -> Option<&'d str> {
    document.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
}

#[test]
fn wrong_document_hash_redirects_to_the_current_one() {
    let index = get("/openapi/v3", None);
    assert_eq!(index.content_type, "text/plain; charset=utf-8");
    let index = json(&index);
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let (path, query) = url.split_once('?').unwrap();
    assert_eq!(path, "/openapi/v3/apis/apps/v1");

    let document = get(path, Some(query));
    assert_eq!(document.status, 200);
    assert_eq!(header(&document, "cache-control"), Some("public, immutable"));
    assert_eq!(header(&document, "expires"), Some("Fri, 01 Jan 1971 00:00:00 UTC"));
    let hash = query.strip_prefix("hash=").unwrap();
    assert_eq!(header(&document, "etag"), Some(format!("\"{hash}\"").as_str()));

    let moved = get(path, Some("hash=ABC"));
    assert_eq!((moved.status, header(&moved, "location")), (301, Some(url)));
    let known = ask(Request { path, if_none_match: header(&document, "etag"), ..request() }).unwrap();
    assert_eq!((known.status, known.body.len()), (304, 0));
}

#[test]
fn documents_only_contain_resolvable_references() {
    let index = json(&get("/openapi/v3", None));
    for path in index["paths"].as_object().unwrap().keys() {
        let document = get(&format!("/openapi/v3/{path}"), None);
        let text = String::from_utf8(document.body.clone()).unwrap();
        let schemas = &json(&document)["components"]["schemas"];
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.get(name).is_some(), "{path} lacks {name}");
        }
    }
}

#[test]
fn patch_operations_have_the_field_validation_parameter() {
    // kubectl checks this before it leaves validation to the server.
    let document = json(&get("/openapi/v3/apis/apps/v1", None));
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert!(patch["parameters"].as_array().unwrap().iter().any(|parameter| parameter["name"] == "fieldValidation"));
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    let options = &document["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"];
    assert_eq!(options["x-kubernetes-group-version-kind"][1]["group"], "apps");
}

#[test]
fn openapi_v2_contains_no_keywords_of_v3() {
    let document = json(&get("/openapi/v2", None));
    assert_eq!(document["swagger"], "2.0");
    let spec = &document["definitions"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"];
    assert_eq!(spec["strategy"]["$ref"], "#/definitions/io.k8s.api.apps.v1.DeploymentStrategy");
    assert_eq!(spec["strategy"]["x-kubernetes-patch-strategy"], "retainKeys");
    let quantity = &document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(*quantity, serde_json::json!({"type": "string"}));
    let text = document["definitions"].to_string();
    assert!(!text.contains("\"oneOf\":[") && !text.contains("#/components"));
}

#[test]
fn protobuf_is_served_for_openapi_v2_only() {
    let accept = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    let refused = ask(Request { path: "/openapi/v3/api/v1", accept: Some(accept), ..request() }).unwrap();
    assert_eq!((refused.status, refused.body.len()), (406, 0));
    let old = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf,*/*";
    let document = ask(Request { path: "/openapi/v2", accept: Some(old), ..request() }).unwrap();
    assert_eq!(document.content_type, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    assert!(document.body.starts_with(b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.36"));
    let both = format!("{accept},application/json");
    assert!(ask(Request { path: "/openapi/v2", accept: Some(&both), ..request() }).unwrap().status == 200);
    let unknown = ask(Request { path: "/openapi/v3/apis/nope/v1", ..request() }).unwrap();
    assert_eq!((unknown.status, &*unknown.content_type, unknown.body.len()), (404, "", 0));
}

#[test]
fn documents_contain_the_configured_descriptions() {
    let given = Descriptions::new(crate::descriptions::tests::source);
    let described = |path: &str| json(&ask(Request { path, descriptions: &given, ..request() }).unwrap());
    let document = described("/openapi/v3/api/v1");
    let map = &document["components"]["schemas"]["io.k8s.api.core.v1.ConfigMap"];
    assert_eq!(map["description"], "a map");
    assert_eq!(map["properties"]["metadata"]["description"], "the metadata");
    assert!(map["properties"]["metadata"]["allOf"].is_array());
    assert!(map["properties"].get("unknown").is_none());
    let document = described("/openapi/v2");
    let map = &document["definitions"]["io.k8s.api.core.v1.ConfigMap"];
    assert_eq!(map["properties"]["data"]["description"], "the data");
    assert_eq!(map["properties"]["metadata"]["description"], "the metadata");
    // Clients cache documents by their hashes.
    let url = |index: &Value| index["paths"]["api/v1"]["serverRelativeURL"].clone();
    assert_ne!(url(&described("/openapi/v3")), url(&json(&get("/openapi/v3", None))));
}
