//! Failed requests, and their responses.

use http::{HeaderValue, Response, StatusCode, header};
use windlass_api::Status;

use super::{body::Body, media::ErrorEncoding, read::ReadError, respond};
use crate::{codec::go_quote, request::InvalidPath};

/// The response to a request that takes too long. The status has no kind and is sent as plain text.
const TIMED_OUT: &str = concat!(
    r#"{"metadata":{},"status":"Failure","#,
    r#""message":"Timeout: request did not complete within the allotted timeout","#,
    r#""reason":"Timeout","details":{},"code":504}"#,
    "\n"
);

/// The reason for a failed request.
#[derive(Debug)]
pub(crate) enum Failure {
    Status(Status),
    /// Authentication or authorization failed.
    Unauthorized(Status),
    /// The path does not exist. Answered in plain text.
    NotFound,
    /// The time limit has passed. Also the answer to an incomplete body.
    TimedOut,
    /// The request cannot be processed. Answered in plain text.
    Internal {
        target: String,
        why: String,
    },
    /// The path contains an invalid escape.
    Malformed,
    /// Too many requests run or wait.
    Overload {
        /// The seconds after which the client should try again.
        retry_after: u64,
    },
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused(status) => Self::Status(*status),
            ReadError::Incomplete => Self::TimedOut,
        }
    }
}

impl From<InvalidPath> for Failure {
    fn from(error: InvalidPath) -> Self {
        let why =
            format!("failed to create RequestInfo: unable to determine kind and namespace from url, {}", error.path);
        Self::Internal { target: error.path, why }
    }
}

impl Failure {
    pub(super) fn code(&self) -> u16 {
        match self {
            Self::Status(status) | Self::Unauthorized(status) => status.code,
            Self::NotFound => 404,
            Self::Malformed => 400,
            Self::Overload { .. } => 429,
            Self::TimedOut => 504,
            Self::Internal { .. } => 500,
        }
    }

    /// Returns the status in the response, if its encoding could be negotiated. The audit log contains no other.
    pub(super) fn negotiated(&self, encoding: ErrorEncoding) -> Option<&Status> {
        match (self, encoding) {
            (Self::Status(status) | Self::Unauthorized(status), ErrorEncoding::As(_)) => Some(status),
            _ => None,
        }
    }

    pub(super) fn response(&self, encoding: ErrorEncoding) -> Response<Body> {
        match self {
            Self::Status(status) => respond::status(status, encoding),
            Self::Unauthorized(status) => respond::unauthorized(status, encoding),
            Self::NotFound => respond::text(StatusCode::NOT_FOUND, "404 page not found\n"),
            Self::Malformed => respond::text(StatusCode::BAD_REQUEST, "400 Bad Request"),
            Self::Overload { retry_after } => {
                let mut response = too_many_requests();
                response.headers_mut().insert(header::RETRY_AFTER, (*retry_after).into());
                response
            }
            Self::TimedOut => respond::respond(StatusCode::GATEWAY_TIMEOUT, respond::TEXT, Body::whole(TIMED_OUT)),
            Self::Internal { target, why } => {
                let message = format!("Internal Server Error: {}: {why}\n", go_quote(target));
                // As in kube-apiserver, the text must not look like HTML.
                let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                respond::text(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
        }
    }
}

/// Returns kube-apiserver's response to a client that must read its responses or wait before it sends another request.
pub(crate) fn too_many_requests() -> Response<Body> {
    let mut response = respond::text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
