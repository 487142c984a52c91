//! Endpoints: the handlers of paths.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{StatusCode, request::Parts};
use serde_json::Value;

use crate::{body::RequestError, metrics::WebhookMetrics};

/// Handles the documents sent to one path.
pub(crate) trait Endpoint: Send + Sync {
    /// Returns the maximum size of a document in bytes.
    fn limit(&self) -> usize;

    /// Returns the response to an unreadable request.
    fn refuse(&self, refused: &RequestError) -> Answer;

    /// Returns the response to a document.
    fn answer<'a>(
        &'a self,
        http: Parts,
        document: Value,
        metrics: &'a dyn WebhookMetrics,
    ) -> BoxFuture<'a, Result<Answer, RequestError>>;
}

/// An HTTP response.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    /// The JSON body, or an empty body.
    pub(crate) body: Bytes,
}

impl Answer {
    /// Creates a response with a document and status 200. The document may contain a denial.
    pub(crate) fn ok(document: Value) -> Self {
        Self { code: StatusCode::OK, body: document.to_string().into() }
    }

    /// Creates a response with a status code and no document.
    pub(crate) fn failure(code: u16) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { code, body: Bytes::new() }
    }
}
