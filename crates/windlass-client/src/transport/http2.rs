//! An HTTP/2 connection shared by requests. It is opened for the first request, and again after it has ended.
//!
//! hyper's pooled client can also share a connection, but needs a task, two channels and several boxed futures for each
//! request. Here, a request is only a stream of the connection.
//!
//! Guarantees:
//! - Concurrent requests wait for a single attempt to open the connection, and share its failure.
//! - A request that finds the connection closed uses a new one.
//! - Dropping a request or its response ends its stream.
//! - The connection ends when it is released and its streams have ended. It also ends when it has been idle for
//!   [`IDLE_TIMEOUT`], and when the server does not answer a ping.
//!
//! Not guaranteed: that the server supports HTTP/2. If it does not, the open socket is left for the HTTP/1.1 pool.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::{
    FutureExt,
    future::{BoxFuture, WeakShared, poll_fn},
};
use h2::{
    Ping, PingPong, RecvStream, SendStream,
    client::{Builder, Connection, ResponseFuture, SendRequest},
};
use http::{HeaderName, Method, Request, Response, Uri, header, request::Parts};
use http_body::{Body as _, Frame, SizeHint};
use hyper_util::client::legacy::connect::Connection as _;
use parking_lot::Mutex;
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};
use tower::Service as _;
use windlass_api::BoxError;

use super::{
    IDLE_TIMEOUT,
    connector::{Connector, Socket},
    pools::{Failure, SendResult, SpareSocket, Stream},
};
use crate::body::Body;

/// The interval of pings, which detect dead connections, because watches may be silent for long.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(30);
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// The flow-control window of a connection. It is large, because a slow reader of one watch must not block the others
/// on the connection.
const CONNECTION_WINDOW: u32 = 1 << 30;
const STREAM_WINDOW: u32 = 4 << 20;
/// The maximum size of response headers in bytes, as in hyper.
const HEADERS: u32 = 16 * 1024;
/// The maximum size of the send buffer of a stream in bytes, as in hyper.
const SEND_BUFFER: usize = 1024 * 1024;
/// The assumed maximum number of streams until the server has sent its own.
const STREAMS_AT_FIRST: usize = 100;
/// The maximum number of connections opened for one request, if each of them is found closed.
const CONNECTIONS: usize = 3;

/// The connection-specific headers of HTTP/1.1, which are invalid in HTTP/2.
const OF_ONE_CONNECTION: [HeaderName; 4] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The HTTP/2 connection of a pool. Requests hold only their streams.
pub(super) struct Http2(Arc<Shared>);

struct Shared {
    connector: Connector,
    /// The place for a socket on which the server selected HTTP/1.1.
    spare: SpareSocket,
    /// Counts one for the pool and one for each open request.
    streams: Weak<()>,
    state: Mutex<State>,
}

enum State {
    /// No connection exists.
    Closed,
    /// The connection is being opened by the requests that wait for it.
    Opening(WeakShared<Opening>),
    Open {
        sender: SendRequest<Bytes>,
        /// The number of requests carried so far.
        carried: u64,
    },
    /// The server supports only HTTP/1.1.
    Http1,
}

/// The state in which a request finds the connection.
enum BeginResult {
    /// A connection, with the result of starting the request on it.
    Connection(Result<(ResponseFuture, SendStream<Bytes>), h2::Error>),
    Nothing(Parts),
    Http1(Parts),
}

type Opening = BoxFuture<'static, Result<(), NotOpened>>;

/// The start of an idle period, with the number of requests carried until then.
struct Idle {
    carried: u64,
    since: Instant,
}

/// The body of a response.
pub(super) struct ResponseBody {
    stream: RecvStream,
    /// The announced length. `None` if the server sent none.
    length: Option<u64>,
    _upload: Option<Upload>,
}

/// The task that sends a request body. Dropping this value aborts it.
struct Upload(AbortHandle);

/// The error of a connection that could not be opened, shared by all waiting requests.
#[derive(Clone, Debug)]
struct NotOpened(Arc<BoxError>);

