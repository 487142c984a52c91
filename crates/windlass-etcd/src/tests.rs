//! Tests of the backend: with members that are simulated in the process, and with real ones.
//!
//! Tests with a real etcd are ignored unless requested. `cargo xtask long etcd` builds etcd and runs them.

mod access;
mod etcd;
mod failover;
mod fake;
mod members;
mod neighbors;
mod servers;
mod shared;

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt as _;
use tokio::time;
use windlass_server::storage::{
    Change, CommitError, Committed, Delivery, EventStream, Expect, RangeQuery, Revision, Storage, StorageError,
    StorageEvent, next_event, suite, suite::PATIENCE,
};

use crate::{EtcdStorage, Options, testing::Etcd};

fn put(body: &str) -> Change {
    Change::Put(Bytes::copy_from_slice(body.as_bytes()))
}

async fn create(storage: &EtcdStorage, key: &str, body: &str) -> Revision {
    storage.commit(key, Expect::Absent, put(body)).await.unwrap().revision
}

async fn update(storage: &EtcdStorage, key: &str, expect: Revision, body: &str) -> Result<Committed, CommitError> {
    storage.commit(key, Expect::Unchanged(expect), put(body)).await
}

async fn event(events: &mut EventStream) -> StorageEvent {
    within(next_event(events)).await.expect("the watch continues").unwrap()
}

async fn delivery(events: &mut EventStream) -> Delivery {
    within(events.next()).await.expect("the watch continues").unwrap()
}

fn text(event: &StorageEvent) -> &str {
    event.current.as_ref().map_or("", |value| std::str::from_utf8(&value.body).unwrap())
}

async fn within<F: Future>(future: F) -> F::Output {
    time::timeout(PATIENCE, future).await.expect("an answer in time")
}

/// Repeats a check until it returns a value.
async fn until<T>(mut check: impl AsyncFnMut() -> Option<T>) -> T {
    within(async {
        loop {
            if let Some(value) = check().await {
                return value;
            }
            time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

/// An empty etcd for a case of the suite, which runs as long as the storage is used.
#[derive(Debug)]
struct Owned {
    storage: EtcdStorage,
    _etcd: Etcd,
}

impl suite::Forward for Owned {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }
}

windlass_server::storage_suite! {
    #[ignore = "needs etcd: cargo xtask long etcd"]
    shared || async {
        let etcd = Etcd::start();
        // The keys of the cases are not below `/registry`.
        let options = Options { root: String::new(), prefix: "/suite".into(), ..Options::new([etcd.endpoint()]) };
        let storage = etcd::connect(options).await;
        Arc::new(Owned { storage, _etcd: etcd }) as Arc<dyn Storage>
    }
}
