//! watch.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{Stream, TryStreamExt as _};
use windlass_api::{
    Bookmarks, InitialEvents, ListMeta, ListWatchError, Object, ObjectList, WatchOptions, managed_fields::ManagedFields,
};

use super::{Call, Unnamed, into_future, within};
use crate::{
    Error, Result,
    error::{Operation, Verb},
    request::Target,
    resources::Resources,
    transport::Body,
    watch_stream::{Bookmark, RawWatchStream, WatchEvent},
};

/// Watches objects, once: the watch ends when the server ends it, and is not begun again.
///
/// Programs that are to know the state of many objects over time want a shared informer instead.
#[must_use = "nothing is sent before `.await`"]
pub struct Watch<K> {
    call: Call<K>,
    pub(super) options: WatchOptions,
}

/// The events of a watch, decoded. After an error nothing more comes. Dropping it ends the watch.
#[must_use = "a watch does nothing until it is polled"]
pub struct WatchStream<K> {
    events: RawWatchStream,
    operation: Operation,
    /// Adds what the bytes leave out.
    complete: Box<dyn FnMut(&mut K) + Send>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// There was an error.
    Over,
}

into_future! {
    Watch => WatchStream<K>;
}
within!(Watch);

impl<K: Object> Watch<K> {
    pub(crate) fn new(resources: &Resources<K>, target: Target) -> Self {
        Self { call: Call::new(resources, target), options: WatchOptions::default() }
    }

    /// With these labels: `app=web,tier in (a,b)`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options.labels = Some(selector.into());
        self
    }

    /// With these fields: `metadata.name=n`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options.fields = Some(selector.into());
        self
    }

    /// Changes after this version. Without one, the present state comes first.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.options.resource_version = Some(version.into());
        self
    }

    /// With bookmarks: versions to go on from, sent now and then.
    pub fn bookmarks(mut self) -> Self {
        self.options.bookmarks = Bookmarks::Allow;
        self
    }

    /// The present state first, closed by a bookmark; allows bookmarks, too.
    pub fn initial_events(mut self) -> Self {
        self.options.initial_events = InitialEvents::Send;
        self.bookmarks()
    }

    /// When the server is to end the watch.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Those of one shard, as [`List::shard`](super::List::shard).
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.options.shard = Some(selector.into());
        self
    }

    /// The present state as a list, and the watch that goes on from it: one request for both (WatchList). A server that
    /// does not know that form refuses it.
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
        let sent =
            self.call.send(Verb::Watch, Unnamed::All, |call| Ok(call.target.watch(&options, call.codec.content)?));
        let sent = sent.await?;
        let limit = sent.call.client.object_limit();
        let (complete, resource) = (sent.call.codec.complete, sent.call.target.resource);
        let managed_fields = sent.call.client.managed_fields();
        let stream = WatchStream::new(sent.response.into_body(), limit, sent.operation);
        let complete = move |object: &mut K| {
            complete(&resource, object);
            if managed_fields == ManagedFields::Drop {
                object.metadata_mut().managed_fields = None;
            }
        };
        Ok(WatchStream { complete: Box::new(complete), ..stream })
    }
}

// By hand: `K` need not be cloned.
impl<K> Clone for Watch<K> {
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), options: self.options.clone() }
    }
}

impl<K: Object> WatchStream<K> {
    pub(crate) fn new(body: Body, limit: usize, operation: Operation) -> Self {
        Self { events: RawWatchStream::new(body, limit), operation, complete: Box::new(|_| ()), state: State::Open }
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
