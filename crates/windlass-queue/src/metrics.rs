//! What a queue tells about itself.

use std::{fmt::Debug, time::Duration};

/// Receives what happens in a queue. Each method has a default that does nothing.
///
/// The meanings are client-go's, so that dashboards made for it keep working. Methods are called after the queue's lock
/// has been released: calls from several threads may arrive in another order than the events happened in, which is why
/// the depth is told as steps and not as a level.
pub trait QueueMetrics: Debug + Send + Sync + 'static {
    /// A key became dirty: `adds_total` rises by one. Additions of a key that is dirty already do not count.
    fn added(&self) {}

    /// The number of dirty keys rose (`change` is 1) or fell (-1): `depth`. `priority` is that of the key in a queue by
    /// priority; a key whose priority is raised is one more of the new one and one fewer of the old.
    fn depth_changed(&self, priority: Option<i32>, change: i64) {
        let _ = (priority, change);
    }

    /// A worker took a key that had been dirty for `waited`: `queue_duration_seconds`.
    fn taken(&self, waited: Duration) {
        let _ = waited;
    }

    /// A worker said `done` after `worked`: `work_duration_seconds`.
    fn finished(&self, worked: Duration) {
        let _ = worked;
    }

    /// A key was added with a delay: `retries_total`.
    fn retried(&self) {}
}

/// The work that workers have taken and not finished, as [`WorkQueue::unfinished_work`](crate::WorkQueue::unfinished_work) sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedWork {
    /// Keys in the hands of workers.
    pub keys: usize,
    /// The sum of how long they have been there: `unfinished_work_seconds`. A stuck worker shows as steady growth.
    pub total: Duration,
    /// The longest of them: `longest_running_processor_seconds`.
    pub longest: Duration,
}
