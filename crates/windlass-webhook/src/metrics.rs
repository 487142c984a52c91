//! What webhooks tell about themselves in numbers.

use std::{fmt::Debug, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::WebhookPath;

/// Receives what happens to the webhooks of a server. Each method has a default that does nothing.
///
/// The names and meanings are controller-runtime's; `path` is their label `webhook`.
pub trait WebhookMetrics: Debug + Send + Sync + 'static {
    /// There is a webhook: `controller_runtime_webhook_requests_total` begins at 0 for the codes 200 and 500.
    fn registered(&self, path: &WebhookPath) {
        let _ = path;
    }

    /// A call has come: `controller_runtime_webhook_requests_in_flight` rises by one.
    fn started(&self, path: &WebhookPath) {
        let _ = path;
    }

    /// It has ended: `…_in_flight` falls by one, `controller_runtime_webhook_requests_total` by the HTTP `code`,
    /// `controller_runtime_webhook_latency_seconds`. `None`: the caller hung up, nobody was answered.
    fn finished(&self, path: &WebhookPath, code: Option<u16>, took: Duration) {
        let _ = (path, code, took);
    }

    /// A handler of admission, authentication or authorisation panicked: `controller_runtime_webhook_panics_total`.
    fn panicked(&self) {}

    /// A converter panicked: `controller_runtime_conversion_webhook_panics_total`.
    fn conversion_panicked(&self) {}

    /// The serving certificate was read: `certwatcher_read_certificate_total`, and
    /// `certwatcher_read_certificate_errors_total` if it could not be used.
    fn certificate_read(&self, usable: bool) {
        let _ = usable;
    }
}

/// Counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoMetrics;

impl WebhookMetrics for NoMetrics {}

/// A call that is under way. Dropped, it has ended.
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
