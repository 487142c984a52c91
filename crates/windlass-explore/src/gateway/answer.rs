//! The answer to a request: a response, a closed connection, or nothing.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use windlass_api::{BoxError, GroupResource, Status, StatusDetails};

use super::call::Call;
use crate::plan::Refusal;

/// The body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The answer to a request.
pub(crate) enum Answer {
    Response(Response<Body>),
    /// The connection is closed without a response.
    Lost,
    /// There is no response, and the connection stays open.
    Never,
}

/// Wraps a body of any type.
pub(crate) fn body<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    body.map_err(Into::into).boxed_unsync()
}

/// Returns a body of JSON bytes.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    body(Full::new(bytes.into()))
}

/// Returns the response with a status.
pub(crate) fn failure(status: &Status) -> Response<Body> {
    let bytes = serde_json::to_vec(status).expect("a status is always valid JSON");
    let mut response = json(bytes);
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(seconds) =
        status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Returns a successful response.
pub(crate) fn json(bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(whole(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns the status with which kube-apiserver refuses a write.
pub(crate) fn refusal(refusal: Refusal, call: &Call, name: &str) -> Status {
    match refusal {
        Refusal::Conflict => Status::modified(&GroupResource::new(call.group.clone(), call.plural.clone()), name),
        Refusal::TooManyRequests => Status::too_many_requests("Too many requests, please try again later.", 1),
        Refusal::InternalError => Status::internal("etcdserver: leader changed"),
        Refusal::GatewayTimeout => {
            let why = "Timeout: request did not complete within requested timeout - context deadline exceeded";
            Status::failure(504, "Timeout", why).with_details(StatusDetails::default())
        }
    }
}
