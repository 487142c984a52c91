//! Errors in the client: status code and reason must be the same with both servers.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use windlass_api::ObjectExt;
use windlass_client::{Auth, Client};

use conformance::{Target, eventually, on_each_target, trusting_any_certificate, unique};

/// A response to a request.
struct Answer {
    code: u16,
    /// The Content-Type header.
    kind: String,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Returns code, reason and message of a `Status`.
    fn status(&self) -> (u16, String, String) {
        let status = self.json();
        assert_eq!(status["code"].as_u64(), Some(self.code.into()), "{status}");
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        (self.code, text("reason"), text("message"))
    }
}

async fn send(client: &Client, method: Method, path: &str, body: impl Into<Bytes>) -> Answer {
    let request = Request::builder().method(method).uri(path).header("Content-Type", "application/json");
    let response = client.request(request.body(body.into()).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned()).unwrap_or_default();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Answer { code, kind, body }
}

fn config_map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn unknown_path_is_plain_404_and_unknown_resource_a_status() {
    on_each_target(|target| async {
        let answer = send(&target.client, Method::GET, "/nowhere", "").await;
        assert_eq!((answer.code, &*answer.body), (404, &b"404 page not found\n"[..]));
        assert!(answer.kind.starts_with("text/plain"), "{}", answer.kind);

        let answer = send(&target.client, Method::GET, "/api/v1/namespaces/default/nonsense", "").await;
        let expected = (404, "NotFound".to_owned(), "the server could not find the requested resource".to_owned());
        assert_eq!(answer.status(), expected);
        target
    })
    .await;
}

#[tokio::test]
async fn a_wrong_token_is_unauthorized() {
    on_each_target(|target| async {
        let stranger = target.with_token("wrong");
        let answer = send(&stranger, Method::GET, MAPS, "").await;
        assert_eq!(answer.status(), (401, "Unauthorized".to_owned(), "Unauthorized".to_owned()));
        target
    })
    .await;
}

#[tokio::test]
async fn malformed_json_is_a_bad_request() {
    on_each_target(|target| async {
        for (body, message) in [
            ("not json", "couldn't get version/kind; json parse error: "),
            ("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",", "couldn't get version/kind; json parse error: "),
            ("", "unexpected end of JSON input"),
        ] {
            let (code, reason, text) = send(&target.client, Method::POST, MAPS, body).await.status();
            assert_eq!((code, &*reason), (400, "BadRequest"), "{body:?}");
            assert!(text.contains(message), "{body:?}: {text}");
        }
        let wrong_type = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":1}}"#;
        let (code, reason, text) = send(&target.client, Method::POST, MAPS, wrong_type).await.status();
        assert_eq!((code, &*reason), (400, "BadRequest"));
        assert!(
            text.contains("json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
            "{text}"
        );
        target
    })
    .await;
}

#[tokio::test]
async fn a_second_object_of_one_name_already_exists() {
    on_each_target(|target| async {
        let name = unique("twice");
        assert_eq!(send(&target.client, Method::POST, MAPS, config_map(&name)).await.code, 201);
        let answer = send(&target.client, Method::POST, MAPS, config_map(&name)).await;
        let expected = (409, "AlreadyExists".to_owned(), format!("configmaps \"{name}\" already exists"));
        assert_eq!(answer.status(), expected);
        target
    })
    .await;
}

#[tokio::test]
async fn an_update_of_an_old_state_conflicts() {
    on_each_target(|target| async {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(unique("stale"));
        map.metadata.namespace = Some("default".to_owned());
        let first = target.client.create(&map).await.unwrap();
        let mut changed = first.clone();
        changed.labels_mut().insert("a".to_owned(), "b".to_owned());
        target.client.update(&changed).await.unwrap();
        changed.labels_mut().insert("a".to_owned(), "c".to_owned());
        let error = target.client.update(&changed).await.unwrap_err();
        let status = error.status().unwrap();
        assert_eq!((status.code, status.reason.as_deref()), (409, Some("Conflict")));
        assert_eq!(
            status.message,
            format!(
                "Operation cannot be fulfilled on configmaps \"{}\": the object has been modified; please apply your changes to the latest version and try again",
                first.name()
            )
        );
        target
    })
    .await;
}

#[tokio::test]
async fn a_body_of_ten_megabytes_is_too_large() {
    on_each_target(|target| async {
        let body = format!("{{\"data\":{{\"a\":\"{}\"}}}}", "x".repeat(10 << 20));
        let (code, reason, message) = send(&target.client, Method::POST, MAPS, body).await.status();
        assert_eq!((code, &*reason), (413, "RequestEntityTooLarge"));
        assert_eq!(message, "Request entity too large: limit is 3145728");
        target
    })
    .await;
}

#[tokio::test]
async fn client_killed_during_a_watch_is_harmless() {
    on_each_target(|target| async {
        let mut connection = connect(&target).await;
        let request =
            format!("GET {MAPS}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", token(&target));
        connection.write_all(request.as_bytes()).await.unwrap();
        let head = read_until(&mut connection, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        // Closes the socket of a watch without notice.
        drop(connection);
        still_answers(&target).await;
        target
    })
    .await;
}

#[tokio::test]
async fn partial_request_is_harmless() {
    on_each_target(|target| async {
        let name = unique("half");
        let body = config_map(&name);
        for cut in [
            "GET /api/v1/na",
            "POST",
            &format!(
                "POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{}",
                token(&target),
                body.len(),
                &body[..body.len() / 2]
            ),
        ] {
            let mut connection = connect(&target).await;
            connection.write_all(cut.as_bytes()).await.unwrap();
            connection.flush().await.unwrap();
            drop(connection);
        }
        still_answers(&target).await;
        let found = target.client.get_opt::<ConfigMap>(name.as_str()).within("default").await.unwrap();
        assert!(found.is_none(), "half an object is no object");
        target
    })
    .await;
}

/// A new client is served, and sees other clients' writes.
async fn still_answers(target: &Target) {
    let name = unique("after");
    assert_eq!(send(&target.client, Method::POST, MAPS, config_map(&name)).await.code, StatusCode::CREATED.as_u16());
    eventually("the object is there", || async {
        target.client.get_opt::<ConfigMap>(name.as_str()).within("default").await.unwrap()
    })
    .await;
}

fn token(target: &Target) -> &str {
    match &target.config.auth {
        Auth::Bearer(token) => token.expose(),
        other => panic!("the targets use tokens, not {other:?}"),
    }
}

async fn connect(target: &Target) -> TlsStream<TcpStream> {
    let authority = target.config.server.authority().unwrap().as_str();
    let stream = TcpStream::connect(authority).await.unwrap();
    let config = trusting_any_certificate().unwrap();
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
}

async fn read_until(connection: &mut TlsStream<TcpStream>, end: &str) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(end.as_bytes()) {
        assert_eq!(connection.read(&mut byte).await.unwrap(), 1, "the connection ended early");
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}
