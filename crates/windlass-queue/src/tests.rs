//! Tests of the queue, one file per part, and their helpers.

mod delaying;
mod metrics;
mod model;
mod order;
mod priority;
mod properties;
mod rate_limiting;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Wake,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::timeout;

use crate::{QueueMetrics, WorkQueue};

const MS: Duration = Duration::from_millis(1);

fn assert_send<T: Send>(value: T) -> T {
    value
}

/// Counts its wake-ups.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Woken {
    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

async fn take(queue: &WorkQueue<&'static str>) -> Option<&'static str> {
    assert_send(queue.get()).await
}

/// Reports whether no item is ready, after other tasks have run.
async fn nothing_ready(queue: &WorkQueue<&'static str>) -> bool {
    timeout(Duration::ZERO, queue.get()).await.is_err()
}

/// Records the measurements of a queue.
#[derive(Debug, Default)]
struct Recorded(Mutex<Vec<String>>);

impl QueueMetrics for Recorded {
    fn added(&self) {
        self.0.lock().push("added".into());
    }

    fn taken(&self, waited: Duration) {
        self.0.lock().push(format!("taken after {waited:?}"));
    }

    fn finished(&self, worked: Duration) {
        self.0.lock().push(format!("finished after {worked:?}"));
    }

    fn retried(&self) {
        self.0.lock().push("retried".into());
    }

    fn depth_changed(&self, priority: Option<i32>, change: i64) {
        let priority = priority.map_or("all".into(), |priority| priority.to_string());
        self.0.lock().push(format!("{priority}: {change:+}"));
    }
}

impl Recorded {
    /// Returns the measurements since the last call.
    fn happened(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}
