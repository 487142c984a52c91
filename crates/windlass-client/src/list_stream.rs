//! A list response as a stream of its objects.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::Stream;
use http_body::Body as _;
use windlass_api::{ListItem, ListWatchError};

use crate::{body::Body, frame::ListDecoder};

/// Yields each object as it arrives, then [`ListItem::End`] once. The stream ends after an error, except for
/// [`ListWatchError::Oversize`], which stands for one object and is followed by the next.
///
/// Dropping it cancels the request.
#[derive(Debug)]
pub(crate) struct ListStream {
    /// The response body. `None` once the list has ended, with or without an error.
    body: Option<Body>,
    decoder: ListDecoder,
}

impl ListStream {
    /// Creates a stream. An object of more than `limit` bytes is replaced by an error.
    pub(crate) fn new(body: Body, limit: usize) -> Self {
        Self { body: Some(body), decoder: ListDecoder::new(limit) }
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ListItem>, ListWatchError>> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(Ok(None)) };
            if let Some(item) = self.decoder.next_item()? {
                return Poll::Ready(Ok(Some(ListItem::Object(item))));
            }
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => self.decoder.push(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Poll::Ready(Err(ListWatchError::Transport(error))),
                None => {
                    let meta = self.decoder.finish()?;
                    self.body = None;
                    return Poll::Ready(Ok(Some(ListItem::End(meta))));
                }
            }
        }
    }
}

impl Stream for ListStream {
    type Item = Result<ListItem, ListWatchError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let outcome = ready!(self.poll_item(cx));
        if outcome.as_ref().is_err_and(|error| !matches!(error, ListWatchError::Oversize(_))) {
            self.body = None;
        }
        Poll::Ready(outcome.transpose())
    }
}
