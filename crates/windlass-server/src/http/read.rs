//! Reading the body of a request: all of it, or an error before it is too much.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use tokio::time;
use windlass_api::{BoxError, Status};

use crate::server::OverBudget;

/// The body of a request, of whatever type it came in.
pub(crate) type RequestBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

/// No body may be larger.
pub(crate) const LIMIT: usize = 3 << 20;

/// How long a client may take to send it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why there is no body.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The answer to it.
    Refused(Box<Status>),
    /// It did not come, or stopped coming: the answer of the real server is a status without kind, as plain text.
    Incomplete,
}

impl From<Status> for ReadError {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// Reads the whole body, unless it is larger than [`LIMIT`] or does not come in time.
///
/// What is too large is left unread: the connection (or the stream, of HTTP/2) is of no use afterwards.
pub(crate) async fn read(headers: &HeaderMap, body: RequestBody) -> Result<Bytes, ReadError> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > LIMIT as u64) {
        return Err(Status::too_large(LIMIT).into());
    }
    time::timeout(PATIENCE, collect(body)).await.unwrap_or(Err(ReadError::Incomplete))
}

async fn collect(mut body: RequestBody) -> Result<Bytes, ReadError> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| refusal(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.remaining() > LIMIT {
            return Err(Status::too_large(LIMIT).into());
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

/// What becomes of a body that breaks off, or is malformed.
fn refusal(error: &BoxError) -> ReadError {
    if error.is::<OverBudget>() {
        return Status::too_many_requests("Too many requests, please try again later.", 1).into();
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
    while let Some(error) = cause {
        // The transport has no type of its own for it.
        if error.to_string().contains("Invalid chunk size line") {
            return Status::unclassified("invalid byte in chunk length").into();
        }
        cause = error.source();
    }
    ReadError::Incomplete
}
