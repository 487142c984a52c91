//! The webhooks of a program, by path.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
    request::Parts,
};
use http_body::Body;
use http_body_util::Full;
use thiserror::Error;
use tracing::{Instrument as _, Span};
use windlass_api::{ApiResource, BoxError, GroupKind, Resource};

use crate::{
    WebhookPath,
    admission::{Admission, Handler, Mutating, Mutator, Validating, Validator},
    body::{RequestError, read},
    conversion::{Conversions, Converter, Hub},
    endpoint::Endpoint,
    metrics::{Call, NoMetrics, WebhookMetrics},
    reviews::{Access, Authenticator, Authorizer, Tokens},
    trace::{self, TraceParent},
};

/// The webhooks of a program. Cheap to clone.
///
/// [`Server`](crate::Server) serves them. With your own HTTP server, call [`Self::answer`].
#[derive(Clone)]
pub struct Webhooks {
    inner: Arc<Inner>,
    /// `None`: the spans of calls have no parent.
    trace_parent: Option<TraceParent>,
}

struct Inner {
    endpoints: BTreeMap<WebhookPath, Box<dyn Endpoint>>,
    metrics: Arc<dyn WebhookMetrics>,
}

/// Builds [`Webhooks`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct WebhooksBuilder {
    endpoints: BTreeMap<WebhookPath, Box<dyn Endpoint>>,
    conversions: Conversions,
    metrics: Arc<dyn WebhookMetrics>,
    /// The first error.
    error: Option<RegisterError>,
}

/// The reason why webhooks cannot be combined.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Two webhooks have the same path. Combine them with [`Chain`](crate::admission::Chain).
    #[error("two webhooks have the path {0}")]
    DuplicatePath(WebhookPath),
    /// Two converters have the same kind.
    #[error("{0} has two converters")]
    DuplicateConverter(GroupKind),
    /// The kind of a spoke differs from its hub's, or two spokes have the same version.
    #[error("{} cannot be another version of {kind}", spoke.gvk())]
    Spoke {
        /// The kind of the hub.
        kind: GroupKind,
        /// The resource of the spoke.
        spoke: Box<ApiResource>,
    },
}

impl Webhooks {
    /// Returns a builder of webhooks.
    pub fn builder() -> WebhooksBuilder {
        WebhooksBuilder {
            endpoints: BTreeMap::new(),
            conversions: Conversions::default(),
            metrics: Arc::new(NoMetrics),
            error: None,
        }
    }

    /// Returns the paths of all webhooks.
    pub fn paths(&self) -> impl Iterator<Item = &WebhookPath> {
        self.inner.endpoints.keys()
    }

    /// Sets the function that makes the span of a call a child of the trace in the request's headers, such as
    /// `traceparent`. It is called before the span is entered, and not at all if spans at the level DEBUG are disabled.
    #[must_use]
    pub fn with_trace_parent(self, extract: impl Fn(&tracing::Span, &HeaderMap) + Send + Sync + 'static) -> Self {
        Self { trace_parent: Some(TraceParent::new(extract)), ..self }
    }

    /// Answers an HTTP request. Use it with your own HTTP server, or in tests without a server.
    ///
    /// An unknown path is answered with 404, a method other than POST with 405.
    pub async fn answer<B>(&self, request: http::Request<B>) -> http::Response<Full<Bytes>>
    where
        B: Body<Error: Into<BoxError>>,
    {
        let (parts, body) = request.into_parts();
        let found = self.inner.endpoints.iter().find(|(path, _)| path.as_str() == parts.uri.path());
        let Some((path, endpoint)) = found else { return response(StatusCode::NOT_FOUND, Bytes::new()) };
        let span = trace::call_span(path, &parts, self.trace_parent.as_ref());
        let answer = self.answer_at(path, &**endpoint, parts, body, &span).instrument(span.clone()).await;
        trace::record_status(&span, answer.status().as_u16());
        answer
    }

    async fn answer_at<B>(
        &self,
        path: &WebhookPath,
        endpoint: &dyn Endpoint,
        parts: Parts,
        body: B,
        span: &Span,
    ) -> http::Response<Full<Bytes>>
    where
        B: Body<Error: Into<BoxError>>,
    {
        let inner = &self.inner;
        let call = Call::begin(&inner.metrics, path);
        let answered = match read(&parts.method, &parts.headers, body, endpoint.limit()).await {
            Ok(document) => {
                trace::record_review(span, &document);
                endpoint.answer(parts, document, &*inner.metrics).await
            }
            Err(refused) => Err(refused),
        };
        let answer = match answered {
            Ok(answer) => response(answer.code, answer.body),
            Err(refused) => {
                tracing::warn!(%path, %refused, "rejected a webhook call");
                if let RequestError::Method(_) = refused {
                    let mut answer = response(StatusCode::METHOD_NOT_ALLOWED, Bytes::new());
                    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
                    answer
                } else {
                    let answer = endpoint.refuse(&refused);
                    response(answer.code, answer.body)
                }
            }
        };
        call.answered(answer.status().as_u16());
        answer
    }

