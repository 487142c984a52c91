//! The path of a request from a verb to the transport and back: rate limit, gate, sending, retries, timeout,
//! decompression and metrics.
//!
//! Guarantees, each with a test:
//! - **Rate limited**: every attempt first takes a token, except for the first attempt of a watch.
//! - **Gated**: if there is a [`Gate`], every attempt passes it last, and continues only while it is open.
//! - **Retried only when safe**: when the server asks for it with `Retry-After`, when it never saw the request, or when
//!   the connection broke during a read. A body that cannot be sent twice is sent once.
//! - **Bounded**: the number of retries is limited by the policy. The timeout covers all attempts together, and also
//!   the response body unless that is streamed. Waiting for the first token does not count towards the timeout.
//! - **No background tasks**: dropping a future cancels its attempt and returns its token.
//!
//! Not guaranteed: a write that failed may have been carried out.

mod deadline;
mod gate;
mod overload;
mod rate_limit;
mod repeat;

use std::{pin::pin, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode, Uri, header};
use tokio::time::Instant;
use tower::ServiceExt;
use tracing::{Instrument as _, Span};
use windlass_api::BoxError;

pub use gate::{Gate, Outgoing};
pub use overload::OverloadBackoff;
pub use rate_limit::RateLimit;

use crate::{
    body::Body,
    config::Compression,
    config::ContentType,
    frame::OBJECT_LIMIT,
    metrics::{Attempt, ClientMetrics},
    negotiation::Negotiation,
    operation::{Operation, Verb},
    response::RESPONSE_LIMIT,
    trace::{self, TraceHeaders},
    transport::Transport,
    warnings::{LogWarnings, Warning, WarningHandler},
    write_observer::WriteObserver,
};
use deadline::Deadline;
pub(crate) use deadline::TimedOut;
use repeat::{Attempts, Repeat};

/// The default maximum number of retries, as in client-go.
const RETRIES: u32 = 10;
/// The wait for the rate limiter above which a message is logged.
const LONG_WAIT: Duration = Duration::from_millis(50);
/// The wait for the rate limiter above which a message for the user is logged.
const VERY_LONG_WAIT: Duration = Duration::from_secs(1);

/// The settings for sending requests.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) throttle: Throttle,
    /// The back-off while the server is overloaded. `None` if requests never wait for it.
    pub(crate) overload: Option<Arc<OverloadBackoff>>,
    /// The maximum number of retries.
    pub(crate) retries: u32,
    /// The time limit of a whole call. `None` for no limit.
    pub(crate) timeout: Option<Duration>,
    /// Compression of responses that are read whole, unless the request has its own `Accept-Encoding`.
    pub(crate) compression: Compression,
    /// The encoding of objects.
    pub(crate) negotiation: Negotiation,
    /// The maximum size of a response that is read whole, in bytes.
    pub(crate) response_limit: usize,
    /// The maximum size of an object in a list or watch, in bytes.
    pub(crate) object_limit: usize,
    pub(crate) warnings: Arc<dyn WarningHandler>,
    /// The gate. `None` if every request may be sent.
    pub(crate) gate: Option<Arc<dyn Gate>>,
    /// The recorder of metrics, if any.
    pub(crate) metrics: Option<Arc<dyn ClientMetrics>>,
    /// The observer of writes. `None` if no cache waits for own writes.
    pub(crate) writes: Option<Arc<dyn WriteObserver>>,
    /// The address of the server, for spans. `None` for a service in this process.
    pub(crate) server: Option<Uri>,
    /// Adds trace headers to requests, if set.
    pub(crate) trace_headers: Option<TraceHeaders>,
}

/// The rate limits, and whether they are the defaults.
#[derive(Clone, Debug)]
pub(crate) enum Throttle {
    /// The default limits.
    Default {
        requests: RateLimit,
        /// The limit of discovery. It is higher, because legacy discovery sends a request per group while a user waits.
        discovery: RateLimit,
    },
    /// An explicit limit; `None` for no limit.
    Explicit(Option<RateLimit>),
}

