//! As many connection pools as the open requests need.
//!
//! A pool has one HTTP/2 connection, and a server lets one connection carry so many streams (a real API server: 100).
//! hyper lets the next request wait until another ends, which with watches is never: a program with more watches than
//! that would hang. So a request goes to the first pool with room, or to a new one. With HTTP/1.1, where pools grow by
//! themselves, this does no harm. Requests that ask for another protocol have a pool that speaks HTTP/1.1 only.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, Builder, Client};
use parking_lot::Mutex;
use tower::Service;

use super::{Body, connector::Connector, upgrade};

/// Less than the 100 of a real API server: a stream that was given up counts there until the server knows.
const STREAMS_PER_POOL: usize = 90;

#[derive(Clone)]
pub(super) struct Pools {
    builder: Builder,
    connector: Connector,
    /// Grows only. Pools beyond the first lose their idle connections with time; what stays is small.
    grown: Arc<Mutex<Vec<Pool>>>,
    /// For requests that ask for another protocol.
    http1: Client<Connector, Body>,
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
    pub(super) fn new(builder: Builder, connector: Connector) -> Self {
        let http1 = builder.build(connector.http1_only());
        Self { builder, connector, grown: Arc::default(), http1 }
    }

    fn with_room(&self) -> (Client<Connector, Body>, Stream) {
        let mut pools = self.grown.lock();
        let room = pools.iter().position(|pool| Arc::strong_count(&pool.streams) <= STREAMS_PER_POOL);
        let index = room.unwrap_or_else(|| {
            let client = self.builder.build(self.connector.clone());
            pools.push(Pool { client, streams: Stream::default() });
            pools.len() - 1
        });
        (pools[index].client.clone(), Arc::clone(&pools[index].streams))
    }
}

impl Service<Request<Body>> for Pools {
    type Response = Response<Counted>;
    type Error = legacy::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Counted>, legacy::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), legacy::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, stream) =
            if upgrade::is_asked_for(&request) { (self.http1.clone(), Stream::default()) } else { self.with_room() };
        let response = client.request(request);
        Box::pin(async move { Ok(response.await?.map(|body| Counted { body, _stream: stream })) })
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
