//! Who is told what happens: the observers and the metrics of a manager.

use std::{
    fmt::{self, Debug},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{ControllerMetrics, ReconcileEvent, ReconcileObserver, error::panic_message};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reporter {
    observers: Arc<[Arc<dyn ReconcileObserver>]>,
    pub(crate) metrics: Arc<dyn ControllerMetrics>,
}

impl Reporter {
    pub(crate) fn new(observers: Vec<Arc<dyn ReconcileObserver>>, metrics: Arc<dyn ControllerMetrics>) -> Self {
        Self { observers: observers.into(), metrics }
    }

    /// Tells the observers. One that panics is logged: it must not stop the work that it looks at.
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
        f.debug_struct("Reporter").field("observers", &self.observers.len()).field("metrics", &self.metrics).finish()
    }
}
