//! Response bodies.

use std::{
    fmt,
    future::ready,
    iter,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream::BoxStream};
use http_body::{Frame, SizeHint};
use http_body_util::BodyStream;
use hyper::body::Incoming;

use crate::{budget::HeldBytes, turns::Class};

/// The body of a response, either complete or a stream of frames.
///
/// If the response cannot be completed, the body ends with an error, and the client's connection or stream is reset. If
/// a watch cannot continue, the body ends without an error and the client watches again. Dropping the body ends the
/// request.
pub struct Body {
    inner: Inner,
    /// The bytes that the body keeps in memory until it is dropped.
    held: usize,
    /// Further bytes, which become fewer while the body is read.
    initial: Option<HeldBytes>,
    /// The class of the request.
    class: Class,
}

enum Inner {
    /// `None` after the bytes were sent.
    Whole(Option<Bytes>),
    Frames(Frames),
}

/// The frames of a body. An error is the last item.
pub(crate) type Frames = BoxStream<'static, Result<Bytes, BodyError>>;

/// The error of a response that cannot be completed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response is incomplete: {0}")]
pub struct BodyError(String);

impl BodyError {
    /// Creates the error for a cause.
    pub(crate) fn new(cause: impl fmt::Display) -> Self {
        Self(cause.to_string())
    }
}

impl Body {
    /// Creates a complete body.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes: Bytes = bytes.into();
        let held = bytes.len();
        let inner = Inner::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()));
        Self { inner, held, initial: None, class: Class::default() }
    }

    /// Creates a complete body from pieces. Its length is not announced.
    pub(crate) fn pieces(pieces: Vec<Bytes>) -> Self {
        let held = pieces.iter().map(Bytes::len).sum();
        Self::frames(futures::stream::iter(pieces)).with_held_bytes(held)
    }

    /// Creates a body of unknown length with one frame per item.
    pub(crate) fn frames(frames: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::fallible(frames.map(Ok))
    }

    /// Creates a body like [`frames`](Self::frames) that ends with an error if the response cannot be completed.
    pub(crate) fn fallible(frames: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Self {
        Self { inner: Inner::Frames(frames.boxed()), held: 0, initial: None, class: Class::default() }
    }

    /// Creates a body from one that is received from another server. It fails if that one fails.
    pub(crate) fn received(body: Incoming) -> Self {
        let data = BodyStream::new(body).map(|frame| {
            let frame = frame.inspect_err(|error| tracing::debug!(%error, "a forwarded response has ended too early"));
            Ok(frame.map_err(BodyError::new)?.into_data().unwrap_or_default())
        });
        Self::fallible(data.filter(|data| ready(data.as_ref().is_ok_and(|data| !data.is_empty()) || data.is_err())))
    }

    /// Sets the number of bytes that the body keeps in memory until it is dropped.
    #[must_use]
    pub(crate) fn with_held_bytes(self, held: usize) -> Self {
        Self { held, ..self }
    }

    /// Sets the bytes that the body keeps in memory until it has sent its first part.
    #[must_use]
    pub(crate) fn with_initial(self, initial: Option<HeldBytes>) -> Self {
        Self { initial, ..self }
    }

    /// Returns the number of bytes that the body keeps in memory until it is dropped.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held
    }

    /// Returns the bytes that the body keeps in memory until it has sent its first part.
    pub(crate) fn initial(&self) -> Option<&HeldBytes> {
        self.initial.as_ref()
    }

    /// Sets the class of the request. The computations of the body get their turns by it.
    #[must_use]
    pub(crate) fn of_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// Returns the class of the request.
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Runs a future after the last frame, before the body ends. If the body is dropped before, the future is dropped, too.
    #[must_use]
    pub(crate) fn followed_by(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        let end = futures::stream::once(end).filter_map(|()| std::future::ready(None));
        self.map_frames(|frames| frames.chain(end))
    }

    /// Replaces the frames by others made of them. The body counts and is sent as before.
    #[must_use]
    pub(crate) fn map_frames<S>(self, map: impl FnOnce(Frames) -> S) -> Self
    where
        S: Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
    {
        let (held, initial, class) = (self.held, self.initial.clone(), self.class);
        let frames = map(self.into_frames(usize::MAX));
        Self::fallible(frames).with_held_bytes(held).with_initial(initial).of_class(class)
    }

    /// Converts the body into a stream of frames. A complete body is cut into frames of at most `length` bytes.
    pub(crate) fn into_frames(self, length: usize) -> Frames {
        match self.inner {
            Inner::Whole(bytes) => {
                let mut rest = bytes.unwrap_or_default();
                let pieces = iter::from_fn(move || {
                    let piece = rest.split_to(rest.len().min(length));
                    Some(piece).filter(|piece| !piece.is_empty())
                });
                futures::stream::iter(pieces.map(Ok)).boxed()
            }
            Inner::Frames(frames) => frames,
        }
    }

    /// Returns the length in bytes, if it is known.
    pub(crate) fn length(&self) -> Option<usize> {
        match &self.inner {
            Inner::Whole(bytes) => Some(bytes.as_ref().map_or(0, Bytes::len)),
            Inner::Frames(_) => None,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let class = self.class;
        let next = match &mut self.inner {
            Inner::Whole(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Inner::Frames(frames) => class.sync_scope(|| frames.poll_next_unpin(cx)),
        };
        next.map(|next| next.map(|bytes| bytes.map(Frame::data)))
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
