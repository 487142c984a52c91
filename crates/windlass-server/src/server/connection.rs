//! One connection, from its handshake to its end.

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
    rt::Executor,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    task::JoinSet,
    time::{self, Sleep},
};
use tokio_rustls::TlsAcceptor;

use super::{Inner, boxed, gathered::Gathered, joined::Joined};
use crate::{
    authn::Shown,
    http::{Origin, Stopping, Trust, handle},
    tls::TlsIdentity,
};

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a client may take to send the head of a request, and how long a connection may be idle: the real server
/// waits 32 and 90 seconds, hyper has one timer for both.
const HEAD: Duration = Duration::from_secs(90);

/// The head of a request may have so many bytes.
const HEAD_BYTES: usize = 1 << 20;

/// Streams of one HTTP/2 connection at a time: a client has a watch for each kind, and many clients share one connection.
const STREAMS: u32 = 1_000;

/// An HTTP/2 client that says nothing is asked whether it is there, and taken for dead when it does not answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// How long, and for how many bytes, a connection is read after its last answer if the request before it was cut off.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 64 << 20;

/// A connection that is to be served.
pub(super) struct Connection {
    server: Arc<Inner>,
    stopping: Stopping,
    /// Whose certificate was shown.
    shown: Shown,
    cut_off: CutOff,
}

/// Set when a request was answered before all of it was read.
#[derive(Clone, Debug, Default)]
struct CutOff(Arc<AtomicBool>);

impl Connection {
    pub(super) fn new(server: Arc<Inner>, stopping: Stopping) -> Self {
        Self { server, stopping, shown: Shown::Nothing, cut_off: CutOff::default() }
    }

    /// Serves it to its end. Failures are the client's business; they are logged for debugging.
    pub(super) async fn serve(mut self, stream: TcpStream, tls: Option<TlsIdentity>) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = &error as &dyn std::error::Error, "a connection was lost");
            return;
        }
        let stream = Lingering::new(stream, self.cut_off.clone());
        let result = match tls {
            None => self.http1(stream).await,
            Some(identity) => {
                let acceptor = TlsAcceptor::from(identity.config());
                let mut stopping = self.stopping.clone();
                let handshake = tokio::select! {
                    () = stopping.requested() => return,
                    handshake = time::timeout(HANDSHAKE, acceptor.accept(stream)) => handshake,
                };
                if let Ok(Ok(stream)) = &handshake {
                    let chain = stream.get_ref().1.peer_certificates();
                    self.shown = identity.client(chain, self.server.clock().now());
                }
                match handshake {
                    Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => self.http2(stream).await,
                    Ok(Ok(stream)) => self.http1(stream).await,
                    Ok(Err(error)) => Err(error.into()),
                    Err(_) => Err(format!("no TLS handshake within {HANDSHAKE:?}").into()),
                }
            }
        };
        if let Err(error) = result {
            tracing::debug!(error = &*error, "a connection failed");
        }
    }

    async fn http1(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<(), Error> {
        let service = service_fn(|request| self.answer(request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_header_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let mut stopping = self.stopping.clone();
        tokio::select! {
            result = &mut connection => return Ok(result?),
            () = stopping.requested() => connection.as_mut().graceful_shutdown(),
        }
        Ok(connection.await?)
    }

    async fn http2(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<(), Error> {
        let service = service_fn(|request| self.answer(request));
        let gathered = Gathered::new(stream);
        let connection = http2::Builder::new(Streams::default())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .serve_connection(TokioIo::new(gathered.stream()), service);
        let mut connection = pin!(connection);
        let mut stopping = self.stopping.clone();
        tokio::select! {
            result = gathered.drive(connection.as_mut()) => return result,
            () = stopping.requested() => {}
        }
        connection.as_mut().graceful_shutdown();
        gathered.drive(connection).await
    }

    fn answer(
        &self,
        request: http::Request<Incoming>,
    ) -> impl Future<Output = Result<http::Response<Joined>, Infallible>> + Send + use<> {
        let server = self.server.clone();
        let origin = Origin { trust: Trust::Credentials(self.shown.clone()), stopping: self.stopping.clone() };
        let cut_off = self.cut_off.clone();
        async move {
            let request = request.map(|body| boxed(Noticed { body, finished: false, cut_off }));
            Ok(handle(server, origin, request).await.map(Joined::new))
        }
    }
}

/// The body of a request, that notices when it is dropped before all of it was read.
struct Noticed {
    body: Incoming,
    finished: bool,
    cut_off: CutOff,
}

impl Body for Noticed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.finished = !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Noticed {
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

type Error = Box<dyn std::error::Error + Send + Sync>;

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

/// A TCP stream that, when it is closed upon a request that was not read to its end, first says that nothing more will
/// come and reads on for a moment. Closing it at once would reset the connection, and the client, still sending, would
/// never see the answer.
struct Lingering {
    stream: TcpStream,
    cut_off: CutOff,
    /// Set once it lingers.
    deadline: Option<Pin<Box<Sleep>>>,
    /// What has been read while lingering, in bytes.
    discarded: usize,
}

impl Lingering {
    fn new(stream: TcpStream, cut_off: CutOff) -> Self {
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
