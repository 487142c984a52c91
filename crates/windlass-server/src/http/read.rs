//! Reading request bodies, with a limit on the size. The time limit is that of the request.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use windlass_api::{BoxError, Status};

use crate::budget::OverBudget;

/// A request body of any type.
pub(crate) type RequestBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

/// The maximum size of a body.
pub(crate) const LIMIT: usize = 3 << 20;

/// The reason for a missing body.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The request is answered with this status.
    Refused(Box<Status>),
    /// The body was not received completely. As in kube-apiserver, the answer is a status without kind in plain text.
    Incomplete,
}

impl From<Status> for ReadError {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// Reads the whole body. Returns an error if it is larger than [`LIMIT`].
///
/// The rest of a body that is too large stays unread, so the connection (or the HTTP/2 stream) cannot be used
/// afterwards.
pub(crate) async fn read(headers: &HeaderMap, mut body: RequestBody) -> Result<Bytes, ReadError> {
    let content_length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if content_length.is_some_and(|length| length > LIMIT as u64) {
        return Err(Status::too_large(LIMIT).into());
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| read_error(&error))?;
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

/// Returns the error for an incomplete or malformed body.
fn read_error(error: &BoxError) -> ReadError {
    if error.is::<OverBudget>() {
        return Status::too_many_requests("Too many requests, please try again later.", 1).into();
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
    while let Some(error) = cause {
        // hyper has no error type for this case.
        if error.to_string().contains("Invalid chunk size line") {
            return Status::unclassified("invalid byte in chunk length").into();
        }
        cause = error.source();
    }
    ReadError::Incomplete
}
