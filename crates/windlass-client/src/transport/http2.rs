//! One HTTP/2 connection that requests share: opened when the first of them comes, and again after it has ended.
//!
//! hyper's pooled client can do this as well, with a task, two channels and several boxed futures for each request. Here a request
//! is a stream of the connection, and nothing beside it.
//!
//! Guarantees:
//! - However many requests wait for it, one connection is opened, and its failure is that of all of them.
//! - A request that finds the connection ended goes to a new one.
//! - A request, or an answer, that is dropped ends its stream.
//! - The connection ends when it is let go of and its streams have ended, when it has carried nothing for [`IDLE_TIMEOUT`], and
//!   when the server does not answer a ping.
//!
//! Not guaranteed: that the server speaks HTTP/2. Where it does not, the open socket is left for whoever speaks HTTP/1.1.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker, ready},
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
use hyper_util::{client::legacy::connect::Connection as _, rt::TokioIo};
use parking_lot::Mutex;
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};
use tower::Service as _;
use windlass_api::BoxError;

use super::{
    Body, CONNECTION_WINDOW, IDLE_TIMEOUT, PING_INTERVAL, PING_TIMEOUT, STREAM_WINDOW,
    connector::{Connector, Socket},
    pools::Stream,
};

/// As hyper's: what the head of an answer may take, in bytes.
const HEADERS: u32 = 16 * 1024;
/// As hyper's: what waits to be written of one stream, in bytes.
const SEND_BUFFER: usize = 1024 * 1024;
/// How many streams there may be before the server has said how many.
const STREAMS_AT_FIRST: usize = 100;
/// How many connections are opened for one request that finds each of them ended.
const CONNECTIONS: usize = 3;

/// What a request in HTTP/1.1 says of its connection, and must not in HTTP/2.
const OF_ONE_CONNECTION: [HeaderName; 4] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The connection of a pool. Requests keep nothing of it but their streams.
pub(super) struct Http2(Arc<Shared>);

struct Shared {
    connector: Connector,
    /// Where the socket is left on which the server has said that it speaks HTTP/1.1.
    left: Left,
    /// One for the pool, and one for each open request.
    streams: Weak<()>,
    state: Mutex<State>,
}

enum State {
    /// There is none.
    Closed,
    /// It is being opened by whoever waits for it.
    Opening(WeakShared<Opening>),
    Open {
        sender: SendRequest<Bytes>,
        /// How many requests it has carried.
        carried: u64,
    },
    /// The server speaks HTTP/1.1.
    Http1,
}

/// An open socket, until somebody takes it.
pub(super) type Left = Arc<Mutex<Option<TokioIo<Socket>>>>;

/// What a request finds.
enum Found {
    /// A connection, which has taken it up or not.
    Connection(Result<(ResponseFuture, SendStream<Bytes>), h2::Error>),
    Nothing(Parts),
    Http1(Parts),
}

type Opening = BoxFuture<'static, Result<(), NotOpened>>;

/// What becomes of a request.
pub(super) enum Carried {
    Answered(Response<Answer>),
    /// The server speaks HTTP/1.1.
    Http1(Request<Body>),
}

/// Why there is no answer.
pub(super) enum Failure {
    /// No connection.
    Connect(BoxError),
    /// It was lost, or the server has reset the stream.
    Stream(BoxError),
}

/// What a connection had carried when it was last looked at.
struct Idle {
    carried: u64,
    since: Instant,
}

/// The body of an answer.
pub(super) struct Answer {
    stream: RecvStream,
    /// `None` where the server has not said it.
    length: Option<u64>,
    _upload: Option<Upload>,
}

/// A request's body that is still being sent; dropping it ends that.
struct Upload(AbortHandle);

/// A connection that could not be opened, for everybody who waited for it.
#[derive(Clone, Debug)]
struct NotOpened(Arc<BoxError>);

