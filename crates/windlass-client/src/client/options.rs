//! How a client sends its requests.

use std::{sync::Arc, time::Duration};

use super::Client;
use crate::{
    config::Compression,
    metrics::{Both, ClientMetrics},
    pipeline::{Gate, OverloadBackoff, Policy, RateLimit, Throttle},
    warnings::WarningHandler,
    written::WriteObserver,
};

impl Client {
    /// The same client, with a limit to the rate of its requests. Watches are exempt.
    #[must_use]
    pub fn with_rate_limit(self, limit: RateLimit) -> Self {
        self.with(|policy| policy.throttle = Throttle::Chosen(Some(limit)))
    }

    /// The same client, which sends its requests as fast as they come and leaves it to the server to be fair to others.
    #[must_use]
    pub fn without_rate_limit(self) -> Self {
        self.with(|policy| policy.throttle = Throttle::Chosen(None))
    }

    /// The same client, without a limit to its rate unless one was chosen for it: for programs whose work is limited
    /// elsewhere, as that of controllers is by their queues.
    #[must_use]
    pub fn without_default_rate_limit(self) -> Self {
        match self.policy.throttle {
            Throttle::Usual { .. } => self.without_rate_limit(),
            Throttle::Chosen(_) => self,
        }
    }

    /// The same client, whose requests wait while the server is overloaded.
    #[must_use]
    pub fn with_overload_backoff(self, backoff: OverloadBackoff) -> Self {
        self.with(|policy| policy.overload = Some(Arc::new(backoff)))
    }

    /// The same client, which sends a request again so many times at most; 10 unless set.
    ///
    /// A request is sent again when the server answers 429, or fails, and says how long to wait; when the server never
    /// began with it; and, if it is a read, when the connection broke. What the server never began with is sent again three
    /// times at least.
    #[must_use]
    pub fn with_retries(self, retries: u32) -> Self {
        self.with(|policy| policy.retries = retries)
    }

    /// The same client, whose calls may take so long, repetitions included; without a limit unless set. Of watches, and of
    /// answers that are read as a stream, it bounds the time up to their beginning.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        self.with(|policy| policy.timeout = Some(timeout))
    }

    /// The same client, which reports each write that a server has carried out. It replaces an observer that the client had.
    #[must_use]
    pub fn with_write_observer(self, observer: Arc<dyn WriteObserver>) -> Self {
        self.with(|policy| policy.writes = Some(observer))
    }

    /// The same client, which asks for answers as they are. Otherwise large ones come compressed over a network, where a
    /// server knows how; that pays unless the network is faster than the processor.
    #[must_use]
    pub fn without_compression(self) -> Self {
        self.with(|policy| policy.compression = Compression::Off)
    }

    /// The same client, which reads answers of so many bytes at most, where it reads them whole; 64 MiB unless set. Lists
    /// and watches are read object by object, see [`Self::with_object_limit`].
    #[must_use]
    pub fn with_response_limit(self, bytes: usize) -> Self {
        self.with(|policy| policy.response_limit = bytes)
    }

    /// The same client, which reads objects of so many bytes at most in lists and watches; 16 MiB unless set.
    ///
    /// A larger one is passed over as it streams by, and never held; it is told as an error that names it. For an informer, that
    /// error goes to the hook and the metrics, and it goes on with the next object; other lists and watches end with it.
    #[must_use]
    pub fn with_object_limit(self, bytes: usize) -> Self {
        self.with(|policy| policy.object_limit = bytes)
    }

    /// The same client, whose server's warnings go elsewhere than to the log.
    ///
    /// ```
    /// # use windlass_api::k8s_openapi::api::core::v1::Pod;
    /// # use windlass_client::{Client, Result, warnings::CollectWarnings};
    /// # async fn warnings_of_one_call(client: Client, pod: Pod) -> Result<()> {
    /// let warnings = CollectWarnings::default();
    /// client.with_warnings(warnings.clone()).create(&pod).await?;
    /// for warning in warnings.take() {
    ///     println!("{warning}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_warnings(self, handler: impl WarningHandler) -> Self {
        self.with(|policy| policy.warnings = Arc::new(handler))
    }

    /// The same client, which sends what a gate admits, and while it is open.
    #[must_use]
    pub fn with_gate(self, gate: impl Gate) -> Self {
        self.with(|policy| policy.gate = Some(Arc::new(gate)))
    }

    /// The same client, whose requests are counted, also by this. Who counted them before goes on.
    #[must_use]
    pub fn with_metrics(self, metrics: impl ClientMetrics) -> Self {
        self.with(|policy| {
            policy.metrics = Some(match policy.metrics.take() {
                Some(first) => Arc::new(Both(first, Arc::new(metrics))),
                None => Arc::new(metrics),
            });
        })
    }

    /// The same client, at the rate of questions what the server serves unless another was chosen.
    pub(crate) fn for_discovery(&self) -> Self {
        match &self.policy.throttle {
            Throttle::Usual { discovery, .. } => self.clone().with_rate_limit(discovery.clone()),
            Throttle::Chosen(_) => self.clone(),
        }
    }

    /// The largest answer that is read whole, in bytes.
    pub(crate) fn response_limit(&self) -> usize {
        self.policy.response_limit
    }

    /// The largest object that is read from a list or a watch, in bytes.
    pub(crate) fn object_limit(&self) -> usize {
        self.policy.object_limit
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(Arc::make_mut(&mut self.policy));
        self
    }
}
