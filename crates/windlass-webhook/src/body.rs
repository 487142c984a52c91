//! The body of a call, read with care: whoever reaches the port may send anything.

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

/// How long a caller may take to send a body: the longest timeout of a webhook.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a call is refused before anybody looks at what it says.
#[derive(Debug, Error)]
pub(crate) enum Refused {
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

impl Refused {
    /// What HTTP calls it.
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
pub(crate) async fn read<B>(method: &Method, headers: &HeaderMap, body: B, limit: usize) -> Result<Value, Refused>
where
    B: Body<Error: Into<BoxError>>,
{
    if method != Method::POST {
        return Err(Refused::Method(method.clone()));
    }
    let collected = timeout(PATIENCE, Limited::new(body, limit).collect()).await;
    let bytes = match collected.unwrap_or_else(|_| Err(format!("no whole body within {PATIENCE:?}").into())) {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(Refused::TooLarge { limit }),
        Err(error) => return Err(Refused::Unreadable(error)),
    };
    if bytes.is_empty() {
        return Err(Refused::Empty);
    }
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    if content_type != b"application/json" {
        return Err(Refused::ContentType(String::from_utf8_lossy(content_type).into_owned()));
    }
    document(&bytes)
}

/// A part of a document as its type; the error says which field is none: `spec.replicas: invalid type: …`.
pub(crate) fn from_value<T: DeserializeOwned>(
    value: &Value,
) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    serde_path_to_error::deserialize(value)
}

fn document(bytes: &Bytes) -> Result<Value, Refused> {
    serde_json::from_slice(bytes).map_err(Refused::undecodable)
}
