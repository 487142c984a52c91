//! The first layer: dirty keys, keys in processing, waiting workers, shutdown.

mod get;

use std::{
    collections::VecDeque,
    fmt::{self, Debug},
    hash::{BuildHasher, Hash},
    sync::Arc,
};

use hashbrown::DefaultHashBuilder;
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, time::Instant};

pub use self::get::{Get, GetWithPriority};
use crate::{
    DEFAULT_PRIORITY, DefaultRateLimiter, Order, QueueMetrics, RateLimiter, UnfinishedWork,
    entries::Phase,
    order::{ByPriority, Ready},
    state::{Dirtied, Lifecycle, State},
    timer::Timer,
};

/// A queue of keys for workers. Clones are handles to the same queue. See the [crate documentation](crate).
///
/// `T`'s `Hash`, `Eq` and `Clone` run under the queue's lock and should be cheap.
pub struct WorkQueue<T> {
    inner: Arc<Inner<T>>,
}

/// The queue without its handles. The timer holds a weak reference to it.
pub(crate) struct Inner<T> {
    name: String,
    pub(crate) hasher: DefaultHashBuilder,
    limiter: Box<dyn RateLimiter<T>>,
    metrics: Option<Arc<dyn QueueMetrics>>,
    /// The only lock. Held briefly, and never while awaiting, waking or calling metrics.
    state: Mutex<State<T>>,
    /// Notified when `State::is_idle` becomes true after a shutdown, and when a drain is cancelled.
    drained: Notify,
    pub(crate) timer: Timer,
}

/// Builds a [`WorkQueue`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder<T> {
    name: String,
    limiter: Option<Box<dyn RateLimiter<T>>>,
    ready: Ready<T>,
    metrics: Option<Arc<dyn QueueMetrics>>,
}

// === impl WorkQueue ===

impl<T: Clone + Eq + Hash + Send + Sync + 'static> WorkQueue<T> {
    /// Creates a queue with the [default rate limiter](DefaultRateLimiter), no name and no metrics.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder of queues.
    pub fn builder() -> Builder<T> {
        Builder { name: String::new(), limiter: None, ready: Ready::InOrder(VecDeque::new()), metrics: None }
    }

    /// Returns the name set in the builder, or an empty string.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Marks `item` as dirty. Ignored after a shutdown.
    ///
    /// An item that is already queued keeps its position. An item that a worker is processing is queued again after the
    /// worker's `done`.
    pub fn add(&self, item: T) {
        self.add_now(item, DEFAULT_PRIORITY);
    }

    #[inline]
    pub(crate) fn add_now(&self, item: T, priority: i32) {
        let inner = &*self.inner;
        let hash = inner.hasher.hash_one(&item);
        let mut state = inner.state.lock();
        if state.lifecycle != Lifecycle::Open {
            return;
        }
        let slot = if let Some(slot) = state.entries.find(hash, &item) {
            slot // `item` is dropped at the end, after the lock
        } else {
            state.entries.insert(hash, item, &inner.hasher)
        };
        let dirtied = state.mark_dirty(slot, priority, inner.metrics.is_some());
        if dirtied == Dirtied::Already {
            return;
        }
        let waker = if dirtied == Dirtied::Queued { state.next_waker() } else { None };
        let priority = state.priority(slot);
        drop(state);
        inner.report(dirtied, priority);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for the next item. Returns `None` if the queue has been shut down and is empty.
    ///
    /// The worker must call [`done`](Self::done) for each item, whatever the outcome of its work. Cancel-safe. Workers
    /// are served in the order in which they began to wait.
    pub fn get(&self) -> Get<'_, T> {
        Get::new(self)
    }

    /// Marks the processing of `item`, as returned by [`get`](Self::get), as done.
    ///
    /// If the item was added meanwhile, it is queued again. Ignored for items that no worker has.
    pub fn done(&self, item: &T) {
        let inner = &*self.inner;
        let hash = inner.hasher.hash_one(item);
        let mut state = inner.state.lock();
        let Some(slot) = state.entries.find(hash, item) else { return };
        let again = match state.entries.get(slot).phase {
            Phase::Processing => false,
            Phase::Reprocess => true,
            Phase::Idle | Phase::Queued => return,
        };
        state.processing -= 1;
        let started = state.entries.times_mut(slot).and_then(|times| times.started.take());
        let mut removed = None;
        let mut waker = None;
        if again {
            state.requeue(slot);
            waker = state.next_waker();
        } else if state.is_delayed(slot) {
            state.entries.get_mut(slot).phase = Phase::Idle;
        } else {
            removed = state.entries.remove(slot, &inner.hasher);
        }
        let drained = state.lifecycle != Lifecycle::Open && state.is_idle();
        drop(state);
        drop(removed);
        if let Some(waker) = waker {
            waker.wake();
        }
        if drained {
            inner.drained.notify_waiters();
        }
        if let (Some(metrics), Some(started)) = (&inner.metrics, started) {
            metrics.finished(started.elapsed());
        }
    }

    /// Returns the number of ready items. Items that are being processed or delayed do not count.
    pub fn len(&self) -> usize {
        self.inner.state.lock().ready.len()
    }

    /// Reports whether no item is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the work in progress. Without metrics only the number of keys is known.
    pub fn unfinished_work(&self) -> UnfinishedWork {
        let state = self.inner.state.lock();
        let mut work = UnfinishedWork { keys: state.processing, ..UnfinishedWork::default() };
        let now = Instant::now();
        for started in state.entries.times().iter().filter_map(|times| times.started) {
            let age = now.duration_since(started);
            work.total += age;
            work.longest = work.longest.max(age);
        }
        work
    }

    /// Shuts the queue down. New items are ignored and delayed items are dropped. Queued items are still handed out;
    /// after that every [`get`](Self::get) returns `None`. Cancels a drain in progress.
    pub fn shut_down(&self) {
        self.end(Lifecycle::Closed);
        self.inner.drained.notify_waiters();
    }

    /// Shuts the queue down like [`shut_down`](Self::shut_down), and waits until the workers have finished all accepted
    /// items. This includes items that were added while they were being processed.
    ///
    /// Workers must continue to call `get` until it returns `None`. A `shut_down`, before or meanwhile, ends the wait,
    /// except for the end of the queue's timer task. Dropping the future stops only the wait.
    pub async fn shut_down_with_drain(&self) {
        self.end(Lifecycle::Draining);
        let mut drained = std::pin::pin!(self.inner.drained.notified());
        loop {
            drained.as_mut().enable();
            {
                let state = self.inner.state.lock();
                if state.is_idle() || state.lifecycle == Lifecycle::Closed {
                    break;
                }
            }
            drained.as_mut().await;
            drained.set(self.inner.drained.notified());
        }
        self.inner.timer.ended().await;
    }

    /// Reports whether a shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        self.inner.state.lock().lifecycle != Lifecycle::Open
    }

    pub(crate) fn inner(&self) -> &Arc<Inner<T>> {
        &self.inner
    }

    pub(crate) fn limiter(&self) -> &dyn RateLimiter<T> {
        &*self.inner.limiter
    }

    /// Stops accepting items, drops delayed items, wakes every worker, and aborts the timer task.
    fn end(&self, lifecycle: Lifecycle) {
        let mut state = self.inner.state.lock();
        if state.lifecycle != Lifecycle::Closed {
            state.lifecycle = lifecycle;
        }
        let dropped = state.drop_delayed(&self.inner.hasher);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        drop(dropped);
        for waiter in waiters {
            waiter.waker.wake();
        }
        self.inner.timer.stop();
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Default for WorkQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

// Implemented by hand, because the derive would require `T: Clone`.
impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T> Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.state.lock();
        f.debug_struct("WorkQueue")
            .field("name", &self.inner.name)
            .field("lifecycle", &state.lifecycle)
            .field("queued", &state.ready.len())
            .field("processing", &state.processing)
            .finish_non_exhaustive()
    }
}

