//! The body of an answer.

use std::{
    convert::Infallible,
    fmt, iter,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream::BoxStream};
use http_body::{Frame, SizeHint};

/// The body of a response: whole, or frame by frame as it comes to be.
///
/// It never fails: a watch that cannot go on just ends, and its client asks again. Dropping it ends what is behind it.
pub struct Body {
    inner: Inner,
    /// The bytes that it keeps in memory until its end.
    held: usize,
}

enum Inner {
    /// Taken when it is sent.
    Whole(Option<Bytes>),
    Frames(BoxStream<'static, Bytes>),
}

impl Body {
    /// A body that is complete.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes: Bytes = bytes.into();
        let held = bytes.len();
        Self { inner: Inner::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())), held }
    }

    /// A body that is complete, in pieces. Its length is not announced.
    pub(crate) fn pieces(pieces: Vec<Bytes>) -> Self {
        let held = pieces.iter().map(Bytes::len).sum();
        Self::frames(futures::stream::iter(pieces)).holding(held)
    }

    /// A body of unknown length, one frame per item.
    pub(crate) fn frames(frames: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { inner: Inner::Frames(frames.boxed()), held: 0 }
    }

    /// The same body, which keeps so many bytes in memory until its end.
    #[must_use]
    pub(crate) fn holding(self, held: usize) -> Self {
        Self { held, ..self }
    }

    /// Returns the bytes that the body keeps in memory until its end.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns the same bytes in frames; those of a whole body have at most `length` bytes.
    pub(crate) fn into_frames(self, length: usize) -> BoxStream<'static, Bytes> {
        match self.inner {
            Inner::Whole(bytes) => {
                let mut rest = bytes.unwrap_or_default();
                let pieces = iter::from_fn(move || {
                    let piece = rest.split_to(rest.len().min(length));
                    Some(piece).filter(|piece| !piece.is_empty())
                });
                futures::stream::iter(pieces).boxed()
            }
            Inner::Frames(frames) => frames,
        }
    }

    /// Its length in bytes, if that is known.
    pub(crate) fn length(&self) -> Option<usize> {
        match &self.inner {
            Inner::Whole(bytes) => Some(bytes.as_ref().map_or(0, Bytes::len)),
            Inner::Frames(_) => None,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.inner {
            Inner::Whole(bytes) => Poll::Ready(bytes.take()),
            Inner::Frames(frames) => frames.poll_next_unpin(cx),
        };
        next.map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.inner, Inner::Whole(None))
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
