//! Ten thousand requests, cancelled at any point, over local sockets.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{StreamBody, combinators::BoxBody};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::watch,
    task::{JoinSet, yield_now},
};
use tokio_rustls::TlsAcceptor;
use windlass_api::{Entropy, Patch, k8s_openapi::api::core::v1::Pod};

use crate::{Client, Config, Result, connection_options::TlsOptions};

const REQUESTS: u64 = 10_000;
const AT_ONCE: usize = 32;
/// The time limit for the end of everything that was cancelled.
const PATIENCE: Duration = Duration::from_secs(30);

const POD: &[u8] = br#"{"metadata":{"name":"p","resourceVersion":"1"}}"#;

/// The protocol: HTTP/2 over TLS, where requests share a connection, or HTTP/1.1 without TLS, where they do not.
#[derive(Clone, Copy, Debug)]
enum Spoken {
    Http1,
    Http2,
}

/// A server with one task per connection.
struct Server {
    config: Config,
    open: watch::Receiver<usize>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(spoken: Spoken) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (config, tls) = match spoken {
            Spoken::Http1 => (Config::new(format!("http://{address}").parse().unwrap()), None),
            Spoken::Http2 => {
                let (acceptor, authority) = certified(address);
                let config = Config::new(format!("https://{address}").parse().unwrap());
                (config.with_tls(TlsOptions::trusting(authority)), Some(acceptor))
            }
        };
        let (count, open) = watch::channel(0);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((socket, _)) = accepted else { return };
                        let (count, tls) = (count.clone(), tls.clone());
                        count.send_modify(|open| *open += 1);
                        connections.spawn(async move {
                            attend(socket, tls).await;
                            count.send_modify(|open| *open -= 1);
                        });
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Self { config, open, accepting }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Returns a self-signed server certificate.
fn certified(address: SocketAddr) -> (TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed([address.ip().to_string()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let builder = ServerConfig::builder_with_provider(ring::default_provider().into());
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    (TlsAcceptor::from(std::sync::Arc::new(config)), made.cert.pem())
}

/// Serves a connection until it ends. Disconnecting clients are part of the test and not an error.
async fn attend(socket: TcpStream, tls: Option<TlsAcceptor>) {
    let Some(tls) = tls else {
        let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service_fn(serve)).await;
        return;
    };
    if let Ok(socket) = tls.accept(socket).await {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        // Servers treat streams that are reset before they are accepted as an attack.
        builder.max_pending_accept_reset_streams(AT_ONCE * 100);
        builder.max_local_error_reset_streams(None);
        let _ = builder.serve_connection(TokioIo::new(socket), service_fn(serve)).await;
    }
}

/// Answers with an object, a list in three pieces, or a watch that stays open.
async fn serve(request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    yield_now().await;
    let data = |text: &[u8]| Ok(Frame::data(Bytes::copy_from_slice(text)));
    let body = if query.contains("watch=true") {
        let event = [b"{\"type\":\"ADDED\",\"object\":", POD, b"}\n"].concat();
        BoxBody::new(StreamBody::new(stream::iter([data(&event)]).chain(stream::pending())))
    } else if query.contains("limit") {
        let pieces = [data(br#"{"metadata":{},"items":["#), data(POD), data(b"]}")];
        BoxBody::new(StreamBody::new(stream::iter(pieces).then(|piece| async {
            yield_now().await;
            piece
        })))
    } else {
        BoxBody::new(http_body_util::Full::new(Bytes::from_static(POD)))
    };
    Ok(Response::new(body))
}

/// A future that is polled a limited number of times.
struct Patient<F> {
    work: F,
    polls: u64,
}

impl<F: Future + Unpin> Future for Patient<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = Pin::new(&mut self.work).poll(cx) {
            return Poll::Ready(Some(output));
        }
        self.polls = self.polls.saturating_sub(1);
        if self.polls == 0 { Poll::Ready(None) } else { Poll::Pending }
    }
}

async fn call(client: &Client, kind: u64) -> Result<()> {
    match kind {
        0 => client.get::<Pod>("p").await.map(drop),
        1 => client.list::<Pod>().limit(5).await.map(drop),
        2 => client.patch::<Pod>("p", Patch::Merge(serde_json::json!({"metadata": {}}))).await.map(drop),
        3 => client.list::<Pod>().limit(1).items().try_for_each(|_| async { Ok(()) }).await,
        _ => {
            let mut watch = client.watch::<Pod>().await?;
            // A second event would never arrive.
            watch.next().await.transpose().map(drop)
        }
    }
}

#[tokio::test]
async fn dropped_requests_leave_no_task_or_connection() {
    give_up(Spoken::Http1).await;
}

#[tokio::test]
async fn dropped_requests_on_http2_leave_no_task_or_stream() {
    give_up(Spoken::Http2).await;
}

async fn give_up(spoken: Spoken) {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let mut server = Server::start(spoken).await;
    let before = tasks();
    let client = Client::new(server.config.clone()).unwrap().without_rate_limit();
    let entropy = Entropy::seeded(4);

    let (mut answered, mut given_up) = (0_u64, 0_u64);
    let plans = (0..REQUESTS).map(|_| (entropy.below(5), 1 + entropy.below(8)));
    let calls = stream::iter(plans).map(|(kind, polls)| {
        let client = &client;
        async move { Patient { work: pin!(call(client, kind)), polls }.await }
    });
    let mut calls = calls.buffer_unordered(AT_ONCE);
    while let Some(outcome) = calls.next().await {
        match outcome {
            Some(outcome) => {
                outcome.expect("the server answers pending requests");
                answered += 1;
            }
            None => given_up += 1,
        }
    }
    drop(calls);
    assert_eq!(answered + given_up, REQUESTS);
    assert!(answered > REQUESTS / 20 && given_up > REQUESTS / 20, "both happen: {answered} and {given_up}");

    // The client still works, and only idle connections are open.
    client.get::<Pod>("p").await.unwrap();
    let idle = server.open.wait_for(|open| *open <= AT_ONCE);
    tokio::time::timeout(PATIENCE, idle).await.expect("cancelled connections are closed").unwrap();
    drop(client);
    let closed = server.open.wait_for(|open| *open == 0);
    tokio::time::timeout(PATIENCE, closed).await.expect("all connections end").unwrap();
    // The last tasks to end are those of the connections that were just closed.
    let ended = async {
        while tasks() > before {
            yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("all tasks end");
}
