//! The events of requests.

use std::{net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Request};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{CONFIG_MAPS, collect, config_map, describe, send, server};
use crate::{
    Server, User,
    http::{Origin, Trust, handle},
    server::boxed,
    tls::ClientCertificate,
};

/// Sends a request as over a socket from 192.0.2.7.
async fn over_socket(server: &Server, headers: &[(&str, &[u8])], path: &str) -> http::Response<bytes::Bytes> {
    let remote: IpAddr = "192.0.2.7".parse().unwrap();
    let trust = Trust::Socket(ClientCertificate::Nothing);
    let origin = Origin { trust, stopping: server.inner().stopping(), remote: Some(remote), is_upgradable: false };
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
    }
    let request = request.body(boxed(String::new())).unwrap();
    collect(handle(server.inner().clone(), origin, request).await).await
}

#[tokio::test]
async fn metadata_event_has_the_fields_of_the_request_but_no_objects() {
    let (server, recorder) = server(json!([{"level": "Metadata"}]));
    let response = send(&server, "POST", CONFIG_MAPS, config_map("a")).await;
    assert_eq!(response.status(), 201);
    let events = recorder.events();
    let [received, complete] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(describe(received), "RequestReceived create null");
    assert_eq!(received["stageTimestamp"], received["requestReceivedTimestamp"]);
    let micros = received["stageTimestamp"].as_str().unwrap();
    assert_eq!(micros.len(), "2006-01-02T15:04:05.000000Z".len(), "{micros}");
    assert_eq!(received["objectRef"], json!({"resource": "configmaps", "namespace": "default", "apiVersion": "v1"}));
    assert_eq!(received.get("annotations"), None);
    assert_eq!(complete["level"], "Metadata");
    assert_eq!(complete["auditID"], response.headers()["audit-id"].to_str().unwrap());
    assert_eq!(complete["requestURI"], CONFIG_MAPS);
    assert_eq!(
        complete["user"],
        json!({"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]})
    );
    let reference = json!({"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"});
    assert_eq!(complete["objectRef"], reference, "completed from the object in the request");
    assert_eq!(complete["responseStatus"], json!({"metadata": {}, "code": 201}));
    let annotations = json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""});
    assert_eq!(complete["annotations"], annotations);
    for field in ["requestObject", "responseObject", "impersonatedUser", "kind"] {
        assert_eq!(complete.get(field), None, "{field}");
    }
}

#[tokio::test]
async fn levels_decide_which_objects_are_in_the_event() {
    let (server, recorder) = server(json!([
        {"level": "Request", "verbs": ["create"], "omitStages": ["RequestReceived"]},
        {"level": "RequestResponse", "omitStages": ["RequestReceived"]},
    ]));
    send(&server, "POST", CONFIG_MAPS, config_map("a")).await;
    let events = recorder.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["requestObject"]["data"], json!({"k": "<v>"}));
    assert_eq!(events[0].get("responseObject"), None);
    let path = format!("{CONFIG_MAPS}/a");
    let patched = send(&server, "PATCH", &path, json!({"data": {"n": " <w>"}})).await;
    let listed = send(&server, "GET", CONFIG_MAPS, Value::Null).await;
    let missing = send(&server, "GET", &format!("{path}b"), Value::Null).await;
    let events = recorder.events();
    let body = |response: &http::Response<bytes::Bytes>| serde_json::from_slice::<Value>(response.body()).unwrap();
    assert_eq!(events[1]["requestObject"], json!({"data": {"n": " <w>"}}));
    assert_eq!(events[1]["responseObject"], body(&patched));
    assert_eq!(events[2].get("requestObject"), None);
    assert_eq!(events[2]["responseObject"], body(&listed), "a list is complete");
    assert_eq!(events[3]["responseObject"], body(&missing));
    let mut status = body(&missing);
    status.as_object_mut().unwrap().retain(|field, _| field != "kind" && field != "apiVersion");
    assert_eq!(events[3]["responseStatus"], status);
}

