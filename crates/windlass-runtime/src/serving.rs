//! Small HTTP servers for probes, metrics and the console.

use std::{future::Future, io, net::Ipv6Addr, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use windlass_api::BoxError;
use windlass_net::{Acceptor, WriteTimeout};

use crate::shutdown::Stop;

/// The maximum number of concurrent connections. Further connections wait to be accepted.
const CONNECTIONS: usize = 256;
/// The time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time limit for the head of a request, and for idle connections.
const HEAD: Duration = Duration::from_secs(32);
/// How long a client may read nothing while a response is pending.
const STALL: Duration = Duration::from_mins(1);
/// The time for pending responses to complete after the stop.
const LINGER: Duration = Duration::from_secs(1);

pub(crate) type Answer = Response<Full<Bytes>>;

/// The address or listener of a server.
#[derive(Debug)]
pub(crate) enum Listen {
    /// The server is disabled.
    Off,
    /// `host:port`, or `:port` for every address of the machine.
    Address(String),
    Bound(TcpListener),
}

impl Listen {
    /// Parses an address as in flags: an empty address or `0` disables the server.
    pub(crate) fn at(address: impl Into<String>) -> Self {
        match address.into() {
            address if address.is_empty() || address == "0" => Self::Off,
            address => Self::Address(address),
        }
    }

    /// Returns the listener, or `None` if the server is disabled.
    pub(crate) async fn bind(self) -> io::Result<Option<TcpListener>> {
        let address = match self {
            Self::Off => return Ok(None),
            Self::Bound(listener) => return Ok(Some(listener)),
            Self::Address(address) => address,
        };
        let Some(port) = address.strip_prefix(':') else { return TcpListener::bind(address).await.map(Some) };
        let port = port.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the port is not a number"))?;
        // Accepts IPv4 and IPv6 where the machine supports both.
        match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, port)).await.map(Some)
            }
            bound => bound.map(Some),
        }
    }
}

/// Serves connections of a listener until the stop. No connection outlives this function.
pub(crate) async fn serve<H, F, B>(listener: TcpListener, tls: Option<TlsAcceptor>, stop: &Stop, handle: H)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let limit = Arc::new(Semaphore::new(CONNECTIONS));
    let mut acceptor = Acceptor::new(&listener);
    loop {
        let accept = async {
            let permit = Arc::clone(&limit).acquire_owned().await.expect("the semaphore is never closed");
            (acceptor.next().await, permit)
        };
        let (stream, permit) = tokio::select! {
            biased;
            () = stop.requested() => break,
            accepted = accept => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let (tls, stop, handle) = (tls.clone(), stop.clone(), handle.clone());
        let stream = WriteTimeout::new(stream, STALL);
        connections.spawn(async move {
            match tls {
                None => serve_connection(stream, &stop, handle).await,
                Some(acceptor) => match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => serve_connection(stream, &stop, handle).await,
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_elapsed) => tracing::debug!("a TLS handshake took too long"),
                },
            }
            drop(permit);
        });
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(LINGER, ended).await.is_err() {
        connections.shutdown().await;
    }
}

/// Serves one connection. Connection errors are ignored.
async fn serve_connection<S, H, F, B>(stream: S, stop: &Stop, handle: H)
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes, Error: Into<BoxError>> + 'static,
{
    let service = service_fn(|request| {
        let answer = handle(request);
        async { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let result = tokio::select! {
        result = &mut connection => result,
        () = stop.requested() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection failed");
    }
}

/// Creates a plain-text response that browsers do not sniff as another type.
pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    answer
}

pub(crate) fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}
