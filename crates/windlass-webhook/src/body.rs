//! Reading of request bodies with limits, because any client can connect to the port.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, header::CONTENT_TYPE};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;
use tokio::time::timeout;
use windlass_api::BoxError;

/// The time limit for sending a body: the longest timeout of a webhook.
const PATIENCE: Duration = Duration::from_secs(30);

/// The reason why a call is rejected before its content is handled.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error("method={0}, expected POST")]
    Method(Method),
    #[error("request body is empty")]
    Empty,
    #[error("{0}")]
    Unreadable(BoxError),
    #[error("request entity is too large; limit is {limit} bytes")]
    TooLarge { limit: usize },
    #[error("contentType={0}, expected application/json")]
    ContentType(String),
    #[error("{0}")]
    Undecodable(String),
}

impl RequestError {
    /// Returns the HTTP status code.
    pub(crate) const fn code(&self) -> u16 {
        match self {
            Self::Method(_) => 405,
            Self::TooLarge { .. } => 413,
            Self::Empty | Self::Unreadable(_) | Self::ContentType(_) | Self::Undecodable(_) => 400,
        }
    }

    pub(crate) fn undecodable(error: impl ToString) -> Self {
        Self::Undecodable(error.to_string())
    }
}

/// Reads a JSON document of at most `limit` bytes.
pub(crate) async fn read<B>(method: &Method, headers: &HeaderMap, body: B, limit: usize) -> Result<Value, RequestError>
where
    B: Body<Error: Into<BoxError>>,
{
    if method != Method::POST {
        return Err(RequestError::Method(method.clone()));
    }
    let collected = timeout(PATIENCE, Limited::new(body, limit).collect()).await;
    let bytes = match collected.unwrap_or_else(|_| Err(format!("the body did not arrive within {PATIENCE:?}").into())) {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(RequestError::TooLarge { limit }),
        Err(error) => return Err(RequestError::Unreadable(error)),
    };
    if bytes.is_empty() {
        return Err(RequestError::Empty);
    }
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    if content_type != b"application/json" {
        return Err(RequestError::ContentType(String::from_utf8_lossy(content_type).into_owned()));
    }
    document(&bytes)
}

/// Decodes a part of a document. The error names the invalid field: `spec.replicas: invalid type: …`.
pub(crate) fn from_value<T: DeserializeOwned>(
    value: &Value,
) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    serde_path_to_error::deserialize(value)
}

fn document(bytes: &Bytes) -> Result<Value, RequestError> {
    serde_json::from_slice(bytes).map_err(RequestError::undecodable)
}
