//! A connection from its handshake to its end.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{self, Sleep},
};
use tokio_rustls::TlsAcceptor;
use windlass_api::BoxError;
use windlass_net::WriteTimeout;

use super::{boxed, heads::Heads, outgoing::Outgoing, streams::Streams};
use crate::server::coalesced_writes::CoalescedConnection;
use crate::{
    budget::{Account, Charge, Limits},
    state::State,
};
use crate::{
    http::{Origin, Trust, handle, too_many_requests},
    state::Stopping,
    tls::{ClientCertificate, TlsIdentity},
};

/// The time limit for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The time limit for an idle connection. hyper's timer includes the head of the next request; [`Heads`] limits that.
const IDLE: Duration = Duration::from_secs(90);

/// The maximum size of a request head in bytes.
const HEAD_BYTES: usize = 1 << 20;

/// The HTTP/2 flow-control windows of a stream (as in kube-apiserver) and of a connection, in bytes.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// The interval after which a quiet HTTP/2 connection is pinged, and the time limit for the response.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// Limits, in time and bytes, on reading from a connection after its last response if a request was not read
/// completely.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 64 << 20;

/// A connection being served.
pub(super) struct Connection {
    server: Arc<State>,
    stopping: Stopping,
    /// The client certificate of the connection.
    shown: ClientCertificate,
    cut_off: UnreadRequest,
    limits: Limits,
    account: Arc<Account>,
}

/// Set when a request was answered before it was read completely.
#[derive(Clone, Debug, Default)]
struct UnreadRequest(Arc<AtomicBool>);

impl Connection {
    pub(super) fn new(server: Arc<State>, stopping: Stopping) -> Self {
        let (limits, account) = (*server.budget().limits(), server.budget().open());
        Self { server, stopping, shown: ClientCertificate::Nothing, cut_off: UnreadRequest::default(), limits, account }
    }

    /// Serves the connection until it ends or the server must close it to free memory. Failures are logged at debug
    /// level.
    pub(super) async fn serve(mut self, stream: TcpStream, tls: Option<TlsIdentity>) {
        let account = Arc::clone(&self.account);
        let result = tokio::select! {
            result = self.converse(stream, tls) => result,
            () = account.closed() => return,
        };
        if let Err(error) = result {
            tracing::debug!(error = &*error, "a connection failed");
        }
    }

    async fn converse(&mut self, stream: TcpStream, tls: Option<TlsIdentity>) -> Result<(), BoxError> {
        stream.set_nodelay(true)?;
        let stream = Lingering::new(WriteTimeout::new(stream, self.limits.stall), self.cut_off.clone());
        let Some(identity) = tls else { return self.http1(stream).await };
        let mut stopping = self.stopping.clone();
        let acceptor = TlsAcceptor::from(identity.config());
        let handshake = tokio::select! {
            () = stopping.requested() => return Ok(()),
            handshake = time::timeout(HANDSHAKE, acceptor.accept(stream)) => handshake,
        };
        let stream = handshake.map_err(|_| format!("no TLS handshake within {HANDSHAKE:?}"))??;
        let (_, session) = stream.get_ref();
        self.shown = identity.client(session.peer_certificates(), self.server.clock().now());
        if session.alpn_protocol() == Some(b"h2") { self.http2(stream).await } else { self.http1(stream).await }
    }

    async fn http1(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<(), BoxError> {
        let service = service_fn(|request| self.answer(request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .max_header_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(Heads::new(stream, self.account.clone(), self.limits.head)), service);
        let mut connection = pin!(connection);
        let mut stopping = self.stopping.clone();
        tokio::select! {
            result = &mut connection => return Ok(result?),
            () = stopping.requested() => connection.as_mut().graceful_shutdown(),
        }
        Ok(connection.await?)
    }

    async fn http2(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<(), BoxError> {
        let service = service_fn(|request| self.answer(request));
        let coalesced_writes = CoalescedConnection::new(stream);
        let connection = http2::Builder::new(Streams::new(self.limits.stall))
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .serve_connection(TokioIo::new(coalesced_writes.stream()), service);
        let mut connection = pin!(connection);
        let mut stopping = self.stopping.clone();
        tokio::select! {
            result = coalesced_writes.drive(connection.as_mut()) => return result,
            () = stopping.requested() => {}
        }
        connection.as_mut().graceful_shutdown();
        coalesced_writes.drive(connection).await
    }

    fn answer(
        &self,
        request: http::Request<Incoming>,
    ) -> impl Future<Output = Result<http::Response<Outgoing>, Infallible>> + Send + use<> {
        let server = self.server.clone();
        let origin = Origin { trust: Trust::Socket(self.shown.clone()), stopping: self.stopping.clone() };
        let cut_off = self.cut_off.clone();
        let account = self.account.clone();
        let in_flight = account.begin();
        async move {
            let charge = account.nothing();
            let request = request.map(|body| boxed(TrackedBody { body, finished: false, cut_off, charge }));
            let busy = |in_flight| too_many_requests().map(|body| Outgoing::unbounded(body, &account, in_flight));
            if account.room().await.is_err() {
                return Ok(busy(in_flight));
            }
            let (head, body) = handle(server, origin, request).await.into_parts();
            Ok(match Outgoing::new(body, &account, in_flight) {
                Ok(body) => http::Response::from_parts(head, body),
                Err((_, in_flight)) => busy(in_flight),
            })
        }
    }
}

/// A request body that is charged to its connection while it is read. If it is dropped before it was read completely,
/// it sets the flag in [`UnreadRequest`].
struct TrackedBody {
    body: Incoming,
    finished: bool,
    cut_off: UnreadRequest,
    charge: Charge,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.finished = !matches!(frame, Some(Ok(_)));
        if let Some(length) = frame.as_ref().and_then(|frame| Some(frame.as_ref().ok()?.data_ref()?.len())) {
            self.charge.try_add(length)?;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if !self.finished && !self.body.is_end_stream() {
            self.cut_off.0.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

/// A TCP stream that lingers on close. If a request was not read completely, it first shuts down its write half and
/// then reads for a short time. An immediate close would reset the connection, and the client, still sending, would not
/// see the response.
struct Lingering {
    stream: WriteTimeout<TcpStream>,
    cut_off: UnreadRequest,
    /// Set while the stream lingers.
    deadline: Option<Pin<Box<Sleep>>>,
    /// The number of bytes read while lingering.
    discarded: usize,
}

impl Lingering {
    fn new(stream: WriteTimeout<TcpStream>, cut_off: UnreadRequest) -> Self {
        Self { stream, cut_off, deadline: None, discarded: 0 }
    }
}

impl AsyncRead for Lingering {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.deadline.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            if !this.cut_off.0.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
        }
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(time::sleep(LINGER)));
        if deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut space = [std::mem::MaybeUninit::uninit(); 16 << 10];
        while this.discarded < LINGER_BYTES {
            let mut buffer = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                break;
            }
            this.discarded += buffer.filled().len();
        }
        Poll::Ready(Ok(()))
    }
}
