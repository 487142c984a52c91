//! Reads that show the manager's own writes: the client records the writes, and reads wait for the caches.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use windlass_api::{ApiResource, Object, ObjectKey, Uid};
use windlass_cache::{InformerSet, Reads, Stopped, WriteJournals};
use windlass_client::{Client, Stored, WriteObserver};

/// The default time that a read waits for the cache.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Records the writes of a client for the caches.
#[derive(Debug)]
struct Recorder(WriteJournals);

/// The reason why a cache does not show the manager's own writes.
#[derive(Debug)]
pub(crate) enum StaleRead {
    /// The cache has stopped.
    Stopped(Stopped),
    /// The cache has not caught up in time.
    TimedOut {
        /// The object that was written.
        object: ObjectKey,
        /// How long the read waited.
        limit: Duration,
    },
}

/// Returns the client with its writes recorded in the journals.
pub(crate) fn recorded(client: Client, journals: &WriteJournals) -> Client {
    client.with_write_observer(Arc::new(Recorder(journals.clone())))
}

/// Waits until the caches show the manager's own writes. Without a pending write this compares two numbers.
pub(crate) async fn wait<K: Object>(
    informers: &InformerSet<K>,
    reads: Reads<'_>,
    limit: Duration,
) -> Result<(), StaleRead> {
    if informers.unseen_own_write(reads).is_none() {
        return Ok(());
    }
    match timeout(limit, informers.show_own_writes(reads)).await {
        Ok(shown) => shown.map_err(StaleRead::Stopped),
        Err(_elapsed) => match informers.unseen_own_write(reads) {
            Some(object) => Err(StaleRead::TimedOut { object, limit }),
            None => Ok(()),
        },
    }
}

impl WriteObserver for Recorder {
    fn stored(&self, stored: Stored<'_>) {
        let Stored { resource, key, version, labels, .. } = stored;
        self.0.of(&resource.group_resource()).stored(key, version, labels.cloned());
    }

    fn removed(&self, resource: &ApiResource, key: ObjectKey, uid: Uid) {
        self.0.of(&resource.group_resource()).removed(key, uid);
    }
}
