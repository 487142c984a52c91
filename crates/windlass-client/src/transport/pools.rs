//! As many connection pools as the open requests need.
//!
//! A pool has one HTTP/2 connection, and a server lets one connection carry so many streams (a real API server: 100).
//! hyper lets the next request wait until another ends, which with watches is never: a program with more watches than
//! that would hang. So a request goes to the first pool with room, or to a new one. With HTTP/1.1, where pools grow by
//! themselves, this does no harm. Requests that ask for another protocol have a pool that speaks HTTP/1.1 only.
//!
//! When the TLS configuration changes, new pools take the place of the old ones, whose connections end with the requests
//! that they carry. A request that the server refuses, or that finds a server it cannot trust, has the files looked at
//! again, and is sent once more if they have changed and its body can be: nothing was carried out.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, Builder, Client};
use parking_lot::Mutex;
use tower::Service;
use windlass_api::BoxError;

use super::{
    Body,
    connector::Connector,
    copy,
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
    pools: Vec<Pool>,
    /// For requests that ask for another protocol; made when the first one does.
    http1: Option<Client<Connector, Body>>,
}

struct Pool {
    client: Client<Connector, Body>,
    streams: Stream,
}

/// One for the pool itself, and one for each open request.
type Stream = Arc<()>;

/// The body of a response; its request counts as open as long as it lives.
pub(super) struct Counted {
    body: Incoming,
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
            Err(error) => error.is_connect(),
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
    ) -> Result<Response<Counted>, legacy::Error> {
        if let Some(value) = self.0.connector.proxy_authorization() {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, value);
        }
        let (client, stream) = self.0.with_room(generation, upgrade::is_asked_for(&request));
        let response = client.request(request).await?;
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
    fn with_room(&self, generation: Option<Generation>, leaves_http: bool) -> (Client<Connector, Body>, Stream) {
        let mut grown = self.grown.lock();
        if grown.generation != generation.as_ref().map(|generation| generation.number) {
            *grown = Grown::new(generation, &self.connector);
        }
        let Grown { connector, pools, http1, .. } = &mut *grown;
        if leaves_http {
            let client = http1.get_or_insert_with(|| self.builder.build(connector.http1_only()));
            return (client.clone(), Stream::default());
        }
        let room = pools.iter().position(|pool| Arc::strong_count(&pool.streams) <= STREAMS_PER_POOL);
        let index = room.unwrap_or_else(|| {
            let client = self.builder.build(connector.clone());
            pools.push(Pool { client, streams: Stream::default() });
            pools.len() - 1
        });
        (pools[index].client.clone(), Arc::clone(&pools[index].streams))
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
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
