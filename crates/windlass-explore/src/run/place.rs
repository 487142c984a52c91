//! The limit of simultaneous runs.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

/// The place of a run among those that are active at the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Place {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(Mutex::new(Some(permit))))
    }

    /// Lets another run begin, because this one waits for a long time. It may have further steps after that.
    pub(crate) fn give_back(&self) {
        self.0.lock().take();
    }
}
