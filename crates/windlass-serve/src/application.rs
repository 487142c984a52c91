//! The interface of applications.

use std::{fmt, future::Future, net::SocketAddr};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tokio_rustls::rustls::ServerConnection;

use crate::{BoxError, body::RequestBody};

/// The application of a server. It creates the state of each connection.
///
/// A function from requests to responses is an application without such state.
pub trait Application: Send + Sync + 'static {
    /// The state of a connection.
    type Connection: Connection;

    /// Creates the state of a new connection, before its TLS handshake.
    fn connect(&self, peer: SocketAddr) -> Self::Connection;
}

/// The state of a connection. It answers the connection's requests.
pub trait Connection: Send + Sync + 'static {
    /// The body of responses.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static;

    /// Receives the TLS session after the handshake, with the client's certificate. Not called without TLS.
    fn secured(&mut self, session: &ServerConnection) {
        let _ = session;
    }

    /// Answers a request. The requests of an HTTP/2 connection run concurrently. The future is dropped if the client
    /// cancels the request or disconnects.
    fn answer(&self, request: Request<RequestBody>) -> impl Future<Output = Response<Self::Body>> + Send + use<Self>;

    /// Accounts for bytes of an unfinished HTTP/1 request head.
    fn hold(&self, bytes: usize) {
        let _ = bytes;
    }

    /// Releases bytes of [`Self::hold`], when the head is complete or its connection ends.
    fn release(&self, bytes: usize) {
        let _ = bytes;
    }

    /// Is called before the connection writes the bytes of responses that it has received.
    fn writing(&self) {}

    /// Is called after the connection has written the bytes that it had received at the last call of
    /// [`writing`](Self::writing), except those that the client does not accept: it does not read, or its window is closed.
    fn written(&self) {}

    /// Waits until the application requires that the connection is closed, for example to free memory. By default it
    /// never does.
    fn closed(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// A connection without state.
#[derive(Clone)]
pub struct Stateless<F>(F);

impl<F, A, B> Application for F
where
    F: Fn(Request<RequestBody>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    type Connection = Stateless<F>;

    fn connect(&self, _: SocketAddr) -> Stateless<F> {
        Stateless(self.clone())
    }
}

impl<F, A, B> Connection for Stateless<F>
where
    F: Fn(Request<RequestBody>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    type Body = B;

    fn answer(&self, request: Request<RequestBody>) -> impl Future<Output = Response<B>> + Send + use<F, A, B> {
        (self.0)(request)
    }
}

impl<F> fmt::Debug for Stateless<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stateless")
    }
}
