//! Decoding of responses into objects or a [`Status`].
//!
//! The size of bodies that are read whole is limited. A failure without a `Status`, such as the error page of a proxy
//! or load balancer, is converted to one. It is derived from the HTTP status code, with the text as its cause.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Response, StatusCode, header};
use http_body_util::BodyExt;
use serde::{Deserialize, de::DeserializeOwned};
use thiserror::Error;
use windlass_api::{Cause, ListWatchError, Status, StatusDetails, reason};

use crate::{
    body::Body,
    codec,
    operation::{Operation, Verb},
    transcoded::body_error,
};

/// The default maximum size of a response that is read whole. Servers reject objects of a twentieth of this size.
pub(crate) const RESPONSE_LIMIT: usize = 64 << 20;
/// The maximum size of an error body. A `Status` with many causes has a few kilobytes.
const ERROR_LIMIT: usize = 1 << 20;
/// The number of bytes retained of an error body that is not a `Status`.
const EXCERPT: usize = 2048;
/// The message for a failure whose body is not text.
const UNKNOWN: &str = "unknown";

/// The error for a body that exceeds the size limit.
#[derive(Debug, Error)]
#[error("the answer is larger than {limit} bytes")]
pub(crate) struct TooLarge {
    pub(crate) limit: usize,
}

/// Returns the response if it is a success, or else the server's error.
pub(crate) async fn check(
    response: Response<Body>,
    method: &Method,
    operation: &Operation,
) -> Result<Response<Body>, ListWatchError> {
    if response.status().is_success() {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    let retry_after = retry_after(&head.headers);
    // The part of the body received before a broken connection or the limit is still useful.
    let (body, _) = collect_prefix(body, ERROR_LIMIT).await;
    let mut status = match status_of(&body) {
        Some(status) => status,
        None => synthesize(head.status, method, operation, &body),
    };
    if status.code == 0 {
        status.code = head.status.as_u16();
    }
    if let Some(seconds) = retry_after {
        let details = status.details.get_or_insert_default();
        if details.retry_after_seconds == 0 {
            details.retry_after_seconds = seconds;
        }
    }
    Err(status.into())
}

/// Reads the whole body.
pub(crate) async fn collect(body: Body, limit: usize) -> Result<Bytes, ListWatchError> {
    match collect_prefix(body, limit).await {
        (bytes, None) => Ok(bytes),
        (_, Some(error)) => Err(error),
    }
}

/// Decodes the object in a body.
pub(crate) async fn decode<T: DeserializeOwned>(response: Response<Body>, limit: usize) -> Result<T, ListWatchError> {
    let body = collect(response.into_body(), limit).await?;
    codec::decode(&body).map_err(ListWatchError::Decode)
}

/// Decodes a body as a `Status`. Returns `None` if it is anything else.
pub(crate) fn status_of(body: &[u8]) -> Option<Status> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind {
        kind: String,
        #[serde(default)]
        api_version: String,
    }
    if windlass_protobuf::is_protobuf(body) {
        let is_status = windlass_protobuf::type_of(body).is_ok_and(|(_, kind)| kind == "Status");
        return is_status.then(|| windlass_protobuf::decode(body).ok()).flatten();
    }
    if windlass_cbor::is_cbor(body) {
        return status_of(&windlass_cbor::to_json(body).ok()?);
    }
    let kind: Kind = serde_json::from_slice(body).ok()?;
    if kind.kind != "Status" || !matches!(kind.api_version.as_str(), "v1" | "") {
        return None;
    }
    serde_json::from_slice(body).ok()
}

/// Reads a body up to the limit. Returns the bytes read and the error that stopped it, if any.
async fn collect_prefix(mut body: Body, limit: usize) -> (Bytes, Option<ListWatchError>) {
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    let whole = |first: Bytes, mut more: BytesMut| if more.is_empty() { first } else { more.split().freeze() };
    while let Some(frame) = body.frame().await {
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) => return (whole(first, more), Some(body_error(error))),
        };
        if first.len().max(more.len()) + data.len() > limit {
            return (whole(first, more), Some(ListWatchError::Decode(TooLarge { limit }.into())));
        }
        // Most bodies are a single frame and need no copy.
        if first.is_empty() {
            first = data;
        } else {
            if more.is_empty() {
                more.extend_from_slice(&first);
            }
            more.extend_from_slice(&data);
        }
    }
    (whole(first, more), None)
}

fn synthesize(code: StatusCode, method: &Method, operation: &Operation, body: &[u8]) -> Status {
    let text = excerpt(body);
    let said = |otherwise: &str| if text.is_empty() || text == UNKNOWN { otherwise } else { &text }.to_owned();
    let (reason, message) = match code.as_u16() {
        400 => (reason::BAD_REQUEST, "the server rejected the request and did not say why".to_owned()),
        401 => (reason::UNAUTHORIZED, "the server asks for other credentials".to_owned()),
        403 => (reason::FORBIDDEN, said("the server does not allow this")),
        404 => (reason::NOT_FOUND, "the server could not find the requested resource".to_owned()),
        405 => (reason::METHOD_NOT_ALLOWED, "the server does not allow this method on the resource".to_owned()),
        406 => (reason::NOT_ACCEPTABLE, said("the server cannot answer in a format that this client reads")),
        409 if *method == Method::POST => (reason::ALREADY_EXISTS, "the server reported a conflict".to_owned()),
        409 => (reason::CONFLICT, "the server reported a conflict".to_owned()),
        410 => (reason::GONE, said("what was asked for is gone")),
        413 => (reason::REQUEST_ENTITY_TOO_LARGE, said("the request is too large for the server")),
        415 => (reason::UNSUPPORTED_MEDIA_TYPE, said("the server does not read this format")),
        422 => (reason::INVALID, "the server rejected the object".to_owned()),
        429 => (reason::TOO_MANY_REQUESTS, "the server has too many requests and asks to try again later".to_owned()),
        503 => (reason::SERVICE_UNAVAILABLE, "the server cannot handle the request at present".to_owned()),
        504 => (reason::TIMEOUT, "the server did not answer in time, and may still be at it".to_owned()),
        500.. => (reason::INTERNAL_ERROR, format!("the server failed ({text:?}) and did not carry out the request")),
        other => ("", format!("the server answered with status code {other} and nothing more")),
    };
    // For a request by path, the path alone identifies the target.
    let resource = if operation.verb == Verb::Request { "" } else { &operation.resource };
    let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
    let details = StatusDetails {
        name: operation.name.clone().unwrap_or_default(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        causes: vec![Cause {
            reason: reason::UNEXPECTED_SERVER_RESPONSE.to_owned(),
            message: text,
            field: String::new(),
        }],
        ..StatusDetails::default()
    };
    Status::failure(code.as_u16(), reason, message).with_details(details)
}

/// Returns the start of a text, or [`UNKNOWN`] if the body is not text.
fn excerpt(body: &[u8]) -> String {
    let body = &body[..body.len().min(EXCERPT)];
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        // Keep the text before a character that is cut in two at the end.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&body[..error.valid_up_to()]).unwrap_or(UNKNOWN)
        }
        Err(_) => UNKNOWN,
    };
    text.trim().to_owned()
}

/// Parses `Retry-After` as seconds. Kubernetes API servers do not send dates.
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
