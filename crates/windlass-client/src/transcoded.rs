//! Responses in CBOR, converted to JSON while they arrive. Everything above this module reads JSON: the splitting into objects,
//! caches, indexes, views and decoding.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::{Body as _, Frame};
use windlass_api::{BoxError, ListWatchError};
use windlass_cbor::{Decoder, Error, MEDIA_TYPE, Problem, SEQUENCE_MEDIA_TYPE};

use crate::body::Body;

/// A body in CBOR as a body in JSON. A watch has one event per line.
struct TranscodedBody {
    /// `None` after the end, with or without an error.
    body: Option<Body>,
    decoder: Decoder,
}

/// Converts a response to JSON if it is CBOR. Another response is returned as it is.
pub(crate) fn to_json(response: Response<Body>) -> Response<Body> {
    let Some(decoder) = decoder_for(response.headers()) else { return response };
    let mut response = response.map(|body| Body::wrap(TranscodedBody { body: Some(body), decoder }));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(header::CONTENT_LENGTH);
    response
}

/// Returns the error of a body that could not be read: malformed data, or a broken connection.
pub(crate) fn body_error(error: BoxError) -> ListWatchError {
    match error.downcast_ref() {
        // The connection was lost without an error from the transport.
        None | Some(Error::Cbor { problem: Problem::Truncated, .. }) => ListWatchError::Transport(error),
        Some(_) => ListWatchError::Decode(error),
    }
}

fn decoder_for(headers: &HeaderMap) -> Option<Decoder> {
    let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let media_type = content_type.split(';').next()?.trim();
    if media_type.eq_ignore_ascii_case(MEDIA_TYPE) {
        return Some(Decoder::document());
    }
    media_type.eq_ignore_ascii_case(SEQUENCE_MEDIA_TYPE).then(Decoder::sequence)
}

impl TranscodedBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            let Some(frame) = ready!(Pin::new(body).poll_frame(cx)) else {
                self.body = None;
                return Poll::Ready(self.decoder.finish().err().map(|error| Err(error.into())));
            };
            let Ok(chunk) = frame?.into_data() else { continue };
            let mut json = Vec::with_capacity(chunk.len() + chunk.len() / 4);
            self.decoder.push(&chunk, &mut json)?;
            if !json.is_empty() {
                return Poll::Ready(Some(Ok(json.into())));
            }
        }
    }
}

impl http_body::Body for TranscodedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let chunk = ready!(self.poll_chunk(cx));
        if matches!(chunk, Some(Err(_))) {
            self.body = None;
        }
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }
}
