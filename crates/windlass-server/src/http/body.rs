//! Response bodies.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream::BoxStream};
use http_body::{Frame, SizeHint};

/// The body of a response, either complete or a stream of frames.
///
/// It never fails. If a watch cannot continue, the body ends and the client watches again. Dropping the body ends the
/// request.
pub struct Body(Inner);

enum Inner {
    /// `None` after the bytes were sent.
    Whole(Option<Bytes>),
    Frames(BoxStream<'static, Bytes>),
}

impl Body {
    /// Creates a complete body.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty())))
    }

    /// Creates a body of unknown length with one frame per item.
    pub(crate) fn frames(frames: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Frames(frames.boxed()))
    }

    /// Converts the body into a stream of frames.
    pub(crate) fn into_frames(self) -> BoxStream<'static, Bytes> {
        match self.0 {
            Inner::Whole(bytes) => futures::stream::iter(bytes).boxed(),
            Inner::Frames(frames) => frames,
        }
    }

    /// Returns the length in bytes, if it is known.
    pub(crate) fn length(&self) -> Option<usize> {
        match &self.0 {
            Inner::Whole(bytes) => Some(bytes.as_ref().map_or(0, Bytes::len)),
            Inner::Frames(_) => None,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take()),
            Inner::Frames(frames) => frames.poll_next_unpin(cx),
        };
        next.map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map_or_else(SizeHint::default, |length| SizeHint::with_exact(length as u64))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length() {
            Some(length) => write!(f, "Body({length} bytes)"),
            None => f.write_str("Body(stream)"),
        }
    }
}
