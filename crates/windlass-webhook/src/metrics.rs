//! Metrics of webhooks.

use std::{fmt::Debug, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::WebhookPath;

/// Receives the measurements of a webhook server. Each method has a default that does nothing.
///
/// Names and meanings are those of controller-runtime; `path` is its label `webhook`.
pub trait WebhookMetrics: Debug + Send + Sync + 'static {
    /// A webhook was registered: `controller_runtime_webhook_requests_total` starts at 0 for the codes 200 and 500.
    fn registered(&self, path: &WebhookPath) {
        let _ = path;
    }

    /// A call has started: `controller_runtime_webhook_requests_in_flight` increases by one.
    fn started(&self, path: &WebhookPath) {
        let _ = path;
    }

    /// A call has ended: `…_in_flight` decreases by one; `controller_runtime_webhook_requests_total` by the HTTP `code`
    /// and `controller_runtime_webhook_latency_seconds` are updated. `code` is `None` if the client disconnected before
    /// the response.
    fn finished(&self, path: &WebhookPath, code: Option<u16>, took: Duration) {
        let _ = (path, code, took);
    }

    /// A handler of admission, authentication or authorization panicked: `controller_runtime_webhook_panics_total`.
    fn panicked(&self) {}

    /// A converter panicked: `controller_runtime_conversion_webhook_panics_total`.
    fn conversion_panicked(&self) {}

    /// The serving certificate was read: `certwatcher_read_certificate_total`. If it was invalid, also
    /// `certwatcher_read_certificate_errors_total`.
    fn certificate_read(&self, usable: bool) {
        let _ = usable;
    }
}

/// Discards all measurements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoMetrics;

impl WebhookMetrics for NoMetrics {}

/// A running call. Dropping it ends the call.
pub(crate) struct Call {
    metrics: Arc<dyn WebhookMetrics>,
    path: WebhookPath,
    since: Instant,
    code: Option<u16>,
}

impl Call {
    pub(crate) fn begin(metrics: &Arc<dyn WebhookMetrics>, path: &WebhookPath) -> Self {
        metrics.started(path);
        Self { metrics: Arc::clone(metrics), path: path.clone(), since: Instant::now(), code: None }
    }

    pub(crate) fn answered(mut self, code: u16) {
        self.code = Some(code);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.metrics.finished(&self.path, self.code, self.since.elapsed());
    }
}
