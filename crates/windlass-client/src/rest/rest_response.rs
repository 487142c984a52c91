//! A complete response of the server.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header, response::Parts};
use serde::de::DeserializeOwned;
use windlass_api::ListWatchError;

use crate::{Error, Result, codec, operation::Operation, response, warnings::Warning};

/// A successful response.
#[derive(Clone, Debug)]
pub struct RestResponse {
    operation: Operation,
    head: Parts,
    body: Bytes,
}

impl RestResponse {
    pub(super) const fn new(operation: Operation, head: Parts, body: Bytes) -> Self {
        Self { operation, head, body }
    }

    /// Decodes the object. A `Status` that reports a failure is returned as an error, whatever the status code.
    pub fn into<T: DeserializeOwned>(self) -> Result<T> {
        let decoded = match response::status_of(&self.body) {
            Some(status) if !status.is_success() => Err(status.into()),
            _ => codec::decode(&self.body).map_err(ListWatchError::Decode),
        };
        decoded.map_err(|error| Error::new(self.operation, error))
    }

    /// Returns the body.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// Returns the body as an owned value.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.body
    }

    /// Returns the status code.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Reports whether the request created an object.
    #[must_use]
    pub fn was_created(&self) -> bool {
        self.head.status == StatusCode::CREATED
    }

    /// Returns the headers.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Returns the `Content-Type` of the body, if the server sent one.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.head.headers.get(header::CONTENT_TYPE)?.to_str().ok()
    }

    /// Returns the warnings in the response. They have also been passed to the warning handler.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        Warning::all(&self.head.headers)
    }
}
