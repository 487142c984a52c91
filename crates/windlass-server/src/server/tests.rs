//! End-to-end tests of the server, in process and over sockets.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::{self, Instant},
};
use tower::ServiceExt;
use windlass_api::{Clock, Entropy};

use super::{Server, Service};
use crate::{http::Body, tls::TlsIdentity};

mod aggregation;
mod cbor;
mod compact;
mod containers;
mod delivery;
mod extensions;
mod flow_control;
mod health;
mod identity;
mod lasting;
mod limits;
mod pages;
mod plugins;
mod pod_security;
mod policies;
mod protobuf;
mod quotas;
mod removed;
mod sockets;
mod starting;
mod time_limits;
mod versions;
mod views;
mod websockets;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const UNKNOWN_RESOURCE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#;

/// A generous timeout that only failing tests reach.
const DEADLINE: Duration = Duration::from_secs(20);

struct Answer {
    code: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the code and the reason, by which clients decide.
    fn verdict(&self) -> (u16, String) {
        (self.code, self.json()["reason"].as_str().unwrap_or_default().to_owned())
    }
}

fn server() -> Server {
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    Server::builder().clock(Clock::from_fn(move || now)).entropy(Entropy::seeded(1)).token("TOKEN").build()
}

fn request(method: &str, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path).header(header::USER_AGENT, "test/1")
}

async fn send(service: &Service, request: Request<String>) -> Answer {
    let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { code: parts.status.as_u16(), headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

async fn get(service: &Service, path: &str) -> Answer {
    send(service, request("GET", path).body(String::new()).unwrap()).await
}

async fn accepting(service: &Service, path: &str, accept: &str) -> Answer {
    send(service, request("GET", path).header(header::ACCEPT, accept).body(String::new()).unwrap()).await
}

async fn with_body(service: &Service, method: &str, path: &str, content_type: &str, body: impl ToString) -> Answer {
    let request = request(method, path).header(header::CONTENT_TYPE, content_type).body(body.to_string()).unwrap();
    send(service, request).await
}

async fn post(service: &Service, path: &str, body: impl ToString) -> Answer {
    with_body(service, "POST", path, "application/json", body).await
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"x": "y"}}, "data": {"k": "v<&>"}})
}

async fn watch(service: &Service, path: &str) -> http::Response<Body> {
    service.clone().oneshot(request("GET", path).body(String::new()).unwrap()).await.unwrap()
}

async fn frame(body: &mut Body) -> Option<String> {
    let frame = body.frame().await?.unwrap();
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn deferred_objects_exist_on_first_request() {
    for (path, count, name) in [
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", 69, "cluster-admin"),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", 11, "exempt"),
        ("/apis/apiregistration.k8s.io/v1/apiservices", 21, "v1."),
    ] {
        let server = server();
        let answer = get(&server.service(), path).await;
        let items = answer.json()["items"].as_array().unwrap().clone();
        assert_eq!(items.len(), count, "{path}");
        assert!(items.iter().any(|item| item["metadata"]["name"] == name), "{path}");
        let version = |answer: &Answer| answer.json()["metadata"]["resourceVersion"].clone();
        let again = get(&server.service(), path).await;
        assert_eq!(version(&answer), version(&again), "{path}: they are made once");
    }
}

