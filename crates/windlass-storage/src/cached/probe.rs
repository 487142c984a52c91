//! Reads of the current revision, one for all readers that arrive while another is in progress.
//!
//! A task makes the reads, not the readers: a reader that is not polled for some time, because its request waits for
//! something else, must not delay the others.

use std::{mem, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_server::storage::{Revision, Storage, StorageError};

/// Reads the current revision of a storage.
#[derive(Debug)]
pub(super) struct Probe {
    storage: Arc<dyn Storage>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    progress: Mutex<Progress>,
    /// The last read that has ended.
    last: watch::Sender<Read>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The number of reads that have begun.
    begun: u64,
    /// The number of the read that the last reader waits for.
    wanted: u64,
    is_running: bool,
}

#[derive(Clone, Debug)]
struct Read {
    number: u64,
    result: Result<Revision, Arc<StorageError>>,
}

impl Probe {
    pub(super) fn new(storage: Arc<dyn Storage>) -> Self {
        let (last, _) = watch::channel(Read { number: 0, result: Ok(Revision(0)) });
        Self { storage, state: Arc::new(State { progress: Mutex::default(), last }) }
    }

    /// Returns a revision that was current during this call.
    pub(super) async fn revision(&self) -> Result<Revision, StorageError> {
        let mut last = self.state.last.subscribe();
        let (wanted, was_running) = {
            let mut progress = self.state.progress.lock();
            // One that has begun before this call may return an earlier revision.
            progress.wanted = progress.begun + 1;
            (progress.wanted, mem::replace(&mut progress.is_running, true))
        };
        if !was_running {
            // A runtime that ends drops the task here, which locks the progress.
            let running = Running { state: Arc::clone(&self.state), has_finished: false };
            tokio::spawn(read(Arc::clone(&self.storage), running));
        }
        // The sender is in `self`.
        match last.wait_for(|last| last.number >= wanted).await {
            Ok(read) => read.result.clone().map_err(shared),
            Err(_) => Err(StorageError::Unavailable("the storage was dropped".into())),
        }
    }
}

/// The state of the task. If its runtime ends, its readers get an error, and the next one starts another task.
struct Running {
    state: Arc<State>,
    has_finished: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        // After its end, another task may be running already.
        if !self.has_finished {
            let number = {
                let mut progress = self.state.progress.lock();
                progress.is_running = false;
                progress.begun = progress.wanted;
                progress.begun
            };
            let ended = StorageError::Unavailable("the runtime of the read has ended".into());
            self.state.last.send_replace(Read { number, result: Err(Arc::new(ended)) });
        }
    }
}

/// Reads the revision until no reader waits for another read.
async fn read(storage: Arc<dyn Storage>, mut running: Running) {
    loop {
        let number = {
            let mut progress = running.state.progress.lock();
            if progress.wanted <= progress.begun {
                progress.is_running = false;
                running.has_finished = true;
                return;
            }
            progress.begun += 1;
            progress.begun
        };
        let result = storage.revision().await.map_err(Arc::new);
        running.state.last.send_replace(Read { number, result });
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
