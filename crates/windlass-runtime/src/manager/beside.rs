//! A task that a manager has beside its runnables: it ends the manager when it fails, and ends after them.

use tokio::task::JoinSet;

use super::groups::died;
use crate::{
    Result,
    error::panic_message,
    shutdown::{Stop, Stopper},
};

/// One task, once it is started. Dropped, it is aborted.
pub(super) struct Beside<T> {
    /// What it is, as errors say.
    name: &'static str,
    stopper: Stopper,
    task: JoinSet<T>,
}

impl<T: Send + 'static> Beside<T> {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, stopper: Stopper::new(), task: JoinSet::new() }
    }

    /// The task is told by the handle when to stop.
    pub(super) fn start<F: Future<Output = T> + Send + 'static>(&mut self, task: impl FnOnce(Stop) -> F) {
        self.task.spawn(task(self.stopper.handle()));
    }

    /// Resolves when the task has ended; never without one. Cancel-safe.
    pub(super) async fn ended(&mut self) -> Result<T> {
        match self.task.join_next().await {
            Some(outcome) => outcome.map_err(|error| died(self.name, error)),
            None => std::future::pending().await,
        }
    }

    /// Asks the task to stop, and waits until it has.
    pub(super) async fn stop(&mut self) {
        self.stopper.stop();
        if let Some(Err(error)) = self.task.join_next().await
            && error.is_panic()
        {
            tracing::error!(task = self.name, panic = panic_message(&*error.into_panic()), "it panicked as it stopped");
        }
    }

    /// Ends the task at once.
    pub(super) async fn abort(&mut self) {
        self.task.shutdown().await;
    }
}
