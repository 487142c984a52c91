//! The first layer: dirty keys, keys in processing, waiting workers, shutdown.

pub(crate) mod entries;
mod get;
pub(crate) mod state;

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
use self::{
    entries::Phase,
    state::{Dirtied, Lifecycle, State},
};
use crate::{
    DEFAULT_PRIORITY, DefaultRateLimiter, Order, QueueMetrics, RateLimiter, UnfinishedWork,
    delaying::Timer,
    order::{ByPriority, Ready},
};

/// A queue of keys for workers. Clones are handles to the same queue. See the [crate documentation](crate).
///
/// `T`'s `Hash`, `Eq` and `Clone` run under the queue's lock and should be cheap.
pub struct WorkQueue<T> {
    inner: Arc<Inner<T>>,
}

/// The queue without its handles: what the timer refers to weakly.
pub(crate) struct Inner<T> {
    name: String,
    pub(crate) hasher: DefaultHashBuilder,
    limiter: Box<dyn RateLimiter<T>>,
    metrics: Option<Arc<dyn QueueMetrics>>,
    /// The one lock. Held for a few steps, never over an await, a waker or metrics.
    state: Mutex<State<T>>,
    /// Told when `State::is_idle` becomes true after a shutdown, and when a drain is given up.
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
    /// A queue with the [default rate limiter](DefaultRateLimiter), no name and no metrics.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A queue with choices.
    pub fn builder() -> Builder<T> {
        Builder { name: String::new(), limiter: None, ready: Ready::InOrder(VecDeque::new()), metrics: None }
    }

    /// The name given to the builder, or nothing.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Marks `item` as in need of work. Ignored after a shutdown.
    ///
    /// An item that is queued already stays where it is; one that a worker has is queued again when that worker is done.
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
        inner.tell(dirtied, priority);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for the next item. `None` means that the queue has been shut down and has nothing left to hand out.
    ///
    /// Whoever gets an item must say [`done`](Self::done), whatever came of the work. Cancel-safe; workers are served
    /// in the order in which they began to wait.
    pub fn get(&self) -> Get<'_, T> {
        Get::new(self)
    }

    /// Says that the work on `item`, as handed out by [`get`](Self::get), is over.
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

    /// The number of items ready to be handed out: neither those in the hands of workers nor those that wait for a
    /// moment.
    pub fn len(&self) -> usize {
        self.inner.state.lock().ready.len()
    }

    /// Whether nothing is ready to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What workers have at the moment. Without metrics only the number is known.
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

    /// Ends the queue: new items are ignored, items that wait for a moment are dropped, what is queued is still handed
    /// out, and then every [`get`](Self::get) returns `None`. Ends a drain that is under way.
    pub fn shut_down(&self) {
        self.end(Lifecycle::Closed);
        self.inner.drained.notify_waiters();
    }

    /// Ends the queue as [`shut_down`](Self::shut_down) does and waits until the workers have finished all that was
    /// accepted, including items that were added while they were being worked on.
    ///
    /// It needs workers that keep getting until they get `None`; a `shut_down`, before or meanwhile, makes it wait for
    /// nothing but the end of the queue's timer task. Dropping the future stops only the waiting.
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

    /// Whether a shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        self.inner.state.lock().lifecycle != Lifecycle::Open
    }

    pub(crate) fn inner(&self) -> &Arc<Inner<T>> {
        &self.inner
    }

    pub(crate) fn limiter(&self) -> &dyn RateLimiter<T> {
        &*self.inner.limiter
    }

    /// Stops accepting, drops what waits for a moment, wakes every worker, aborts the timer task.
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

// By hand, as the derive would ask for `T: Clone`.
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

    /// Tells the metrics what an addition has changed. `priority` is that of the item, where priorities count.
    pub(crate) fn tell(&self, dirtied: Dirtied, priority: Option<i32>) {
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
    /// The name for metrics and logs.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Replaces the [default rate limiter](DefaultRateLimiter).
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<T>) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Hands out higher priorities first, and keys of one priority in the order in which they got it, instead of all in
    /// the order in which they became ready.
    ///
    /// A key is then in the queue once: at the highest of the priorities, and at the earliest of the moments, with which it
    /// was added since a worker took it last. One whose priority is raised goes behind those that have that priority
    /// already. Without new keys of a higher priority none is left behind for ever; with them, it is.
    pub fn by_priority(mut self) -> Self {
        self.ready = Ready::ByPriority(ByPriority::default());
        self
    }

    /// Hands out keys in an order of the program's own.
    pub fn order(mut self, order: impl Order<T> + 'static) -> Self {
        self.ready = Ready::Custom(Box::new(order));
        self
    }

    /// Reports to `metrics`. Without this call nothing is measured, which saves reading the clock.
    pub fn metrics(mut self, metrics: Arc<dyn QueueMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// The queue, open.
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
