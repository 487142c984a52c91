//! The connection that requests share.

use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::future::join_all;
use tokio::sync::Semaphore;

use super::{super::http2::PING_INTERVAL, *};
use crate::{
    connection_options::Dialer,
    metrics::{Attempt, ClientMetrics},
};

/// The number of attempts.
#[derive(Clone, Debug, Default)]
struct Attempts(Arc<AtomicUsize>);

impl ClientMetrics for Attempts {
    fn attempted(&self, _: &Attempt<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn trusting(server: &Server, pki: &Pki) -> Client {
    let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem()));
    Client::new(config).unwrap().without_rate_limit()
}

async fn get(client: &Client) -> Value {
    client.request_json(Request::get("/x").body(()).unwrap()).await.unwrap_or_else(|error| panic!("{}", error.chain()))
}

#[tokio::test]
async fn the_first_requests_open_one_connection_together() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    let client = trusting(&server, &pki);
    let seen = join_all((0..32).map(|_| get(&client))).await;
    assert!(seen.iter().all(|seen| seen["version"] == "HTTP/2.0"));
    assert_eq!(*server.open.borrow(), 1);
}

#[tokio::test]
async fn failed_connection_fails_all_waiting_requests() {
    let (dials, failures) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let (counted, failing) = (Arc::clone(&dials), Arc::clone(&failures));
    let dialer = Dialer::new(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        let failing = Arc::clone(&failing);
        async move {
            failing.acquire().await.map_err(io::Error::other)?.forget();
            Err::<tokio::net::TcpStream, _>(io::Error::other("the wire is cut"))
        }
    });
    let config = Config::new("https://server".parse().unwrap()).with_tls(TlsOptions::unverified()).with_dialer(dialer);
    let client = Client::new(config).unwrap().without_rate_limit();
    let ask = || client.request_json::<Value>(Request::get("/x").body(()).unwrap());
    // All requests wait when the attempt fails.
    let (outcomes, ()) = tokio::join!(join_all((0..16).map(|_| ask())), async { failures.add_permits(1) });
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        let chain = error.chain();
        assert!(chain.contains("no connection to server") && chain.contains("the wire is cut"), "{chain}");
    }
    assert_eq!(dials.load(Ordering::Relaxed), 1);
    // The next request tries again.
    failures.add_permits(1);
    assert!(ask().await.is_err());
    assert_eq!(dials.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_connection_ends_when_it_has_carried_nothing_for_a_while() {
    let pki = Pki::new();
    let mut server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    let client = trusting(&server, &pki);
    get(&client).await;
    let long = (IDLE_TIMEOUT + 2 * PING_INTERVAL).as_secs();
    let let_go = async |server: &mut Server, seconds: u64| {
        for _ in 0..seconds {
            rotation::elapse(Duration::from_secs(1)).await;
            // In real time, so that data in transit arrives.
            let closed = server.open.wait_for(|open| *open == 0);
            if tokio::time::timeout(Duration::from_millis(5), closed).await.is_ok() {
                return true;
            }
        }
        false
    };
    assert!(let_go(&mut server, long).await);

    // A connection with a watch does not end, and carries later requests, too.
    let mut watch = client.watch::<Pod>().await.unwrap();
    assert!(watch.next().await.unwrap().is_ok());
    assert!(!let_go(&mut server, long).await);
    get(&client).await;
    assert_eq!(*server.open.borrow(), 1);
}

#[tokio::test]
async fn large_bodies_respect_flow_control() {
    const SIZE: usize = 3 << 20;
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    let client = trusting(&server, &pki);
    let pieces = (0..SIZE / 4096).map(|_| Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(vec![0; 4096]))));
    for body in [Body::from(vec![0; SIZE]), Body::wrap(StreamBody::new(futures::stream::iter(pieces)))] {
        let size: usize = client.request_json(Request::post("/size").body(body).unwrap()).await.unwrap();
        assert_eq!(size, SIZE);
    }
    // An attempt that never ends is dropped with its request, and the connection continues.
    let endless =
        Body::wrap(StreamBody::new(futures::stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>()));
    let request = client.request_json::<Value>(Request::post("/size").body(endless).unwrap());
    assert!(tokio::time::timeout(Duration::from_millis(50), request).await.is_err());
    get(&client).await;
    assert_eq!(*server.open.borrow(), 1);
}

#[tokio::test]
async fn http1_fallback_reuses_the_first_socket() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["http/1.1"], Clients::Any))).await;
    let client = trusting(&server, &pki);
    for _ in 0..3 {
        assert_eq!(get(&client).await["version"], "HTTP/1.1");
        assert_eq!(*server.open.borrow(), 1);
    }
}

#[tokio::test]
async fn protocol_is_negotiated_again_after_reconnect() {
    let pki = Pki::new();
    let mut server = Server::start(Some(pki.server("127.0.0.1", &["http/1.1"], Clients::Any))).await;
    let client = trusting(&server, &pki);
    assert_eq!(get(&client).await["version"], "HTTP/1.1");
    server.replace(pki.server("127.0.0.1", &["h2"], Clients::Any));
    rotation::until_open(&mut server, 0).await;
    // A server that supports only HTTP/2 does not answer without ALPN.
    let ask = || client.request_json::<Value>(Request::get("/x").body(()).unwrap());
    let error = ask().await.unwrap_err();
    assert!(error.chain().contains("no connection to 127.0.0.1"), "{}", error.chain());
    assert_eq!(get(&client).await["version"], "HTTP/2.0");
}

#[tokio::test]
async fn connection_headers_are_dropped_by_the_proxy() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    let client = trusting(&server, &pki);
    let mut request = Request::get("/x").body(()).unwrap();
    for (name, value) in
        [("connection", "close"), ("keep-alive", "1"), ("proxy-connection", "close"), ("transfer-encoding", "chunked")]
    {
        request.headers_mut().insert(name, http::HeaderValue::from_static(value));
    }
    let seen: Value = client.request_json(request).await.unwrap_or_else(|error| panic!("{}", error.chain()));
    assert_eq!(seen["version"], "HTTP/2.0");

    let attempts = Attempts::default();
    let client = client.with_metrics(attempts.clone());
    let malformed = Request::get("/x").header("te", "gzip").body(()).unwrap();
    let error = client.request_json::<Value>(malformed).await.unwrap_err();
    assert!(error.chain().contains("malformed headers"), "{}", error.chain());
    assert_eq!(attempts.0.load(Ordering::Relaxed), 1);
}
