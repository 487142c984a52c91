//! The counterpart of `http2` in builds without the feature `http2`: there is no HTTP/2 connection.

use std::{
    convert::Infallible,
    future::Ready,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Request;
use http_body::Frame;

use super::{
    connector::Connector,
    pools::{Failure, SendResult, SpareSocket, Stream},
};
use crate::body::Body;

/// A connection that does not exist.
pub(super) enum Http2 {}

/// The body of a response that does not exist.
pub(super) enum ResponseBody {}

impl Http2 {
    /// Is not called, because the connector does not negotiate the version of HTTP.
    pub(super) fn new(_: Connector, _: SpareSocket, _: &Stream) -> Self {
        unreachable!("HTTP/2 is never negotiated without the feature `http2`")
    }

    pub(super) fn ask_again(&self) {
        match *self {}
    }

    pub(super) fn send(&self, _: Request<Body>) -> Ready<Result<SendResult, Failure>> {
        match *self {}
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match *self {}
    }
}
