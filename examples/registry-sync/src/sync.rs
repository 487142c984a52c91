//! The complete program: two controllers, and the check of the registry.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, channel::mpsc};
use windlass::{Manager, Task};

use crate::{Entry, Registry, drift::Drift, namespaces, services, sync_state::SyncStates};

/// The default timeout of the registry for one service.
const PATIENCE: Duration = Duration::from_secs(10);

/// The default interval between checks of the registry.
const CHECK_PERIOD: Duration = Duration::from_mins(1);

/// Keeps a registry in sync with the services of a cluster.
#[must_use = "it does nothing until it is added to a manager"]
pub struct RegistrySync {
    shared: Arc<Shared>,
    check_period: Duration,
    patience: Duration,
}

/// The state shared by the controllers.
pub(crate) struct Shared {
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) services: SyncStates<Entry>,
    pub(crate) namespaces: SyncStates<()>,
}

impl RegistrySync {
    /// Creates a sync with this registry. Its existing entries are unknown at first.
    pub fn with(registry: Arc<dyn Registry>) -> Self {
        let shared = Shared { registry, services: SyncStates::new(), namespaces: SyncStates::new() };
        Self { shared: Arc::new(shared), check_period: CHECK_PERIOD, patience: PATIENCE }
    }

    /// Sets the interval between checks of the registry for changes. Defaults to one minute.
    pub fn check_every(mut self, period: Duration) -> Self {
        self.check_period = period;
        self
    }

    /// Sets the timeout of the registry. Defaults to 10 s.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Adds the controllers to a manager. Events can be written from before the informers start until after they end,
    /// so those of the first reconcile are not lost.
    pub fn add_to(self, manager: &mut Manager) {
        let Self { shared, check_period, patience } = self;
        let (services, of_services) = mpsc::unbounded();
        let (namespaces, of_namespaces) = mpsc::unbounded();
        manager.add(services::controller(Arc::clone(&shared), patience, of_services.map(Into::into)));
        if shared.registry.has_namespaces() {
            manager.add(namespaces::controller(Arc::clone(&shared), patience, of_namespaces.map(Into::into)));
        }
        let drift = Drift { shared, period: check_period, patience, services, namespaces };
        manager.add(Task::new("registry-drift", move |running| drift.run(running)));
    }
}

impl std::fmt::Debug for RegistrySync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistrySync")
            .field("check_period", &self.check_period)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
