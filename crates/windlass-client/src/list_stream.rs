//! A list response as a stream of its objects.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::Stream;
use http::Response;
use http_body::Body as _;
use windlass_api::{ListItem, ListMeta, ListWatchError};

use crate::{
    body::Body,
    frame::{FrameError, ListDecoder, ProtobufListDecoder},
    negotiation::is_protobuf,
    transcoded::body_error,
};

/// Yields each object as it arrives, then [`ListItem::End`] once. The stream ends after an error, except for
/// [`ListWatchError::Oversize`], which stands for one object and is followed by the next.
///
/// Dropping it cancels the request.
#[derive(Debug)]
pub(crate) struct ListStream {
    /// The response body. `None` once the list has ended, with or without an error.
    body: Option<Body>,
    decoder: Decoder,
}

/// The decoder of the response's encoding. Boxed, because a stream has only one.
#[derive(Debug)]
enum Decoder {
    Json(Box<ListDecoder>),
    Protobuf(Box<ProtobufListDecoder>),
}

impl ListStream {
    /// Creates a stream of a response in any encoding. An object of more than `limit` bytes is replaced by an error.
    pub(crate) fn new(response: Response<Body>, limit: usize) -> Self {
        let decoder = if is_protobuf(response.headers()) {
            Decoder::Protobuf(Box::new(ProtobufListDecoder::new(limit)))
        } else {
            Decoder::Json(Box::new(ListDecoder::new(limit)))
        };
        Self { body: Some(response.into_body()), decoder }
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ListItem>, ListWatchError>> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(Ok(None)) };
            if let Some(item) = self.decoder.next_item()? {
                return Poll::Ready(Ok(Some(ListItem::Object(item))));
            }
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => self.decoder.push(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Poll::Ready(Err(body_error(error))),
                None => {
                    let meta = self.decoder.finish()?;
                    self.body = None;
                    return Poll::Ready(Ok(Some(ListItem::End(meta))));
                }
            }
        }
    }
}

impl Decoder {
    fn push(&mut self, chunk: Bytes) {
        match self {
            Self::Json(decoder) => decoder.push(chunk),
            Self::Protobuf(decoder) => decoder.push(chunk),
        }
    }

    fn next_item(&mut self) -> Result<Option<Bytes>, FrameError> {
        match self {
            Self::Json(decoder) => decoder.next_item(),
            Self::Protobuf(decoder) => decoder.next_item(),
        }
    }

    fn finish(&mut self) -> Result<ListMeta, FrameError> {
        match self {
            Self::Json(decoder) => decoder.finish(),
            Self::Protobuf(decoder) => decoder.finish(),
        }
    }
}

impl Stream for ListStream {
    type Item = Result<ListItem, ListWatchError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let outcome = ready!(self.poll_item(cx));
        if outcome.as_ref().is_err_and(|error| !matches!(error, ListWatchError::Oversize(_))) {
            self.body = None;
        }
        Poll::Ready(outcome.transpose())
    }
}
