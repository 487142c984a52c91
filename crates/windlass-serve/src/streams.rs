//! The tasks of an HTTP/2 connection's streams.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{self, Instant},
};

tokio::task_local! {
    /// The progress of the stream of the current task.
    static PROGRESS: Arc<Progress>;
}

/// Runs the tasks of a connection's streams. Dropping the last clone aborts them, so they end with the connection.
///
/// A stream whose client has not accepted a frame for `stall` is reset, because HTTP/2 clients can stop one stream
/// while the connection continues. A stream that waits for the server, such as a watch without events, is not reset.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    tasks: Arc<Mutex<JoinSet<()>>>,
    stall: Duration,
    connection: Arc<ConnectionTask>,
}

/// The task of the connection. It is woken if a frame waits for the client, to write all that the client accepts.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTask(Mutex<Option<Waker>>);

/// A counter for the frames of a response body. It is odd while a frame waits for the client, and even otherwise.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicUsize);

impl Streams {
    pub(crate) fn new(stall: Duration) -> Self {
        Self { tasks: Arc::default(), stall, connection: Arc::default() }
    }

    /// Returns the task of the connection.
    pub(crate) fn connection(&self) -> Arc<ConnectionTask> {
        Arc::clone(&self.connection)
    }
}

impl ConnectionTask {
    /// Records that the current task is the one of the connection.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        let mut waker = self.0.lock();
        match &mut *waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.0.lock() {
            waker.wake_by_ref();
        }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(serve(stream, self.stall, self.connection()));
    }
}

impl Progress {
    /// Returns the progress of the current task's stream; `None` over HTTP/1.
    pub(crate) fn of_task() -> Option<Arc<Self>> {
        PROGRESS.try_with(Arc::clone).ok()
    }

    /// Records that the connection polls for a frame, so the previous one is sent.
    pub(crate) fn asked(&self) {
        let frames = self.0.load(Relaxed);
        self.0.store(frames.wrapping_add(frames % 2), Relaxed);
    }

    /// Records that the connection has a frame to send.
    pub(crate) fn handed(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1) | 1, Relaxed);
    }

    /// Returns the number of frames that the connection has received.
    fn frames(&self) -> usize {
        self.0.load(Relaxed).div_ceil(2)
    }

    /// Returns the number of the frame that waits for the client, if any.
    fn unread(&self) -> Option<usize> {
        Some(self.0.load(Relaxed)).filter(|frames| frames % 2 == 1)
    }
}

/// Runs a stream until it ends or stalls.
async fn serve(stream: impl Future<Output = ()>, stall: Duration, connection: Arc<ConnectionTask>) {
    let progress = Arc::new(Progress::default());
    let mut stream = pin!(PROGRESS.scope(Arc::clone(&progress), stream));
    // The waiting frame and its deadline.
    let mut waiting = None;
    let mut reported = 0;
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // h2 does not wake a connection whose socket takes no bytes. It must run, to report what it has not written.
        if reported != progress.frames() {
            reported = progress.frames();
            connection.wake();
        }
        let Some(frame) = progress.unread() else {
            waiting = None;
            return Poll::Pending;
        };
        let (since, deadline) = waiting.get_or_insert_with(|| (frame, Box::pin(time::sleep(stall))));
        if *since != frame {
            *since = frame;
            deadline.as_mut().reset(Instant::now() + stall);
        }
        ready!(deadline.as_mut().poll(cx));
        tracing::debug!(?stall, "resetting a stream whose client does not read");
        Poll::Ready(())
    })
    .await;
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const STALL: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn stream_ends_when_its_client_does_not_read() {
        let started = Instant::now();
        serve(
            async {
                let progress = Progress::of_task().unwrap();
                for _ in 0..3 {
                    progress.asked();
                    progress.handed();
                    time::sleep(STALL.checked_sub(Duration::from_secs(1)).unwrap()).await;
                }
                std::future::pending::<()>().await;
            },
            STALL,
            Arc::default(),
        )
        .await;
        // Each accepted frame restarts the timeout.
        assert_eq!(started.elapsed(), 2 * STALL.checked_sub(Duration::from_secs(1)).unwrap() + STALL);
    }

    #[tokio::test(start_paused = true)]
    async fn stream_waiting_for_the_server_is_kept() {
        let mut stream = pin!(serve(
            async {
                let progress = Progress::of_task().unwrap();
                progress.handed();
                progress.asked();
                std::future::pending::<()>().await;
            },
            STALL,
            Arc::default(),
        ));
        assert!((&mut stream).now_or_never().is_none());
        time::advance(100 * STALL).await;
        assert!(stream.now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_woken_if_the_stream_waits_for_its_next_frame() {
        let connection = Arc::new(ConnectionTask::default());
        let (waker, woken) = counting_waker();
        connection.register(&Context::from_waker(&waker));
        let mut stream = pin!(serve(
            async {
                let progress = Progress::of_task().unwrap();
                progress.asked();
                progress.handed();
                progress.asked();
                std::future::pending::<()>().await;
            },
            STALL,
            Arc::clone(&connection),
        ));
        for _ in 0..2 {
            assert!((&mut stream).now_or_never().is_none());
            assert_eq!(woken.load(Relaxed), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_woken_for_each_waiting_frame() {
        let connection = Arc::new(ConnectionTask::default());
        let (waker, woken) = counting_waker();
        connection.register(&Context::from_waker(&waker));
        let mut stream = pin!(serve(
            async {
                let progress = Progress::of_task().unwrap();
                for _ in 0..2 {
                    progress.asked();
                    progress.handed();
                    tokio::task::yield_now().await;
                    tokio::task::yield_now().await;
                }
            },
            STALL,
            Arc::clone(&connection),
        ));
        for expected in [1, 1, 2, 2] {
            assert!((&mut stream).now_or_never().is_none());
            assert_eq!(woken.load(Relaxed), expected);
        }
        assert!(stream.now_or_never().is_some());
    }

    /// Returns a waker that counts its calls.
    fn counting_waker() -> (Waker, Arc<AtomicUsize>) {
        struct Counted(Arc<AtomicUsize>);
        impl std::task::Wake for Counted {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let count = Arc::new(AtomicUsize::new(0));
        (Waker::from(Arc::new(Counted(Arc::clone(&count)))), count)
    }
}
