//! The audit log: events about requests, as a policy selects them.
//!
//! A request collects its event in an [`AuditContext`] and processes the stages of the policy. Each stage is rendered once
//! and passed to the backends. A backend has a limited buffer and a task that writes to its sink, the log or a webhook. In
//! the mode `batch`, no request waits. In the blocking modes, a request waits until its own event is written. It writes a
//! small event to the file of the log itself, as in kube-apiserver, because another thread would cost more than the write.
//! If the file is in use, the event is queued. While a file system does not respond, this blocks one thread of the runtime.
//! The events of a request are in order. A webhook gets a limited number of events at the same time, so earlier events delay it.
//!
//! Format, names and messages are those of kube-apiserver. Without a policy, nothing is collected.

mod backend;
mod context;
mod event;
mod log;
mod metrics;
mod options;
mod policy;
mod queue;
mod rotation;
mod webhook;

#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::{BoxFuture, join_all};
use tokio::time::timeout;
use windlass_api::{Clock, Entropy};

pub(crate) use self::context::{AuditContext, AuditedFailure, AuditedRequest, RequestAudit, failed};
use self::{
    backend::{Backend, Way},
    event::Event,
    log::LogSink,
    metrics::AuditMetrics,
    policy::{Evaluation, Stage},
    webhook::WebhookSink,
};
pub use self::{
    options::{
        AuditBatchOptions, AuditError, AuditFormat, AuditLogOptions, AuditMode, AuditTruncateOptions,
        AuditWebhookOptions,
    },
    policy::{AuditPolicy, AuditPolicyError},
    webhook::AuditWebhook,
};
use crate::{identity::User, request::RequestInfo};

/// The longest time that the end of a server waits for its events to be written.
const FLUSH: Duration = Duration::from_secs(5);

/// The audit configuration of a server: a policy, and the backends that get its events.
///
/// ```
/// use windlass_server::{AuditConfiguration, AuditLogOptions, AuditPolicy, Server};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("audit.log");
/// let policy = AuditPolicy::parse(serde_json::json!({
///     "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}],
/// }))?;
/// let audit = AuditConfiguration::new(policy).with_log(&AuditLogOptions { path, ..AuditLogOptions::default() })?;
/// let server = Server::builder().audit(audit).build();
/// # drop(server);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct AuditConfiguration {
    policy: AuditPolicy,
    log: Option<(LogSink, AuditLogOptions)>,
    webhook: Option<(Arc<dyn AuditWebhook>, AuditWebhookOptions)>,
}

impl AuditConfiguration {
    /// Creates a configuration without backends.
    pub const fn new(policy: AuditPolicy) -> Self {
        Self { policy, log: None, webhook: None }
    }

    /// Adds a log, and creates its file.
    pub fn with_log(mut self, options: &AuditLogOptions) -> Result<Self, AuditError> {
        options.validate()?;
        let opened = LogSink::open(options);
        let log = opened.map_err(|source| AuditError::File { path: options.path.clone(), source })?;
        self.log = Some((log, options.clone()));
        Ok(self)
    }

    /// Adds a webhook.
    pub fn with_webhook(
        mut self,
        webhook: Arc<dyn AuditWebhook>,
        options: &AuditWebhookOptions,
    ) -> Result<Self, AuditError> {
        options.validate()?;
        self.webhook = Some((webhook, options.clone()));
        Ok(self)
    }

    /// Connects the parts. Returns `None` if there is no backend.
    pub(crate) fn build(self, clock: Clock, entropy: Entropy) -> Option<Arc<Audit>> {
        let metrics = Arc::new(AuditMetrics::default());
        let mut backends = Vec::new();
        if let Some((sink, options)) = self.log {
            sink.set_clock(&clock);
            backends.push(Backend::new(Arc::new(sink), &options.batch, &options.truncate, Arc::clone(&metrics)));
        }
        if let Some((webhook, AuditWebhookOptions { initial_backoff, batch, truncate, .. })) = self.webhook {
            let sink = WebhookSink { webhook, initial_backoff, entropy };
            backends.push(Backend::new(Arc::new(sink), &batch, &truncate, Arc::clone(&metrics)));
        }
        (!backends.is_empty()).then(|| Arc::new(Audit { policy: self.policy, backends, metrics, clock }))
    }
}

/// The audit log of a server.
pub(crate) struct Audit {
    policy: AuditPolicy,
    backends: Vec<Backend>,
    metrics: Arc<AuditMetrics>,
    clock: Clock,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("backends", &self.backends).finish_non_exhaustive()
    }
}

impl Audit {
    pub(crate) fn metrics(&self) -> &AuditMetrics {
        &self.metrics
    }

    fn evaluate(&self, user: Option<&User>, request: &RequestInfo) -> Evaluation {
        let settings = self.policy.evaluate(user, request);
        self.metrics.level(settings.level);
        settings
    }

    /// Sends the event of a stage to the backends. The future waits for those in blocking modes, and returns `false` if a
    /// strict one failed. The event is sent even if the future is dropped.
    fn process(&self, event: &Event, stage: Stage, way: Way) -> BoxFuture<'static, bool> {
        self.metrics.event();
        let now = self.clock.now();
        let rendered = Arc::new(event.render(stage, now, true));
        let mut waits = self.backends.iter().map(|backend| backend.process(event, stage, now, &rendered, way));
        if let [_] = self.backends.as_slice()
            && let Some(wait) = waits.next()
        {
            return wait;
        }
        let waits: Vec<_> = waits.collect();
        Box::pin(async move { join_all(waits).await.into_iter().all(|stored| stored) })
    }

    /// Waits until the events so far were written, for a limited time.
    pub(crate) async fn flush(&self) {
        let flushed = timeout(FLUSH, join_all(self.backends.iter().map(Backend::flush))).await;
        if flushed.is_err() {
            tracing::warn!("the server ends although audit events are not written yet");
        }
    }
}
