//! What stands behind a path.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{StatusCode, request::Parts};
use serde_json::Value;

use crate::{body::Refused, metrics::WebhookMetrics};

/// Answers the documents that are sent to one path.
pub(crate) trait Endpoint: Send + Sync {
    /// The most bytes that a document may have.
    fn limit(&self) -> usize;

    /// The answer to what could not be read.
    fn refuse(&self, refused: &Refused) -> Answer;

    /// The answer to a document.
    fn answer<'a>(
        &'a self,
        http: Parts,
        document: Value,
        metrics: &'a dyn WebhookMetrics,
    ) -> BoxFuture<'a, Result<Answer, Refused>>;
}

/// An answer in the terms of HTTP.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    /// JSON, or empty.
    pub(crate) body: Bytes,
}

impl Answer {
    /// A document. What it says may well be no.
    pub(crate) fn ok(document: Value) -> Self {
        Self { code: StatusCode::OK, body: document.to_string().into() }
    }

    /// A code without a document.
    pub(crate) fn failure(code: u16) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { code, body: Bytes::new() }
    }
}
