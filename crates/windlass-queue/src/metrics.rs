//! Metrics of a queue.

use std::{fmt::Debug, time::Duration};

/// Receives the measurements of a queue. Each method has a default that does nothing.
///
/// The metrics have the meanings of client-go, so existing dashboards work. Methods are called after the queue's lock
/// is released. Calls from several threads may therefore arrive in a different order than the events. This is why the
/// depth is reported as changes and not as a value.
pub trait QueueMetrics: Debug + Send + Sync + 'static {
    /// A key became dirty: `adds_total` increases by one. Additions of a dirty key do not count.
    fn added(&self) {}

    /// The number of dirty keys increased (`change` is 1) or decreased (-1): `depth`. In a queue by priority,
    /// `priority` is the key's priority. If a key's priority is raised, its new priority gains a key and its old one
    /// loses a key.
    fn depth_changed(&self, priority: Option<i32>, change: i64) {
        let _ = (priority, change);
    }

    /// A worker took a key that had been dirty for `waited`: `queue_duration_seconds`.
    fn taken(&self, waited: Duration) {
        let _ = waited;
    }

    /// A worker called `done` after `worked`: `work_duration_seconds`.
    fn finished(&self, worked: Duration) {
        let _ = worked;
    }

    /// A key was added with a delay: `retries_total`.
    fn retried(&self) {}
}

/// The work in progress, as returned by [`WorkQueue::unfinished_work`](crate::WorkQueue::unfinished_work).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedWork {
    /// The number of keys that workers are processing.
    pub keys: usize,
    /// The sum of their processing times so far: `unfinished_work_seconds`. Steady growth indicates a stuck worker.
    pub total: Duration,
    /// The longest processing time so far: `longest_running_processor_seconds`.
    pub longest: Duration,
}
