//! Connection pools, as many as the open requests require.
//!
//! Each pool has one [`super::http2`] connection, and a server limits the number of streams per connection (a real API
//! server to 100). The next request would wait until another ends. Watches do not end, so a program with more watches
//! would hang. Therefore a request uses the first pool with room, or a new one. With HTTP/1.1, pools grow by
//! themselves, and this does no harm. Upgrade requests have a pool that is limited to HTTP/1.1.
//!
//! When the TLS configuration changes, new pools replace the old ones, whose connections end after their current
//! requests.
//!
//! If the server answers 401, or its certificate cannot be verified, the files are read again. If they have changed and
//! the body can be sent again, the request is sent once more. This is safe, because it was not carried out.

use std::{
    future::{Future, ready},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body::{Frame, SizeHint};
use http_body_util::Either;
use hyper_util::{
    client::legacy::{Builder, Client},
    rt::TokioIo,
};
use parking_lot::Mutex;
use tower::Service;
use windlass_api::BoxError;

use super::{
    connections::Closing,
    connector::{Connector, Socket},
    driver::DrivingBody,
    http2::{Http2, ResponseBody},
    rotation::{Generation, Rotation},
    upgrade,
};
use crate::body::{Body, copy};

/// The maximum number of streams per pool. Less than the 100 of a real API server, because a cancelled stream counts
/// there until the server has processed the cancellation.
const STREAMS_PER_POOL: usize = 90;

#[derive(Clone)]
pub(crate) struct Pools(Arc<Shared>);

pub(super) struct Shared {
    builder: Builder,
    /// Without the TLS configuration, which may change.
    connector: Connector,
    /// `Some` only if the connection uses TLS.
    rotation: Option<Rotation>,
    grown: Mutex<Grown>,
}

/// The pools of one TLS configuration.
struct Grown {
    /// The number of the configuration; `None` without TLS.
    generation: Option<u64>,
    connector: Connector,
    /// The pools. The list grows until connections are closed. Pools beyond the first lose their idle connections over
    /// time, so little memory remains in use.
    pools: Vec<Arc<Pool>>,
    /// The pool of upgrade requests, created on first use.
    http1: Option<Arc<Pool>>,
}

/// The HTTP versions of a pool's connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HttpVersion {
    Http1,
    /// HTTP/2, or HTTP/1.1 if the server selects it.
    Negotiated,
}

struct Pool {
    /// `None` if HTTP/2 cannot be negotiated.
    http2: Option<Http2>,
    http1: Client<SpareSocketFirst, Body>,
    streams: Stream,
}

/// The result of a request over HTTP/2.
pub(super) enum SendResult {
    #[cfg_attr(not(feature = "http2"), expect(dead_code, reason = "there is no HTTP/2 connection"))]
    Answered(Response<ResponseBody>),
    /// The server supports only HTTP/1.1.
    Http1(Request<Body>),
}

/// The reason why there is no response.
pub(super) enum Failure {
    /// The connection could not be opened.
    Connect(BoxError),
    /// The connection was lost, or the server has reset the stream.
    Stream(BoxError),
}

/// An open socket, until a pool takes it.
pub(super) type SpareSocket = Arc<Mutex<Option<TokioIo<Socket>>>>;

/// Counts one for the pool itself and one for each open request.
pub(super) type Stream = Arc<()>;

/// Uses the socket left by HTTP/2 negotiation before opening another.
#[derive(Clone)]
struct SpareSocketFirst {
    connector: Connector,
    spare: SpareSocket,
}

/// The body of a response. Its request counts as open until the body is dropped.
pub(crate) struct Counted {
    body: Either<ResponseBody, DrivingBody>,
    _stream: Stream,
}

impl Pools {
    pub(super) fn new(builder: Builder, connector: Connector, rotation: Option<Rotation>) -> Self {
        let first = rotation.as_ref().map(Rotation::last);
        let grown = Mutex::new(Grown::new(first, &connector));
        Self(Arc::new(Shared { builder, connector, rotation, grown }))
    }

