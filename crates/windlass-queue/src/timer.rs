//! The timer task of a queue.

use std::{future::Future, pin::Pin, sync::Arc};

use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinHandle};

/// The task that makes delayed keys ready.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    /// `None` before the first delay and after a drain. This lock is taken before the state's, never after it.
    task: Mutex<Option<JoinHandle<()>>>,
    /// Notified when the first time in the heap becomes earlier.
    changed: Arc<Notify>,
}

// === impl Timer ===

impl Timer {
    /// Starts the task if it does not run and `is_open` returns `true`. `task` gets the notification of
    /// [`Self::wake`].
    #[track_caller]
    pub(crate) fn ensure_running<F>(&self, is_open: impl FnOnce() -> bool, task: impl FnOnce(Arc<Notify>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut running = self.task.lock();
        // If the task has finished, its runtime was shut down and this is a different one.
        if running.as_ref().is_none_or(JoinHandle::is_finished) && is_open() {
            // Boxed, so that the executor's code is compiled once and not for each type of key.
            let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(task(Arc::clone(&self.changed)));
            *running = Some(tokio::spawn(task));
        }
    }

    /// Notifies the task that the first time in the heap has become earlier.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Aborts the task, if there is one.
    pub(crate) fn stop(&self) {
        if let Some(task) = &*self.task.lock() {
            task.abort();
        }
    }

    /// Waits until the aborted task has ended. Of several concurrent callers only one waits.
    pub(crate) async fn ended(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            // Takes one more turn of the scheduler. The result can only be a cancellation.
            let _ = task.await;
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
    }
}
