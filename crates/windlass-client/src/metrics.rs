//! What a client counts: its requests ([`ClientMetrics`]), and what it does to reach the server ([`TransportMetrics`]).

mod transport;

use std::{
    fmt::Debug,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Frame, SizeHint};
use windlass_api::BoxError;

pub(crate) use transport::Audience;
pub use transport::{Found, Opened, Outcome, PluginCall, Source, TransportMetrics, Verdict};

use crate::{error::Operation, transport::Body};

/// Told of every request of a client. Each method does nothing unless it is implemented; Go's name for each metric stands
/// with it.
///
/// To be used as labels, [`Operation::verb`], [`Operation::resource`] and [`Operation::subresource`] have few values;
/// namespaces and names have many, as has the resource of [`Verb::Request`](crate::Verb::Request), which is a path.
pub trait ClientMetrics: Debug + Send + Sync + 'static {
    /// A request had to wait so long for its turn: `rest_client_rate_limiter_duration_seconds`.
    fn throttled(&self, operation: &Operation, waited: Duration) {
        let _ = (operation, waited);
    }

    /// A request of so many bytes goes out: `rest_client_request_size_bytes`.
    fn sent(&self, operation: &Operation, bytes: u64) {
        let _ = (operation, bytes);
    }

    /// An attempt has ended: `rest_client_requests_total`, and `rest_client_request_retries_total` beyond the first.
    fn attempted(&self, attempt: &Attempt<'_>) {
        let _ = attempt;
    }

    /// The head of the last answer is there, or there will be none: `rest_client_request_duration_seconds`.
    fn finished(&self, operation: &Operation, took: Duration) {
        let _ = (operation, took);
    }

    /// An answer's body was read up to its end, or to where the reader left off: `rest_client_response_size_bytes`.
    fn received(&self, operation: &Operation, bytes: u64) {
        let _ = (operation, bytes);
    }
}

/// One time that a request was sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Attempt<'c> {
    /// What for.
    pub operation: &'c Operation,
    /// How.
    pub method: &'c Method,
    /// 0 for the first.
    pub number: u32,
    /// `None` when there was no answer.
    pub status: Option<StatusCode>,
    /// From the sending to the head of the answer.
    pub took: Duration,
}

/// Two who are told.
#[derive(Debug)]
pub(crate) struct Both(pub(crate) Arc<dyn ClientMetrics>, pub(crate) Arc<dyn ClientMetrics>);

/// A body whose bytes are counted.
pub(crate) struct Received {
    body: Body,
    bytes: u64,
    metrics: Arc<dyn ClientMetrics>,
    operation: Operation,
}

impl Both {
    fn each(&self, tell: impl Fn(&dyn ClientMetrics)) {
        for metrics in [&self.0, &self.1] {
            tell(&**metrics);
        }
    }
}

impl ClientMetrics for Both {
    fn throttled(&self, operation: &Operation, waited: Duration) {
        self.each(|metrics| metrics.throttled(operation, waited));
    }

    fn sent(&self, operation: &Operation, bytes: u64) {
        self.each(|metrics| metrics.sent(operation, bytes));
    }

    fn attempted(&self, attempt: &Attempt<'_>) {
        self.each(|metrics| metrics.attempted(attempt));
    }

    fn finished(&self, operation: &Operation, took: Duration) {
        self.each(|metrics| metrics.finished(operation, took));
    }

    fn received(&self, operation: &Operation, bytes: u64) {
        self.each(|metrics| metrics.received(operation, bytes));
    }
}

impl Received {
    pub(crate) fn count(body: Body, metrics: Arc<dyn ClientMetrics>, operation: Operation) -> Body {
        Body::wrap(Self { body, bytes: 0, metrics, operation })
    }
}

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.metrics.received(&self.operation, self.bytes);
    }
}
