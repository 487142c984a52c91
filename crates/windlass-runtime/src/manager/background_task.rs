//! A background task of a manager beside its runnables. It ends the manager if it fails, and stops after the runnables.

use tokio::task::JoinSet;

use super::groups::died;
use crate::{
    Result,
    error::panic_message,
    shutdown::{Stop, Stopper},
};

/// A task that may have been started. Dropping it aborts the task.
pub(super) struct BackgroundTask<T> {
    /// The name of the task in errors.
    name: &'static str,
    stopper: Stopper,
    task: JoinSet<T>,
}

impl<T: Send + 'static> BackgroundTask<T> {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, stopper: Stopper::new(), task: JoinSet::new() }
    }

    /// Starts the task, with a handle that signals the stop.
    pub(super) fn start<F: Future<Output = T> + Send + 'static>(&mut self, task: impl FnOnce(Stop) -> F) {
        self.task.spawn(task(self.stopper.handle()));
    }

    /// Resolves when the task has ended; never if there is none. Cancel-safe.
    pub(super) async fn ended(&mut self) -> Result<T> {
        match self.task.join_next().await {
            Some(outcome) => outcome.map_err(|error| died(self.name, error)),
            None => std::future::pending().await,
        }
    }

    /// Requests the task to stop, and waits until it has ended.
    pub(super) async fn stop(&mut self) {
        self.stopper.stop();
        if let Some(Err(error)) = self.task.join_next().await
            && error.is_panic()
        {
            tracing::error!(
                task = self.name,
                panic = panic_message(&*error.into_panic()),
                "the task panicked while stopping"
            );
        }
    }

    /// Aborts the task.
    pub(super) async fn abort(&mut self) {
        self.task.shutdown().await;
    }
}
