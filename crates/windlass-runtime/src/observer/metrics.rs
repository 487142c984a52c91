//! Measurements of controllers.

use std::{fmt::Debug, sync::Arc, time::Duration};

use windlass_queue::{QueueMetrics, UnfinishedWork};

use super::Outcome;

/// Returns the unfinished work of a queue's workers.
pub type UnfinishedProbe = Box<dyn Fn() -> UnfinishedWork + Send + Sync>;

/// Receives the measurements of a manager's controllers. Each method has a default that does nothing.
///
/// The metrics have the meanings of controller-runtime. For the individual steps, see
/// [`ReconcileObserver`](crate::ReconcileObserver).
pub trait ControllerMetrics: Debug + Send + Sync + 'static {
    /// A controller starts `workers` workers: `max_concurrent_reconciles`. The returned value receives the measurements
    /// of its queue.
    fn controller(&self, controller: &str, workers: usize) -> Option<Arc<dyn QueueMetrics>> {
        let _ = (controller, workers);
        None
    }

    /// A controller has created its queue. `unfinished` reports its unfinished work: `unfinished_work_seconds` and
    /// `longest_running_processor_seconds`.
    fn queue(&self, controller: &str, unfinished: UnfinishedProbe) {
        let _ = (controller, unfinished);
    }

    /// A reconcile begins: `active_workers` increases by one.
    fn started(&self, controller: &str) {
        let _ = controller;
    }

    /// A reconcile has ended: `active_workers` decreases by one; `reconcile_time_seconds` and `reconcile_total` are
    /// updated. [`Outcome::Failed`] also counts in `reconcile_errors_total`, and in `terminal_reconcile_errors_total`
    /// if it is not retried. [`Outcome::Panicked`] counts in `reconcile_panics_total` and as an error.
    fn finished(&self, controller: &str, outcome: &Outcome, duration: Duration) {
        let _ = (controller, outcome, duration);
    }
}

/// Discards all measurements.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl ControllerMetrics for NoMetrics {}
