//! What is added to a manager while it runs, and ended before it.

use std::{
    collections::HashSet,
    fmt::{self, Debug},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::{Group, Runnable};
use crate::{Error, Result, shutdown::Stopper};

/// Adds controllers and other runnables to a manager that runs, or will. Cheap to clone; clones are of the same manager.
///
/// ```no_run
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_runtime::{Action, Context, Controller, ManagerHandle, Result};
/// # use std::sync::Arc;
/// # async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> { Ok(Action::await_change()) }
/// # async fn for_a_while(manager: ManagerHandle) -> Result<()> {
/// let controller = manager.add(Controller::<ConfigMap>::new().reconcile(reconcile))?;
/// // … and when it is not needed any more:
/// controller.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ManagerHandle {
    names: Names,
    requests: mpsc::UnboundedSender<Request>,
}

/// A runnable that was added by a [`ManagerHandle`]. Dropped, the runnable goes on.
#[must_use = "a runnable is stopped by itself by this alone"]
pub struct Added {
    name: String,
    stopper: Stopper,
    /// Never sent on; closed when the runnable has ended, or never will begin.
    ended: watch::Receiver<()>,
    requests: mpsc::UnboundedSender<Request>,
}

/// The names of what a manager runs, or will.
#[derive(Clone, Default)]
pub(super) struct Names(Arc<Mutex<HashSet<String>>>);

/// What handles ask the manager for.
pub(super) enum Request {
    /// To start this.
    Add(Addition),
    /// To forget what has this name, if it has not been started.
    Withdraw(String),
}

/// What is to be started.
pub(super) struct Addition {
    pub(super) runnable: Box<dyn Runnable>,
    pub(super) stopper: Stopper,
    pub(super) ending: Ending,
}

/// Gives the name back when the runnable has ended, and tells whoever waits for that.
pub(super) struct Ending {
    name: String,
    names: Names,
    _ended: watch::Sender<()>,
}

// === impl ManagerHandle ===

impl ManagerHandle {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Request>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        (Self { names: Names::default(), requests }, receiver)
    }

    /// Adds a controller or something else to run. It is started at once, or with the manager, or, if its group needs
    /// leadership, when this process is elected; it is stopped with its group. Its errors stop the manager, as those of
    /// the others do.
    ///
    /// Fails when a runnable of that name has been added and not ended yet, and when the manager has been told to stop.
    pub fn add(&self, runnable: impl Runnable) -> Result<Added> {
        let (addition, added) = self.prepare(Box::new(runnable))?;
        match self.requests.send(Request::Add(addition)) {
            Ok(()) => Ok(added),
            Err(_stopped) => Err(Error::ManagerStopped { name: added.name }),
        }
    }

    /// Takes the name.
    pub(super) fn prepare(&self, runnable: Box<dyn Runnable>) -> Result<(Addition, Added)> {
        let name = runnable.name();
        if !self.names.0.lock().insert(name.clone()) {
            return Err(Error::DuplicateName { name });
        }
        let (sender, ended) = watch::channel(());
        let stopper = Stopper::new();
        let added = Added { name: name.clone(), stopper: stopper.clone(), ended, requests: self.requests.clone() };
        let ending = Ending { name, names: self.names.clone(), _ended: sender };
        Ok((Addition { runnable, stopper, ending }, added))
    }
}

impl Debug for ManagerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerHandle").field("names", &*self.names.0.lock()).finish_non_exhaustive()
    }
}

// === impl Added ===

impl Added {
    /// The runnable's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stops the runnable, and nothing else, and waits until it has ended; its name can be taken again then. As long as
    /// that takes: the manager's grace period is for the manager's end.
    pub async fn stop(self) {
        self.stopper.stop();
        // Without a manager nothing is left to be withdrawn from.
        let _ = self.requests.send(Request::Withdraw(self.name.clone()));
        self.ended().await;
    }

    /// Waits until the runnable has ended, by itself or with the manager.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

impl Debug for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Added").field("name", &self.name).finish_non_exhaustive()
    }
}

// === impl Addition ===

impl Addition {
    pub(super) fn group(&self) -> Group {
        self.runnable.group()
    }

    pub(super) fn name(&self) -> &str {
        &self.ending.name
    }
}

// === impl Ending ===

impl Drop for Ending {
    fn drop(&mut self) {
        // Before the sender, which is a field.
        self.names.0.lock().remove(&self.name);
    }
}