#[tokio::test]
async fn objects_are_created_read_updated_patched_and_deleted() {
    let service = server().service();
    let created = post(&service, CONFIG_MAPS, config_map("a")).await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(created.header("content-type"), "application/json");
    assert_eq!(created.header("cache-control"), "no-cache, private");
    assert_eq!(created.header("audit-id").len(), 36);
    assert!(
        created.body.starts_with(r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","#),
        "{}",
        created.body
    );
    assert!(created.body.ends_with("\"data\":{\"k\":\"v\\u003c\\u0026\\u003e\"}}\n"), "{}", created.body);
    assert_eq!(created.json()["metadata"]["creationTimestamp"], "2026-01-02T03:04:05Z");

    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(get(&service, &path).await.body, created.body);
    let mut object = created.json();
    object["data"] = json!({"k": "w"});
    let updated = with_body(&service, "PUT", &path, "application/json", &object).await;
    assert_eq!((updated.code, &updated.json()["data"]["k"]), (200, &json!("w")));
    let addition = json!({"data": {"l": "m"}});
    let patched = with_body(&service, "PATCH", &path, "application/merge-patch+json", addition).await;
    assert_eq!((patched.code, patched.json()["data"].clone()), (200, json!({"k": "w", "l": "m"})));
    let stale = with_body(&service, "PUT", &path, "application/json", &object).await;
    assert_eq!(stale.verdict(), (409, "Conflict".to_owned()));

    let list = get(&service, CONFIG_MAPS).await;
    assert!(
        list.body.starts_with(r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":""#),
        "{}",
        list.body
    );
    assert_eq!(list.json()["items"][0]["metadata"]["name"], "a");
    let deleted = with_body(&service, "DELETE", &path, "application/json", "").await;
    assert_eq!((deleted.code, &deleted.json()["status"]), (200, &json!("Success")));
    let gone = get(&service, &path).await;
    assert_eq!(
        gone.body,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"configmaps \\\"a\\\" not found\",\"reason\":\"NotFound\",\"details\":{\"name\":\"a\",\"kind\":\"configmaps\"},\"code\":404}\n"
    );
}

#[tokio::test]
async fn bad_requests_have_kube_apiservers_code_and_reason() {
    let service = server().service();
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    let reason = |code: u16, reason: &str| (code, reason.to_owned());
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.verdict(), reason(409, "AlreadyExists"));
    let malformed = post(&service, CONFIG_MAPS, "notjson").await;
    assert_eq!(malformed.verdict(), reason(400, "BadRequest"));
    assert_eq!(
        malformed.json()["message"],
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: invalid character 'o' in literal null (expecting 'u') (6e6f746a736f6e)"
    );
    let text = with_body(&service, "POST", CONFIG_MAPS, "text/plain", "{}").await;
    assert_eq!(text.verdict(), reason(415, "UnsupportedMediaType"));
    let options = post(&service, &format!("{CONFIG_MAPS}?dryRun=Some"), config_map("b")).await;
    assert_eq!(options.verdict(), reason(422, "Invalid"));
    assert_eq!(
        with_body(&service, "PUT", CONFIG_MAPS, "application/json", "{}").await.verdict(),
        reason(405, "MethodNotAllowed")
    );
    let apply = with_body(&service, "PATCH", &format!("{CONFIG_MAPS}/a"), "application/json", "{}").await;
    assert_eq!((apply.code, &apply.json()["message"]), (415, &json!("415: Unsupported Media Type")));
    let unknown = with_body(&service, "DELETE", &format!("{CONFIG_MAPS}/zz"), "application/json", "").await;
    assert_eq!(unknown.verdict(), reason(404, "NotFound"));
    let big = post(&service, CONFIG_MAPS, "a".repeat((3 << 20) + 1)).await;
    assert_eq!(big.verdict(), reason(413, "RequestEntityTooLarge"));
    assert_eq!(big.json()["message"], "Request entity too large: limit is 3145728");
    let limit = get(&service, &format!("{CONFIG_MAPS}?limit=abc")).await;
    assert_eq!(limit.verdict(), reason(400, "BadRequest"));
}

#[tokio::test]
async fn unknown_paths_have_distinct_errors() {
    let service = server().service();
    for path in ["/nope", "/apis/nope.io", "/apis/nope.io/v1/foos/x", "//api/v1/pods", "/livez/nope", "/healthz/"] {
        let answer = get(&service, path).await;
        assert_eq!((answer.code, answer.body.as_str()), (404, "404 page not found\n"), "{path}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8", "{path}");
    }
    for path in ["/api/v1/nope", "/api/v2", "/apis/apps/v9/deployments", "/api/v1/configmaps/x", "/api/v1//namespaces"]
    {
        let answer = get(&service, path).await;
        assert_eq!((answer.code, answer.body.trim_end()), (404, UNKNOWN_RESOURCE), "{path}");
    }
    let malformed = get(&service, "/api/v1/%zz").await;
    assert_eq!((malformed.code, malformed.body.as_str()), (400, "400 Bad Request"));
    let watch = get(&service, "/api/v1/watch").await;
    assert_eq!(
        (watch.code, watch.body.as_str()),
        (
            500,
            "Internal Server Error: \"/api/v1/watch\": failed to create RequestInfo: unable to determine kind and namespace from url, /api/v1/watch\n"
        )
    );
}

#[tokio::test]
async fn responses_use_the_accepted_media_type() {
    let service = server().service();
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    let path = format!("{CONFIG_MAPS}/a");
    let yaml = accepting(&service, &path, "application/yaml").await;
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert!(yaml.body.starts_with("apiVersion: v1\ndata:\n  k: v<&>\nkind: ConfigMap\n"), "{}", yaml.body);
    let pretty = get(&service, &format!("{path}?pretty=1")).await;
    assert!(
        pretty.body.starts_with("{\n  \"kind\": \"ConfigMap\",\n") && pretty.body.ends_with("\n}"),
        "{}",
        pretty.body
    );

    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let one = accepting(&service, &path, table).await.json();
    assert_eq!((&one["kind"], &one["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(one["rows"][0]["cells"], json!(["a", 1, "0s"]));
    assert_eq!(one["rows"][0]["object"]["metadata"]["name"], "a");
    let many = accepting(&service, CONFIG_MAPS, table).await.json();
    assert_eq!(many["rows"], one["rows"]);

    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let one = accepting(&service, &path, partial).await.json();
    assert_eq!((&one["kind"], &one["data"]), (&json!("PartialObjectMetadata"), &Value::Null));
    let wrong = accepting(&service, CONFIG_MAPS, partial).await;
    assert_eq!(wrong.code, 406);
    assert_eq!(
        wrong.json()["message"],
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    );
    let list = accepting(&service, CONFIG_MAPS, &partial.replace("Metadata;", "MetadataList;")).await.json();
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("PartialObjectMetadataList"), &json!("PartialObjectMetadata"))
    );
    let html = accepting(&service, &path, "text/html").await;
    assert_eq!(html.verdict(), (406, "NotAcceptable".to_owned()));
    assert!(html.body.starts_with("{\n") && html.body.ends_with('}'), "{}", html.body);
}

#[tokio::test]
async fn long_list_is_streamed_completely() {
    let service = server().service();
    let data = "x".repeat(1_000);
    for number in 0..300 {
        let object = json!({"metadata": {"name": format!("c{number:03}")}, "data": {"k": data}});
        assert_eq!(post(&service, CONFIG_MAPS, object).await.code, 201);
    }
    let mut response = watch(&service, CONFIG_MAPS).await;
    let mut pieces = Vec::new();
    while let Some(piece) = frame(response.body_mut()).await {
        pieces.push(piece);
    }
    assert!(pieces.len() > 3, "{} pieces", pieces.len());
    let list: Value = serde_json::from_str(&pieces.concat()).unwrap();
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!((names.len(), names[0], names[299]), (300, "c000", "c299"));
}

#[tokio::test]
async fn long_table_is_streamed_completely() {
    let service = server().service();
    for number in 0..300 {
        assert_eq!(post(&service, CONFIG_MAPS, config_map(&format!("c{number:03}"))).await.code, 201);
    }
    let table = async |path: &str, version: &str| {
        let accept = format!("application/json;as=Table;v={version};g=meta.k8s.io");
        let request = request("GET", path).header(header::ACCEPT, accept).body(String::new()).unwrap();
        let mut body = service.clone().oneshot(request).await.unwrap().into_body();
        let mut pieces = Vec::new();
        while let Some(piece) = frame(&mut body).await {
            pieces.push(piece);
        }
        (pieces.len(), pieces.concat())
    };
    for version in ["v1", "v1beta1"] {
        let (pieces, text) = table(CONFIG_MAPS, version).await;
        assert!(pieces > 1, "{pieces} pieces");
        let all: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&all["kind"], all["rows"].as_array().unwrap().len()), (&json!("Table"), 300));
        assert_eq!(all["apiVersion"], format!("meta.k8s.io/{version}"));
        // A table of one object is not rendered row by row.
        let one: Value = serde_json::from_str(&table(&format!("{CONFIG_MAPS}/c007"), version).await.1).unwrap();
        assert_eq!(all["rows"][7], one["rows"][0]);
        assert_eq!(all["columnDefinitions"], one["columnDefinitions"]);
    }
    let (_, none) = table("/api/v1/namespaces/default/secrets", "v1").await;
    assert!(none.ends_with("\"rows\":[]}\n"), "{none}");
}

