//! Time limits of calls.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use windlass_api::BoxError;

use crate::body::Body;

/// The error of a call that exceeded its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no answer within {limit:?}")]
pub(crate) struct TimedOut {
    limit: Duration,
}

/// The deadline of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    limit: Duration,
    /// The point in time. `None` if it cannot be represented.
    at: Option<Instant>,
}

/// A body that ends with an error at the deadline.
struct Bound {
    body: Body,
    limit: Duration,
    over: Pin<Box<Sleep>>,
}

impl Deadline {
    pub(super) fn after(limit: Duration) -> Self {
        Self { limit, at: Instant::now().checked_add(limit) }
    }

    /// Runs a future until the deadline.
    pub(super) async fn bound<T>(
        self,
        work: Pin<&mut impl Future<Output = Result<T, BoxError>>>,
    ) -> Result<T, BoxError> {
        let Some(at) = self.at else { return work.await };
        timeout_at(at, work).await.unwrap_or_else(|_| Err(TimedOut { limit: self.limit }.into()))
    }

    /// Returns the body with an error at the deadline.
    pub(super) fn bound_body(self, body: Body) -> Body {
        match self.at {
            Some(at) => Body::wrap(Bound { body, limit: self.limit, over: Box::pin(sleep_until(at)) }),
            None => body,
        }
    }
}

impl http_body::Body for Bound {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // Data that has already arrived is returned, even if it is read after the deadline.
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        self.over.as_mut().poll(cx).map(|()| Some(Err(TimedOut { limit: self.limit }.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
