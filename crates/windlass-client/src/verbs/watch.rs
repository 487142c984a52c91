//! The builder of watch.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{Stream, TryStreamExt as _};
use http::Response;
use windlass_api::{
    Bookmarks, InitialEvents, ListMeta, ListWatchError, Object, ObjectList, WatchOptions,
    managed_fields::ManagedFieldsMode,
};

use super::{Call, into_future, within};
use crate::{
    Error, Result,
    body::Body,
    client::DefaultNamespace,
    operation::{Operation, Verb},
    watch_stream::{Bookmark, RawWatchStream, WatchEvent},
};

/// Watches objects with a single watch request. When the server ends the watch, it is not restarted.
///
/// To follow the state of many objects over time, use a shared informer instead.
#[must_use = "nothing is sent before `.await`"]
pub struct Watch<K> {
    call: Call<K>,
    pub(super) options: WatchOptions,
}

/// The decoded events of a watch. The stream ends after an error. Dropping it ends the watch.
#[must_use = "a watch does nothing until it is polled"]
pub struct WatchStream<K> {
    events: RawWatchStream,
    operation: Operation,
    /// Adds the fields that the encoded form omits.
    complete: Box<dyn FnMut(&mut K) + Send>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// An error has ended the stream.
    Over,
}

into_future! {
    Watch => WatchStream<K>;
}
within!(Watch);

impl<K: Object> Watch<K> {
    pub(crate) fn new(call: Call<K>) -> Self {
        Self { call, options: WatchOptions::default() }
    }

    /// Sets the label selector, for example `app=web,tier in (a,b)`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options.labels = Some(selector.into());
        self
    }

    /// Sets the field selector, for example `metadata.name=n`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options.fields = Some(selector.into());
        self
    }

    /// Starts after this resource version. Without one, the watch starts with the current objects.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.options.resource_version = Some(version.into());
        self
    }

    /// Requests bookmarks: events that contain only a resource version to resume from, sent periodically.
    pub fn bookmarks(mut self) -> Self {
        self.options.bookmarks = Bookmarks::Allow;
        self
    }

    /// Requests the current objects first, followed by a bookmark. Implies bookmarks.
    pub fn initial_events(mut self) -> Self {
        self.options.initial_events = InitialEvents::Send;
        self.bookmarks()
    }

    /// Sets the time after which the server ends the watch.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Restricts the watch to one shard; see [`List::shard`](super::List::shard).
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.options.shard = Some(selector.into());
        self
    }

    /// Returns the current objects as a list, and the watch that continues from it, with a single request (WatchList).
    /// Servers without this feature reject the request.
    pub async fn with_list(self) -> Result<(ObjectList<K>, WatchStream<K>)> {
        let mut stream = self.initial_events().send().await?;
        let mut items = Vec::new();
        while let Some(event) = stream.try_next().await? {
            match event {
                WatchEvent::Added(object) => items.push(object),
                WatchEvent::Bookmark(Bookmark { resource_version, initial_events_end: true }) => {
                    let metadata = ListMeta { resource_version, ..ListMeta::default() };
                    return Ok((ObjectList { metadata, items }, stream));
                }
                WatchEvent::Modified(_) | WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            }
        }
        let early = ListWatchError::Transport("the watch ended before the present state was complete".into());
        Err(Error::new(stream.operation, early))
    }

    pub(super) fn operation(&self) -> Operation {
        self.call.operation(Verb::Watch)
    }

    pub(super) async fn send(self) -> Result<WatchStream<K>> {
        let options = self.options;
        let sent = self
            .call
            .send(Verb::Watch, DefaultNamespace::All, |call| Ok(call.target.watch(&options, call.codec.content)?));
        let sent = sent.await?;
        let limit = sent.call.client.object_limit();
        let (complete, resource) = (sent.call.codec.complete, sent.call.target.resource);
        let managed_fields = sent.call.client.managed_fields();
        let stream = WatchStream::new(sent.response, limit, sent.operation);
        let complete = move |object: &mut K| {
            complete(&resource, object);
            if managed_fields == ManagedFieldsMode::Drop {
                object.metadata_mut().managed_fields = None;
            }
        };
        Ok(WatchStream { complete: Box::new(complete), ..stream })
    }
}

// Implemented by hand, because a derive would require `K: Clone`.
impl<K> Clone for Watch<K> {
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), options: self.options.clone() }
    }
}

impl<K: Object> WatchStream<K> {
    pub(crate) fn new(response: Response<Body>, limit: usize, operation: Operation) -> Self {
        Self { events: RawWatchStream::new(response, limit), operation, complete: Box::new(|_| ()), state: State::Open }
    }
}

impl<K: Object> Stream for WatchStream<K> {
    type Item = Result<WatchEvent<K>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.state == State::Over {
            return Poll::Ready(None);
        }
        let Some(event) = ready!(Pin::new(&mut this.events).poll_next(cx)) else { return Poll::Ready(None) };
        Poll::Ready(Some(match event.and_then(|event| WatchEvent::decode(&event)) {
            Ok(mut event) => {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) =
                    &mut event
                {
                    (this.complete)(object);
                }
                Ok(event)
            }
            Err(error) => {
                this.state = State::Over;
                Err(Error::new(this.operation.clone(), error))
            }
        }))
    }
}

impl<K> fmt::Debug for WatchStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WatchStream({})", self.operation)
    }
}
