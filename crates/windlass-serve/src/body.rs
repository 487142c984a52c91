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
#[derive(Debug)]
pub(crate) struct ResponseBody<B> {
    body: B,
    progress: Option<Arc<Progress>>,
    _request: RunningRequest,
}

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

impl<B> ResponseBody<B> {
    /// Creates the body in the task of its stream.
    pub(crate) fn new(body: B, request: RunningRequest) -> Self {
        Self { body, progress: Progress::of_task(), _request: request }
    }
}

impl<B: Body + Unpin> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
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