#[tokio::test]
async fn responses_in_other_encodings_are_recorded_in_json() {
    let (server, recorder) = server(json!([{"level": "RequestResponse", "omitStages": ["RequestReceived"]}]));
    send(&server, "POST", CONFIG_MAPS, config_map("a")).await;
    for accept in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
        for path in [CONFIG_MAPS.to_owned(), format!("{CONFIG_MAPS}/a")] {
            let request = Request::get(path).header("accept", accept).body(String::new()).unwrap();
            collect(server.service().oneshot(request).await.unwrap()).await;
        }
    }
    let events = recorder.events();
    let object = |index: usize| events[index]["responseObject"].clone();
    assert_eq!(object(1)["kind"], "ConfigMapList");
    assert_eq!(object(2)["kind"], "ConfigMap");
    for index in [3, 5] {
        assert_eq!(object(index)["items"], object(1)["items"], "{index}");
        assert_eq!(object(index + 1), object(2), "{index}");
    }
}

#[tokio::test]
async fn managed_fields_are_omitted_on_request() {
    let (server, recorder) = server(json!([
        {"level": "RequestResponse", "verbs": ["create"]},
        {"level": "RequestResponse", "omitManagedFields": true},
    ]));
    send(&server, "POST", CONFIG_MAPS, config_map("a")).await;
    send(&server, "GET", CONFIG_MAPS, Value::Null).await;
    let events = recorder.events();
    assert!(events[1]["responseObject"]["metadata"].get("managedFields").is_some());
    assert_eq!(events[3]["responseObject"]["items"][0]["metadata"]["name"], "a");
    assert_eq!(events[3]["responseObject"]["items"][0]["metadata"].get("managedFields"), None);
}

#[tokio::test(start_paused = true)]
async fn watch_has_three_stages() {
    let (server, recorder) = server(json!([{"level": "RequestResponse"}]));
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=5");
    let request = Request::get(path.as_str()).body(String::new()).unwrap();
    let response = server.service().oneshot(request).await.unwrap();
    assert_eq!(recorder.take_stages(), ["RequestReceived watch null", "ResponseStarted watch 200"]);
    collect(response).await;
    assert_eq!(recorder.take_stages(), ["ResponseComplete watch 200"]);
    // The client disconnects.
    let request = Request::get(path.as_str()).body(String::new()).unwrap();
    drop(server.service().oneshot(request).await.unwrap());
    server.flush_audit().await;
    let stages = ["RequestReceived watch null", "ResponseStarted watch 200", "ResponseComplete watch 200"];
    assert_eq!(recorder.take_stages(), stages);
    // Failed watches and logs are long-running, too.
    send(&server, "GET", &format!("{CONFIG_MAPS}?watch=1&resourceVersion=x"), Value::Null).await;
    send(&server, "GET", "/api/v1/namespaces/default/pods/none/log", Value::Null).await;
    let stages = recorder.take_stages();
    assert_eq!(stages[1..3], ["ResponseStarted watch 500", "ResponseComplete watch 500"], "{stages:?}");
    assert_eq!(stages[4..], ["ResponseStarted get 404", "ResponseComplete get 404"], "{stages:?}");
}

#[tokio::test]
async fn interrupted_request_is_complete_with_a_note() {
    let (server, recorder) = server(json!([{"level": "Metadata"}]));
    server.start().await.unwrap();
    let body = http_body_util::StreamBody::new(futures::stream::pending::<
        Result<http_body::Frame<bytes::Bytes>, std::io::Error>,
    >());
    let request = Request::post(CONFIG_MAPS).body(body).unwrap();
    let answer = tokio::time::timeout(Duration::from_millis(50), server.service().oneshot(request)).await;
    assert!(answer.is_err());
    server.flush_audit().await;
    let events = recorder.events();
    assert_eq!(describe(&events[1]), "ResponseComplete create 200");
    assert_eq!(events[1]["responseStatus"]["message"], "Connection closed early");
}

#[tokio::test]
async fn panic_has_its_own_stage() {
    let recorder = super::Recorder::new();
    let webhook: Arc<dyn crate::AuditWebhook> = recorder.clone();
    let policy = super::policy(json!([{"level": "Metadata"}]));
    let audit = crate::AuditConfiguration::new(policy).with_webhook(webhook, &super::blocking()).unwrap();
    let explode = || async { panic!("the check is broken") };
    let server = Server::builder().audit(audit).readiness_check("broken", explode).build();
    assert_eq!(send(&server, "GET", "/readyz", Value::Null).await.status(), 500);
    let events = recorder.events();
    assert_eq!(events.iter().map(describe).collect::<Vec<_>>(), ["RequestReceived get null", "Panic get 500"]);
    let status = &events[1]["responseStatus"];
    assert_eq!(status["message"], "APIServer panic'd: the check is broken");
    assert_eq!((&status["reason"], &status["status"]), (&json!("InternalError"), &json!("Failure")));
}

