//! A connection from its handshake to its end.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
};

use http::{Request, Response, StatusCode};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use crate::{
    BoxError,
    activity::Activity,
    body::{RequestBody, ResponseBody},
    coalesced_writes::CoalescedConnection,
    erased::AnyConnection,
    heads::Heads,
    http_server::{
        CONNECTION_WINDOW, ERROR_RESETS, FRAME, HANDSHAKE, HEAD_BYTES, HEADER_LIST, HTTP1, HTTP2, HttpServer, IDLE,
        PENDING_RESETS, PING, PONG, Protocols, SEND_BUFFER, STREAM_WINDOW,
    },
    preface::{Rewound, Version},
    socket::Socket,
    streams::Streams,
    upgrade::UpgradedWork,
};

/// The bytes of a connection after its TLS handshake, or without TLS.
///
/// It is boxed. The futures of the phases of a connection would otherwise contain several copies of the TLS state, for
/// as long as the connection exists.
type AnyStream = Box<dyn Stream>;

/// A stream in both directions.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Everything that a connection needs except its socket and its state.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) server: Arc<HttpServer>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) stopping: Stopping,
}

/// Signals the shutdown to connections: its sender was dropped.
#[derive(Clone, Debug)]
pub(crate) struct Stopping(pub(crate) watch::Receiver<()>);

impl Context {
    /// Serves a connection until it ends or must make room for others. Failures are logged at debug level.
    pub(crate) async fn serve<S>(self, socket: Socket<S>, connection: Box<dyn AnyConnection>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Arc::clone(&self.activity);
        let result = tokio::select! {
            result = self.secure(socket, connection) => result,
            () = activity.closed() => return,
        };
        if let Err(error) = result {
            tracing::debug!(error = &*error, "a connection failed");
        }
    }

