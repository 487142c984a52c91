//! Observation of the control loop: the event behind each key, the reconcile of the key, its writes, and its outcome.
//!
//! For live views, tests and the [`console`](crate::console). For metrics, see
//! [`ControllerMetrics`]; logs use `tracing`.

mod metrics;

use std::time::Duration;

use windlass_api::{ApiResource, ObjectKey};
use windlass_client::Operation;

pub use self::metrics::{ControllerMetrics, NoMetrics, UnfinishedProbe};
use crate::{Action, Retry};

/// Receives each step of a manager's controllers. Closures are observers.
///
/// The tasks that do the work call observers directly, so observers must return quickly and must not block.
pub trait ReconcileObserver: Send + Sync + 'static {
    /// Called for each step.
    fn observe(&self, event: &ReconcileEvent<'_>);
}

/// A step of the control loop.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ReconcileEvent<'e> {
    /// A change in a cache added a key to the queue. Changes that lead to no key are not reported.
    Triggered(Trigger<'e>),
    /// A worker took a key.
    Started(ReconcileStarted<'e>),
    /// The reconcile sent a write request. Writes that it delegates to other tasks are not reported.
    Wrote(ReconcileWrote<'e>),
    /// The worker has finished the reconcile.
    Finished(ReconcileFinished<'e>),
}

/// A change that led to a key.
#[derive(Clone, Copy, Debug)]
pub struct Trigger<'e> {
    /// The controller's name.
    pub controller: &'e str,
    /// The resource of the changed object.
    pub resource: &'e ApiResource,
    /// The changed object.
    pub object: &'e ObjectKey,
    /// The kind of change.
    pub change: Change,
    /// The key that was added to the controller's queue.
    pub key: &'e ObjectKey,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was added to the cache: it is new, or part of the initial list.
    Added,
    /// The object was updated.
    Updated,
    /// The object was removed from the cache.
    Deleted,
}

/// The beginning of a reconcile.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileStarted<'e> {
    /// The controller's name.
    pub controller: &'e str,
    /// The reconciled key.
    pub key: &'e ObjectKey,
    /// The reconcile ID, as in the log and in [`Context::reconcile_id`](crate::Context::reconcile_id).
    pub id: &'e str,
}

/// A write request of a reconcile, and its response. Each retry of a request is reported again.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileWrote<'e> {
    /// The controller's name.
    pub controller: &'e str,
    /// The reconciled key.
    pub key: &'e ObjectKey,
    /// The reconcile ID, as at the start.
    pub id: &'e str,
    /// The operation and its object.
    pub operation: &'e Operation,
    /// The status of the response; `None` if there was no response.
    pub status: Option<u16>,
    /// The time from the request to the response.
    pub took: Duration,
}

/// The end of a reconcile.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileFinished<'e> {
    /// The controller's name.
    pub controller: &'e str,
    /// The reconciled key.
    pub key: &'e ObjectKey,
    /// The reconcile ID, as at the start.
    pub id: &'e str,
    /// The duration of the reconcile.
    pub duration: Duration,
    /// The outcome of the reconcile.
    pub outcome: &'e Outcome,
}

/// The outcome of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The reconcile succeeded.
    Done(Action),
    /// The object does not exist any more, so there was nothing to reconcile.
    Gone,
    /// The reconcile failed.
    Failed {
        /// The error and its causes, in one line.
        message: String,
        /// The retry policy for the error.
        retry: Retry,
    },
    /// The reconcile exceeded the controller's time limit and was dropped. It is retried with back-off.
    TimedOut {
        /// The time limit.
        limit: Duration,
    },
    /// The reconciler panicked. The reconcile is retried with back-off.
    Panicked {
        /// The panic message.
        message: String,
    },
}

impl<F: Fn(&ReconcileEvent<'_>) + Send + Sync + 'static> ReconcileObserver for F {
    fn observe(&self, event: &ReconcileEvent<'_>) {
        self(event);
    }
}