    pub(crate) fn metrics(&self) -> &Arc<dyn WebhookMetrics> {
        &self.inner.metrics
    }
}

impl WebhooksBuilder {
    /// Adds a mutator for objects of a kind, at [`WebhookPath::mutate`].
    pub fn mutator<K: Resource, M: Mutator<K>>(self, mutator: M) -> Self {
        self.handler(WebhookPath::mutate(&K::api_resource()), Mutating::new(mutator))
    }

    /// Adds a validator for objects of a kind, at [`WebhookPath::validate`].
    pub fn validator<K: Resource, V: Validator<K>>(self, validator: V) -> Self {
        self.handler(WebhookPath::validate(&K::api_resource()), Validating::new(validator))
    }

    /// Adds a handler of admission requests at a custom path.
    pub fn handler(self, path: WebhookPath, handler: impl Handler) -> Self {
        self.endpoint(path, Admission(Box::new(handler)))
    }

    /// Adds the conversion between the versions of a kind, at [`WebhookPath::convert`].
    pub fn conversion<H: Resource>(self, mut hub: Hub<H>) -> Self {
        if let Some(spoke) = hub.misplaced.pop() {
            return self.refuse(RegisterError::Spoke { kind: Hub::<H>::kind(), spoke: Box::new(spoke) });
        }
        self.converter(Hub::<H>::kind(), hub)
    }

    /// Adds an untyped converter for a kind, at [`WebhookPath::convert`].
    pub fn converter(mut self, kind: GroupKind, converter: impl Converter) -> Self {
        match self.conversions.0.insert(kind.clone(), Box::new(converter)) {
            None => self,
            Some(_) => self.refuse(RegisterError::DuplicateConverter(kind)),
        }
    }

    /// Adds an authenticator at a path.
    pub fn authenticator(self, path: WebhookPath, authenticator: impl Authenticator) -> Self {
        self.endpoint(path, Tokens(Box::new(authenticator)))
    }

    /// Adds an authorizer at a path.
    pub fn authorizer(self, path: WebhookPath, authorizer: impl Authorizer) -> Self {
        self.endpoint(path, Access(Box::new(authorizer)))
    }

    /// Sets the receiver of metrics. Defaults to none.
    pub fn metrics(mut self, metrics: impl WebhookMetrics) -> Self {
        self.metrics = Arc::new(metrics);
        self
    }

    /// Creates the webhooks. Returns an error if two of them conflict.
    pub fn build(mut self) -> Result<Webhooks, RegisterError> {
        if !self.conversions.0.is_empty() {
            let conversions = std::mem::take(&mut self.conversions);
            self = self.endpoint(WebhookPath::convert(), conversions);
        }
        let Self { endpoints, metrics, error, .. } = self;
        if let Some(error) = error {
            return Err(error);
        }
        for path in endpoints.keys() {
            metrics.registered(path);
        }
        Ok(Webhooks { inner: Arc::new(Inner { endpoints, metrics }), trace_parent: None })
    }

    fn endpoint(mut self, path: WebhookPath, endpoint: impl Endpoint + 'static) -> Self {
        match self.endpoints.entry(path) {
            Entry::Vacant(entry) => {
                entry.insert(Box::new(endpoint));
                self
            }
            Entry::Occupied(entry) => {
                let error = RegisterError::DuplicatePath(entry.key().clone());
                self.refuse(error)
            }
        }
    }

    fn refuse(mut self, error: RegisterError) -> Self {
        self.error.get_or_insert(error);
        self
    }
}

fn response(code: StatusCode, body: Bytes) -> http::Response<Full<Bytes>> {
    let json = !body.is_empty();
    let mut response = http::Response::new(Full::new(body));
    *response.status_mut() = code;
    if json {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Webhooks").field(&self.inner.endpoints.keys()).finish()
    }
}

impl fmt::Debug for WebhooksBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebhooksBuilder").field(&self.endpoints.keys()).finish()
    }
}
