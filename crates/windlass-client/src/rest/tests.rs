use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use windlass_api::{ObjectExt as _, WatchOptions, k8s_openapi::api::core::v1::Pod};

use super::*;
use crate::{
    WatchEvent,
    testing::{End, Fake, chunks},
    warnings::CollectWarnings,
};

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"test","namespace":"default"}}"#;

fn core(fake: &Fake) -> RestClient {
    fake.client().rest(GroupVersion::new("", "v1"))
}

/// Returns the path of the sent request, or the error.
async fn path(build: impl FnOnce(&RestClient, &RestClient) -> RestRequest) -> String {
    let fake = Fake::json("{}");
    let apps = fake.client().rest(GroupVersion::new("apps", "v1"));
    match build(&core(&fake), &apps).send().await {
        Ok(_) => fake.seen().remove(0),
        Err(error) => {
            assert!(fake.seen().is_empty(), "nothing is sent");
            error.chain()
        }
    }
}

#[tokio::test]
async fn a_pod_is_read_part_by_part() {
    let fake = Fake::json(POD);
    let pod = core(&fake).get().namespace("default").resource("pods").name("test").send().await.unwrap();
    assert_eq!((pod.status().as_u16(), pod.was_created(), pod.bytes().len()), (200, false, POD.len()));
    assert_eq!(pod.into::<Pod>().unwrap().name(), "test");
    assert_eq!(fake.seen(), ["GET /api/v1/namespaces/default/pods/test"]);
    assert_eq!(fake.last().headers()["accept"], "application/json, */*");
    // `.await` also sends the request.
    core(&fake).delete().namespace("default").resource("pods").name("test").await.unwrap();
    assert_eq!(fake.seen()[1], "DELETE /api/v1/namespaces/default/pods/test");
}

