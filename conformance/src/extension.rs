//! An extension API server for cases that mention `{extension}`, its port.
//!
//! It serves version `v1` of the group `{id}.example.com`. `v2` also answers, but its discovery does not list it. The
//! discovery document of `v3` is answered with 500. A request for a resource is answered with a description of the request,
//! except for these names:
//!
//! - `/missing`: 404
//! - `/moved`: a redirect
//! - `/cut`: half of an object, then the connection ends
//! - `/teapot`: 418 with a text

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderName, Request, Response, header};
use http_body_util::{BodyExt, Collected, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The headers that a description of a request contains.
const SHOWN: [&str; 6] =
    ["accept", "authorization", "content-type", "x-forwarded-uri", "x-forwarded-proto", "x-custom"];

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Extension {
    pub(crate) port: u16,
    _serving: JoinSet<()>,
}

impl Extension {
    /// Starts a server for a group.
    pub(crate) async fn start(group: String) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate is generated");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("ring supports both versions");
        let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key);
        let config = config.expect("the key is that of the certificate");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let mut serving = JoinSet::new();
        let group: Arc<str> = group.into();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, group) = (acceptor.clone(), Arc::clone(&group));
                connections.spawn(async move {
                    // A client that gives up is not an error of the case.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = service_fn(|request| answer(&group, request));
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        });
        Self { port, _serving: serving }
    }
}

async fn answer(group: &str, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let path = head.uri.path();
    let (of_v1, of_v3) = (format!("/apis/{group}/v1"), format!("/apis/{group}/v3"));
    Ok(match path {
        "/apis" => whole(200, AGGREGATED, aggregated(group).to_string()),
        "/openapi/v3" => {
            let address = json!({"serverRelativeURL": format!("/openapi/v3/apis/{group}/v1?hash=1")});
            whole(200, "application/json", json!({"paths": {format!("apis/{group}/v1"): address}}).to_string())
        }
        _ if path == of_v1 => whole(200, "application/json", legacy(group).to_string()),
        _ if path == of_v3 => whole(500, "text/plain", "broken".to_owned()),
        _ if path.ends_with("/missing") => whole(404, "text/plain", "no such thing\n".to_owned()),
        _ if path.ends_with("/teapot") => whole(418, "text/plain", "short and stout\n".to_owned()),
        _ if path.ends_with("/moved") => {
            let mut response = whole(302, "text/plain", String::new());
            response.headers_mut().insert(header::LOCATION, "/elsewhere".parse().expect("it is a header value"));
            response
        }
        _ if path.ends_with("/cut") => {
            let cut = Err(std::io::Error::other("cut off"));
            let frames = stream::iter([Ok(Frame::data(Bytes::from_static(b"{\"half\":"))), cut]);
            let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
            response.headers_mut().insert(header::CONTENT_LENGTH, 100.into());
            response
        }
        _ => whole(200, "application/json", described(&head, &body).to_string()),
    })
}

fn whole(code: u16, content_type: &str, text: String) -> Answer {
    let body = http_body_util::Full::from(text).map_err(|never| match never {}).boxed_unsync();
    let response = Response::builder().status(code).header(header::CONTENT_TYPE, content_type);
    response.body(body).expect("the parts are valid")
}

/// Describes a request, in JSON.
fn described(head: &http::request::Parts, body: &[u8]) -> Value {
    json!({"kind": "Echo", "method": head.method.as_str(), "path": head.uri.path(), "query": head.uri.query(),
        "headers": shown(&head.headers), "body": String::from_utf8_lossy(body)})
}

fn shown(headers: &HeaderMap) -> Map<String, Value> {
    let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let is_shown =
        |name: &&str| SHOWN.contains(name) || name.starts_with("x-remote-") || name.starts_with("impersonate-");
    let value = |name: &str| {
        let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        (name.to_owned(), values.collect::<Vec<_>>().into())
    };
    names.into_iter().filter(is_shown).map(value).collect()
}

fn aggregated(group: &str) -> Value {
    let kind = json!({"group": group, "version": "v1", "kind": "Thing"});
    let status = json!({"subresource": "status", "responseKind": kind, "verbs": ["get", "update"]});
    let things = json!({"resource": "things", "responseKind": kind, "scope": "Namespaced", "singularResource": "thing",
        "verbs": ["create", "get", "list"], "shortNames": ["th"], "categories": ["all"], "subresources": [status]});
    let version = json!({"version": "v1", "resources": [things], "freshness": "Current"});
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{"metadata": {"name": group}, "versions": [version]}]})
}

fn legacy(group: &str) -> Value {
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/v1"), "resources": [
        {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
            "verbs": ["create", "get", "list"], "shortNames": ["th"], "categories": ["all"]},
        {"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["get", "update"]}]})
}
