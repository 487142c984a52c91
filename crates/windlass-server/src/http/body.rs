//! The body of an answer.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream::BoxStream};
use http_body::{Frame, SizeHint};

/// The body of a response: whole, or frame by frame as it comes to be.
///
/// It never fails: a watch that cannot go on just ends, and its client asks again. Dropping it ends what is behind it.
pub struct Body(Inner);

enum Inner {
    /// Taken when it is sent.
    Whole(Option<Bytes>),
    Frames(BoxStream<'static, Bytes>),
}

impl Body {
    /// A body that is complete.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty())))
    }

    /// A body of unknown length, one frame per item.
    pub(crate) fn frames(frames: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Frames(frames.boxed()))
    }

    /// The same, frame by frame.
    pub(crate) fn into_frames(self) -> BoxStream<'static, Bytes> {
        match self.0 {
            Inner::Whole(bytes) => futures::stream::iter(bytes).boxed(),
            Inner::Frames(frames) => frames,
        }
    }

    /// Its length in bytes, if that is known.
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