#[tokio::test]
async fn warnings_are_sent_as_headers() {
    let service = server().service();
    let object = json!({"metadata": {"name": "a"}, "bogus": 1});
    let answer = post(&service, CONFIG_MAPS, &object).await;
    assert_eq!((answer.code, answer.header("warning")), (201, r#"299 - "unknown field \"bogus\"""#));
    let again = post(&service, CONFIG_MAPS, &object).await;
    assert_eq!((again.code, again.header("warning")), (409, r#"299 - "unknown field \"bogus\"""#));
}

#[tokio::test]
async fn audit_id_of_the_client_is_kept() {
    let service = server().service();
    let request = request("GET", "/version").header("Audit-ID", "mine").body(String::new()).unwrap();
    assert_eq!(send(&service, request).await.header("audit-id"), "mine");
}

#[tokio::test(start_paused = true)]
async fn watch_sends_one_frame_per_event_until_its_timeout() {
    let service = server().service();
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    let path = format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=10");
    let started = Instant::now();
    let response = watch(&service, &path).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body();
    let first = frame(&mut body).await.unwrap();
    assert!(first.starts_with(r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","#), "{first}");
    assert!(first.ends_with("}\n"), "{first}");
    let bookmark: Value = serde_json::from_str(&frame(&mut body).await.unwrap()).unwrap();
    assert_eq!((&bookmark["type"], &bookmark["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    assert_eq!(bookmark["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));

    let created = post(&service, CONFIG_MAPS, config_map("b")).await.json();
    let event: Value = serde_json::from_str(&frame(&mut body).await.unwrap()).unwrap();
    assert_eq!(event, json!({"type": "ADDED", "object": created}));
    let deleted = with_body(&service, "DELETE", &format!("{CONFIG_MAPS}/b"), "application/json", "").await;
    assert_eq!(deleted.code, 200);
    let event: Value = serde_json::from_str(&frame(&mut body).await.unwrap()).unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("b")));

    while let Some(last) = frame(&mut body).await {
        assert!(last.contains("BOOKMARK"), "{last}");
    }
    assert_eq!(started.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn watch_of_tables_sends_columns_once() {
    let service = server().service();
    for name in ["a", "b"] {
        assert_eq!(post(&service, CONFIG_MAPS, config_map(name)).await.code, 201);
    }
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true");
    let answer = accepting(&service, &path, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").await;
    let events: Vec<Value> = answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events[0]["object"]["columnDefinitions"].is_array(), "{}", events[0]);
    assert_eq!(events[1]["object"]["columnDefinitions"], Value::Null);
    assert_eq!(events[1]["object"]["rows"][0]["cells"], json!(["b", 1, "0s"]));
    assert_eq!(events[2]["type"], "BOOKMARK");
    assert_eq!(events[2]["object"]["rows"][0]["cells"], json!(["", 0, "<unknown>"]));
}

#[tokio::test(start_paused = true)]
async fn stopped_server_ends_its_watches() {
    let server = server();
    let service = server.service();
    let mut body = watch(&service, &format!("{CONFIG_MAPS}?watch=1&resourceVersion=1")).await.into_body();
    let ended = tokio::spawn(async move { while frame(&mut body).await.is_some() {} });
    assert_eq!(get(&service, "/readyz").await.code, 200);
    server.stop();
    time::timeout(Duration::from_secs(1), ended).await.unwrap().unwrap();
    let ready = get(&service, "/readyz").await;
    assert_eq!(ready.code, 500);
    assert!(ready.body.ends_with("[-]shutdown failed: reason withheld\nreadyz check failed\n"), "{}", ready.body);
    assert_eq!(get(&service, "/livez").await.code, 200);
}

#[tokio::test]
async fn added_check_belongs_to_readiness_and_not_to_liveness() {
    let healthy = Arc::new(AtomicBool::new(false));
    let check = Arc::clone(&healthy);
    let server = Server::builder().readiness_check("kms-providers", move || {
        let is_healthy = check.load(Ordering::Relaxed);
        async move { if is_healthy { Ok(()) } else { Err("the plugin does not respond".into()) } }
    });
    let service = server.build().service();
    let ready = get(&service, "/readyz").await;
    assert_eq!(ready.code, 500);
    let part = "[+]etcd-readiness ok\n[-]kms-providers failed: reason withheld\n[+]informer-sync ok\n";
    assert!(ready.body.contains(part), "{}", ready.body);
    assert_eq!(get(&service, "/healthz").await.code, 500);
    let alone = get(&service, "/readyz/kms-providers").await;
    assert_eq!((alone.code, &*alone.body), (500, "internal server error: the plugin does not respond\n"));
    assert_eq!(get(&service, "/readyz?exclude=kms-providers").await.code, 200);
    assert_eq!((get(&service, "/livez").await.code, get(&service, "/livez/kms-providers").await.code), (200, 404));
    let paths = get(&service, "/").await.json()["paths"].to_string();
    assert!(paths.contains("\"/healthz/kms-providers\"") && paths.contains("\"/readyz/kms-providers\""), "{paths}");
    healthy.store(true, Ordering::Relaxed);
    assert_eq!(get(&service, "/readyz").await.body, "ok");
}

#[tokio::test]
async fn server_reports_health_and_version() {
    let service = server().service();
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping"] {
        let answer = get(&service, path).await;
        assert_eq!((answer.code, answer.body.as_str()), (200, "ok"), "{path}");
    }
    let version = get(&service, "/version").await.json();
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.36.3+windlass"), "{version}");
    let posted = post(&service, "/version", "").await;
    assert_eq!(posted.verdict(), (405, "MethodNotAllowed".to_owned()));
    let index = get(&service, "/").await.json();
    for path in ["/api/v1", "/apis/apps/v1", "/openapi/v3", "/version", "/livez/ping"] {
        assert!(index["paths"].as_array().unwrap().contains(&json!(path)), "{path} in {index}");
    }
}

#[tokio::test]
async fn served_resources_are_in_discovery() {
    let service = server().service();
    assert_eq!(get(&service, "/api").await.json()["versions"], json!(["v1"]));
    let groups = get(&service, "/apis").await.json();
    assert!(groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "apps"), "{groups}");
    let resources = get(&service, "/api/v1").await.json();
    assert!(resources["resources"].as_array().unwrap().iter().any(|resource| resource["name"] == "pods/status"));
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let answer = accepting(&service, "/apis", aggregated).await;
    assert_eq!(
        (answer.json()["kind"].as_str().unwrap(), answer.header("content-type")),
        ("APIGroupDiscoveryList", aggregated)
    );
    assert!(!answer.header("etag").is_empty());
    let openapi = get(&service, "/openapi/v3").await;
    assert!(openapi.json()["paths"]["api/v1"]["serverRelativeURL"].is_string(), "{}", openapi.body);
    assert_eq!(post(&service, "/apis", "").await.code, 200);
    assert_eq!(post(&service, "/api", "").await.code, 405);
}

#[tokio::test]
async fn namespaces_and_pods_are_served_from_the_first_request() {
    let service = server().service();
    let namespaces = get(&service, "/api/v1/namespaces").await.json();
    let names: Vec<&str> =
        namespaces["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
}

#[tokio::test]
async fn custom_resources_are_served_once_their_crd_exists() {
    let service = server().service();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string", "default": "red"}}}}});
    let definition = json!({
        "metadata": {"name": "foos.ex.io"},
        "spec": {"group": "ex.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(&service, definitions, definition).await.code, 201);
    let established = async {
        let path = format!("{definitions}/foos.ex.io");
        while !get(&service, &path).await.body.contains(r#""type":"Established","status":"True""#) {
            tokio::task::yield_now().await;
        }
    };
    time::timeout(DEADLINE, established).await.unwrap();
    assert_eq!(get(&service, "/apis/ex.io/v1").await.json()["resources"][0]["name"], "foos");

    let foos = "/apis/ex.io/v1/namespaces/default/foos";
    let foo =
        json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": {"size": 1, "bogus": 2}});
    let created = post(&service, foos, foo).await;
    assert_eq!(
        (created.code, created.header("warning")),
        (201, r#"299 - "unknown field \"spec.bogus\"""#),
        "{}",
        created.body
    );
    assert!(created.body.starts_with(r#"{"apiVersion":"ex.io/v1","kind":"Foo","metadata":{"#), "{}", created.body);
    assert_eq!(created.json()["spec"], json!({"size": 1, "color": "red"}));
    let list = get(&service, foos).await.body;
    assert!(list.starts_with(r#"{"apiVersion":"ex.io/v1","items":[{"apiVersion":"#), "{list}");
    assert!(list.contains(r#"],"kind":"FooList","metadata":{"continue":"","resourceVersion":""#), "{list}");

    let strategic =
        with_body(&service, "PATCH", &format!("{foos}/x"), "application/strategic-merge-patch+json", "{}").await;
    assert_eq!(strategic.verdict(), (415, "UnsupportedMediaType".to_owned()));
    let options = with_body(&service, "OPTIONS", foos, "application/json", "").await;
    assert_eq!(
        (options.code, options.json()["message"].as_str().unwrap()),
        (405, r#" is not supported on resources of kind "foos.ex.io""#)
    );
    for path in ["/apis/ex.io/v2", "/apis/ex.io/v1/bars", "/apis/ex.io/v1/foos/x"] {
        assert_eq!(get(&service, path).await.body, "404 page not found\n", "{path}");
    }
    let protobuf = "application/vnd.kubernetes.protobuf,application/json";
    assert_eq!(accepting(&service, foos, protobuf).await.header("content-type"), "application/json");
    let html = accepting(&service, foos, "text/html").await;
    assert!(html.json()["message"].as_str().unwrap().starts_with("only the following media types are accepted: "));
}
