//! Metrics of the requests that clients send.

use std::{
    fmt::{self, Debug},
    sync::Arc,
    time::Duration,
};

use prometheus::{HistogramVec, IntCounterVec};
use windlass_client::{
    Operation, Verb,
    metrics::{Attempt, ClientMetrics},
};

use super::factory::{MetricFactory, REQUEST_SECONDS};

/// Buckets for the sizes of requests and responses, in bytes.
const SIZE_BUCKETS: &[f64] =
    &[64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

/// The metrics `rest_client_*`.
pub(super) struct Requests {
    total: IntCounterVec,
    retries: IntCounterVec,
    duration: HistogramVec,
    throttled: HistogramVec,
    sent: HistogramVec,
    received: HistogramVec,
}

/// Counts the requests to one server.
#[derive(Clone)]
pub struct RequestCounter {
    requests: Arc<Requests>,
    host: Arc<str>,
}

// === impl Requests ===

impl Requests {
    pub(super) fn new(factory: &MetricFactory<'_>) -> Self {
        let by_verb = &["verb", "host"];
        Self {
            total: factory.counters(
                "rest_client_requests_total",
                "Number of HTTP requests, by status code, method and host. The code is `<error>` without a response.",
                &["code", "method", "host"],
            ),
            retries: factory.counters(
                "rest_client_request_retries_total",
                "Number of request retries, by status code, verb and host.",
                &["code", "verb", "host"],
            ),
            duration: factory.histograms(
                "rest_client_request_duration_seconds",
                "Request latency in seconds up to the response headers, by verb and host.",
                by_verb,
                REQUEST_SECONDS,
            ),
            throttled: factory.histograms(
                "rest_client_rate_limiter_duration_seconds",
                "Client-side rate limiter latency in seconds, by verb and host.",
                by_verb,
                REQUEST_SECONDS,
            ),
            sent: factory.histograms(
                "rest_client_request_size_bytes",
                "Request size in bytes, by verb and host.",
                by_verb,
                SIZE_BUCKETS,
            ),
            received: factory.histograms(
                "rest_client_response_size_bytes",
                "Response size in bytes, by verb and host.",
                by_verb,
                SIZE_BUCKETS,
            ),
        }
    }
}

// === impl RequestCounter ===

impl RequestCounter {
    pub(super) fn new(requests: Arc<Requests>, host: impl Into<Arc<str>>) -> Self {
        Self { requests, host: host.into() }
    }

    fn observe(&self, histograms: impl FnOnce(&Requests) -> &HistogramVec, operation: &Operation, value: f64) {
        let histograms = histograms(&self.requests);
        histograms.with_label_values(&[method(operation.verb), &self.host]).observe(value);
    }
}

impl ClientMetrics for RequestCounter {
    fn throttled(&self, operation: &Operation, waited: Duration) {
        self.observe(|of| &of.throttled, operation, waited.as_secs_f64());
    }

    fn sent(&self, operation: &Operation, bytes: u64) {
        self.observe(|of| &of.sent, operation, float(bytes));
    }

    fn attempted(&self, attempt: &Attempt<'_>) {
        let code = attempt.status.map_or_else(|| "<error>".to_owned(), |status| status.as_str().to_owned());
        let labels = &[&*code, attempt.method.as_str(), &self.host];
        let of = &self.requests;
        of.total.with_label_values(labels).inc();
        if attempt.number > 0 {
            of.retries.with_label_values(labels).inc();
        }
    }

    fn finished(&self, operation: &Operation, took: Duration) {
        self.observe(|of| &of.duration, operation, took.as_secs_f64());
    }

    fn received(&self, operation: &Operation, bytes: u64) {
        self.observe(|of| &of.received, operation, float(bytes));
    }
}

impl Debug for RequestCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestCounter").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Returns the HTTP method of a verb, which client-go uses as the verb label.
fn method(verb: Verb) -> &'static str {
    match verb {
        Verb::Create | Verb::Connect => "POST",
        Verb::Update => "PUT",
        Verb::Patch | Verb::Apply => "PATCH",
        Verb::Delete | Verb::DeleteCollection => "DELETE",
        _ => "GET",
    }
}

#[expect(clippy::cast_precision_loss, reason = "metrics are doubles, and sizes below 2^53")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}
