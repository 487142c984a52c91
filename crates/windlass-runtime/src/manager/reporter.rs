//! The reporter of a manager: distributes events to observers and metrics.

use std::{
    fmt::{self, Debug},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    ControllerMetrics, ReconcileEvent, ReconcileObserver,
    console::{Ledger, Opened, Shown},
    error::panic_message,
};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reporter {
    observers: Arc<[Arc<dyn ReconcileObserver>]>,
    pub(crate) metrics: Arc<dyn ControllerMetrics>,
    /// The data of the console, if there is one. It is also one of the observers.
    ledger: Option<Arc<Ledger>>,
}

impl Reporter {
    pub(crate) fn new(
        mut observers: Vec<Arc<dyn ReconcileObserver>>,
        metrics: Arc<dyn ControllerMetrics>,
        ledger: Option<Arc<Ledger>>,
    ) -> Self {
        observers.extend(ledger.clone().map(|ledger| ledger as Arc<dyn ReconcileObserver>));
        Self { observers: observers.into(), metrics, ledger }
    }

    /// Reports whether there are observers.
    pub(crate) fn is_observed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// Adds a controller with a queue to the console, before it fills the queue. The controller is removed when the
    /// returned guard is dropped.
    pub(crate) fn opened(&self, controller: impl FnOnce() -> Opened) -> Option<Shown> {
        self.ledger.as_ref().map(|ledger| ledger.open(controller()))
    }

    /// Calls the observers. A panic of an observer is logged and does not stop the observed work.
    pub(crate) fn observe(&self, event: &ReconcileEvent<'_>) {
        for observer in &*self.observers {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer.observe(event))) {
                tracing::error!(panic = panic_message(&*panic), "a reconcile observer panicked");
            }
        }
    }
}

impl Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter")
            .field("observers", &self.observers.len())
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}
