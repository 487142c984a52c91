//! The way of a request from a verb to the transport and back, in one procedure: throttled, gated, sent, sent again where
//! that is right, bounded in time, decompressed, counted.
//!
//! Guarantees, each with a test:
//! - **Throttled**: every attempt takes a token first, but for the first one of a watch.
//! - **Gated**: where there is a [`Gate`], every attempt passes it last, and goes on only while it is open.
//! - **Repeated only where it does no harm**: when the server asks for it by `Retry-After`, when it never saw the request, or
//!   when the connection broke under a read. A body that cannot be sent twice is sent once.
//! - **Bounded**: no more repetitions than the policy says; the timeout holds for all attempts together, and for the
//!   answer's body unless that is read as a stream. Waiting for the first token does not count.
//! - **Nothing is left**: there are no tasks here. A future that is dropped ends its attempt, and gives back its token.
//!
//! Not guaranteed: that a write which failed was not carried out.

mod deadline;
mod gate;
mod overload;
mod rate_limit;
mod repeat;

use std::{pin::pin, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode, header};
use tokio::time::Instant;
use tower::ServiceExt;
use tower_http::decompression::Decompression;
use windlass_api::BoxError;

pub use gate::{Gate, Outgoing};
pub use overload::OverloadBackoff;
pub use rate_limit::RateLimit;

use crate::{
    config::Compression,
    error::{Operation, Verb},
    frame::OBJECT_LIMIT,
    metrics::{Attempt, ClientMetrics, Received},
    response::RESPONSE_LIMIT,
    transport::{Body, Transport},
    warnings::{LogWarnings, Warning, WarningHandler},
    written::WriteObserver,
};
use deadline::Deadline;
pub(crate) use deadline::TimedOut;
use repeat::{Attempts, Repeat};

/// As Go's client.
const RETRIES: u32 = 10;
/// A wait for a token that is worth a line in the log.
const LONG_WAIT: Duration = Duration::from_millis(50);
/// One that the user should know of.
const VERY_LONG_WAIT: Duration = Duration::from_secs(1);

/// How a client sends its requests.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) throttle: Throttle,
    /// `None`: no request waits because others have failed.
    pub(crate) overload: Option<Arc<OverloadBackoff>>,
    /// How often a request may be sent again.
    pub(crate) retries: u32,
    /// For a whole call; `None`: it may take as long as it takes.
    pub(crate) timeout: Option<Duration>,
    /// Of answers that are read whole, unless the request itself says what it accepts.
    pub(crate) compression: Compression,
    /// The largest answer that is read whole, in bytes.
    pub(crate) response_limit: usize,
    /// The largest object that is read from a list or a watch, in bytes.
    pub(crate) object_limit: usize,
    pub(crate) warnings: Arc<dyn WarningHandler>,
    /// `None`: every request may be sent.
    pub(crate) gate: Option<Arc<dyn Gate>>,
    /// `None` when nobody counts.
    pub(crate) metrics: Option<Arc<dyn ClientMetrics>>,
    /// `None` when nobody reads own writes from a cache.
    pub(crate) writes: Option<Arc<dyn WriteObserver>>,
}

/// What limits the rate of requests, and who has decided that.
#[derive(Clone, Debug)]
pub(crate) enum Throttle {
    /// The usual limits, of which nobody has said anything.
    Usual {
        requests: RateLimit,
        /// Of questions what the server serves: an older one is asked group by group, by somebody who waits.
        discovery: RateLimit,
    },
    /// As somebody has chosen; `None`: as fast as they come.
    Chosen(Option<RateLimit>),
}

/// How an answer is read; that decides what may be done for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// From start to end, at once.
    Whole,
    /// As it comes, for as long as the caller likes: a log, a connection that leaves HTTP.
    Stream,
    /// As a watch.
    Watch,
}

/// One request on its way.
#[derive(Clone, Copy)]
pub(crate) struct Sending<'c> {
    pub(crate) transport: &'c Transport,
    pub(crate) policy: &'c Policy,
    pub(crate) operation: &'c Operation,
    pub(crate) reading: Reading,
}

impl Default for Policy {
    /// As careful of the server as Go's client is.
    fn default() -> Self {
        Self {
            throttle: Throttle::usual(),
            overload: None,
            retries: RETRIES,
            timeout: None,
            compression: Compression::Offered,
            response_limit: RESPONSE_LIMIT,
            object_limit: OBJECT_LIMIT,
            warnings: Arc::new(LogWarnings),
            gate: None,
            metrics: None,
            writes: None,
        }
    }
}

impl Throttle {
    /// Go's limits.
    pub(crate) fn usual() -> Self {
        Self::Usual { requests: RateLimit::default(), discovery: RateLimit::per_second(50, 300) }
    }

