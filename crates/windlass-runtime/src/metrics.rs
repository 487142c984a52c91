//! What controllers tell about themselves in numbers: [`ControllerMetrics`] is told, [`Registry`] keeps it as Prometheus
//! does, and [`MetricsServer`] shows it.

mod access;
mod caches;
mod depth;
mod maker;
mod registry;
mod requests;
mod server;

use std::{fmt::Debug, sync::Arc, time::Duration};

use windlass_queue::{QueueMetrics, UnfinishedWork};

pub(crate) use self::caches::{selector, short};
pub use self::{registry::Registry, requests::RequestCounter, server::MetricsServer};
use crate::observer::Outcome;

/// Says what the workers of a queue have in their hands.
pub type UnfinishedProbe = Box<dyn Fn() -> UnfinishedWork + Send + Sync>;

/// Receives what happens in the controllers of a manager. Each method has a default that does nothing.
///
/// The meanings are controller-runtime's. For the story behind the numbers, see
/// [`ReconcileObserver`](crate::ReconcileObserver).
pub trait ControllerMetrics: Debug + Send + Sync + 'static {
    /// A controller starts `workers` workers: `max_concurrent_reconciles`. What is returned receives the events of its
    /// queue.
    fn controller(&self, controller: &str, workers: usize) -> Option<Arc<dyn QueueMetrics>> {
        let _ = (controller, workers);
        None
    }

    /// A controller has a queue, whose unfinished work can be asked for: `unfinished_work_seconds` and
    /// `longest_running_processor_seconds`.
    fn queue(&self, controller: &str, unfinished: UnfinishedProbe) {
        let _ = (controller, unfinished);
    }

    /// A reconcile begins: `active_workers` rises by one.
    fn started(&self, controller: &str) {
        let _ = controller;
    }

    /// A reconcile has ended: `active_workers` falls by one, `reconcile_time_seconds`, `reconcile_total` by result;
    /// [`Outcome::Failed`] also counts as `reconcile_errors_total`, and `terminal_reconcile_errors_total` when it is not
    /// retried; [`Outcome::Panicked`] as `reconcile_panics_total` and as an error.
    fn finished(&self, controller: &str, outcome: &Outcome, duration: Duration) {
        let _ = (controller, outcome, duration);
    }
}

/// Counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl ControllerMetrics for NoMetrics {}
