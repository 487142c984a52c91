//! A watch that goes on when it ends or breaks.

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

/// Watches are begun no more often than this. As Go's `RetryWatcher`.
const PACE: Duration = Duration::from_secs(1);
/// Refusals that the next try would meet as well.
const FINAL: [u16; 8] = [400, 401, 403, 405, 406, 410, 415, 422];

/// A watch that is begun again, after the last event that it gave, whenever it ends or breaks: each event comes once, and none
/// is left out.
///
/// It ends with an error when it cannot go on: the version is too old (then everything has to be listed anew), the caller
/// may not watch, the server sends what cannot be read. Bookmarks are taken note of, not given.
///
/// To know the state of objects over time, use a shared informer; to wait for one, [`Client::wait_for`](crate::Client::wait_for).
#[must_use = "a watch does nothing until it is polled"]
pub struct RetryWatch<K> {
    watch: Watch<K>,
    /// The version of the last event; the watch goes on after it.
    version: String,
    /// When the next watch may begin.
    not_before: Instant,
    state: State<K>,
}

/// What it is doing.
enum State<K> {
    /// Between two watches; then `Opening`.
    Resting(Pin<Box<Sleep>>),
    /// Then `Open`, or `Resting` when that fails, or `Over`.
    Opening(BoxFuture<'static, Result<WatchStream<K>>>),
    /// Then `Resting`, or `Over`.
    Open(Box<WatchStream<K>>),
    /// Nothing more comes.
    Over,
}

/// What one step leads to.
enum Step<K> {
    State(State<K>),
    Event(WatchEvent<K>),
    Failed(Error),
}

impl<K: Object> Watch<K> {
    /// The same watch, begun again after the last event whenever it ends or breaks.
    ///
    /// It has to begin after a version: that of a list, or of an object.
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
    /// After which version it goes on: that of the last event, or of the last bookmark.
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
        // A watch from nowhere begins with the present state, as additions: each new beginning would repeat them.
        if matches!(&*self.version, "" | "0") {
            let operation = Box::new(self.watch.operation());
            return Step::Failed(Error::Request { operation, source: RequestError::NoVersion });
        }
        self.not_before = Instant::now() + PACE;
        let watch = self.watch.clone().resource_version(&*self.version);
        Step::State(State::Opening(Box::pin(watch.send())))
    }

    /// Takes note of how far the watch has come.
    fn note(&mut self, event: WatchEvent<K>) -> Step<K> {
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.metadata().resource_version.as_deref()
            }
            WatchEvent::Bookmark(Bookmark { resource_version, .. }) => Some(resource_version.as_str()),
        };
        match version {
            Some(version) if !version.is_empty() => version.clone_into(&mut self.version),
            // Going on after an earlier one would repeat events.
            _ => {
                let error = ListWatchError::Decode("an event without a resourceVersion".into());
                return Step::Failed(Error::new(self.watch.operation(), error));
            }
        }
        Step::Event(event)
    }

    /// Whether an error is the end.
    fn recover(&mut self, error: Error) -> Step<K> {
        let passing = match &error {
            Error::Transport { .. } => true,
            Error::Status { status, .. } => !status.is_expired() && !FINAL.contains(&status.code),
            _ => false,
        };
        if !passing {
            return Step::Failed(error);
        }
        tracing::debug!(error = error.chain(), version = self.version, "the watch is begun again");
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

// What is polled by address is boxed.
impl<K> Unpin for RetryWatch<K> {}

impl<K: Object> fmt::Debug for RetryWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RetryWatch({} after {})", self.watch.operation(), self.version)
    }
}

#[cfg(test)]
mod tests;