    /// Performs the TLS handshake.
    async fn secure<S>(&self, socket: Socket<S>, mut connection: Box<dyn AnyConnection>) -> Result<(), BoxError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(tls) = &self.tls else { return self.http(Box::new(socket), connection, None).await };
        let acceptor = TlsAcceptor::from(Arc::clone(tls));
        // Boxed, so that its memory is free after the handshake.
        let handshake = Box::pin(time::timeout(HANDSHAKE, acceptor.accept(socket)));
        let handshake = tokio::select! {
            () = self.stopping.requested() => return Ok(()),
            handshake = handshake => handshake,
        };
        let stream = Box::new(handshake.map_err(|_| format!("no TLS handshake within {HANDSHAKE:?}"))??);
        let (_, session) = stream.get_ref();
        connection.secured(session);
        let protocol = match session.alpn_protocol() {
            Some(name) if name == HTTP2 => Some(Version::Http2),
            Some(name) if name == HTTP1 => Some(Version::Http1),
            _ => None,
        };
        self.http(stream, connection, protocol).await
    }

    /// Serves requests over the version of HTTP that the handshake or the first bytes select.
    async fn http(
        &self,
        stream: AnyStream,
        connection: Box<dyn AnyConnection>,
        selected: Option<Version>,
    ) -> Result<(), BoxError> {
        let connection = Arc::from(connection);
        let serving = async {
            let mut stream = Rewound::new(stream);
            let mut version = Version::Http1;
            if self.server.protocols == Protocols::Http1And2 && selected != Some(Version::Http1) {
                version = tokio::select! {
                    () = self.stopping.requested() => return Ok(()),
                    version = stream.version(IDLE, self.server.head) => version?,
                };
            }
            match selected.unwrap_or(version) {
                Version::Http1 => self.http1(stream, &connection).await,
                Version::Http2 => self.http2(stream, &connection).await,
            }
        };
        tokio::select! {
            result = serving => result,
            () = connection.closed() => Ok(()),
        }
    }

    async fn http1(&self, stream: Rewound<AnyStream>, connection: &Arc<dyn AnyConnection>) -> Result<(), BoxError> {
        let stream = Heads::new(stream, Arc::clone(connection), Arc::clone(&self.activity), self.server.head);
        let upgraded = UpgradedWork::default();
        let answer = service_fn(|mut request: Request<Incoming>| {
            upgraded.offer(request.extensions_mut());
            let (answer, upgraded) = (self.answer(&**connection, request), upgraded.clone());
            async move {
                let response = answer.await?;
                if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    drop(upgraded.take());
                }
                Ok::<_, Infallible>(response)
            }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            // hyper's timer includes the head of the next request.
            .header_read_timeout(IDLE)
            .max_header_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), answer)
            .with_upgrades();
        let mut served = pin!(served);
        tokio::select! {
            result = reported(served.as_mut(), &**connection) => result?,
            () = self.stopping.requested() => {
                served.as_mut().graceful_shutdown();
                reported(served, &**connection).await?;
            }
        }
        if let Some(mut work) = upgraded.take() {
            // The client may send until it has read the end.
            self.activity.leave_unread();
            reported(work.as_mut(), &**connection).await;
        }
        Ok(())
    }

    async fn http2(&self, stream: Rewound<AnyStream>, connection: &Arc<dyn AnyConnection>) -> Result<(), BoxError> {
        let coalesced_writes = CoalescedConnection::new(stream);
        let streams = Streams::new(self.server.write);
        let task = streams.connection();
        let served = http2::Builder::new(streams)
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.server.streams)
            .max_header_list_size(HEADER_LIST)
            .max_frame_size(FRAME)
            .max_send_buf_size(SEND_BUFFER)
            .max_pending_accept_reset_streams(PENDING_RESETS)
            .max_local_error_reset_streams(ERROR_RESETS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .serve_connection(
                TokioIo::new(coalesced_writes.stream()),
                service_fn(|request| self.answer(&**connection, request)),
            );
        let mut served = pin!(served);
        tokio::select! {
            result = coalesced_writes.drive(served.as_mut(), &**connection, &task) => return result,
            () = self.stopping.requested() => {}
        }
        served.as_mut().graceful_shutdown();
        coalesced_writes.drive(served, &**connection, &task).await
    }

    /// Answers a request, and counts it until its response has ended.
    fn answer(
        &self,
        connection: &dyn AnyConnection,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<ResponseBody>, Infallible>> + Send + use<> {
        let running = self.activity.begin();
        let answer = connection.answer(request.map(|body| RequestBody::new(body, &self.activity)));
        async move {
            let response = answer.await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                running.activity().upgrade();
            }
            Ok(response.map(|body| ResponseBody::new(body, running)))
        }
    }
}

/// Polls a connection of HTTP/1 or of the protocol after it, and reports to the application what it has written. It
/// requests the bytes of a response itself, and then writes them.
async fn reported<T>(mut served: Pin<&mut (impl Future<Output = T> + ?Sized)>, application: &dyn AnyConnection) -> T {
    poll_fn(|cx| {
        let polled = served.as_mut().poll(cx);
        application.writing();
        application.written();
        polled
    })
    .await
}

impl Stopping {
    /// Waits until the shutdown begins.
    async fn requested(&self) {
        // Nothing is sent; the wait ends when the sender is dropped.
        drop(self.0.clone().changed().await);
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use http_body_util::Empty;
    use tokio::{io::DuplexStream, sync::Semaphore};

    use super::*;
    use crate::{Application, activity::OpenConnections};

    fn application(_: Request<RequestBody>) -> future::Ready<Response<Empty<bytes::Bytes>>> {
        future::ready(Response::default())
    }

    /// A server with ten thousand idle connections has as many of these futures.
    #[tokio::test]
    async fn future_of_a_connection_is_small() {
        let server = Arc::new(HttpServer::new());
        let activity = OpenConnections::new().open();
        let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let (stream, _theirs) = tokio::io::duplex(1);
        let socket: Socket<DuplexStream> = Socket::new(stream, Arc::clone(&activity), server.write, permit);
        let (_stop, stopping) = watch::channel(());
        let context = Context { server, tls: None, activity, stopping: Stopping(stopping) };
        let connection = Application::connect(&application, ([127, 0, 0, 1], 0).into());
        let size = size_of_val(&context.serve(socket, Box::new(connection)));
        assert!(size <= 4 << 10, "{size} bytes");
    }
}
