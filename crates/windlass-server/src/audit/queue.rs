//! The buffer of a backend: limited by the number of events and by their size.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout_at},
};

use super::event::Rendered;

/// The maximum size of the events in a buffer, in bytes. kube-apiserver only limits their number, and a client can send
/// objects of 3 MiB.
const MAX_BYTES: usize = 64 << 20;

/// An event in the buffer.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) event: Arc<Rendered>,
    pub(super) audit_id: Box<str>,
    /// Notifies the request that waits for the event: `true` if it was written.
    pub(super) written: Option<oneshot::Sender<bool>>,
}

/// The buffer.
#[derive(Debug)]
pub(super) struct Queue {
    max_events: usize,
    state: Mutex<State>,
    /// An event was added, or a flush began.
    added: Notify,
    /// Events were written.
    removed: Notify,
}

#[derive(Debug, Default)]
struct State {
    entries: VecDeque<Entry>,
    /// The size of the events in the buffer and in batches that are being written.
    bytes: usize,
    /// The number of batches that are being written.
    writing: usize,
    /// The number of callers that wait until the buffer is empty.
    flushes: usize,
    /// A task empties the buffer.
    is_running: bool,
    /// The server has ended.
    is_closed: bool,
}

/// A batch that is being written. Dropping it frees its room.
#[derive(Debug)]
pub(super) struct Batch {
    queue: Arc<Queue>,
    pub(super) entries: Vec<Entry>,
    bytes: usize,
}

/// The task that empties the buffer. Dropping it, for example with its runtime, lets another one start.
#[derive(Debug)]
pub(super) struct Running(Arc<Queue>);

impl Entry {
    fn size(&self) -> usize {
        self.event.json_len() + self.event.line.as_ref().map_or(0, bytes::Bytes::len)
    }
}

impl Queue {
    pub(super) fn new(max_events: usize) -> Self {
        Self { max_events, state: Mutex::default(), added: Notify::new(), removed: Notify::new() }
    }

    /// Adds an event, or returns it if the buffer is full. An event of any size fits into an empty buffer. A closed buffer
    /// drops it.
    pub(super) fn push(&self, entry: Entry) -> Result<(), Entry> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Ok(());
        }
        let size = entry.size();
        if state.entries.len() >= self.max_events || (state.bytes > 0 && state.bytes + size > MAX_BYTES) {
            return Err(entry);
        }
        state.bytes += size;
        state.entries.push_back(entry);
        drop(state);
        self.added.notify_one();
        Ok(())
    }

    /// Adds an event as soon as there is room. Until then, the event stays in its place.
    pub(super) async fn push_when_possible(&self, entry: &mut Option<Entry>) {
        loop {
            let mut removed = std::pin::pin!(self.removed.notified());
            removed.as_mut().enable();
            let Some(next) = entry.take() else { return };
            if let Err(refused) = self.push(next) {
                *entry = Some(refused);
                removed.await;
            }
        }
    }

    /// Refuses further events, and lets the task that empties the buffer end.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.added.notify_one();
    }

    /// Returns the right to empty the buffer, if no other task has it.
    pub(super) fn start(self: &Arc<Self>) -> Option<Running> {
        let mut state = self.state.lock();
        (!std::mem::replace(&mut state.is_running, true)).then(|| Running(Arc::clone(self)))
    }

    /// Waits for a batch: until there are `size` events, or `wait` has passed since the first one. Then takes up to `most`
    /// events that have arrived. Returns `None` if the buffer is closed and empty.
    pub(super) async fn collect(self: &Arc<Self>, size: usize, wait: Duration, most: usize) -> Option<Batch> {
        let mut deadline = None;
        loop {
            let added = self.added.notified();
            {
                let mut state = self.state.lock();
                let length = state.entries.len();
                let is_due = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                if length >= size || (length > 0 && (is_due || state.flushes > 0 || state.is_closed)) {
                    let entries: Vec<Entry> = state.entries.drain(..length.min(most.max(size))).collect();
                    state.writing += 1;
                    let bytes = entries.iter().map(Entry::size).sum();
                    return Some(Batch { queue: Arc::clone(self), entries, bytes });
                }
                if state.is_closed {
                    return None;
                }
                if length > 0 && deadline.is_none() {
                    deadline = Some(Instant::now() + wait);
                }
            }
            match deadline {
                // A timeout means that the batch is due.
                Some(deadline) => drop(timeout_at(deadline, added).await),
                None => added.await,
            }
        }
    }

    /// Waits until all events were written.
    pub(super) async fn flush(&self) {
        struct Flush<'q>(&'q Queue);
        impl Drop for Flush<'_> {
            fn drop(&mut self) {
                self.0.state.lock().flushes -= 1;
            }
        }
        self.state.lock().flushes += 1;
        let _flush = Flush(self);
        self.added.notify_one();
        loop {
            let removed = self.removed.notified();
            let mut removed = std::pin::pin!(removed);
            removed.as_mut().enable();
            {
                let state = self.state.lock();
                if state.entries.is_empty() && state.writing == 0 {
                    return;
                }
            }
            removed.await;
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.bytes -= self.bytes;
        state.writing -= 1;
        drop(state);
        self.queue.removed.notify_waiters();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_running = false;
        // No request may wait for a task that has ended. The events stay for the next task.
        for entry in &mut state.entries {
            entry.written = None;
        }
    }
}
