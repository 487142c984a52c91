//! The connections of the server: accepting, serving and closing.

use std::{convert::Infallible, future::Future, pin::pin, sync::Arc, time::Duration};

use hyper::{rt::Executor, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use windlass_api::BoxError;
use windlass_net::{Acceptor, WriteTimeout};

use crate::Webhooks;

/// The maximum number of concurrent connections. Further connections wait to be accepted.
const CONNECTIONS: usize = 4096;

/// The time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The time limit for the head of a request, and for idle connections.
const HEAD: Duration = Duration::from_secs(90);

/// How long a client may read nothing while a response is pending.
const STALL: Duration = Duration::from_mins(1);

/// The maximum number of concurrent calls in one HTTP/2 connection. API servers open further connections.
const STREAMS: u32 = 250;

/// The interval of HTTP/2 pings to idle clients. A client that does not respond is disconnected.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// Serves a listener until `shutdown` resolves, then finishes running calls within the grace period.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    webhooks: &Webhooks,
    grace: Duration,
    shutdown: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(tls);
    let limit = Arc::new(Semaphore::new(CONNECTIONS));
    let mut incoming = Acceptor::new(&listener);
    let (stop, stopping) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accept = async {
            // Cannot fail: the semaphore is never closed.
            let permit = Arc::clone(&limit).acquire_owned().await;
            (incoming.next().await, permit)
        };
        let (stream, permit) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let (acceptor, webhooks, stopping) = (acceptor.clone(), webhooks.clone(), stopping.clone());
        connections.spawn(async move {
            if let Err(error) = serve_one(stream, acceptor, webhooks, stopping).await {
                tracing::debug!(error = &*error, "a connection failed");
            }
            drop(permit);
        });
    }
    drop(listener);
    drop(stop);
    let finished = async { while connections.join_next().await.is_some() {} };
    if timeout(grace, finished).await.is_err() {
        tracing::warn!(connections = connections.len(), ?grace, "closing connections with running calls");
        connections.shutdown().await;
    }
}

/// Serves a connection. The connection ends when `stopping` changes, or when its sender is dropped.
async fn serve_one(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    webhooks: Webhooks,
    mut stopping: watch::Receiver<()>,
) -> Result<(), BoxError> {
    stream.set_nodelay(true)?;
    let stream = WriteTimeout::new(stream, STALL);
    let stream = tokio::select! {
        _ = stopping.changed() => return Ok(()),
        stream = timeout(HANDSHAKE, acceptor.accept(stream)) => stream??,
    };
    let service = service_fn(move |request| {
        let webhooks = webhooks.clone();
        async move { Ok::<_, Infallible>(webhooks.answer(request).await) }
    });
    let mut builder = auto::Builder::new(Streams::default());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        served = &mut connection => return served,
        _ = stopping.changed() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// The tasks of one HTTP/2 connection's streams. They end with the connection: dropping the last clone aborts them.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let mut tasks = self.0.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(stream);
    }
}
