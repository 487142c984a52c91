//! What the registry has become of its own accord: it is looked at, and what is not as it was left is reconciled.
//!
//! Nothing is written here, so that nothing can be written twice at the same time: keys go to the queues of the controllers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::channel::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};
use windlass::{ObjectKey, api::ErrorChain, runtime::Running};

use crate::{RegistryError, sync::Shared};

/// The look at the registry.
pub(crate) struct Drift {
    pub(crate) shared: Arc<Shared>,
    pub(crate) look: Duration,
    pub(crate) patience: Duration,
    pub(crate) services: UnboundedSender<ObjectKey>,
    pub(crate) namespaces: UnboundedSender<ObjectKey>,
}

impl Drift {
    /// The first look comes at once: what was written before the program was started is not known otherwise.
    pub(crate) async fn run(self, running: Running) -> windlass::Result<()> {
        let looking = async {
            loop {
                match timeout(self.patience, self.look()).await {
                    Ok(Ok(())) => {}
                    // What it says cannot be trusted, so nothing is concluded; the next look comes.
                    Ok(Err(error)) => {
                        tracing::warn!(error = %ErrorChain(&error), "the registry could not be looked at");
                    }
                    Err(_) => tracing::warn!(patience = ?self.patience, "the registry did not answer in time"),
                }
                sleep(self.look).await;
            }
        };
        tokio::select! {
            () = looking => {}
            () = running.stop().requested() => {}
        }
        Ok(())
    }

    #[allow(clippy::zero_sized_map_values, reason = "of a namespace there is nothing to know but that it is there")]
    async fn look(&self) -> Result<(), RegistryError> {
        let Shared { registry, services, namespaces } = &*self.shared;
        let found = registry.entries().await?;
        send(&self.services, services.compare(&found, |entry| registry.shows(entry)));
        let found = registry.namespaces().await?;
        let found: BTreeMap<_, _> = found.into_iter().map(|name| (ObjectKey::new(name), ())).collect();
        if registry.has_namespaces() {
            // Those of others look as if they were missing, and adding them is no harm.
            send(&self.namespaces, namespaces.compare(&found, |()| Some(())));
        }
        Ok(())
    }
}

fn send(keys: &UnboundedSender<ObjectKey>, doubtful: impl IntoIterator<Item = ObjectKey>) {
    for key in doubtful {
        // Nobody listens any more: the manager stops.
        let _ = keys.unbounded_send(key);
    }
}
