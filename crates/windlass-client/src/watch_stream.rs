//! A watch response as a stream of its events: encoded ([`RawWatchStream`]) or decoded ([`WatchEvent`]).

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::Stream;
use http::Response;
use http_body::Body as _;
use serde::de::DeserializeOwned;
use windlass_api::{EventType, ListWatchError, Object, PartialObject, RawEvent, ResourceVersion, Status};

use crate::{
    body::Body,
    codec,
    frame::{FrameError, ProtobufWatchDecoder, WatchDecoder},
    negotiation::is_protobuf,
    transcoded::body_error,
};

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An event of a watch, with the object decoded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchEvent<K> {
    /// The object was created or started to match the selectors.
    Added(K),
    /// The object was changed.
    Modified(K),
    /// The object was deleted or no longer matches the selectors. Contains its last state.
    Deleted(K),
    /// A bookmark: no other events occurred up to this resource version.
    Bookmark(Bookmark),
}

/// A resource version from which a watch can resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// The resource version.
    pub resource_version: ResourceVersion,
    /// `true` if this bookmark ends the initial events.
    pub initial_events_end: bool,
}

/// Yields each event as it arrives. The stream ends after an error or an event of type [`EventType::Error`]. The
/// exception is [`ListWatchError::Oversize`], which stands for one event and is followed by the next.
///
/// Dropping it cancels the request.
#[derive(Debug)]
pub(crate) struct RawWatchStream {
    /// The response body. `None` once the watch has ended, with or without an error.
    body: Option<Body>,
    decoder: Decoder,
}

/// The decoder of the response's encoding. Boxed, because a stream has only one.
#[derive(Debug)]
enum Decoder {
    Json(Box<WatchDecoder>),
    Protobuf(Box<ProtobufWatchDecoder>),
}

impl RawWatchStream {
    /// Creates a stream of a response in any encoding. An event of more than `limit` bytes is replaced by an error.
    pub(crate) fn new(response: Response<Body>, limit: usize) -> Self {
        let decoder = if is_protobuf(response.headers()) {
            Decoder::Protobuf(Box::new(ProtobufWatchDecoder::new(limit)))
        } else {
            Decoder::Json(Box::new(WatchDecoder::new(limit)))
        };
        Self { body: Some(response.into_body()), decoder }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<RawEvent>, ListWatchError>> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(Ok(None)) };
            if let Some(event) = self.decoder.next_event()? {
                if event.event_type == EventType::Error {
                    self.body = None;
                }
                return Poll::Ready(Ok(Some(event)));
            }
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => self.decoder.push(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Poll::Ready(Err(body_error(error))),
                None => {
                    self.body = None;
                    return Poll::Ready(self.decoder.finish().map_err(Into::into));
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

    fn next_event(&mut self) -> Result<Option<RawEvent>, FrameError> {
        match self {
            Self::Json(decoder) => decoder.next_event(),
            Self::Protobuf(decoder) => decoder.next_event(),
        }
    }

    fn finish(&mut self) -> Result<Option<RawEvent>, FrameError> {
        match self {
            Self::Json(decoder) => decoder.finish(),
            Self::Protobuf(decoder) => decoder.finish(),
        }
    }
}

impl Stream for RawWatchStream {
    type Item = Result<RawEvent, ListWatchError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let outcome = ready!(self.poll_event(cx));
        if outcome.as_ref().is_err_and(|error| !matches!(error, ListWatchError::Oversize(_))) {
            self.body = None;
        }
        Poll::Ready(outcome.transpose())
    }
}

impl<K: Object> WatchEvent<K> {
    /// Decodes an event. An event of type [`EventType::Error`] becomes an error.
    pub(crate) fn decode(event: &RawEvent) -> Result<Self, ListWatchError> {
        fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ListWatchError> {
            codec::decode(body).map_err(ListWatchError::Decode)
        }
        let body = &event.body;
        let object = || codec::decode_object(body).map_err(ListWatchError::Decode);
        Ok(match event.event_type {
            EventType::Added => Self::Added(object()?),
            EventType::Modified => Self::Modified(object()?),
            EventType::Deleted => Self::Deleted(object()?),
            EventType::Bookmark => {
                let metadata = read::<PartialObject>(body)?.metadata;
                let annotations = metadata.annotations.unwrap_or_default();
                Self::Bookmark(Bookmark {
                    resource_version: ResourceVersion::new(metadata.resource_version.unwrap_or_default()),
                    initial_events_end: annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"),
                })
            }
            EventType::Error => return Err(read::<Status>(body)?.into()),
        })
    }
}