    fn limit(&self) -> Option<&RateLimit> {
        match self {
            Self::Usual { requests, .. } => Some(requests),
            Self::Chosen(limit) => limit.as_ref(),
        }
    }
}

impl Reading {
    /// As the answers of a verb usually are.
    pub(crate) fn of(verb: Verb) -> Self {
        match verb {
            Verb::Watch => Self::Watch,
            Verb::Connect => Self::Stream,
            _ => Self::Whole,
        }
    }
}

impl Sending<'_> {
    /// The server's last answer, whatever it is.
    pub(crate) async fn send(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        // Watches are few and long, and whoever waits for one waits for news.
        if self.reading != Reading::Watch {
            self.throttle("client-side throttling").await;
        }
        let began = Instant::now();
        let deadline = self.policy.timeout.map(Deadline::after);
        // In one place: a future that is awaited in two is moved to each.
        let attempts = pin!(self.attempts(request));
        let outcome = match &deadline {
            Some(deadline) => deadline.bound(attempts).await,
            None => attempts.await,
        };
        if let Some(metrics) = &self.policy.metrics {
            metrics.finished(self.operation, began.elapsed());
        }
        let mut response = outcome?;
        for warning in Warning::all(response.headers()) {
            self.policy.warnings.handle(self.operation, &warning);
        }
        if let Some(metrics) = &self.policy.metrics {
            response = response.map(|body| Received::count(body, Arc::clone(metrics), self.operation.clone()));
        }
        match deadline {
            Some(deadline) if self.reading == Reading::Whole => Ok(response.map(|body| deadline.bound_body(body))),
            _ => Ok(response),
        }
    }

    async fn attempts(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (head, mut body) = request.into_parts();
        let mut attempts = Attempts::new(self.policy.retries, &head.method, self.reading);
        loop {
            if let Some(overload) = &self.policy.overload {
                overload.wait().await;
            }
            let again = body.replay();
            let request = Request::from_parts(head.clone(), body);
            let gate = self.policy.gate.as_deref();
            if let Some(gate) = gate {
                let (method, body) = (request.method(), request.body().in_memory());
                gate.admit(&Outgoing { operation: self.operation, method, body })?;
            }
            let outcome = gate::pass(gate, pin!(self.attempt(attempts.number(), request))).await;
            let (Some(repeat), Some(again)) = (attempts.judge(&outcome), again) else {
                return attempts.conclude(outcome);
            };
            let Repeat { wait, why } = repeat;
            tracing::debug!(operation = %self.operation, attempt = attempts.number(), ?wait, why, "sending again");
            attempts.failed(outcome);
            body = again;
            tokio::time::sleep(wait).await;
            self.throttle(why).await;
        }
    }

    async fn attempt(self, number: u32, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        tracing::trace!(%method, %uri, headers = ?request.headers(), "request");
        if let Some(metrics) = &self.policy.metrics {
            let size = http_body::Body::size_hint(request.body());
            metrics.sent(self.operation, size.exact().unwrap_or(size.lower()));
        }
        let began = Instant::now();
        let outcome = if self.accepts_compression(&request) {
            let decompressed = Decompression::new(self.transport.clone()).oneshot(request).await;
            decompressed.map(|response| response.map(Body::wrap))
        } else {
            self.transport.clone().oneshot(request).await
        };
        let took = began.elapsed();
        let status = outcome.as_ref().ok().map(Response::status);
        tracing::debug!(%method, %uri, status = status.as_ref().map(StatusCode::as_u16), ?took, "response");
        if let Some(overload) = &self.policy.overload {
            overload.observe(status);
        }
        if let Some(metrics) = &self.policy.metrics {
            metrics.attempted(&Attempt { operation: self.operation, method: &method, number, status, took });
        }
        outcome
    }

    fn accepts_compression(&self, request: &Request<Body>) -> bool {
        self.policy.compression == Compression::Offered
            && self.reading == Reading::Whole
            && !request.headers().contains_key(header::ACCEPT_ENCODING)
    }

    async fn throttle(self, why: &str) {
        let Some(limit) = self.policy.throttle.limit() else { return };
        let waited = limit.acquire().await;
        if waited > VERY_LONG_WAIT {
            tracing::warn!(operation = %self.operation, ?waited, why, "waited before sending a request");
        } else if waited > LONG_WAIT {
            tracing::debug!(operation = %self.operation, ?waited, why, "waited before sending a request");
        }
        if let Some(metrics) = &self.policy.metrics {
            metrics.throttled(self.operation, waited);
        }
    }
}

#[cfg(test)]
mod tests;
