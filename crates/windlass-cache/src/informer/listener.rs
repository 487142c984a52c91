//! A handler with its queue and task.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{Notify, mpsc, watch},
    task::yield_now,
    time::Instant,
};

use crate::{
    cached::Untyped,
    handler::{Buffer, Handler, Notification, Pace},
    options::Reporter,
    synced::SyncSignal,
};

/// The minimum resync period; shorter ones would only cause load.
const MIN_RESYNC: Duration = Duration::from_secs(1);

/// A handler that has not been started.
pub(super) struct NewListener {
    pub(super) id: u64,
    pub(super) handler: Box<dyn Handler<Untyped>>,
    pub(super) resync: Option<Duration>,
    pub(super) buffer: Buffer,
    pub(super) pace: Pace,
    pub(super) removed: Arc<AtomicBool>,
    pub(super) synced: SyncSignal,
    /// Dropped when the handler's task has ended or will never be started.
    pub(super) ended: watch::Sender<()>,
}

/// The processor's end of a handler's queue.
pub(super) struct Listener {
    pub(super) id: u64,
    /// Unbounded, so that the notifications of one delta always fit; see [`Handler`].
    queue: mpsc::UnboundedSender<Message>,
    /// `None` if the queue is unbounded.
    backlog: Option<Arc<Backlog>>,
    removed: Arc<AtomicBool>,
    resync: Option<Resync>,
}

/// The number of queued notifications of a handler, including the running one.
pub(super) struct Backlog {
    waiting: AtomicUsize,
    bound: usize,
    /// Wakes the processor, which waits for room.
    has_room: Notify,
}

struct Resync {
    period: Duration,
    next: Instant,
    /// `true` if the handler takes part in the current resync.
    is_due: bool,
}

/// The duration from which a handler counts as slow. Moving other tasks to another thread costs a few µs, which pays
/// off only for slower handlers.
const SLOW: Duration = Duration::from_millis(1);

/// The number of notifications taken from the queue at once. The informer also adds many at once, and the runtime gives
/// both the same number of turns. Without batches, the informer would get ahead of a quick handler. A handler that has
/// run for [`SLOW`] yields to other tasks.
const BATCH: usize = 64;

/// The task's end of a handler's queue.
struct Handling {
    handler: Box<dyn Handler<Untyped>>,
    /// The speed of the last notification. Slow and new handlers run in `block_in_place`. Otherwise, a blocked thread
    /// would also delay the tasks that tokio has queued on it, including other handlers.
    pace: Pace,
    synced: SyncSignal,
    backlog: Option<Arc<Backlog>>,
    reporter: Reporter,
}

enum Message {
    Notify(Notification<Untyped>),
    /// All earlier messages belong to the initial list.
    Synced,
}

impl NewListener {
    /// Creates the queue and the task that empties it. The task ends when the queue is dropped or the handler is
    /// removed.
    pub(super) fn start(self, reporter: Reporter) -> (Listener, impl Future<Output = ()> + Send + 'static) {
        let (queue, mut messages) = mpsc::unbounded_channel();
        let Self { id, handler, resync, buffer, pace, removed, synced, ended } = self;
        let resync = resync.map(|period| {
            let period = period.max(MIN_RESYNC);
            Resync { period, next: Instant::now() + period, is_due: false }
        });
        let backlog = match buffer {
            Buffer::Unbounded => None,
            Buffer::Bounded(bound) => {
                Some(Arc::new(Backlog { waiting: AtomicUsize::new(0), bound, has_room: Notify::new() }))
            }
        };
        let listener = Listener { id, queue, backlog: backlog.clone(), removed: Arc::clone(&removed), resync };
        let mut handling = Handling { handler, pace, synced, backlog, reporter };
        let task = async move {
            let _ended = ended;
            let mut taken = Vec::with_capacity(BATCH);
            while messages.recv_many(&mut taken, BATCH).await > 0 {
                let mut now = Instant::now();
                let mut turn = now;
                for message in taken.drain(..) {
                    if now - turn >= SLOW {
                        yield_now().await;
                        now = Instant::now();
                        turn = now;
                    }
                    if removed.load(Ordering::Acquire) {
                        return;
                    }
                    let Message::Notify(notification) = message else {
                        handling.synced.fire();
                        continue;
                    };
                    now = handling.handle(notification, now);
                    if handling.made_room() {
                        // Without a yield, a next call that blocks this thread would also delay the processor, which was
                        // woken on it.
                        yield_now().await;
                        now = Instant::now();
                    }
                }
            }
        };
        (listener, task)
    }
}

impl Handling {
    /// Handles one notification. Takes the start time and returns the end time.
    fn handle(&mut self, notification: Notification<Untyped>, now: Instant) -> Instant {
        let key = notification.key().clone();
        let (outcome, ended) = self.pace.run(now, || crate::panics::catch_panic(|| self.handler.handle(notification)));
        if let Err(panic) = outcome {
            self.reporter.metrics().handler_panicked();
            tracing::error!(%key, panic, "a handler panicked; continuing with the next notification");
        }
        ended
    }