/// The error of a request that was not handed to a connection, so the server has not seen it.
#[derive(Debug, thiserror::Error)]
#[error("the request could not be started")]
pub(crate) struct NotBegun(#[source] h2::Error);

impl Http2 {
    /// Creates the state without opening a connection. `streams` counts the open requests plus one.
    pub(super) fn new(connector: Connector, spare: SpareSocket, streams: &Stream) -> Self {
        let streams = Arc::downgrade(streams);
        Self(Arc::new(Shared { connector, spare, streams, state: Mutex::new(State::Closed) }))
    }

    /// Forgets that the server supports only HTTP/1.1.
    pub(super) fn ask_again(&self) {
        let mut state = self.0.state.lock();
        if let State::Http1 = *state {
            *state = State::Closed;
        }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Result<SendResult, Failure> {
        let (mut head, body) = request.into_parts();
        for name in OF_ONE_CONNECTION {
            head.headers.remove(name);
        }
        let length = body.size_hint().exact().filter(|length| *length != 0 || has_a_body(&head.method));
        if let Some(length) = length {
            head.headers.entry(header::CONTENT_LENGTH).or_insert_with(|| length.into());
        }
        for _ in 0..CONNECTIONS {
            match self.0.begin(head, body.is_end_stream()) {
                BeginResult::Http1(head) => return Ok(SendResult::Http1(Request::from_parts(head, body))),
                BeginResult::Nothing(again) => {
                    head = again;
                    self.0.open(&head.uri).await.map_err(|error| Failure::Connect(error.into()))?;
                }
                BeginResult::Connection(begun) => {
                    let (answer, stream) = begun.map_err(not_begun)?;
                    let upload = upload(body, stream);
                    let answer = answer.await.map_err(|error| Failure::Stream(error.into()))?;
                    return Ok(SendResult::Answered(ResponseBody::new(answer, upload)));
                }
            }
        }
        Err(Failure::Connect("each connection ended before the request was begun".into()))
    }
}

impl Shared {
    /// Starts a request on the connection, if there is one.
    fn begin(&self, head: Parts, ends: bool) -> BeginResult {
        let mut state = self.state.lock();
        match &mut *state {
            State::Http1 => BeginResult::Http1(head),
            State::Closed | State::Opening(_) => BeginResult::Nothing(head),
            State::Open { sender, carried } => {
                match sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(Ok(())) => {}
                    // The previous request exceeds the server's stream limit and waits. A clone of the sender does not
                    // wait for it, and the connection keeps the requests in order.
                    Poll::Pending => *sender = sender.clone(),
                    Poll::Ready(Err(error)) => {
                        tracing::debug!(%error, "the connection has ended");
                        *state = State::Closed;
                        return BeginResult::Nothing(head);
                    }
                }
                *carried += 1;
                BeginResult::Connection(sender.send_request(Request::from_parts(head, ()), ends))
            }
        }
    }

    /// Opens the connection, or waits for the attempt that is already under way.
    async fn open(self: &Arc<Self>, uri: &Uri) -> Result<(), NotOpened> {
        let opening = {
            let mut state = self.state.lock();
            let others = match &*state {
                State::Open { .. } | State::Http1 => return Ok(()),
                State::Opening(others) => others.upgrade(),
                State::Closed => None,
            };
            others.unwrap_or_else(|| {
                let opening = connect(Arc::downgrade(self), self.connector.clone(), uri.clone()).boxed().shared();
                if let Some(weak) = opening.downgrade() {
                    *state = State::Opening(weak);
                }
                opening
            })
        };
        opening.await
    }

    /// Releases the connection if it has been idle for [`IDLE_TIMEOUT`].
    fn rest(&self, idle: &mut Idle) {
        let open = self.streams.strong_count() > 1;
        let mut state = self.state.lock();
        let State::Open { carried, .. } = &*state else { return };
        if open || *carried != idle.carried {
            *idle = Idle { carried: *carried, since: Instant::now() };
        } else if idle.since.elapsed() >= IDLE_TIMEOUT {
            *state = State::Closed;
        }
    }
}

/// Opens a connection and drives it.
async fn connect(shared: Weak<Shared>, mut connector: Connector, uri: Uri) -> Result<(), NotOpened> {
    let opened = async {
        let socket = connector.call(uri).await?;
        if !socket.inner().connected().is_negotiated_h2() {
            return Ok((State::Http1, Some(socket)));
        }
        let (sender, connection) = builder().handshake(socket.into_inner()).await?;
        tokio::spawn(drive(connection, shared.clone()));
        Ok((State::Open { sender, carried: 0 }, None))
    };
    let opened: Result<_, BoxError> = opened.await;
    // The waiting requests hold the shared state.
    let Some(shared) = shared.upgrade() else { return Ok(()) };
    match opened {
        Ok((state, socket)) => {
            *shared.spare.lock() = socket;
            *shared.state.lock() = state;
            Ok(())
        }
        Err(error) => {
            *shared.state.lock() = State::Closed;
            Err(NotOpened(Arc::new(error)))
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_max_send_streams(STREAMS_AT_FIRST)
        .max_header_list_size(HEADERS)
        .max_send_buffer_size(SEND_BUFFER)
        // Frames that arrive late for cancelled requests count as stream errors. With a limit on these, many
        // cancellations would end the connection and its other requests.
        .max_local_error_reset_streams(None);
    builder
}

/// Reads and writes until the connection ends or is found dead.
async fn drive(mut connection: Connection<Socket, Bytes>, shared: Weak<Shared>) {
    let pings = connection.ping_pong();
    tokio::select! {
        biased;
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "the connection was lost");
            }
        }
        () = keep_alive(pings, shared) => tracing::debug!("no answer to a ping within {PING_TIMEOUT:?}"),
    }
}

