//! What a server has answered, whole.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header, response::Parts};
use serde::de::DeserializeOwned;
use windlass_api::{ListWatchError, from_json};

use crate::{Error, Result, error::Operation, response, warnings::Warning};

/// A success.
#[derive(Clone, Debug)]
pub struct Answer {
    operation: Operation,
    head: Parts,
    body: Bytes,
}

impl Answer {
    pub(super) const fn new(operation: Operation, head: Parts, body: Bytes) -> Self {
        Self { operation, head, body }
    }

    /// The object in it. A `Status` that tells of a failure is one, whatever the code of the answer.
    pub fn into<T: DeserializeOwned>(self) -> Result<T> {
        let decoded = match response::status_of(&self.body) {
            Some(status) if !status.is_success() => Err(status.into()),
            _ => from_json(&self.body).map_err(|error| ListWatchError::Decode(error.into())),
        };
        decoded.map_err(|error| Error::new(self.operation, error))
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// Its bytes, to keep.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.body
    }

    /// Its code.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Whether there is an object now that was not there before.
    #[must_use]
    pub fn was_created(&self) -> bool {
        self.head.status == StatusCode::CREATED
    }

    /// Its headers.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// What its bytes are, where it says so.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.head.headers.get(header::CONTENT_TYPE)?.to_str().ok()
    }

    /// The warnings that came with it. The handler has been told of them.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        Warning::all(&self.head.headers)
    }
}
