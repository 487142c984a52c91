//! Export of spans to an OpenTelemetry collector, and their propagation in requests. Requires the feature `otlp`.
//!
//! ```no_run
//! use tracing_subscriber::{layer::SubscriberExt as _, util::SubscriberInitExt as _};
//! use windlass_runtime::{Manager, otlp::Otlp, shutdown};
//!
//! # async fn main_() -> windlass_runtime::Result<()> {
//! let (spans, exporter) = Otlp::new("website-operator").endpoint("http://collector:4317").build()?;
//! tracing_subscriber::registry().with(spans).init(); // add a layer for the log
//!
//! let mut manager = Manager::try_default().await?;
//! manager.add(exporter); // sends the remaining spans at the end
//! manager.run(shutdown::signal()).await
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Requests of a manager's client carry the W3C header `traceparent`, so that an API server continues the trace. Other
//!   clients do with [`Client::with_trace_headers`](windlass_client::Client::with_trace_headers) and [`inject`].
//! - Webhooks that a manager serves continue the trace of their caller.
//! - Spans are sent in batches by a separate thread. If the collector is slow or unreachable, spans are dropped, and
//!   reconciles continue.
//!
//! # Not guaranteed
//!
//! - Without [`Exporter`] in the manager, or [`Exporter::shutdown`], the last spans are not sent.

use std::fmt::{self, Debug};

use futures::{FutureExt as _, future::BoxFuture};
use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{
    Context,
    propagation::{Extractor, Injector, TextMapPropagator as _},
    trace::TracerProvider as _,
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{Sampler, SdkTracerProvider},
};
use tracing::{Level, Metadata, Span, Subscriber, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, filter::FilterFn, registry::LookupSpan};

use crate::{
    Error, Result,
    runnable::{Group, Runnable, RunnableContext},
};

/// The crates below the exporter. Their spans would lead to further exports.
const EXCLUDED: [&str; 5] = ["h2", "hyper", "opentelemetry", "tonic", "tower"];

/// A `tracing` layer that exports spans.
pub type SpanLayer<S> = Box<dyn Layer<S> + Send + Sync>;

/// The settings of the export. The usual variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`,
/// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`) supply what is not set here.
#[derive(Clone, Debug)]
#[must_use = "settings do nothing until `build` is called"]
pub struct Otlp {
    service: String,
    /// `None`: the environment's, or `http://localhost:4317`.
    endpoint: Option<String>,
    /// `None`: the environment's, or all traces.
    ratio: Option<f64>,
}

/// The exporter of spans. Add it to a manager, or call [`Self::shutdown`] at the end of the program.
#[must_use = "the last spans are sent by `shutdown`, or by a manager"]
pub struct Exporter(SdkTracerProvider);

/// The headers of a request as a carrier of trace contexts.
struct Headers<H>(H);

/// Adds the trace context of a span to the headers of a request, for
/// [`Client::with_trace_headers`](windlass_client::Client::with_trace_headers). Does nothing for spans that are not
/// exported.
pub fn inject(span: &Span, headers: &mut HeaderMap) {
    TraceContextPropagator::new().inject_context(&span.context(), &mut Headers(headers));
}

/// Makes a span a child of the trace in the headers of a request, for `Webhooks::with_trace_parent`.
pub fn extract(span: &Span, headers: &HeaderMap) {
    let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers));
    // Fails only if the span is not exported.
    let _ = span.set_parent(parent);
}

// === impl Otlp ===

impl Otlp {
    /// Creates the settings for a service with this name. `OTEL_SERVICE_NAME` overrides it.
    pub fn new(service: impl Into<String>) -> Self {
        Self { service: service.into(), endpoint: None, ratio: None }
    }

    /// Sets the address of the collector's gRPC receiver, such as `http://collector:4317`.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// Sets the part of the traces that is exported, from 0 to 1. Traces of other services are exported as those have
    /// decided.
    pub fn sample_ratio(mut self, ratio: f64) -> Self {
        self.ratio = Some(ratio);
        self
    }

    /// Creates the layer and the exporter. The layer receives spans at and above the level DEBUG, and events at and
    /// above INFO. Returns an error if the endpoint is invalid.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn build<S>(self) -> Result<(SpanLayer<S>, Exporter)>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let exporter = SpanExporter::builder().with_tonic();
        let exporter = match self.endpoint {
            Some(endpoint) => exporter.with_endpoint(endpoint),
            None => exporter,
        };
        let exporter = exporter.build().map_err(Error::other)?;
        let service = std::env::var("OTEL_SERVICE_NAME").unwrap_or(self.service);
        let resource = Resource::builder().with_service_name(service).build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource);
        let provider = match self.ratio {
            Some(ratio) => provider.with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio)))),
            None => provider,
        };
        let provider = provider.build();
        Ok((layer(&provider), Exporter(provider)))
    }
}

fn layer<S>(provider: &SdkTracerProvider) -> SpanLayer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let is_exported = |metadata: &Metadata<'_>| {
        let level = if metadata.is_span() { Level::DEBUG } else { Level::INFO };
        *metadata.level() <= level && !EXCLUDED.iter().any(|excluded| metadata.target().starts_with(excluded))
    };
    let filter = FilterFn::new(is_exported).with_max_level_hint(LevelFilter::DEBUG);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("windlass"));
    layer.with_location(false).with_threads(false).with_filter(filter).boxed()
}

// === impl Exporter ===

impl Exporter {
    /// Sends the remaining spans, for at most 5 s, and stops the export.
    pub async fn shutdown(self) -> Result<()> {
        // Blocks until a thread of the exporter has sent the spans, which needs the runtime.
        let stopped = tokio::task::spawn_blocking(move || self.0.shutdown()).await?;
        stopped.map_err(Error::other)
    }
}

/// Ends after all other runnables. A failed export does not fail the manager.
impl Runnable for Exporter {
    fn name(&self) -> String {
        "otlp".to_owned()
    }

    fn group(&self) -> Group {
        Group::Servers
    }

    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>> {
        async move {
            context.stop().requested().await;
            if let Err(error) = self.shutdown().await {
                tracing::warn!(%error, "cannot send the last spans");
            }
            Ok(())
        }
        .boxed()
    }
}

impl Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter(..)")
    }
}

// === impl Headers ===

impl Injector for Headers<&mut HeaderMap> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

impl Extractor for Headers<&HeaderMap> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

#[cfg(test)]
mod tests;