#[tokio::test]
async fn path_parts_are_ordered_independently_of_calls() {
    for (seen, expected) in [
        (path(|core, _| core.get().resource("Pods")).await, "GET /api/v1/pods"),
        (
            path(|_, apps| apps.put().sub_resource("status").name("d").namespace("n").resource("deployments")).await,
            "PUT /apis/apps/v1/namespaces/n/deployments/d/status",
        ),
        (
            path(|core, _| core.get().namespace("n").resource("pods").name("p").sub_resource("proxy/a").suffix("b/c"))
                .await,
            "GET /api/v1/namespaces/n/pods/p/proxy/a/b/c",
        ),
        (path(|core, _| core.get().prefix("watch").resource("pods")).await, "GET /api/v1/watch/pods"),
        (path(|core, _| core.get().abs_path("/healthz").suffix("etcd")).await, "GET /healthz/etcd"),
        (path(|core, _| core.get().abs_path("/a//b/")).await, "GET /a/b/"),
        (path(|core, _| core.get().abs_path("a/b/").resource("c")).await, "GET /a/b/c"),
        (path(|core, _| core.get().abs_path("/")).await, "GET /"),
        (path(|core, _| core.get().abs_path("/sp ace/100%")).await, "GET /sp%20ace/100%25"),
        (
            path(|core, _| core.get().resource("pods").param("a", "b c").param("a", "d&e=f")).await,
            "GET /api/v1/pods?a=b%20c&a=d%26e%3Df",
        ),
        (
            path(|core, _| core.get().param("lost", "1").request_uri("/x%20y/z?q=1+2&r=%2B&s").param("t", "u")).await,
            "GET /x%20y/z?q=1%202&r=%2B&s=&t=u",
        ),
        (
            path(|core, _| core.get().resource("pods").params(WatchOptions::default().query_pairs())).await,
            "GET /api/v1/pods?watch=true",
        ),
        (
            path(|core, _| core.get().resource("pods").timeout(Duration::from_millis(1_500))).await,
            "GET /api/v1/pods?timeout=1500ms",
        ),
        (path(|core, _| core.get().namespace("").resource("pods")).await, "GET /api/v1/pods"),
        (path(|core, _| core.get().namespace_if(None::<String>).resource("pods")).await, "GET /api/v1/pods"),
        (path(|core, _| core.get().namespace_if(Some("n")).resource("pods")).await, "GET /api/v1/namespaces/n/pods"),
    ] {
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn first_builder_error_is_returned_on_send() {
    for (error, expected) in [
        (path(|core, _| core.get().resource("pods").name("a/b")).await, r#"the name "a/b" may not contain a slash"#),
        (path(|core, _| core.get().resource("pods").name("..")).await, r#"the name ".." may not be that"#),
        (path(|core, _| core.get().resource("pods").name("")).await, "the name is empty"),
        (path(|core, _| core.get().resource("p%")).await, r#"the resource "p%" may not contain a percent sign"#),
        (path(|core, _| core.get().namespace(".")).await, r#"the namespace "." may not be that"#),
        (path(|core, _| core.get().sub_resource("a/../b")).await, r#"the subresource ".." may not be that"#),
        (path(|core, _| core.get().abs_path("/a/../b")).await, r#"the path ".." may not be that"#),
        (
            path(|core, _| core.get().name("a").name("b").name("c")).await,
            r#"the name is already "a" and cannot be set to "b""#,
        ),
        (
            path(|core, _| core.get().resource("pods").namespace("a").namespace("a")).await,
            r#"the namespace is already "a" and cannot be set to "a""#,
        ),
        (path(|core, _| core.post().namespace("").resource("pods")).await, "the namespace is empty"),
        (path(|core, _| core.get().namespace("").resource("pods").name("p")).await, "the namespace is empty"),
        (
            path(|core, _| core.get().header("bad name", "x").name("..")).await,
            r#"the header "bad name" cannot be sent"#,
        ),
        (path(|core, _| core.get().header("x-a", "new\nline")).await, r#"the header "x-a" cannot be sent"#),
    ] {
        assert!(error.ends_with(expected), "{error}");
    }
}

#[tokio::test]
async fn bodies_have_a_content_type() {
    let fake = Fake::json(POD);
    let core = core(&fake);
    core.post().namespace("n").resource("pods").json(&json!({"a": 1})).send().await.unwrap();
    assert_eq!(fake.last().headers()["content-type"], "application/json");
    core.patch(PatchKind::Merge).namespace("n").resource("pods").name("p").json(&json!({"a": 1})).send().await.unwrap();
    assert_eq!(fake.last().headers()["content-type"], "application/merge-patch+json");
    assert_eq!(fake.last().body(), r#"{"a":1}"#);
    let raw = core.put().abs_path("/x").header("content-type", "text/plain").accept("text/html").body("hello");
    raw.send().await.unwrap();
    let last = fake.last();
    assert_eq!(
        (&last.headers()["content-type"], &last.headers()["accept"]),
        (&"text/plain".parse().unwrap(), &"text/html".parse().unwrap())
    );
    assert_eq!(last.body(), "hello");
    let unwritable = std::collections::HashMap::from([(vec![1], 2)]);
    let error = core.post().resource("pods").json(&unwritable).send().await.unwrap_err();
    assert!(matches!(error, Error::Encode { .. }), "{error}");
}

#[tokio::test]
async fn errors_name_the_verb_and_the_object() {
    let fake = Fake::failure(409, "");
    let apps = fake.client().rest(GroupVersion::new("apps", "v1"));
    for (request, expected) in [
        (apps.get().resource("deployments"), "list deployments.apps:"),
        (apps.get().namespace("n").resource("deployments").name("d"), r#"get deployments.apps "n/d":"#),
        (apps.post().namespace("n").resource("deployments"), r#"create deployments.apps in "n":"#),
        (apps.patch(PatchKind::Json).resource("x").name("d").sub_resource("status"), r#"patch x.apps/status "d":"#),
        (apps.delete().namespace("n").resource("deployments"), r#"delete all deployments.apps in "n":"#),
        (apps.get().abs_path("/version"), "request /version:"),
    ] {
        let error = request.send().await.unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(error.is_conflict() || error.is_already_exists());
    }
}

#[tokio::test]
async fn failure_status_is_an_error_with_any_code() {
    let fake = Fake::json(r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#);
    let answer = core(&fake).get().abs_path("/x").send().await.unwrap();
    assert!(answer.into::<Value>().unwrap_err().is_not_found());
    let done = Fake::json(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#);
    assert!(core(&done).get().abs_path("/x").send().await.unwrap().into::<Value>().is_ok());
    let empty = Fake::json("");
    let error = core(&empty).get().abs_path("/x").send().await.unwrap().into::<Value>().unwrap_err();
    assert!(matches!(error, Error::Decode { .. }), "{error}");
}

#[tokio::test]
async fn response_has_code_content_type_and_warnings() {
    let fake = Fake::new(|_| {
        let response = http::Response::builder().status(201).header("content-type", "application/json");
        response.header("warning", r#"299 - "old""#).body(POD.into()).unwrap()
    });
    let told = CollectWarnings::default();
    let answer = core(&fake).post().namespace("n").resource("pods").warnings(told.clone()).send().await.unwrap();
    assert!(answer.was_created());
    assert_eq!((answer.content_type(), &*answer.warnings()[0].text), (Some("application/json"), "old"));
    assert_eq!(told.take(), answer.warnings());
    assert_eq!(answer.into_bytes(), POD);
}

#[tokio::test]
async fn stream_response_is_not_buffered() {
    let fake = Fake::new(|_| http::Response::new(chunks(vec!["one ", "two"], End::Broken)));
    let mut stream = core(&fake).get().resource("pods").name("p").sub_resource("log").stream().await.unwrap();
    for expected in ["one ", "two"] {
        assert_eq!(stream.frame().await.unwrap().unwrap().into_data().unwrap(), expected);
    }
    assert!(stream.frame().await.unwrap().is_err());
    let refused = core(&Fake::failure(403, "no")).get().resource("pods").stream().await.unwrap_err();
    assert!(refused.is_forbidden());
}

#[tokio::test]
async fn watch_is_requested_once_and_events_are_decoded() {
    let fake = Fake::json("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"p\"}}}\n");
    let mut watch = core(&fake).get().resource("pods").watch::<Pod>().await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(pod))) if pod.name() == "p"));
    let options = WatchOptions::default();
    drop(core(&fake).get().resource("pods").params(options.query_pairs()).watch::<Pod>().await.unwrap());
    assert_eq!(fake.seen(), ["GET /api/v1/pods?watch=true"; 2]);
    let refused = core(&Fake::failure(410, "")).get().resource("pods").watch::<Pod>().await.unwrap_err();
    assert!(refused.is_expired() && refused.to_string().starts_with("watch pods:"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn request_options_override_the_clients() {
    let fake =
        Fake::new(|_| http::Response::builder().status(429).header("retry-after", "1").body(Body::empty()).unwrap());
    let request = || core(&fake).get().abs_path("/x");
    assert!(request().max_retries(2).send().await.unwrap_err().is_too_many_requests());
    assert_eq!(fake.seen().len(), 3);
    let began = tokio::time::Instant::now();
    let limit = RateLimit::per_second(1, 1);
    for _ in 0..3 {
        assert!(request().max_retries(0).rate_limit(limit.clone()).send().await.is_err());
    }
    assert_eq!(began.elapsed().as_secs(), 2);
    assert!(request().timeout(Duration::from_secs(3)).send().await.unwrap_err().is_timeout());
}