/// How a response is read, which determines retries, timeout and compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As a whole.
    Whole,
    /// As a stream, for any time: a log, or an upgraded connection.
    Stream,
    /// As a watch.
    Watch,
}

/// A request to send, with its settings.
#[derive(Clone, Copy)]
pub(crate) struct Sending<'c> {
    pub(crate) transport: &'c Transport,
    pub(crate) policy: &'c Policy,
    pub(crate) operation: &'c Operation,
    pub(crate) reading: Reading,
}

impl Default for Policy {
    /// Returns client-go's default settings.
    fn default() -> Self {
        Self {
            throttle: Throttle::default_limits(),
            overload: None,
            retries: RETRIES,
            timeout: None,
            compression: Compression::Offered,
            negotiation: Negotiation::new(ContentType::Json),
            response_limit: RESPONSE_LIMIT,
            object_limit: OBJECT_LIMIT,
            warnings: Arc::new(LogWarnings),
            gate: None,
            metrics: None,
            writes: None,
            server: None,
            trace_headers: None,
        }
    }
}

impl Throttle {
    /// Returns client-go's default limits.
    pub(crate) fn default_limits() -> Self {
        Self::Default { requests: RateLimit::default(), discovery: RateLimit::per_second(50, 300) }
    }

    fn limit(&self) -> Option<&RateLimit> {
        match self {
            Self::Default { requests, .. } => Some(requests),
            Self::Explicit(limit) => limit.as_ref(),
        }
    }
}

impl Reading {
    /// Returns how the response of a verb is usually read.
    pub(crate) fn of(verb: Verb) -> Self {
        match verb {
            Verb::Watch => Self::Watch,
            Verb::Connect => Self::Stream,
            _ => Self::Whole,
        }
    }
}

impl Sending<'_> {
    /// Sends the request in a span, with retries, and returns the server's last response, including failures.
    pub(crate) async fn send(self, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let span = trace::request_span(self.operation, &request, self.policy.server.as_ref());
        if let Some(headers) = &self.policy.trace_headers {
            headers.inject(&span, request.headers_mut());
        }
        // Pinned once: a future that is awaited in two places is moved to each.
        let sent = pin!(self.send_in_span(request));
        if span.is_disabled() {
            return sent.await;
        }
        let outcome = sent.instrument(span.clone()).await;
        trace::record(&span, &outcome);
        outcome.map(|response| response.map(|body| trace::until_read(body, span)))
    }

    async fn send_in_span(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        // Watches are rare and long, and their callers wait for events.
        if self.reading != Reading::Watch {
            self.throttle("client-side throttling").await;
        }
        let began = Instant::now();
        let deadline = self.policy.timeout.map(Deadline::after);
        // Pinned once: a future that is awaited in two places is moved to each.
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
            let (metrics, operation) = (Arc::clone(metrics), self.operation.clone());
            response = response.map(|body| body.counted(move |bytes| metrics.received(&operation, bytes)));
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
            let (Some(repeat), Some(again)) = (attempts.decide_retry(&outcome), again) else {
                return attempts.conclude(outcome);
            };
            let Repeat { wait, why } = repeat;
            tracing::debug!(operation = %self.operation, attempt = attempts.number(), ?wait, why, "retrying the request");
            attempts.failed(outcome);
            Span::current().record("http.request.resend_count", attempts.number());
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
            self.send_for_compressed(request).await
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

    /// Sends a request whose response the server may compress, and decompresses the response.
    #[cfg(feature = "gzip")]
    async fn send_for_compressed(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let decompressing = tower_http::decompression::Decompression::new(self.transport.clone());
        decompressing.oneshot(request).await.map(|response| response.map(Body::wrap))
    }

    /// Sends a request without support for compression.
    #[cfg(not(feature = "gzip"))]
    async fn send_for_compressed(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        self.transport.clone().oneshot(request).await
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