#[tokio::test]
async fn rejected_requests_are_audited_by_their_reason() {
    let (server, recorder) = server(json!([{"level": "RequestResponse", "omitStages": ["RequestReceived"]}]));
    server.add_user_token("ALICE", User::new("alice"));
    assert_eq!(over_socket(&server, &[("authorization", b"Bearer WRONG")], "/api/v1/pods").await.status(), 401);
    assert_eq!(over_socket(&server, &[("authorization", b"Bearer ALICE")], "/api/v1/pods").await.status(), 403);
    assert_eq!(
        over_socket(&server, &[("authorization", b"Bearer TOKEN")], "/api/v1/pods?timeout=x").await.status(),
        400
    );
    let events = recorder.events();
    let shown: Vec<_> = events.iter().map(describe).collect();
    assert_eq!(shown, ["ResponseStarted list 401", "ResponseComplete list 403", "ResponseStarted list 400"]);
    assert_eq!(events[0]["user"], json!({}), "an unknown user");
    assert_eq!(events[0]["responseStatus"]["reason"], "Unauthorized");
    assert_eq!(events[1]["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(events[1]["user"]["username"], "alice");
    assert_eq!(events[2]["user"], json!({}), "the timeout is checked before the authentication");
}

#[tokio::test]
async fn impersonated_user_is_beside_the_caller() {
    let (server, recorder) = server(json!([{"level": "Metadata", "users": ["admin"]}]));
    let headers: [(&str, &[u8]); 2] = [("authorization", b"Bearer TOKEN"), ("impersonate-user", b"bob")];
    assert_eq!(over_socket(&server, &headers, "/api/v1/pods").await.status(), 403);
    let events = recorder.events();
    assert_eq!(events[0].get("impersonatedUser"), None, "not known yet");
    assert_eq!(events[1]["user"]["username"], "admin");
    assert_eq!(events[1]["impersonatedUser"], json!({"username": "bob", "groups": ["system:authenticated"]}));
    assert_eq!(events[1]["authenticationMetadata"], json!({"impersonationConstraint": "impersonate:user-info"}));
}

#[tokio::test]
async fn hostile_headers_are_bounded_and_valid_json() {
    let (server, recorder) = server(json!([{"level": "Metadata"}]));
    let agent = [b"\xff\"<".as_slice(), &[b'a'; 5000]].concat();
    let id = [b'i'; 3000];
    let response = over_socket(&server, &[("user-agent", &agent), ("audit-id", &id)], "/version?x=%22%3C").await;
    assert_eq!(response.headers()["audit-id"].len(), id.len(), "returned as received");
    let event = &recorder.events()[0];
    let shown = event["userAgent"].as_str().unwrap();
    assert!(shown.starts_with("\u{FFFD}\"<aaa") && shown.ends_with("a...TRUNCATED"), "{shown}");
    assert_eq!(shown.chars().count(), 1024 + "...TRUNCATED".len());
    assert_eq!(event["auditID"].as_str().unwrap().len(), id.len(), "as in kube-apiserver, not truncated");
    assert_eq!(event["requestURI"], "/version?x=%22%3C");
}

#[tokio::test]
async fn source_addresses_are_those_of_proxies_and_the_connection() {
    let (server, recorder) = server(json!([{"level": "Metadata", "omitStages": ["RequestReceived"]}]));
    for (headers, expected) in [
        (vec![], json!(["192.0.2.7"])),
        (
            vec![("x-forwarded-for", &b"10.0.0.1, bad,::ffff:10.0.0.2"[..])],
            json!(["10.0.0.1", "10.0.0.2", "192.0.2.7"]),
        ),
        (vec![("x-forwarded-for", b"010.0.0.1"), ("x-real-ip", b"10.0.0.1")], json!(["10.0.0.1", "192.0.2.7"])),
        (vec![("x-real-ip", b"192.0.2.7")], json!(["192.0.2.7"])),
        (vec![("x-real-ip", b"2001:db8::1")], json!(["2001:db8::1", "192.0.2.7"])),
    ] {
        over_socket(&server, &headers, "/healthz").await;
        assert_eq!(recorder.events().last().unwrap()["sourceIPs"], expected, "{headers:?}");
    }
}

#[tokio::test]
async fn unaudited_request_has_no_event() {
    let (server, recorder) = server(json!([{"level": "None", "nonResourceURLs": ["/version"]}]));
    send(&server, "GET", "/version", Value::Null).await;
    send(&server, "GET", CONFIG_MAPS, Value::Null).await;
    assert_eq!(recorder.requests(), 0);
    let metrics = send(&server, "GET", "/metrics", Value::Null).await;
    let text = String::from_utf8_lossy(metrics.body()).into_owned();
    assert!(text.contains("apiserver_audit_level_total{level=\"None\"} 3\n"), "{text}");
    assert!(text.contains("apiserver_audit_event_total 0\n"), "{text}");
}

#[tokio::test]
async fn patch_that_is_not_json_is_omitted() {
    let (server, recorder) = server(json!([{"level": "Request", "omitStages": ["RequestReceived"]}]));
    let patch = async |content_type: &str, body: &str| {
        let path = format!("{CONFIG_MAPS}/a?fieldManager=me");
        let request = Request::patch(path).header("content-type", content_type).body(body.to_owned()).unwrap();
        collect(server.service().oneshot(request).await.unwrap()).await.status()
    };
    assert_eq!(patch("application/merge-patch+json", "{\"a\": ").await, 404);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    assert_eq!(patch("application/apply-patch+yaml", yaml).await, 201);
    let events = recorder.events();
    assert_eq!(events[0].get("requestObject"), None);
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(events[1]["requestObject"], applied, "YAML is recorded as JSON");
}

#[tokio::test(start_paused = true)]
async fn custom_resource_is_recorded_with_defaults_and_without_unknown_fields() {
    let rules = json!([{"level": "Request", "verbs": ["create"], "resources": [{"group": "ex.io"}], "omitStages": ["RequestReceived"]}]);
    let (server, recorder) = server(rules);
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}, "b": {"type": "string"}}}}});
    let definition = json!({"metadata": {"name": "foos.ex.io"}, "spec": {"group": "ex.io", "scope": "Cluster",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&server, "POST", definitions, definition).await.status(), 201);
    let object =
        json!({"kind": "Foo", "apiVersion": "ex.io/v1", "metadata": {"name": "a"}, "spec": {"b": "<x>", "c": 1}});
    let mut code = 404;
    for _ in 0..1000 {
        code = send(&server, "POST", "/apis/ex.io/v1/foos", object.clone()).await.status().as_u16();
        if code != 404 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(code, 201);
    let created = recorder.events().pop().unwrap();
    let recorded =
        json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"b": "<x>", "size": 3}});
    assert_eq!(created["requestObject"], recorded);
    assert_eq!(created["objectRef"], json!({"resource": "foos", "name": "a", "apiGroup": "ex.io", "apiVersion": "v1"}));
}

