//! The webhook backend: posts lists of events, and repeats failed requests.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::time::{sleep, timeout};
use windlass_api::{BoxError, Entropy};

use super::{
    backend::{Sent, Sink},
    metrics::Plugin,
    queue::Entry,
};

/// The number of attempts to send a list, and the increase of the delay between them, as in kube-apiserver.
const ATTEMPTS: usize = 5;
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;

/// The time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(30);

const HEAD: &[u8] = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;

/// Sends lists of audit events to a webhook.
///
/// Implementations need neither a timeout nor retries.
pub trait AuditWebhook: fmt::Debug + Send + Sync + 'static {
    /// Posts an `EventList` of `audit.k8s.io/v1` in JSON. Any response that is not successful is an error.
    fn post(&self, events: Bytes) -> BoxFuture<'_, Result<(), BoxError>>;
}

#[derive(Debug)]
pub(super) struct WebhookSink {
    pub(super) webhook: Arc<dyn AuditWebhook>,
    pub(super) initial_backoff: Duration,
    pub(super) entropy: Entropy,
}

impl WebhookSink {
    async fn deliver(&self, events: Bytes) -> Result<(), BoxError> {
        let mut delay = self.initial_backoff;
        let mut attempt = 1;
        loop {
            let posted = timeout(TIMEOUT, self.webhook.post(events.clone())).await;
            let error = match posted {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                Err(_) => format!("no response within {} s", TIMEOUT.as_secs()).into(),
            };
            if attempt == ATTEMPTS {
                return Err(error);
            }
            sleep(self.entropy.jitter(delay, JITTER)).await;
            delay = delay.mul_f64(FACTOR);
            attempt += 1;
        }
    }
}

impl Sink for WebhookSink {
    fn plugin(&self) -> Plugin {
        Plugin::Webhook
    }

    fn is_concurrent(&self) -> bool {
        true
    }

    fn send<'a>(&'a self, events: &'a [Entry]) -> BoxFuture<'a, Sent> {
        Box::pin(async move {
            let size: usize = events.iter().map(|entry| entry.event.json_len()).sum();
            let mut list = Vec::with_capacity(HEAD.len() + size + 2);
            list.extend_from_slice(HEAD);
            for (index, entry) in events.iter().enumerate() {
                if index > 0 {
                    list.push(b',');
                }
                entry.event.push_item(&mut list);
            }
            list.extend_from_slice(b"]}\n");
            match self.deliver(list.into()).await {
                Ok(()) => Sent::default(),
                Err(error) => Sent { lost: (0..events.len()).collect(), error: Some(error) },
            }
        })
    }
}