    /// Takes the handled notification off the backlog. Reports whether the processor was waiting for that.
    fn made_room(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| backlog.remove_one())
    }
}

impl Backlog {
    /// Removes a notification, and wakes the processor if the backlog was full. Returns `true` if it was.
    fn remove_one(&self) -> bool {
        let was_full = self.waiting.fetch_sub(1, Ordering::AcqRel) == self.bound;
        if was_full {
            self.has_room.notify_one();
        }
        was_full
    }

    /// Waits until the backlog has room.
    pub(super) async fn wait_for_room(&self) {
        while self.waiting.load(Ordering::Acquire) >= self.bound {
            self.has_room.notified().await;
        }
    }
}

impl Pace {
    fn run<T>(&mut self, begun: Instant, call: impl FnOnce() -> T) -> (T, Instant) {
        let can_move = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        let result = match self {
            Self::Unknown | Self::Slow if can_move() => tokio::task::block_in_place(call),
            _ => call(),
        };
        let ended = Instant::now();
        *self = if ended - begun < SLOW { Self::Quick } else { Self::Slow };
        (result, ended)
    }
}

impl Listener {
    pub(super) fn notify(&self, notification: Notification<Untyped>) {
        if let Some(backlog) = &self.backlog {
            backlog.waiting.fetch_add(1, Ordering::AcqRel);
        }
        self.send(Message::Notify(notification));
    }

    pub(super) fn synced(&self) {
        self.send(Message::Synced);
    }

    /// Prevents the next notification from starting.
    pub(super) fn stop(self) {
        self.removed.store(true, Ordering::Release);
    }

    /// Returns how many notifications may be queued.
    pub(super) fn room(&self) -> usize {
        let room = |backlog: &Arc<Backlog>| backlog.bound.saturating_sub(backlog.waiting.load(Ordering::Acquire));
        self.backlog.as_ref().map_or(usize::MAX, room)
    }

    /// Returns the backlog if it is full.
    pub(super) fn full_backlog(&self) -> Option<&Arc<Backlog>> {
        self.backlog.as_ref().filter(|backlog| backlog.waiting.load(Ordering::Acquire) >= backlog.bound)
    }

    pub(super) fn next_resync(&self) -> Option<Instant> {
        self.resync.as_ref().map(|resync| resync.next)
    }

    /// Decides whether the handler takes part in the resync that begins now.
    pub(super) fn begin_resync(&mut self, now: Instant) {
        if let Some(resync) = &mut self.resync {
            resync.is_due = resync.next <= now;
            if resync.is_due {
                resync.next = now + resync.period;
            }
        }
    }

    pub(super) fn takes_resync(&self) -> bool {
        self.resync.as_ref().is_some_and(|resync| resync.is_due)
    }

    fn send(&self, message: Message) {
        // A removed handler no longer receives; the processor is about to remove it.
        let _ = self.queue.send(message);
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::{
        event_queue::tests::entry,
        handler::InitialList,
        options::InformerOptions,
        synced::{HasSynced, Stopped},
        testing::soon,
    };

    /// Returns a handler that records the names of its notifications, and its sync state.
    fn listener() -> (NewListener, Arc<Mutex<Vec<String>>>, HasSynced) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        let (synced, has_synced) = SyncSignal::new();
        let listener = NewListener {
            id: 1,
            handler: Box::new(move |news: Notification<Untyped>| log.lock().push(news.key().to_string())),
            resync: None,
            buffer: Buffer::Unbounded,
            pace: Pace::Unknown,
            removed: Arc::default(),
            synced,
            ended: watch::channel(()).0,
        };
        (listener, told, has_synced)
    }

    fn added(name: &str) -> Notification<Untyped> {
        Notification::Added { object: entry(name, 1).cast(), initial: InitialList::Yes }
    }

    #[tokio::test(start_paused = true)]
    async fn pending_notifications_are_dropped_at_stop() {
        for is_stopped in [false, true] {
            let (listener, told, has_synced) = listener();
            let (listener, task) = listener.start(Reporter::new(&InformerOptions::default()));
            listener.notify(added("a"));
            listener.synced();
            let expected = if is_stopped {
                listener.stop();
                (Err(Stopped), 0)
            } else {
                drop(listener);
                (Ok(()), 1)
            };
            soon(task).await;
            assert_eq!((soon(has_synced).await, told.lock().len()), expected);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn fast_handler_gets_no_own_thread() {
        let quick = crate::HandlerOptions::default().quick().pace;
        for (mut pace, is_alone) in [(Pace::Unknown, true), (Pace::Slow, true), (quick, false)] {
            // Succeeds only if the thread may block.
            let wait = || crate::panics::catch_panic(|| Handle::current().block_on(async {})).is_ok();
            let could_wait = tokio::spawn(async move { pace.run(Instant::now(), wait).0 }).await.unwrap();
            assert_eq!(could_wait, is_alone, "{pace:?}");
        }
    }
}