#[tokio::test]
async fn annotations_keep_their_first_value_and_need_qualified_keys() {
    let (server, recorder) = server(json!([{"level": "Metadata", "omitStages": ["RequestReceived"]}]));
    let method = http::Method::GET;
    let info = crate::request::RequestInfo::new(&method, "/version", &crate::request::Query::default()).unwrap();
    let request = crate::audit::AuditedRequest {
        uri: "/version",
        audit_id: b"id",
        headers: &http::HeaderMap::new(),
        info: &info,
        remote: None,
        received: jiff::Timestamp::UNIX_EPOCH,
    };
    let user = Arc::new(User::new("a"));
    let audit = crate::audit::RequestAudit::begin(server.inner().audit(), &request, &user).await.unwrap();
    let context = audit.context();
    for (key, value) in [
        ("ex.io/a", "first"),
        ("ex.io/a", "second"),
        ("plain", "x"),
        ("ex.io/a/b", "x"),
        ("ex.io/-", "x"),
        ("Upper.io/a", "x"),
        ("/a", "x"),
    ] {
        context.annotate_admission(key.to_owned(), value.to_owned());
    }
    // A webhook cannot fill the memory.
    for number in 0..100 {
        context.annotate_admission(format!("ex.io/n{number}"), "x".repeat(10_000));
    }
    audit.complete().await;
    let annotations = recorder.events()[0]["annotations"].as_object().unwrap().clone();
    assert_eq!(annotations["ex.io/a"], "first");
    assert!(annotations.keys().all(|key| key == "ex.io/a" || key.starts_with("ex.io/n")), "{annotations:?}");
    assert_eq!(annotations.len(), 1 + 26, "annotations beyond 256 KiB are dropped");
}
