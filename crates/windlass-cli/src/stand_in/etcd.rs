//! etcd, as far as envtest uses it: it reports that it is healthy, and stores nothing.

use std::{error::Error, future::ready};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use tokio::{net::TcpListener, task::JoinSet};
use windlass_runtime::shutdown;
use windlass_serve::RequestBody;

use super::flags::{Flag, Flags, Invocation, help};
use crate::{commands::announce, serving::serve};

const FLAGS: &[Flag] = &[
    Flag { name: "listen-client-urls", takes: "urls", about: "Where to answer for its health, over plain HTTP" },
    Flag { name: "advertise-client-urls", takes: "urls", about: "Not used" },
    Flag { name: "listen-peer-urls", takes: "urls", about: "Not used: it has no peers" },
    Flag { name: "data-dir", takes: "path", about: "Not used: nothing is stored" },
    Flag { name: "unsafe-no-fsync", takes: "", about: "Not used: nothing is stored" },
];

/// The default client URL of etcd.
const CLIENT_URL: &str = "http://localhost:2379";

pub(super) async fn run(arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let flags = match Flags::read(FLAGS, arguments) {
        Invocation::Run(flags) => flags,
        Invocation::Help => {
            announce(&help("etcd", FLAGS));
            return Ok(());
        }
    };
    let mut urls: Vec<&str> = flags.list("listen-client-urls").collect();
    if urls.is_empty() {
        urls.push(CLIENT_URL);
    }
    let mut serving = JoinSet::new();
    for url in urls {
        let address =
            url.strip_prefix("http://").ok_or_else(|| format!("listening on {url}: only http is spoken here"))?;
        let listener = TcpListener::bind(address.trim_end_matches('/')).await;
        let listener = listener.map_err(|error| format!("listening on {url}: {error}"))?;
        let application = |request: Request<RequestBody>| ready(answer(&request));
        serving.spawn(serve(listener, application, std::future::pending()));
    }
    shutdown::signal().await;
    Ok(())
}

fn answer<B>(request: &Request<B>) -> Response<Full<Bytes>> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/health") => (StatusCode::OK, r#"{"health":"true","reason":""}"#),
        (&Method::GET, "/version") => (StatusCode::OK, r#"{"etcdserver":"3.6.0","etcdcluster":"3.6.0"}"#),
        (&Method::GET, "/livez" | "/readyz") => (StatusCode::OK, "ok\n"),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n"),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    if body.starts_with('{') {
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_in_serves_health_only() {
        let status = |path: &str| answer(&Request::get(path).body(()).unwrap()).status();
        assert_eq!((status("/health"), status("/v3/kv/range")), (StatusCode::OK, StatusCode::NOT_FOUND));
    }
}