// === impl Inner ===

impl<T> Inner<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }

    pub(crate) fn metrics(&self) -> Option<&dyn QueueMetrics> {
        self.metrics.as_deref()
    }

    /// Reports the effect of an addition to the metrics. `priority` is the item's, in a queue by priority.
    pub(crate) fn report(&self, dirtied: Dirtied, priority: Option<i32>) {
        let Some(metrics) = &self.metrics else { return };
        match dirtied {
            Dirtied::Already => {}
            Dirtied::Raised(before) => {
                metrics.depth_changed(priority, 1);
                metrics.depth_changed(Some(before), -1);
            }
            Dirtied::Queued | Dirtied::Deferred => {
                metrics.added();
                metrics.depth_changed(priority, 1);
            }
        }
    }
}

// === impl Builder ===

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Builder<T> {
    /// Sets the name for metrics and logs.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the rate limiter. Defaults to the [default rate limiter](DefaultRateLimiter).
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<T>) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Hands out higher priorities first, instead of strictly in the order of arrival. Keys with the same priority are
    /// handed out in the order in which they got it.
    ///
    /// A key is in the queue once: with the highest priority and the earliest time of all its additions since a worker
    /// last took it. If its priority is raised, it is placed behind the keys that already have that priority. A steady
    /// stream of keys with a higher priority can starve the others.
    pub fn by_priority(mut self) -> Self {
        self.ready = Ready::ByPriority(ByPriority::default());
        self
    }

    /// Hands out keys in a custom order.
    pub fn order(mut self, order: impl Order<T> + 'static) -> Self {
        self.ready = Ready::Custom(Box::new(order));
        self
    }

    /// Sets the receiver of metrics. Without it nothing is measured, which saves reading the clock.
    pub fn metrics(mut self, metrics: Arc<dyn QueueMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Creates the queue.
    #[must_use]
    pub fn build(self) -> WorkQueue<T> {
        let state = State::new(self.ready, self.metrics.is_some());
        WorkQueue {
            inner: Arc::new(Inner {
                name: self.name,
                hasher: DefaultHashBuilder::default(),
                limiter: self.limiter.unwrap_or_else(|| Box::new(DefaultRateLimiter::new())),
                metrics: self.metrics,
                state: Mutex::new(state),
                drained: Notify::new(),
                timer: Timer::default(),
            }),
        }
    }
}

impl<T: Debug> Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("limiter", &self.limiter)
            .field("order", &self.ready)
            .field("metrics", &self.metrics)
            .finish()
    }
}
