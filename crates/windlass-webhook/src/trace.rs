//! Spans of calls, with the names of OpenTelemetry's semantic conventions, and their parents.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use http::{HeaderMap, request::Parts};
use serde_json::Value;
use tracing::{Level, Span, field::Empty};

use crate::WebhookPath;

/// Sets the parent of a call's span from the headers of its request.
#[derive(Clone)]
pub(crate) struct TraceParent(Arc<dyn Fn(&Span, &HeaderMap) + Send + Sync>);

impl TraceParent {
    pub(crate) fn new(extract: impl Fn(&Span, &HeaderMap) + Send + Sync + 'static) -> Self {
        Self(Arc::new(extract))
    }
}

impl Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceParent(..)")
    }
}

/// Returns the span of a call at the level DEBUG, or a disabled one. Then no field is computed.
pub(crate) fn call_span(path: &WebhookPath, parts: &Parts, parent: Option<&TraceParent>) -> Span {
    if !tracing::span_enabled!(Level::DEBUG) {
        return Span::none();
    }
    let span = tracing::debug_span!(
        "webhook",
        otel.name = format!("{} {path}", parts.method),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = parts.method.as_str(),
        http.response.status_code = Empty,
        http.route = %path,
        url.path = parts.uri.path(),
        k8s.admission.uid = Empty,
        k8s.admission.operation = Empty,
        k8s.resource.name = Empty,
        k8s.namespace.name = Empty,
        k8s.object.name = Empty,
    );
    if let Some(TraceParent(extract)) = parent {
        extract(&span, &parts.headers);
    }
    span
}

/// Records the object of an admission review in the span of its call.
pub(crate) fn record_review(span: &Span, document: &Value) {
    if span.is_disabled() {
        return;
    }
    let fields = [
        ("k8s.admission.uid", "/request/uid"),
        ("k8s.admission.operation", "/request/operation"),
        ("k8s.resource.name", "/request/resource/resource"),
        ("k8s.namespace.name", "/request/namespace"),
        ("k8s.object.name", "/request/name"),
    ];
    for (field, pointer) in fields {
        if let Some(value) = document.pointer(pointer).and_then(Value::as_str).filter(|value| !value.is_empty()) {
            span.record(field, value);
        }
    }
}

/// Records the status of a response.
pub(crate) fn record_status(span: &Span, code: u16) {
    span.record("http.response.status_code", code);
    if code >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

#[cfg(test)]
mod tests;
