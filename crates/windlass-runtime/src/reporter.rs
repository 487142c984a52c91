//! The reporter of a manager: distributes events to observers and metrics.

use std::{
    fmt::{self, Debug},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

#[cfg(feature = "console")]
use crate::console_data::{ConsoleData, ControllerEntry, ControllerGuard};
use crate::{
    error::panic_message,
    observer::{ControllerMetrics, ReconcileEvent, ReconcileObserver},
};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reporter {
    observers: Arc<[Arc<dyn ReconcileObserver>]>,
    pub(crate) metrics: Arc<dyn ControllerMetrics>,
    /// The data of the console, if there is one. It is also one of the observers.
    #[cfg(feature = "console")]
    console: Option<Arc<ConsoleData>>,
}

impl Reporter {
    pub(crate) fn new(
        #[cfg_attr(not(feature = "console"), expect(unused_mut, reason = "the console is an observer"))]
        mut observers: Vec<Arc<dyn ReconcileObserver>>,
        metrics: Arc<dyn ControllerMetrics>,
        #[cfg(feature = "console")] console: Option<Arc<ConsoleData>>,
    ) -> Self {
        #[cfg(feature = "console")]
        observers.extend(console.clone().map(|console| console as Arc<dyn ReconcileObserver>));
        Self {
            observers: observers.into(),
            metrics,
            #[cfg(feature = "console")]
            console,
        }
    }

    /// Reports whether there are observers.
    pub(crate) fn is_observed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// Adds a controller with a queue to the console, before it fills the queue. The controller is removed when the
    /// returned guard is dropped.
    #[cfg(feature = "console")]
    pub(crate) fn add_controller(&self, controller: impl FnOnce() -> ControllerEntry) -> Option<ControllerGuard> {
        self.console.as_ref().map(|console| console.add_controller(controller()))
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
