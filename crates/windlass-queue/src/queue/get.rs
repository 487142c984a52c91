//! The future of a worker that waits for an item.

use std::{
    fmt::{self, Debug},
    future::Future,
    hash::Hash,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::task::coop;

use super::WorkQueue;
use crate::state::Taken;

/// The future of [`WorkQueue::get`]. Dropping it loses no key.
#[must_use = "futures do nothing unless awaited"]
pub struct Get<'q, T: Clone + Eq + Hash + Send + Sync + 'static> {
    queue: &'q WorkQueue<T>,
    /// The ID in `State::waiters`, if the worker ever waited. It stays set after a wake-up has removed the entry.
    waiter: Option<u64>,
}

/// The future of [`Get::with_priority`]. Dropping it loses no key.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct GetWithPriority<'q, T: Clone + Eq + Hash + Send + Sync + 'static>(Get<'q, T>);

// === impl Get ===

impl<'q, T: Clone + Eq + Hash + Send + Sync + 'static> Get<'q, T> {
    pub(super) fn new(queue: &'q WorkQueue<T>) -> Self {
        Self { queue, waiter: None }
    }

    /// Also returns the priority of the item: the highest priority of its additions since it was last handed out.
    pub fn with_priority(self) -> GetWithPriority<'q, T> {
        GetWithPriority(self)
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Get<'_, T> {
    fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<Option<Taken<T>>> {
        // A worker on a queue that is never empty must yield to the other tasks of its thread.
        let budget = ready!(coop::poll_proceed(cx));
        let inner = &*self.queue.inner;
        let mut state = inner.state.lock();
        if let Some(taken) = state.take(&inner.hasher, inner.metrics.is_some()) {
            // Woken or not, this worker no longer waits. It may take an item for which another worker is being woken.
            // That worker then finds the queue empty and waits again.
            if let Some(id) = self.waiter.take() {
                state.stop_waiting(id);
            }
            let by_priority = state.ready.priorities().is_some();
            drop(state);
            budget.made_progress();
            if let (Some(metrics), Some(waited)) = (&inner.metrics, taken.waited) {
                metrics.taken(waited);
                metrics.depth_changed(by_priority.then_some(taken.priority), -1);
            }
            return Poll::Ready(Some(taken));
        }
        if !state.is_open() {
            self.waiter = None;
            budget.made_progress();
            return Poll::Ready(None);
        }
        state.wait(&mut self.waiter, cx.waker());
        Poll::Pending
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Future for Get<'_, T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.get_mut().poll_taken(cx).map(|taken| taken.map(|taken| taken.item))
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Future for GetWithPriority<'_, T> {
    type Output = Option<(T, i32)>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll_taken(cx).map(|taken| taken.map(|taken| (taken.item, taken.priority)))
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Drop for Get<'_, T> {
    fn drop(&mut self) {
        let Some(id) = self.waiter else { return };
        let mut state = self.queue.inner.state.lock();
        if !state.stop_waiting(id) && !state.ready.is_empty() {
            // This worker was woken for an item but is dropped, so the next one is woken.
            let waker = state.next_waker();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Debug for Get<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Get").field("queue", self.queue).finish_non_exhaustive()
    }
}
