//! The control loop as a story: which event led to which key, which key to which reconcile, what it wrote, and what came of it.
//!
//! For live views, tests and the [`console`](crate::console). Numbers go to
//! [`ControllerMetrics`](crate::ControllerMetrics), prose to `tracing`.

use std::time::Duration;

use windlass_api::{ApiResource, ObjectKey};
use windlass_client::Operation;

use crate::{Action, Retry};

/// Sees each step of the controllers of a manager. Closures are observers.
///
/// Observers are called by the tasks that do the work: they must be quick and must not block.
pub trait ReconcileObserver: Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &ReconcileEvent<'_>);
}

/// A step of the loop.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ReconcileEvent<'e> {
    /// A change in a cache made a key dirty. A change that leads to no key is not told.
    Triggered(Trigger<'e>),
    /// A worker took a key.
    Started(ReconcileStarted<'e>),
    /// The reconcile has sent a request that was to change something. What it leaves to other tasks to send is not told.
    Wrote(ReconcileWrote<'e>),
    /// The worker is done with it.
    Finished(ReconcileFinished<'e>),
}

/// A change that led to a key.
#[derive(Clone, Copy, Debug)]
pub struct Trigger<'e> {
    /// The controller's name.
    pub controller: &'e str,
    /// What kind of object changed.
    pub resource: &'e ApiResource,
    /// Which object changed.
    pub object: &'e ObjectKey,
    /// How.
    pub change: Change,
    /// The key that was added to the controller's queue.
    pub key: &'e ObjectKey,
}

/// How an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is in the cache now and was not before: new, or part of the initial list.
    Added,
    /// It has another state.
    Updated,
    /// It is no longer in the cache.
    Deleted,
}

/// The beginning of a reconcile.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileStarted<'e> {
    /// The controller's name.
    pub controller: &'e str,
    /// What is reconciled.
    pub key: &'e ObjectKey,
    /// The same as in the log and in [`Context::reconcile_id`](crate::Context::reconcile_id).
    pub id: &'e str,
}

/// A request of a reconcile that was to change something, and its answer. One that is sent again is told again.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileWrote<'e> {
    /// The controller's name.
    pub controller: &'e str,
    /// What is reconciled.
    pub key: &'e ObjectKey,
    /// The same as at the start.
    pub id: &'e str,
    /// What was to be done, to which object.
    pub operation: &'e Operation,
    /// The answer's; `None` when there was none.
    pub status: Option<u16>,
    /// From the sending to the answer.
    pub took: Duration,
}

/// The end of a reconcile.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileFinished<'e> {
    /// The controller's name.
    pub controller: &'e str,
    /// What was reconciled.
    pub key: &'e ObjectKey,
    /// The same as at the start.
    pub id: &'e str,
    /// How long it took.
    pub duration: Duration,
    /// What came of it.
    pub outcome: &'e Outcome,
}

/// What came of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It succeeded.
    Done(Action),
    /// The object was gone: there was nothing to reconcile.
    Gone,
    /// It failed.
    Failed {
        /// The error and its causes, in one line.
        message: String,
        /// Whether it is tried again.
        retry: Retry,
    },
    /// It took longer than the controller allows, and was dropped; it is tried again with back-off.
    TimedOut {
        /// How long it may take.
        limit: Duration,
    },
    /// It panicked; it is tried again with back-off.
    Panicked {
        /// What the panic said.
        message: String,
    },
}

impl<F: Fn(&ReconcileEvent<'_>) + Send + Sync + 'static> ReconcileObserver for F {
    fn observe(&self, event: &ReconcileEvent<'_>) {
        self(event);
    }
}
