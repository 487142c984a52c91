//! As many connection pools as the open requests need.
//!
//! A pool has one [`super::http2`] connection, and a server lets one connection carry so many streams (a real API server: 100).
//! The next request would wait until another ends, which with watches is never: a program with more watches than
//! that would hang. So a request goes to the first pool with room, or to a new one. With HTTP/1.1, where pools grow by
//! themselves, this does no harm. Requests that ask for another protocol have a pool that speaks HTTP/1.1 only.
//!
//! When the TLS configuration changes, new pools take the place of the old ones, whose connections end with the requests
//! that they carry. A request that the server refuses, or that finds a server it cannot trust, has the files looked at
//! again, and is sent once more if they have changed and its body can be: nothing was carried out.

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
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Builder, Client},
    rt::TokioIo,
};
use parking_lot::Mutex;
use tower::Service;
use windlass_api::BoxError;

use super::{
    Body,
    connector::{Connector, Socket},
    copy,
    http2::{Answer, Carried, Failure, Http2, Left},
    rotation::{Generation, Rotation},
    shared::Closing,
    upgrade,
};

/// Less than the 100 of a real API server: a stream that was given up counts there until the server knows.
const STREAMS_PER_POOL: usize = 90;

#[derive(Clone)]
pub(super) struct Pools(Arc<Shared>);

pub(super) struct Shared {
    builder: Builder,
    /// Without TLS configuration, which changes.
    connector: Connector,
    /// `Some` iff there is TLS on the way.
    rotation: Option<Rotation>,
    grown: Mutex<Grown>,
}

/// The pools of one TLS configuration.
struct Grown {
    /// Which one; `None` where there is none.
    generation: Option<u64>,
    connector: Connector,
    /// Grows until connections are closed. Pools beyond the first lose their idle connections with time; what stays is small.
    pools: Vec<Arc<Pool>>,
    /// For requests that ask for another protocol; made when the first one does.
    http1: Option<Arc<Pool>>,
}

/// What the connections of a pool speak.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Http1,
    /// HTTP/2, unless the server wants HTTP/1.1.
    WhatTheServerSays,
}

struct Pool {
    /// `None` where no server can say that it speaks HTTP/2.
    http2: Option<Http2>,
    http1: Client<Leftover, Body>,
    streams: Stream,
}

/// One for the pool itself, and one for each open request.
pub(super) type Stream = Arc<()>;

/// Takes what socket is left, before it opens another.
#[derive(Clone)]
struct Leftover {
    connector: Connector,
    left: Left,
}

/// The body of a response; its request counts as open as long as it lives.
pub(super) struct Counted {
    body: Either<Answer, Incoming>,
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

    /// Requests that come after this find no connection of before.
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
                http1.get_or_insert_with(|| Arc::new(Pool::new(&self.builder, connector.clone(), Speaks::Http1)));
            return (Arc::clone(pool), Stream::default());
        }
        let room = pools.iter().position(|pool| Arc::strong_count(&pool.streams) <= STREAMS_PER_POOL);
        let index = room.unwrap_or_else(|| {
            let speaks = if connector.may_negotiate() { Speaks::WhatTheServerSays } else { Speaks::Http1 };
            pools.push(Arc::new(Pool::new(&self.builder, connector.clone(), speaks)));
            pools.len() - 1
        });
        (Arc::clone(&pools[index]), Arc::clone(&pools[index].streams))
    }
}

impl Pool {
    fn new(builder: &Builder, connector: Connector, speaks: Speaks) -> Self {
        let (left, streams) = (Left::default(), Stream::default());
        let http2 =
            (speaks == Speaks::WhatTheServerSays).then(|| Http2::new(connector.clone(), Arc::clone(&left), &streams));
        let connector = connector.http1_only();
        Self { http2, http1: builder.build(Leftover { connector, left }), streams }
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Either<Answer, Incoming>>, Failure> {
        let carried = match &self.http2 {
            Some(http2) => http2.send(request).await?,
            None => Carried::Http1(request),
        };
        match carried {
            Carried::Answered(answer) => Ok(answer.map(Either::Left)),
            // Boxed: it is large, and seldom there.
            Carried::Http1(request) => match Box::pin(self.http1.request(request)).await {
                Ok(answer) => Ok(answer.map(Either::Right)),
                Err(error) if error.is_connect() => {
                    // It may be another server by now.
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

impl Service<Uri> for Leftover {
    type Response = TokioIo<Socket>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self.left.lock().take() {
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
