//! Storage in a real etcd for an embedded server.

use std::time::Duration;

use windlass_etcd::{EtcdStorage, Options, testing::Etcd};

/// The time for the start.
const PATIENCE: Duration = Duration::from_mins(1);

/// Connects as soon as etcd accepts connections.
pub(crate) async fn connect(etcd: &Etcd) -> EtcdStorage {
    let connected = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Ok(storage) = EtcdStorage::connect(Options::new([etcd.endpoint()])).await {
                return storage;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    connected.await.expect("etcd accepts connections")
}
