//! Reads of the current revision, one for all readers that arrive while another is in progress.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Mutex;
use windlass_server::storage::{Revision, Storage, StorageError};

/// Reads the current revision of a storage.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// The number of reads that have begun.
    begun: AtomicU64,
    /// The last read that has ended. Locked during a read.
    last: Mutex<Read>,
}

#[derive(Debug)]
struct Read {
    number: u64,
    result: Result<Revision, Arc<StorageError>>,
}

impl Default for Read {
    fn default() -> Self {
        Self { number: 0, result: Ok(Revision(0)) }
    }
}

impl Probe {
    /// Returns a revision that was current during this call.
    pub(super) async fn revision(&self, storage: &dyn Storage) -> Result<Revision, StorageError> {
        let arrived = self.begun.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        // A read with a higher number has begun after this call.
        if last.number <= arrived {
            let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
            // If this call is dropped here, no read gets the number, and the next call reads again.
            let result = storage.revision().await.map_err(Arc::new);
            *last = Read { number, result };
        }
        last.result.clone().map_err(shared)
    }
}

/// Returns the error for one of several readers.
fn shared(error: Arc<StorageError>) -> StorageError {
    match &*error {
        StorageError::Backend { message, .. } => {
            StorageError::Backend { message: message.clone(), source: error.into() }
        }
        _ => StorageError::Unavailable(error.into()),
    }
}
