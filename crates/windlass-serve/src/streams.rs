//! The tasks of an HTTP/2 connection's streams.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Poll, ready},
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
}

/// A counter for the frames of a response body. It is odd while a frame waits for the client, and even otherwise.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicUsize);

impl Streams {
    pub(crate) fn new(stall: Duration) -> Self {
        Self { tasks: Arc::default(), stall }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(serve(stream, self.stall));
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

    /// Returns the number of the frame that waits for the client, if any.
    fn unread(&self) -> Option<usize> {
        Some(self.0.load(Relaxed)).filter(|frames| frames % 2 == 1)
    }
}

/// Runs a stream until it ends or stalls.
async fn serve(stream: impl Future<Output = ()>, stall: Duration) {
    let progress = Arc::new(Progress::default());
    let mut stream = pin!(PROGRESS.scope(Arc::clone(&progress), stream));
    // The waiting frame and its deadline.
    let mut waiting = None;
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
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
        ));
        assert!((&mut stream).now_or_never().is_none());
        time::advance(100 * STALL).await;
        assert!(stream.now_or_never().is_none());
    }
}