/// Sends pings, and ends when the server does not answer. Releases an idle connection.
async fn keep_alive(pings: Option<PingPong>, shared: Weak<Shared>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    let mut idle = Idle { carried: 0, since: Instant::now() };
    loop {
        sleep(PING_INTERVAL).await;
        if let Some(shared) = shared.upgrade() {
            shared.rest(&mut idle);
        }
        match timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection itself reports why it ends.
            Ok(Err(_)) => std::future::pending().await,
            Err(_late) => return,
        }
    }
}

/// Classifies why a request could not be started on a connection that was ready: either the connection has just ended,
/// or the request is invalid, in which case a retry does not help.
fn not_begun(error: h2::Error) -> Failure {
    let ended = error.is_io() || error.is_go_away();
    Failure::Stream(if ended { NotBegun(error).into() } else { error.into() })
}

/// Reports whether requests of this method have a content length even without a body.
fn has_a_body(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

/// Sends a body: immediately if it is in memory, and concurrently with the response if it is a stream.
fn upload(mut body: Body, mut stream: SendStream<Bytes>) -> Option<Upload> {
    if body.is_end_stream() {
        return None;
    }
    if let Some(bytes) = body.in_memory() {
        // The connection buffers data that exceeds the window. If the stream has ended, the response reports why.
        let _ = stream.send_data(bytes.clone(), true);
        return None;
    }
    let task = tokio::spawn(async move {
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let Ok(frame) = frame else { return stream.send_reset(h2::Reason::CANCEL) };
            let Ok(mut bytes) = frame.into_data() else { continue };
            while !bytes.is_empty() {
                stream.reserve_capacity(bytes.len());
                let Some(Ok(room)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return };
                let piece = bytes.split_to(room.min(bytes.len()));
                if stream.send_data(piece, false).is_err() {
                    return;
                }
            }
        }
        let _ = stream.send_data(Bytes::new(), true);
    });
    Some(Upload(task.abort_handle()))
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ResponseBody {
    fn new(head: Response<RecvStream>, upload: Option<Upload>) -> Response<Self> {
        let length = head.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        head.map(|stream| Self { stream, length, _upload: upload })
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let read = match ready!(self.stream.poll_data(cx)) {
            None => None,
            Some(Ok(bytes)) => {
                // Consumed data makes room in the window. This has no effect on a stream that has ended.
                let _ = self.stream.flow_control().release_capacity(bytes.len());
                self.length = self.length.map(|length| length.saturating_sub(bytes.len() as u64));
                Some(Ok(Frame::data(bytes)))
            }
            // A server may reset the stream this way when it needs no more of the request. The response is complete.
            Some(Err(error)) if error.reason() == Some(h2::Reason::NO_ERROR) => None,
            Some(Err(error)) => Some(Err(error)),
        };
        Poll::Ready(read)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for NotOpened {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
