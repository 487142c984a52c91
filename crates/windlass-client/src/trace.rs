//! Spans of requests, with the names of OpenTelemetry's semantic conventions, and trace headers.
//!
//! # Guarantees
//!
//! - A call has one span, at the level DEBUG, whatever the number of its attempts. It ends with the response body, so
//!   the span of a watch covers its stream.
//! - Without a subscriber for these spans, no field is computed.
//! - Trace headers belong to the request's span, or to the current span if that one is disabled.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use http::{HeaderMap, Request, Response, Uri};
use tracing::{Level, Span, field::Empty};
use windlass_api::{BoxError, ErrorChain};

use crate::{
    body::Body,
    operation::{Operation, Verb},
};

/// Adds the trace context of a span to the headers of a request.
#[derive(Clone)]
pub(crate) struct TraceHeaders(Arc<dyn Fn(&Span, &mut HeaderMap) + Send + Sync>);

// === impl TraceHeaders ===

impl TraceHeaders {
    pub(crate) fn new(inject: impl Fn(&Span, &mut HeaderMap) + Send + Sync + 'static) -> Self {
        Self(Arc::new(inject))
    }

    /// Adds the headers of the request's span.
    pub(crate) fn inject(&self, span: &Span, headers: &mut HeaderMap) {
        if span.is_disabled() { (self.0)(&Span::current(), headers) } else { (self.0)(span, headers) }
    }
}

impl Debug for TraceHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceHeaders(..)")
    }
}

/// Returns the span of a request, or a disabled one.
pub(crate) fn request_span(operation: &Operation, request: &Request<Body>, server: Option<&Uri>) -> Span {
    if tracing::span_enabled!(Level::DEBUG) { enabled_span(operation, request, server) } else { Span::none() }
}

#[cold]
fn enabled_span(operation: &Operation, request: &Request<Body>, server: Option<&Uri>) -> Span {
    let (method, uri) = (request.method(), request.uri());
    let template = template(uri.path(), operation);
    // The name has a low cardinality, as the conventions require.
    let name = template.as_deref().map_or_else(|| method.to_string(), |template| format!("{method} {template}"));
    let full = server.map(|server| {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        format!("{}{path}", server.to_string().trim_end_matches('/'))
    });
    let port = server.and_then(|server| {
        let usual = if server.scheme_str() == Some("http") { 80 } else { 443 };
        server.host().map(|_| server.port_u16().unwrap_or(usual))
    });
    let resource = (operation.verb != Verb::Request).then_some(operation.resource.as_str());
    tracing::debug_span!(
        "request",
        otel.name = name,
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        http.request.method = method.as_str(),
        http.request.resend_count = Empty,
        http.response.status_code = Empty,
        http.response.body.size = Empty,
        url.full = full,
        url.template = template,
        server.address = server.and_then(Uri::host),
        server.port = port,
        k8s.request.verb = %operation.verb,
        k8s.resource.name = resource,
        k8s.subresource.name = operation.subresource,
        k8s.namespace.name = operation.namespace,
        k8s.object.name = operation.name,
    )
}

/// Records the response, or the error, of a request.
pub(crate) fn record(span: &Span, outcome: &Result<Response<Body>, BoxError>) {
    match outcome {
        Ok(response) => {
            let status = response.status();
            span.record("http.response.status_code", status.as_u16());
            if status.is_client_error() || status.is_server_error() {
                span.record("error.type", status.as_str());
                span.record("otel.status_code", "ERROR");
            }
        }
        Err(error) => {
            span.record("error.type", "transport");
            span.record("otel.status_code", "ERROR");
            span.record("otel.status_description", tracing::field::display(ErrorChain(&**error)));
        }
    }
}

/// Returns a body that holds the span until it has been read or dropped.
pub(crate) fn until_read(body: Body, span: Span) -> Body {
    body.counted(move |bytes| {
        span.record("http.response.body.size", bytes);
    })
}

/// Returns the path with placeholders for namespace and name. `None` for a request that the caller built.
fn template(path: &str, operation: &Operation) -> Option<String> {
    if operation.verb == Verb::Request {
        return None;
    }
    let mut template = String::with_capacity(path.len());
    let mut previous = "";
    let mut after_namespaces = false;
    for segment in path.split('/').skip(1) {
        template.push('/');
        template.push_str(if previous == "namespaces" && operation.namespace.is_some() && !after_namespaces {
            after_namespaces = true;
            "{namespace}"
        } else if operation.name.as_deref().is_some_and(|name| is_name(segment, name)) && !previous.is_empty() {
            "{name}"
        } else {
            segment
        });
        previous = segment;
    }
    Some(template)
}

/// Reports whether a segment of a path is a name. Names with characters that paths escape are rare.
fn is_name(segment: &str, name: &str) -> bool {
    segment == name || (segment.contains('%') && percent_encoding::percent_decode_str(segment).eq(name.bytes()))
}

#[cfg(test)]
mod tests;
