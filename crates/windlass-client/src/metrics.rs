//! Metrics of a client: of its requests ([`ClientMetrics`]) and of its connections ([`TransportMetrics`]).

mod transport;

use std::{fmt::Debug, sync::Arc, time::Duration};

use http::{Method, StatusCode};

pub(crate) use transport::MetricsRecorder;
pub use transport::{Opened, Outcome, PluginCall, PolicyDecision, Source, TlsReload, TransportMetrics};

use crate::operation::Operation;

/// A recorder of metrics for the requests of a client. The default methods do nothing. Each method documents the name
/// of client-go's metric.
///
/// As metric labels, [`Operation::verb`], [`Operation::resource`] and [`Operation::subresource`] have low cardinality.
/// Namespaces and names have high cardinality, as does the resource of [`Verb::Request`](crate::operation::Verb::Request), which
/// is a path.
pub trait ClientMetrics: Debug + Send + Sync + 'static {
    /// A request waited this long for the rate limiter: `rest_client_rate_limiter_duration_seconds`.
    fn throttled(&self, operation: &Operation, waited: Duration) {
        let _ = (operation, waited);
    }

    /// A request with a body of this size is being sent: `rest_client_request_size_bytes`.
    fn sent(&self, operation: &Operation, bytes: u64) {
        let _ = (operation, bytes);
    }

    /// An attempt has ended: `rest_client_requests_total`, and for each attempt after the first also
    /// `rest_client_request_retries_total`.
    fn attempted(&self, attempt: &Attempt<'_>) {
        let _ = attempt;
    }

    /// The head of the final response has arrived, or the request has failed: `rest_client_request_duration_seconds`.
    fn finished(&self, operation: &Operation, took: Duration) {
        let _ = (operation, took);
    }

    /// A response body was read to its end, or was dropped by its reader: `rest_client_response_size_bytes`.
    fn received(&self, operation: &Operation, bytes: u64) {
        let _ = (operation, bytes);
    }
}

/// One attempt to send a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Attempt<'c> {
    /// The operation.
    pub operation: &'c Operation,
    /// The HTTP method.
    pub method: &'c Method,
    /// The number of the attempt; 0 for the first.
    pub number: u32,
    /// The status code. `None` if there was no response.
    pub status: Option<StatusCode>,
    /// The time from sending the request to the head of the response.
    pub took: Duration,
}

/// Two recorders that both receive every metric.
#[derive(Debug)]
pub(crate) struct Both(pub(crate) Arc<dyn ClientMetrics>, pub(crate) Arc<dyn ClientMetrics>);

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
