//! Tests of the server over in-memory connections, with paused time.

use std::{
    convert::Infallible,
    future::{Future, pending},
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    sync::{Semaphore, mpsc, oneshot},
    task::JoinHandle,
    time::{self, Instant},
};

use crate::{acceptor::Listener, *};

mod connections;
mod limits;
mod shutdown;

/// A request over HTTP/1.
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

const SECOND: Duration = Duration::from_secs(1);

/// A listener with connections in memory.
struct Memory(mpsc::UnboundedReceiver<io::Result<DuplexStream>>);

impl Listener for Memory {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        match self.0.recv().await {
            Some(stream) => Ok((stream?, peer())),
            None => pending().await,
        }
    }
}

fn peer() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 1234))
}

/// A running server.
struct Running {
    incoming: mpsc::UnboundedSender<io::Result<DuplexStream>>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<usize>,
}

impl Running {
    fn start(server: HttpServer, application: impl Application) -> Self {
        let (incoming, listener) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            server.serve_on(Memory(listener), &application, pin!(async { drop(stopped.await) })).await
        });
        Self { incoming, stop, serving }
    }

    fn connect(&self) -> DuplexStream {
        let (theirs, ours) = tokio::io::duplex(64 << 10);
        self.incoming.send(Ok(theirs)).unwrap();
        ours
    }

    fn fail(&self, error: io::Error) {
        self.incoming.send(Err(error)).unwrap();
    }

    /// Stops the server. Returns the number of connections that were cut off, and the time that it took.
    async fn stop(self) -> (usize, Duration) {
        let started = Instant::now();
        drop(self.stop);
        (self.serving.await.unwrap(), started.elapsed())
    }
}

/// Answers with the path.
async fn echo(request: Request<RequestBody>) -> Response<String> {
    Response::new(request.uri().path().to_owned())
}

/// Answers when a permit is available.
fn waiting(permits: &Arc<Semaphore>) -> impl Application + use<> {
    let permits = Arc::clone(permits);
    move |_: Request<RequestBody>| {
        let permits = Arc::clone(&permits);
        async move {
            permits.acquire().await.unwrap().forget();
            Response::new("at last".to_owned())
        }
    }
}

/// Answers with a body that never ends.
async fn endless(_: Request<RequestBody>) -> Response<StreamBody<futures::stream::BoxStream<'static, EndlessFrame>>> {
    use futures::StreamExt as _;
    let piece = Bytes::from(vec![b'x'; 16 << 10]);
    Response::new(StreamBody::new(futures::stream::repeat_with(move || Ok(Frame::data(piece.clone()))).boxed()))
}

type EndlessFrame = Result<Frame<Bytes>, Infallible>;

/// Reads until `text` was received.
async fn until(stream: &mut DuplexStream, text: &str) {
    let mut read = String::new();
    while !read.contains(text) {
        read.push(char::from(stream.read_u8().await.unwrap_or_else(|error| panic!("{error} after {read:?}"))));
    }
}

/// Reads until the server closes the connection.
async fn rest(stream: &mut DuplexStream) -> String {
    let mut read = Vec::new();
    match stream.read_to_end(&mut read).await {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::BrokenPipe),
    }
    String::from_utf8(read).unwrap()
}

/// Returns the time until the server closes the connection without a response.
async fn closed_after(mut stream: DuplexStream) -> Duration {
    let started = Instant::now();
    assert_eq!(rest(&mut stream).await, "");
    started.elapsed()
}

type Http2 = http2::SendRequest<Full<Bytes>>;

/// Opens an HTTP/2 connection.
async fn http2<S>(stream: S, builder: &mut http2::Builder<TokioExecutor>) -> (Http2, JoinHandle<hyper::Result<()>>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn builder() -> http2::Builder<TokioExecutor> {
    http2::Builder::new(TokioExecutor::new())
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("https://localhost{path}")).body(Full::default()).unwrap()
}