    pub(super) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.0)
    }

    pub(super) fn upgrade(shared: &Weak<Shared>) -> Option<Self> {
        shared.upgrade().map(Self)
    }

    /// Ensures that later requests do not use existing connections.
    pub(super) fn close(&self, which: Closing) {
        let mut grown = self.0.grown.lock();
        grown.pools.clear();
        grown.http1 = None;
        if which == Closing::All {
            self.0.connector.cut();
        }
    }

    async fn send(self, request: Request<Body>) -> Result<Response<Counted>, BoxError> {
        let Some(rotation) = &self.0.rotation else { return Ok(self.attempt(None, request).await?) };
        let again = if rotation.may_change() { copy(&request) } else { None };
        let generation = rotation.current().await?;
        let number = generation.number;
        let outcome = self.attempt(Some(generation), request).await;
        let suspicious = match &outcome {
            Ok(response) => response.status() == StatusCode::UNAUTHORIZED,
            Err(error) => matches!(error, Failure::Connect(_)),
        };
        if suspicious && rotation.may_change() {
            let next = rotation.read_again().await?;
            if let Some(request) = again.filter(|_| next.number != number) {
                return Ok(self.attempt(Some(next), request).await?);
            }
        }
        Ok(outcome?)
    }

    async fn attempt(
        &self,
        generation: Option<Generation>,
        mut request: Request<Body>,
    ) -> Result<Response<Counted>, Failure> {
        if let Some(value) = self.0.connector.proxy_authorization() {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, value);
        }
        let (pool, stream) = self.0.with_room(generation, upgrade::is_asked_for(&request));
        let response = pool.send(request).await?;
        Ok(response.map(|body| Counted { body, _stream: stream }))
    }
}

impl Grown {
    fn new(generation: Option<Generation>, connector: &Connector) -> Self {
        let number = generation.as_ref().map(|generation| generation.number);
        let connector = connector.with_tls(generation.map(|generation| generation.config));
        Self { generation: number, connector, pools: Vec::new(), http1: None }
    }
}

impl Shared {
    fn with_room(&self, generation: Option<Generation>, leaves_http: bool) -> (Arc<Pool>, Stream) {
        let mut grown = self.grown.lock();
        if grown.generation != generation.as_ref().map(|generation| generation.number) {
            *grown = Grown::new(generation, &self.connector);
        }
        let Grown { connector, pools, http1, .. } = &mut *grown;
        if leaves_http {
            let pool =
                http1.get_or_insert_with(|| Arc::new(Pool::new(&self.builder, connector.clone(), HttpVersion::Http1)));
            return (Arc::clone(pool), Stream::default());
        }
        let room = pools.iter().position(|pool| Arc::strong_count(&pool.streams) <= STREAMS_PER_POOL);
        let index = room.unwrap_or_else(|| {
            let version = if connector.may_negotiate() { HttpVersion::Negotiated } else { HttpVersion::Http1 };
            pools.push(Arc::new(Pool::new(&self.builder, connector.clone(), version)));
            pools.len() - 1
        });
        (Arc::clone(&pools[index]), Arc::clone(&pools[index].streams))
    }
}

impl Pool {
    fn new(builder: &Builder, connector: Connector, version: HttpVersion) -> Self {
        let (spare, streams) = (SpareSocket::default(), Stream::default());
        let http2 =
            (version == HttpVersion::Negotiated).then(|| Http2::new(connector.clone(), Arc::clone(&spare), &streams));
        let connector = connector.http1_only();
        Self { http2, http1: builder.build(SpareSocketFirst { connector, spare }), streams }
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Either<ResponseBody, DrivingBody>>, Failure> {
        let carried = match &self.http2 {
            Some(http2) => http2.send(request).await?,
            None => SendResult::Http1(request),
        };
        match carried {
            SendResult::Answered(answer) => Ok(answer.map(Either::Left)),
            // Boxed, because it is large and rare.
            SendResult::Http1(request) => match Box::pin(self.http1.request(request)).await {
                Ok(answer) => Ok(DrivingBody::of(answer).map(Either::Right)),
                Err(error) if error.is_connect() => {
                    // The server may have been replaced since.
                    if let Some(http2) = &self.http2 {
                        http2.ask_again();
                    }
                    Err(Failure::Connect(error.into()))
                }
                Err(error) => Err(Failure::Stream(error.into())),
            },
        }
    }
}

impl From<Failure> for BoxError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Connect(error) | Failure::Stream(error) => error,
        }
    }
}

impl Service<Uri> for SpareSocketFirst {
    type Response = TokioIo<Socket>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self.spare.lock().take() {
            Some(socket) => Box::pin(ready(Ok(socket))),
            None => self.connector.call(uri),
        }
    }
}

impl Service<Request<Body>> for Pools {
    type Response = Response<Counted>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Counted>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
