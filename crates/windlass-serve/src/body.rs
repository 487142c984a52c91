//! Request and response bodies. They record the state of their request in the connection's [`Activity`].

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::{
    BoxError,
    activity::{Activity, RunningRequest},
    streams::Progress,
};

/// The body of a request. A response may be returned before it is read completely.
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    is_finished: bool,
    activity: Arc<Activity>,
}

/// The body of a response. Its request is in progress until the body is dropped.
pub(crate) struct ResponseBody {
    body: AnyBody,
    progress: Option<Arc<Progress>>,
    _request: RunningRequest,
}

/// A body of the application.
pub(crate) struct AnyBody(Box<dyn Body<Data = Bytes, Error = BoxError> + Unpin + Send>);

/// A body whose errors are boxed.
struct Failing<B>(B);

impl RequestBody {
    pub(crate) fn new(body: Incoming, activity: &Arc<Activity>) -> Self {
        Self { body, is_finished: false, activity: Arc::clone(activity) }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.is_finished = !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.is_finished && !self.body.is_end_stream() {
            self.activity.leave_unread();
        }
    }
}

impl AnyBody {
    pub(crate) fn new(body: impl Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static) -> Self {
        Self(Box::new(Failing(body)))
    }
}

impl ResponseBody {
    /// Creates the body in the task of its stream.
    pub(crate) fn new(body: AnyBody, request: RunningRequest) -> Self {
        Self { body, progress: Progress::of_task(), _request: request }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Some(progress) = &this.progress {
            progress.asked();
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let (Some(progress), Some(Ok(_))) = (&this.progress, &frame) {
            progress.handed();
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

impl Body for AnyBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut *self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for Failing<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
