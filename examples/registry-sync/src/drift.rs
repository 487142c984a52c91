//! Drift detection: reads the registry periodically, and queues the keys whose entries have changed.
//!
//! It does not write to the registry, so that only the controllers write, one at a time per key.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::channel::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};
use windlass::{ObjectKey, api::ErrorChain, runtime::RunnableContext};

use crate::{RegistryError, sync::Shared};

/// The periodic check of the registry.
pub(crate) struct Drift {
    pub(crate) shared: Arc<Shared>,
    pub(crate) period: Duration,
    pub(crate) patience: Duration,
    pub(crate) services: UnboundedSender<ObjectKey>,
    pub(crate) namespaces: UnboundedSender<ObjectKey>,
}

impl Drift {
    /// Checks the registry until shutdown. The first check runs immediately, because the entries of a previous run are
    /// unknown.
    pub(crate) async fn run(self, running: RunnableContext) -> windlass::Result<()> {
        let checks = async {
            loop {
                match timeout(self.patience, self.check()).await {
                    Ok(Ok(())) => {}
                    // The registry's state is unknown, so nothing is queued until the next check.
                    Ok(Err(error)) => {
                        tracing::warn!(error = %ErrorChain(&error), "cannot read the registry");
                    }
                    Err(_) => tracing::warn!(patience = ?self.patience, "the registry did not respond in time"),
                }
                sleep(self.period).await;
            }
        };
        tokio::select! {
            () = checks => {}
            () = running.stop().requested() => {}
        }
        Ok(())
    }

    #[allow(clippy::zero_sized_map_values, reason = "a namespace has no value, it only exists")]
    async fn check(&self) -> Result<(), RegistryError> {
        let Shared { registry, services, namespaces } = &*self.shared;
        let found = registry.entries().await?;
        send(&self.services, services.compare(&found, |entry| registry.shows(entry)));
        let found = registry.namespaces().await?;
        let found: BTreeMap<_, _> = found.into_iter().map(|name| (ObjectKey::new(name), ())).collect();
        if registry.has_namespaces() {
            // Namespaces of other owners are not listed and seem to be missing; adding them again does no harm.
            send(&self.namespaces, namespaces.compare(&found, |()| Some(())));
        }
        Ok(())
    }
}

fn send(keys: &UnboundedSender<ObjectKey>, unconfirmed: impl IntoIterator<Item = ObjectKey>) {
    for key in unconfirmed {
        // The receiver is gone when the manager stops.
        let _ = keys.unbounded_send(key);
    }
}
