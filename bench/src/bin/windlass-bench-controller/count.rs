//! Statistics of a run's reconciles.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::Wrote;

/// Counts all reconciles, and times those that write a status, one per object.
#[derive(Debug, Default)]
pub(super) struct Count {
    begun: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
    /// The durations of reconciles that wrote.
    took: Mutex<Vec<Duration>>,
    /// Notified at the end of each reconcile.
    progress: Notify,
}

/// The distribution of durations of reconciles that wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) objects: usize,
    pub(super) median_ms: f64,
    pub(super) p99_ms: f64,
}

impl Count {
    /// Runs one reconcile and records it.
    pub(super) async fn around<T, E>(&self, reconcile: impl Future<Output = Result<(T, Wrote), E>>) -> Result<T, E> {
        self.begun.fetch_add(1, Relaxed);
        let start = Instant::now();
        let result = reconcile.await;
        match &result {
            Ok((_, true)) => self.took.lock().push(start.elapsed()),
            Ok((_, false)) => {}
            Err(_) => drop(self.failed.fetch_add(1, Relaxed)),
        }
        self.ended.fetch_add(1, Relaxed);
        self.progress.notify_one();
        result.map(|(value, _)| value)
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Returns the number of completed reconciles.
    pub(super) fn all(&self) -> u64 {
        self.ended.load(Relaxed)
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// Waits for this number of completed reconciles.
    pub(super) async fn ended(&self, reconciles: u64) {
        while self.all() < reconciles {
            self.progress.notified().await;
        }
    }

    /// Waits for this number of written statuses.
    pub(super) async fn ready(&self, objects: usize) {
        while self.took.lock().len() < objects {
            self.progress.notified().await;
        }
    }

    /// Waits until no reconcile has ended for this time.
    pub(super) async fn quiet(&self, time: Duration) {
        while tokio::time::timeout(time, self.progress.notified()).await.is_ok() {}
    }

    pub(super) fn latency(&self) -> Latency {
        let mut took = self.took.lock().clone();
        took.sort_unstable();
        let at = |percent: usize| took.get(took.len() * percent / 100).map_or(0.0, |took| took.as_secs_f64() * 1e3);
        Latency { objects: took.len(), median_ms: at(50), p99_ms: at(99) }
    }
}
