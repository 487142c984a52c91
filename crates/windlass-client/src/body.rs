//! The body type of requests and responses.

use std::{
    any::Any,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::Request;
use http_body::{Frame, SizeHint};
use windlass_api::BoxError;

/// The body of a request or a response: bytes in memory, or a stream.
#[derive(Default)]
pub struct Body(Kind);

enum Kind {
    /// `None` after it was read, or if it is empty.
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>),
}

/// A body that counts the bytes read from it, and reports their number when it is dropped.
struct CountedBody<F: FnOnce(u64)> {
    body: Body,
    bytes: u64,
    report: Option<F>,
}

impl Default for Kind {
    fn default() -> Self {
        Self::Whole(None)
    }
}

impl Body {
    /// Creates an empty body.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Wraps another body, as a stream.
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        // A value of this type is not boxed again.
        let mut body = Some(body);
        if let Some(own) = (&mut body as &mut dyn Any).downcast_mut::<Option<Self>>() {
            return own.take().unwrap_or_default();
        }
        match body {
            Some(body) => Self(Kind::Stream(Box::pin(http_body_util::BodyExt::map_err(body, Into::into)))),
            None => Self::empty(),
        }
    }

    /// Calls `report` with the number of bytes read, when the body has been read to its end or its reader drops it.
    pub(crate) fn counted(self, report: impl FnOnce(u64) + Send + Unpin + 'static) -> Self {
        Self::wrap(CountedBody { body: self, bytes: 0, report: Some(report) })
    }

    /// Copies the body for a retry. Returns `None` for a stream, which can be sent only once.
    pub(crate) fn replay(&self) -> Option<Self> {
        match &self.0 {
            Kind::Whole(bytes) => Some(Self(Kind::Whole(bytes.clone()))),
            Kind::Stream(_) => None,
        }
    }
}

impl Body {
    /// Returns the bytes, if they are in memory.
    pub(crate) fn in_memory(&self) -> Option<&Bytes> {
        match &self.0 {
            Kind::Whole(bytes) => bytes.as_ref(),
            Kind::Stream(_) => None,
        }
    }

    /// Copies the body, if it is in memory.
    pub(crate) fn copy(&self) -> Option<Self> {
        match &self.0 {
            Kind::Whole(bytes) => Some(Self(Kind::Whole(bytes.clone()))),
            Kind::Stream(_) => None,
        }
    }
}

/// Copies a request, if its body is in memory.
pub(crate) fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().copy()?);
    request.method().clone_into(copy.method_mut());
    request.uri().clone_into(copy.uri_mut());
    *copy.version_mut() = request.version();
    request.headers().clone_into(copy.headers_mut());
    request.extensions().clone_into(copy.extensions_mut());
    Some(copy)
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from(text).into()
    }
}

impl From<()> for Body {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}

impl<F: FnOnce(u64) + Unpin> http_body::Body for CountedBody<F> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<F: FnOnce(u64)> Drop for CountedBody<F> {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            report(self.bytes);
        }
    }
}

impl fmt::Debug for Body {
    /// Omits the bytes, because they may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Whole(bytes) => write!(f, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn a_wrapped_body_gives_its_bytes_and_is_wrapped_once() {
        let body = Body::wrap(Full::new(Bytes::from_static(b"abc")));
        let again = Body::wrap(Body::wrap(Body::from("abc")));
        assert_eq!(format!("{again:?}"), "Body(3 bytes)");
        assert_eq!(body.collect().await.unwrap().to_bytes(), again.collect().await.unwrap().to_bytes());
    }

    #[tokio::test]
    async fn counted_body_reports_bytes_once_when_dropped() {
        let (reports, reported) = std::sync::mpsc::channel();
        let counted = || {
            let reports = reports.clone();
            Body::from("abc").counted(move |bytes| reports.send(bytes).unwrap())
        };
        let mut body = counted();
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(3));
        assert!(body.frame().await.is_some());
        assert!(http_body::Body::is_end_stream(&body) && reported.try_recv().is_err(), "it is still held");
        drop(body);
        drop(counted());
        assert_eq!(reported.try_iter().collect::<Vec<_>>(), [3, 0]);
    }
}
