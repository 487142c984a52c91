//! The queue of a watch: from the writer, which never waits, to a client that may be slow.

use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::VecDeque;
use windlass_server::storage::{Revision, StorageEvent};

/// A watch as the writer sees it.
#[derive(Debug)]
pub(super) struct Watcher {
    prefix: Box<str>,
    after: Revision,
    queue: Mutex<Queue>,
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<StorageEvent>,
    /// The size of the bodies of `events`, and a fixed size for each.
    bytes: usize,
    end: Option<End>,
}

/// The effect of an event on a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// Other events were waiting already, so the client has been woken.
    Later,
    /// The event is the first one that waits. The caller wakes the client.
    First,
    /// The watch has ended. The caller wakes the client and drops the watch.
    Ended,
}

/// The reason why there are no more events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client was too slow, and its waiting events were dropped.
    Lagged,
    /// The storage was closed.
    Closed,
}

/// The capacity for one slow watch. One event always fits.
const EVENTS: usize = 1 << 16;
const BYTES: usize = 256 << 20;

/// The size of an event without its bodies.
const EVENT_BYTES: usize = 256;

impl Watcher {
    pub(super) fn new(prefix: &str, after: Revision) -> Self {
        Self { prefix: prefix.into(), after, queue: Mutex::default(), waker: AtomicWaker::new() }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn after(&self) -> Revision {
        self.after
    }

    pub(super) fn matches(&self, event: &StorageEvent) -> bool {
        event.revision > self.after && event.key.starts_with(&*self.prefix)
    }

    /// Adds an event.
    pub(super) fn put(&self, event: StorageEvent) -> Put {
        let mut queue = self.queue.lock();
        let size = size(&event);
        let full = !queue.events.is_empty() && (queue.events.len() >= EVENTS || queue.bytes + size > BYTES);
        if full {
            queue.end.get_or_insert(End::Lagged);
        }
        if queue.end.is_some() {
            (queue.events, queue.bytes) = (VecDeque::new(), 0);
            return Put::Ended;
        }
        queue.bytes += size;
        queue.events.push_back(event);
        if queue.events.len() == 1 { Put::First } else { Put::Later }
    }

    /// Ends the watch after the events that are waiting.
    pub(super) fn close(&self) {
        self.queue.lock().end.get_or_insert(End::Closed);
        self.waker.wake();
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    pub(super) fn poll_next(&self, cx: &Context<'_>) -> Poll<Result<StorageEvent, End>> {
        if let Some(next) = self.take() {
            return Poll::Ready(next);
        }
        self.waker.register(cx.waker());
        // An event that was added before the registration has woken no task.
        self.take().map_or(Poll::Pending, Poll::Ready)
    }

    fn take(&self) -> Option<Result<StorageEvent, End>> {
        let mut queue = self.queue.lock();
        match queue.events.pop_front() {
            Some(event) => {
                queue.bytes -= size(&event);
                Some(Ok(event))
            }
            None => queue.end.map(Err),
        }
    }
}

fn size(event: &StorageEvent) -> usize {
    let bodies = [&event.current, &event.previous].into_iter().flatten();
    bodies.map(|value| value.body.len()).sum::<usize>() + EVENT_BYTES
}
