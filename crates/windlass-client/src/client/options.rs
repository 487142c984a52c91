//! Options of [`Client`] for sending requests.

use std::{sync::Arc, time::Duration};

use super::Client;
use crate::{
    config::{Compression, ContentType},
    metrics::{Both, ClientMetrics},
    pipeline::{Gate, OverloadBackoff, Policy, RateLimit, Throttle},
    trace::TraceHeaders,
    warnings::WarningHandler,
    write_observer::WriteObserver,
};

impl Client {
    /// Returns this client with a rate limit for its requests. Watches are exempt.
    #[must_use]
    pub fn with_rate_limit(self, limit: RateLimit) -> Self {
        self.with(|policy| policy.throttle = Throttle::Explicit(Some(limit)))
    }

    /// Returns this client without a rate limit. Fairness among clients is then left to the server.
    #[must_use]
    pub fn without_rate_limit(self) -> Self {
        self.with(|policy| policy.throttle = Throttle::Explicit(None))
    }

    /// Returns this client without the default rate limit; a limit that was set explicitly stays in force. Use it for
    /// programs whose work is limited elsewhere, such as controllers with rate-limited queues.
    #[must_use]
    pub fn without_default_rate_limit(self) -> Self {
        match self.policy.throttle {
            Throttle::Default { .. } => self.without_rate_limit(),
            Throttle::Explicit(_) => self,
        }
    }

    /// Returns this client with requests delayed while the server is overloaded.
    #[must_use]
    pub fn with_overload_backoff(self, backoff: OverloadBackoff) -> Self {
        self.with(|policy| policy.overload = Some(Arc::new(backoff)))
    }

    /// Returns this client with a maximum number of retries per request. Defaults to 10.
    ///
    /// A request is retried when the server answers 429 or a server error with a `Retry-After` header, and when the
    /// server never started it. A read is also retried when the connection broke. A request that the server never
    /// started is retried at least three times, whatever the maximum.
    #[must_use]
    pub fn with_retries(self, retries: u32) -> Self {
        self.with(|policy| policy.retries = retries)
    }

    /// Returns this client with a timeout for calls, including their retries. By default there is no timeout. For
    /// watches and streamed responses, the timeout ends when the response starts.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        self.with(|policy| policy.timeout = Some(timeout))
    }

    /// Returns this client with an observer that is notified of each successful write. It replaces any earlier
    /// observer.
    #[must_use]
    pub fn with_write_observer(self, observer: Arc<dyn WriteObserver>) -> Self {
        self.with(|policy| policy.writes = Some(observer))
    }

    /// Returns this client without compressed responses. By default, a client that connects over a network accepts
    /// compression, and servers compress large responses. Disabling it helps if the network is faster than the
    /// processor.
    #[must_use]
    pub fn without_compression(self) -> Self {
        self.with(|policy| policy.compression = Compression::Off)
    }

    /// Returns this client with another encoding of objects. By default, it is that of the [configuration](crate::Config).
    /// Clients without a configuration use JSON: they usually call a server in the same process, which stores JSON.
    #[must_use]
    pub fn with_content_type(self, content_type: ContentType) -> Self {
        self.with(|policy| policy.negotiation.set(content_type))
    }

    /// Returns this client with a maximum size in bytes for responses that are read whole. Defaults to 64 MiB. Lists
    /// and watches are read object by object; see [`Self::with_object_limit`].
    #[must_use]
    pub fn with_response_limit(self, bytes: usize) -> Self {
        self.with(|policy| policy.response_limit = bytes)
    }

    /// Returns this client with a maximum size in bytes for each object in lists and watches. Defaults to 16 MiB.
    ///
    /// A larger object is skipped without being buffered, and reported as an error that names it. An informer reports
    /// the error to its error hook and its metrics, and continues with the next object. Other lists and watches end
    /// with the error.
    #[must_use]
    pub fn with_object_limit(self, bytes: usize) -> Self {
        self.with(|policy| policy.object_limit = bytes)
    }

    /// Returns this client with a handler for the server's warnings. By default, warnings are logged.
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

    /// Returns this client with a gate. The client sends only requests that the gate admits, and only while the gate is
    /// open.
    #[must_use]
    pub fn with_gate(self, gate: impl Gate) -> Self {
        self.with(|policy| policy.gate = Some(Arc::new(gate)))
    }

    /// Returns this client with additional metrics for its requests. Metrics that were set before continue to be
    /// updated.
    #[must_use]
    pub fn with_metrics(self, metrics: impl ClientMetrics) -> Self {
        self.with(|policy| {
            policy.metrics = Some(match policy.metrics.take() {
                Some(first) => Arc::new(Both(first, Arc::new(metrics))),
                None => Arc::new(metrics),
            });
        })
    }

    /// Returns this client with trace headers, such as `traceparent`, in its requests. The function adds the trace
    /// context of a span to the headers: the span of the request, or the current one if spans of requests are disabled.
    ///
    /// ```
    /// # use windlass_client::Client;
    /// # fn example(client: Client) -> Client {
    /// client.with_trace_headers(|span, headers| {
    ///     if let Some(id) = span.id() {
    ///         headers.insert("x-span", id.into_u64().into());
    ///     }
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn with_trace_headers(
        self,
        inject: impl Fn(&tracing::Span, &mut http::HeaderMap) + Send + Sync + 'static,
    ) -> Self {
        self.with(|policy| policy.trace_headers = Some(TraceHeaders::new(inject)))
    }

    /// Reports whether the client adds trace headers to its requests.
    #[must_use]
    pub fn has_trace_headers(&self) -> bool {
        self.policy.trace_headers.is_some()
    }

    /// Returns this client with the default rate limit of discovery, unless a limit was set explicitly.
    pub(crate) fn for_discovery(&self) -> Self {
        match &self.policy.throttle {
            Throttle::Default { discovery, .. } => self.clone().with_rate_limit(discovery.clone()),
            Throttle::Explicit(_) => self.clone(),
        }
    }

    /// Returns the largest response that is read whole, in bytes.
    pub(crate) fn response_limit(&self) -> usize {
        self.policy.response_limit
    }

    /// Returns the largest object that is read from a list or a watch, in bytes.
    pub(crate) fn object_limit(&self) -> usize {
        self.policy.object_limit
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(Arc::make_mut(&mut self.policy));
        self
    }
}