/// A request that was not handed to a connection, so that the server has seen nothing of it.
#[derive(Debug, thiserror::Error)]
#[error("the request could not be begun")]
pub(crate) struct NotBegun(#[source] h2::Error);

impl Http2 {
    /// Nothing is opened yet. `streams` counts the open requests, and one more.
    pub(super) fn new(connector: Connector, left: Left, streams: &Stream) -> Self {
        let streams = Arc::downgrade(streams);
        Self(Arc::new(Shared { connector, left, streams, state: Mutex::new(State::Closed) }))
    }

    /// Forgets that the server speaks HTTP/1.1.
    pub(super) fn ask_again(&self) {
        let mut state = self.0.state.lock();
        if let State::Http1 = *state {
            *state = State::Closed;
        }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Result<Carried, Failure> {
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
                Found::Http1(head) => return Ok(Carried::Http1(Request::from_parts(head, body))),
                Found::Nothing(again) => {
                    head = again;
                    self.0.open(&head.uri).await.map_err(|error| Failure::Connect(error.into()))?;
                }
                Found::Connection(begun) => {
                    let (answer, stream) = begun.map_err(not_begun)?;
                    let upload = upload(body, stream);
                    let answer = answer.await.map_err(|error| Failure::Stream(error.into()))?;
                    return Ok(Carried::Answered(Answer::new(answer, upload)));
                }
            }
        }
        Err(Failure::Connect("each connection ended before the request was begun".into()))
    }
}

impl Shared {
    /// Hands a request to the connection, if there is one.
    fn begin(&self, head: Parts, ends: bool) -> Found {
        let mut state = self.state.lock();
        match &mut *state {
            State::Http1 => Found::Http1(head),
            State::Closed | State::Opening(_) => Found::Nothing(head),
            State::Open { sender, carried } => {
                match sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(Ok(())) => {}
                    // The request before is one too many for the server, and waits; a clone waits for nothing. The connection
                    // keeps them in order.
                    Poll::Pending => *sender = sender.clone(),
                    Poll::Ready(Err(error)) => {
                        tracing::debug!(%error, "the connection has ended");
                        *state = State::Closed;
                        return Found::Nothing(head);
                    }
                }
                *carried += 1;
                Found::Connection(sender.send_request(Request::from_parts(head, ()), ends))
            }
        }
    }

    /// Opens the connection, together with all who want the same.
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

    /// Lets go of the connection if it has carried nothing for a while, as far as is known.
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

/// Opens a connection, and drives it.
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
    // Who is waited for holds it.
    let Some(shared) = shared.upgrade() else { return Ok(()) };
    match opened {
        Ok((state, socket)) => {
            *shared.left.lock() = socket;
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
        // What comes in late for requests that were given up counts as an error of their streams. With a limit on those, many
        // cancellations would end a connection, and with it the requests that nobody gave up.
        .max_local_error_reset_streams(None);
    builder
}

/// Reads and writes until the connection ends, or is found dead.
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

/// Ends when the server does not answer any more. Lets go of a connection that rests.
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
            // The connection says itself why it ends.
            Ok(Err(_)) => std::future::pending().await,
            Err(_late) => return,
        }
    }
}

/// What keeps a request from being handed to a connection that was ready: its end, a moment before, or the request itself, which does not get
/// better by being sent again.
fn not_begun(error: h2::Error) -> Failure {
    let ended = error.is_io() || error.is_go_away();
    Failure::Stream(if ended { NotBegun(error).into() } else { error.into() })
}

/// Whether a request of this method says how long its body is even if there is none.
fn has_a_body(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

/// Sends a body: at once where it is in memory, and beside the answer where it comes bit by bit.
fn upload(mut body: Body, mut stream: SendStream<Bytes>) -> Option<Upload> {
    if body.is_end_stream() {
        return None;
    }
    if let Some(bytes) = body.in_memory() {
        // What the window has no room for waits in the connection. If the stream has ended, its answer says why.
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

impl Answer {
    fn new(head: Response<RecvStream>, upload: Option<Upload>) -> Response<Self> {
        let length = head.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        head.map(|stream| Self { stream, length, _upload: upload })
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let read = match ready!(self.stream.poll_data(cx)) {
            None => None,
            Some(Ok(bytes)) => {
                // What has been taken makes room for more; of a stream that has ended there is no more.
                let _ = self.stream.flow_control().release_capacity(bytes.len());
                self.length = self.length.map(|length| length.saturating_sub(bytes.len() as u64));
                Some(Ok(Frame::data(bytes)))
            }
            // A server that needs no more of the request may end the stream so; the answer is whole.
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

impl From<Failure> for BoxError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Connect(error) | Failure::Stream(error) => error,
        }
    }
}
