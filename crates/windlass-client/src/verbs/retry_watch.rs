//! A watch that is restarted when it ends or breaks.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{Stream, future::BoxFuture};
use tokio::time::{Instant, Sleep, sleep_until};
use windlass_api::{ListWatchError, Object};

use super::watch::{Watch, WatchStream};
use crate::{
    Error, Result,
    request::RequestError,
    watch_stream::{Bookmark, WatchEvent},
};

/// The minimum time between the starts of two watches, as in client-go's `RetryWatcher`.
const PACE: Duration = Duration::from_secs(1);
/// Response codes that a retry would meet again.
const FINAL: [u16; 8] = [400, 401, 403, 405, 406, 410, 415, 422];

/// A watch that is restarted after its last event whenever it ends or breaks. Each event is returned exactly once.
///
/// The watch ends with an error if it cannot continue: the resource version is too old (relist in this case), the
/// caller lacks permission to watch, or an event cannot be decoded. Bookmarks advance the resource version and are not
/// returned.
///
/// To follow the state of objects over time, use a shared informer. To wait for a condition of one object, use
/// [`Client::wait_for`](crate::Client::wait_for).
#[must_use = "a watch does nothing until it is polled"]
pub struct RetryWatch<K> {
    watch: Watch<K>,
    /// The resource version of the last event, from which the watch resumes.
    version: String,
    /// The earliest start of the next watch.
    not_before: Instant,
    state: State<K>,
}

/// The state of the watch.
enum State<K> {
    /// Waiting to start the next watch; followed by `Opening`.
    Resting(Pin<Box<Sleep>>),
    /// Starting a watch; followed by `Open`, `Resting` after a failure, or `Over`.
    Opening(BoxFuture<'static, Result<WatchStream<K>>>),
    /// Reading events; followed by `Resting` or `Over`.
    Open(Box<WatchStream<K>>),
    /// The stream has ended.
    Over,
}

/// The result of one step.
enum Step<K> {
    State(State<K>),
    Event(WatchEvent<K>),
    Failed(Error),
}

impl<K: Object> Watch<K> {
    /// Returns this watch, restarted after the last event whenever it ends or breaks.
    ///
    /// It requires a resource version to start from: that of a list or of an object.
    pub fn retrying(mut self) -> RetryWatch<K> {
        let version = self.options.resource_version.take().unwrap_or_default();
        let now = Instant::now();
        RetryWatch {
            watch: self.bookmarks(),
            version,
            not_before: now,
            state: State::Resting(Box::pin(sleep_until(now))),
        }
    }
}

impl<K: Object> RetryWatch<K> {
    /// Returns the resource version to resume from: that of the last event or bookmark.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        &self.version
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Option<Step<K>>> {
        Poll::Ready(Some(match &mut self.state {
            State::Over => return Poll::Ready(None),
            State::Resting(sleep) => {
                ready!(sleep.as_mut().poll(cx));
                self.begin()
            }
            State::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                Ok(stream) => Step::State(State::Open(Box::new(stream))),
                Err(error) => self.recover(error),
            },
            State::Open(stream) => match ready!(Pin::new(&mut **stream).poll_next(cx)) {
                Some(Ok(event)) => self.note(event),
                Some(Err(error)) => self.recover(error),
                None => self.rest(Duration::ZERO),
            },
        }))
    }

    fn begin(&mut self) -> Step<K> {
        // Without a resource version, each restart would repeat the current objects as added events.
        if matches!(&*self.version, "" | "0") {
            let operation = Box::new(self.watch.operation());
            return Step::Failed(Error::Request { operation, source: RequestError::NoVersion });
        }
        self.not_before = Instant::now() + PACE;
        let watch = self.watch.clone().resource_version(&*self.version);
        Step::State(State::Opening(Box::pin(watch.send())))
    }

    /// Records the resource version of an event.
    fn note(&mut self, event: WatchEvent<K>) -> Step<K> {
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.metadata().resource_version.as_deref()
            }
            WatchEvent::Bookmark(Bookmark { resource_version, .. }) => Some(resource_version.as_str()),
        };
        match version {
            Some(version) if !version.is_empty() => version.clone_into(&mut self.version),
            // An event without a resource version cannot be resumed after: an earlier version would repeat events.
            _ => {
                let error = ListWatchError::Decode("an event without a resourceVersion".into());
                return Step::Failed(Error::new(self.watch.operation(), error));
            }
        }
        Step::Event(event)
    }

    /// Decides whether to restart the watch after an error.
    fn recover(&mut self, error: Error) -> Step<K> {
        let passing = match &error {
            Error::Transport { .. } => true,
            Error::Status { status, .. } => !status.is_expired() && !FINAL.contains(&status.code),
            _ => false,
        };
        if !passing {
            return Step::Failed(error);
        }
        tracing::debug!(error = error.chain(), version = self.version, "restarting the watch");
        self.rest(error.retry_after().unwrap_or_default())
    }

    fn rest(&mut self, at_least: Duration) -> Step<K> {
        let until = self.not_before.max(Instant::now() + at_least);
        Step::State(State::Resting(Box::pin(sleep_until(until))))
    }
}

impl<K: Object> Stream for RetryWatch<K> {
    type Item = Result<WatchEvent<K>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(step) = ready!(self.poll_step(cx)) else { return Poll::Ready(None) };
            match step {
                Step::State(state) => self.state = state,
                Step::Event(WatchEvent::Bookmark(_)) => {}
                Step::Event(event) => return Poll::Ready(Some(Ok(event))),
                Step::Failed(error) => {
                    self.state = State::Over;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

// Futures that need pinning are boxed.
impl<K> Unpin for RetryWatch<K> {}

impl<K: Object> fmt::Debug for RetryWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RetryWatch({} after {})", self.watch.operation(), self.version)
    }
}

#[cfg(test)]
mod tests;
