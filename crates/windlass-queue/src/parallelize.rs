//! Execution of many independent pieces of work by a limited number of tasks.

use std::{
    fmt::{self, Debug},
    future::{Future, pending},
    num::NonZeroUsize,
    ops::Range,
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

use tokio::task::{JoinError, JoinSet};

/// Runs pieces of work, numbered from 0, with a limited number of workers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// use windlass_queue::Parallelize;
///
/// let sum = Arc::new(AtomicUsize::new(0));
/// let done = Parallelize::new(4).run(100, {
///     let sum = sum.clone();
///     move |piece| {
///         let sum = sum.clone();
///         async move { _ = sum.fetch_add(piece, Ordering::Relaxed) }
///     }
/// });
/// assert_eq!(done.await, 100);
/// assert_eq!(sum.load(Ordering::Relaxed), 4950);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nothing runs until `run` or `run_until` is called"]
pub struct Parallelize {
    workers: usize,
    chunk_size: NonZeroUsize,
}

/// The data shared by the workers.
struct Pieces<F> {
    work: F,
    count: usize,
    chunk_size: NonZeroUsize,
    /// The first piece that no worker has taken.
    next: AtomicUsize,
    stopped: AtomicBool,
}

// === impl Parallelize ===

impl Parallelize {
    /// Sets the number of workers: at least one, and at most one per chunk.
    pub fn new(workers: usize) -> Self {
        Self { workers: workers.max(1), chunk_size: NonZeroUsize::MIN }
    }

    /// Sets how many pieces a worker takes at a time. Defaults to one. Use larger chunks for many small pieces.
    pub fn chunk_size(mut self, pieces: usize) -> Self {
        self.chunk_size = NonZeroUsize::new(pieces).unwrap_or(NonZeroUsize::MIN);
        self
    }

    /// Processes all pieces. Returns the number of processed pieces, which is `pieces`.
    ///
    /// # Panics
    ///
    /// Panics like [`run_until`](Self::run_until).
    pub async fn run<W>(self, pieces: usize, work: impl Fn(usize) -> W + Send + Sync + 'static) -> usize
    where
        W: Future<Output = ()> + Send + 'static,
    {
        self.run_until(pending(), pieces, work).await
    }

    /// Processes all pieces, or stops early when `stop` resolves. After that no piece is started, not even from a chunk
    /// in progress. Running pieces are finished. Returns the number of processed pieces.
    ///
    /// Dropping the future aborts the running pieces.
    ///
    /// # Panics
    ///
    /// Panics with the panic of a piece, after the running pieces have ended; no piece is started after it. Panics
    /// outside of a tokio runtime.
    pub async fn run_until<W>(
        self,
        stop: impl Future<Output = ()>,
        pieces: usize,
        work: impl Fn(usize) -> W + Send + Sync + 'static,
    ) -> usize
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let shared = Arc::new(Pieces {
            work,
            count: pieces,
            chunk_size: self.chunk_size,
            next: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let mut workers = JoinSet::new();
        for _ in 0..self.workers.min(pieces.div_ceil(self.chunk_size.get())) {
            let shared = shared.clone();
            workers.spawn(async move { shared.work().await });
        }
        let mut stop = pin!(stop);
        let mut done = 0;
        let mut panic = None;
        loop {
            let ended = tokio::select! {
                biased;
                () = &mut stop, if !shared.stopped.load(SeqCst) => {
                    shared.stopped.store(true, SeqCst);
                    continue;
                }
                ended = workers.join_next() => ended,
            };
            match ended.map(|worked| worked.map_err(JoinError::try_into_panic)) {
                None => break,
                Some(Ok(pieces)) => done += pieces,
                Some(Err(reason)) => {
                    shared.stopped.store(true, SeqCst);
                    panic = panic.or(reason.ok());
                }
            }
        }
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
        done
    }
}

// === impl Pieces ===

impl<F, W> Pieces<F>
where
    F: Fn(usize) -> W,
    W: Future<Output = ()>,
{
    /// Takes chunks until none is left. Returns the number of processed pieces.
    async fn work(&self) -> usize {
        let mut done = 0;
        while let Some(chunk) = self.take() {
            for piece in chunk {
                if self.stopped.load(SeqCst) {
                    return done;
                }
                (self.work)(piece).await;
                done += 1;
            }
        }
        done
    }

    fn take(&self) -> Option<Range<usize>> {
        let size = self.chunk_size.get();
        let first = self
            .next
            .fetch_update(Relaxed, Relaxed, |next| (next < self.count).then_some(next.saturating_add(size)))
            .ok()?;
        Some(first..first.saturating_add(size).min(self.count))
    }
}

impl<F> Debug for Pieces<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").field("count", &self.count).field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;
    use tokio::time::{Instant, sleep};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Records each piece, which takes 10 ms.
    fn noting(seen: &Arc<Mutex<Vec<usize>>>) -> impl Fn(usize) -> futures_of::Piece + Send + Sync + 'static {
        let seen = seen.clone();
        move |piece| {
            let seen = seen.clone();
            Box::pin(async move {
                seen.lock().push(piece);
                sleep(MS * 10).await;
            })
        }
    }

    mod futures_of {
        pub(super) type Piece = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
    }

    #[tokio::test(start_paused = true)]
    async fn each_piece_is_processed_once_by_n_workers() {
        for (workers, chunk_size, pieces, took) in [
            (1, 1, 6, 60),
            (3, 1, 6, 20),
            (4, 1, 6, 20),
            (100, 1, 6, 10),
            (2, 4, 6, 40),
            (2, 100, 6, 60),
            (0, 0, 2, 20),
            (3, 1, 0, 0),
        ] {
            let seen = Arc::default();
            let start = Instant::now();
            let done = Parallelize::new(workers).chunk_size(chunk_size).run(pieces, noting(&seen)).await;
            assert_eq!(done, pieces);
            let case = (workers, chunk_size, pieces);
            let late = start.elapsed().saturating_sub(MS * took);
            assert!(start.elapsed() >= MS * took && late < MS * 10, "{case:?}: {:?}", start.elapsed());
            let mut seen = seen.lock().clone();
            seen.sort_unstable();
            assert_eq!(seen, (0..pieces).collect::<Vec<_>>(), "{case:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn parallelize_finishes_running_pieces_after_stop() {
        let (seen, finished) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let work = {
            let (note, finished) = (noting(&seen), finished.clone());
            move |piece| {
                let (noted, finished) = (note(piece), finished.clone());
                async move {
                    noted.await;
                    finished.fetch_add(1, SeqCst);
                }
            }
        };
        let done = Parallelize::new(2).chunk_size(50).run_until(sleep(MS * 15), 100, work).await;
        assert_eq!(done, 4);
        assert_eq!(finished.load(SeqCst), 4);
        let mut seen = seen.lock().clone();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 50, 51], "the rest of the chunk is not started");
    }

    #[tokio::test]
    async fn parallelize_stopped_before_start_does_nothing() {
        let seen = Arc::default();
        assert_eq!(Parallelize::new(2).run_until(async {}, 5, noting(&seen)).await, 0);
        assert!(seen.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn panic_of_a_piece_is_propagated_after_the_others_end() {
        let finished = Arc::new(AtomicUsize::new(0));
        let count = finished.clone();
        let all = tokio::spawn(async move {
            let work = move |piece| {
                let count = count.clone();
                async move {
                    assert_ne!(piece, 1, "piece 1 is bad");
                    sleep(MS * 10).await;
                    count.fetch_add(1, SeqCst);
                }
            };
            Parallelize::new(2).run(10, work).await
        });
        let panic = all.await.unwrap_err().into_panic();
        assert!(panic.downcast_ref::<String>().unwrap().contains("piece 1 is bad"));
        assert_eq!(finished.load(SeqCst), 1, "the running piece was finished and no other started");
    }
}
