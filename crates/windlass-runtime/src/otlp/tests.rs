use std::sync::Arc;

use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter as SdkSpanExporter},
};
use parking_lot::Mutex;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The exported spans.
#[derive(Clone, Debug, Default)]
struct Exported(Arc<Mutex<Vec<SpanData>>>);

impl SdkSpanExporter for Exported {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().extend(spans);
        Ok(())
    }
}

/// Exports the spans of this thread until the guard is dropped.
fn exported() -> (Exported, SdkTracerProvider, tracing::subscriber::DefaultGuard) {
    let exported = Exported::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exported.clone()).build();
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer(&provider)));
    (exported, provider, guard)
}

#[test]
fn trace_continues_from_headers_to_headers() {
    let (exported, _provider, _guard) = exported();

    let received = HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let received = HeaderMap::from_iter([(HeaderName::from_static("traceparent"), received)]);
    let webhook = tracing::debug_span!("webhook", otel.name = "POST /mutate", otel.kind = "server");
    extract(&webhook, &received);
    let sent = webhook.in_scope(|| {
        let request = tracing::debug_span!("request", http.response.status_code = 200_u16);
        let mut headers = HeaderMap::new();
        inject(&request, &mut headers);
        headers
    });
    drop(webhook);

    let spans = exported.0.lock();
    let [request, webhook] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(webhook.name, "POST /mutate");
    assert_eq!(webhook.parent_span_id.to_string(), "b7ad6b7169203331");
    assert_eq!(request.parent_span_id, webhook.span_context.span_id());
    let expected = format!("00-{TRACE}-{}-01", request.span_context.span_id());
    assert_eq!(sent["traceparent"], expected);
}

#[test]
fn layer_ignores_the_spans_of_the_exporter() {
    let (exported, _provider, _guard) = exported();
    drop(tracing::info_span!(target: "h2::client", "ignored"));
    drop(tracing::trace_span!("too detailed"));
    drop(tracing::debug_span!("exported"));
    let names: Vec<_> = exported.0.lock().iter().map(|span| span.name.to_string()).collect();
    assert_eq!(names, ["exported"]);
}

#[test]
fn span_without_a_trace_adds_no_header() {
    let mut headers = HeaderMap::new();
    inject(&Span::none(), &mut headers);
    assert!(headers.is_empty());
    extract(&Span::none(), &headers);
    assert!(!Span::current().context().span().span_context().is_valid());
}

#[tokio::test]
async fn invalid_endpoint_is_an_error() {
    let error = Otlp::new("test").endpoint("no address").build::<tracing_subscriber::Registry>().err();
    assert!(error.is_some());
}
