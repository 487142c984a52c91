//! Addition and removal of runnables while a manager runs.

use std::{
    collections::HashSet,
    fmt::{self, Debug},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::{ActingRunnable, Group, Runnable};
use crate::{Error, Result, cluster::Cluster, shutdown::Stopper};

/// Adds controllers and other runnables to a manager, before or while it runs. Cheap to clone; clones refer to the same
/// manager.
///
/// ```no_run
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_runtime::{Action, Context, Controller, ManagerHandle, Result};
/// # use std::sync::Arc;
/// # async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> { Ok(Action::await_change()) }
/// # async fn for_a_while(manager: ManagerHandle) -> Result<()> {
/// let controller = manager.add(Controller::<ConfigMap>::new().reconcile(reconcile))?;
/// // When the controller is no longer needed:
/// controller.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ManagerHandle {
    names: RunnableNames,
    requests: mpsc::UnboundedSender<Request>,
    /// The cluster of the added runnables; `None` for that of the manager.
    cluster: Option<Cluster>,
}

/// A handle of a runnable that was added through a [`ManagerHandle`]. Dropping it does not stop the runnable.
#[must_use = "this handle is the only way to stop a single runnable"]
pub struct RunnableHandle {
    name: String,
    stopper: Stopper,
    /// Closed when the runnable has ended, or will never start. No value is sent.
    ended: watch::Receiver<()>,
    requests: mpsc::UnboundedSender<Request>,
}

/// The names of a manager's runnables.
#[derive(Clone, Default)]
pub(crate) struct RunnableNames(Arc<Mutex<HashSet<String>>>);

/// A request of a handle to the manager.
pub(crate) enum Request {
    /// Starts a runnable.
    Add(PreparedRunnable),
    /// Removes the runnable with this name, if it has not started.
    Withdraw(String),
}

/// A runnable to start.
pub(crate) struct PreparedRunnable {
    pub(crate) runnable: Box<dyn Runnable>,
    pub(crate) stopper: Stopper,
    pub(crate) end_guard: EndGuard,
}

/// Frees the name when the runnable has ended, and notifies waiting callers.
pub(crate) struct EndGuard {
    name: String,
    names: RunnableNames,
    _ended: watch::Sender<()>,
}

// === impl ManagerHandle ===

impl ManagerHandle {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Request>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        (Self { names: RunnableNames::default(), requests, cluster: None }, receiver)
    }

    /// Returns a handle that adds runnables with another view of the cluster.
    pub(crate) fn in_cluster(self, cluster: Cluster) -> Self {
        Self { cluster: Some(cluster), ..self }
    }

    /// Adds a controller or another runnable. It starts at once, or with the manager. If its group needs leadership, it
    /// starts when this process is elected. It stops with its group. Like any runnable, it stops the manager if it
    /// fails.
    ///
    /// Returns an error if a runnable with this name has not ended, or if the manager is stopping.
    pub fn add(&self, runnable: impl Runnable) -> Result<RunnableHandle> {
        let runnable: Box<dyn Runnable> = match &self.cluster {
            Some(cluster) => Box::new(ActingRunnable { runnable: Box::new(runnable), cluster: cluster.clone() }),
            None => Box::new(runnable),
        };
        let (addition, handle) = self.prepare(runnable)?;
        match self.requests.send(Request::Add(addition)) {
            Ok(()) => Ok(handle),
            Err(_stopped) => Err(Error::ManagerStopped { name: handle.name }),
        }
    }

    /// Reserves the name.
    pub(crate) fn prepare(&self, runnable: Box<dyn Runnable>) -> Result<(PreparedRunnable, RunnableHandle)> {
        let name = runnable.name();
        if !self.names.0.lock().insert(name.clone()) {
            return Err(Error::DuplicateName { name });
        }
        let (sender, ended) = watch::channel(());
        let stopper = Stopper::new();
        let handle =
            RunnableHandle { name: name.clone(), stopper: stopper.clone(), ended, requests: self.requests.clone() };
        let end_guard = EndGuard { name, names: self.names.clone(), _ended: sender };
        Ok((PreparedRunnable { runnable, stopper, end_guard }, handle))
    }
}

impl Debug for ManagerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerHandle").field("names", &*self.names.0.lock()).finish_non_exhaustive()
    }
}

// === impl RunnableHandle ===

impl RunnableHandle {
    /// Returns the runnable's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stops only this runnable and waits until it has ended. Its name can then be reused. The manager's grace period
    /// does not apply: the wait has no time limit.
    pub async fn stop(self) {
        self.stopper.stop();
        // If the manager is gone, there is nothing to withdraw from.
        let _ = self.requests.send(Request::Withdraw(self.name.clone()));
        self.ended().await;
    }

    /// Waits until the runnable has ended, by itself or with the manager.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

impl Debug for RunnableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnableHandle").field("name", &self.name).finish_non_exhaustive()
    }
}

// === impl PreparedRunnable ===

impl PreparedRunnable {
    pub(crate) fn group(&self) -> Group {
        self.runnable.group()
    }

    pub(crate) fn name(&self) -> &str {
        &self.end_guard.name
    }
}

// === impl EndGuard ===

impl Drop for EndGuard {
    fn drop(&mut self) {
        // Must happen before the sender, a field, is dropped.
        self.names.0.lock().remove(&self.name);
    }
}
