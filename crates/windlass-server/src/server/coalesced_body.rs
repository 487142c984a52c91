//! Response bodies on a socket: coalesces small frames that are ready at the same time.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::http::{Body, BodyError};

/// The maximum size of a coalesced frame: the size of an HTTP/2 frame and of a TLS record.
const MOST: usize = 16 << 10;

/// A body with the same bytes in larger frames. It never waits to fill a frame.
#[derive(Debug)]
pub(super) struct CoalescedBody {
    body: Body,
    /// A frame that did not fit.
    held: Option<Bytes>,
    ended: bool,
    /// The error at the end, while bytes before it are unsent.
    failed: Option<BodyError>,
}

impl CoalescedBody {
    pub(super) fn new(body: Body) -> Self {
        Self { body, held: None, ended: false, failed: None }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let data = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            // Responses have no trailers.
            Some(Ok(frame)) => frame.into_data().ok(),
            Some(Err(error)) => {
                self.failed = Some(error);
                None
            }
            None => None,
        };
        self.ended = data.is_none();
        Poll::Ready(data)
    }
}

impl HttpBody for CoalescedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let first = match self.held.take() {
            Some(held) => held,
            None => match ready!(self.poll_next(cx)) {
                Some(data) => data,
                None => return Poll::Ready(self.failed.take().map(Err)),
            },
        };
        let mut joined = BytesMut::new();
        while first.len().max(joined.len()) < MOST {
            let Poll::Ready(Some(next)) = self.poll_next(cx) else { break };
            if first.len().max(joined.len()) + next.len() > MOST {
                self.held = Some(next);
                break;
            }
            if joined.is_empty() {
                joined.reserve(MOST);
                joined.extend_from_slice(&first);
            }
            joined.extend_from_slice(&next);
        }
        let data = if joined.is_empty() { first } else { joined.freeze() };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.failed.is_none() && (self.ended || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        // While a frame is held, this hint is too low. Such bodies have no hint of their own.
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _, stream};
    use http_body_util::BodyExt as _;

    use crate::server::coalesced_body::*;

    async fn joined(frames: Vec<usize>) -> Vec<usize> {
        let frames = frames.into_iter().map(|length| Bytes::from(vec![b'x'; length]));
        let mut body = CoalescedBody::new(Body::frames(stream::iter(frames.collect::<Vec<_>>())));
        let mut lengths = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            lengths.push(frame.into_data().unwrap().len());
        }
        assert!(body.is_end_stream());
        lengths
    }

    #[tokio::test]
    async fn small_frames_are_coalesced_and_large_ones_are_not() {
        assert_eq!(joined(vec![100, 200, 300]).await, [600]);
        assert_eq!(joined(vec![100, MOST, 300, 400]).await, [100, MOST, 700]);
        assert_eq!(joined(vec![MOST - 1, 1, 1]).await, [MOST, 1]);
        assert_eq!(joined(vec![MOST * 4, MOST * 4]).await, [MOST * 4, MOST * 4]);
        assert_eq!(joined(Vec::new()).await, [0; 0]);
    }

    #[tokio::test]
    async fn available_frames_do_not_wait_for_pending_ones() {
        let frames = stream::iter([Bytes::from_static(b"one "), Bytes::from_static(b"two")]).chain(stream::pending());
        let mut body = CoalescedBody::new(Body::frames(frames));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one two");
        assert!(body.frame().now_or_never().is_none());
        assert!(!body.is_end_stream());
    }

    #[tokio::test]
    async fn error_follows_the_bytes_before_it() {
        let frames = [Ok(Bytes::from_static(b"one ")), Ok(Bytes::from_static(b"two")), Err(BodyError::new("broken"))];
        let mut body = CoalescedBody::new(Body::fallible(stream::iter(frames)));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one two");
        assert!(!body.is_end_stream());
        assert_eq!(body.frame().await.unwrap().unwrap_err(), BodyError::new("broken"));
        assert!(body.frame().await.is_none() && body.is_end_stream());
    }

    #[tokio::test]
    async fn complete_body_keeps_its_length() {
        let mut body = CoalescedBody::new(Body::whole("all of it"));
        assert_eq!(body.size_hint().exact(), Some(9));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "all of it");
        assert!(body.is_end_stream());
    }
}
