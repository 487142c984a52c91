//! The watch that continues over each start of the server.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::sleep};
use windlass_api::ObjectExt as _;
use windlass_client::{Client, WatchEvent};

use crate::{
    Result,
    writer::{NAMESPACE, PREFIX, State, Writer, state},
};

/// The time after which an event is missing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause before a watch that has ended continues.
const PAUSE: Duration = Duration::from_millis(5);

/// A task that watches all objects of the writers.
pub(crate) struct Watching {
    seen: Arc<Mutex<BTreeMap<String, Vec<State>>>>,
    task: JoinHandle<Result>,
}

impl Watching {
    /// Starts the watch before anything is written.
    pub(crate) async fn start(client: Client) -> Result<Self> {
        let last = client.list::<ConfigMap>().within(NAMESPACE).await?.metadata.resource_version.to_string();
        let seen = Arc::default();
        let task = tokio::spawn(watch(client, last, Arc::clone(&seen)));
        Ok(Self { seen, task })
    }

    /// Waits until the watch has seen the history of each writer, and returns an error if it has seen anything else.
    pub(crate) async fn expect(&mut self, writers: &[Writer]) -> Result {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.task.is_finished() {
                return Err((&mut self.task).await?.err().unwrap_or_else(|| "the watch has ended".into()));
            }
            let missing = {
                let seen = self.seen.lock();
                let mut missing = None;
                for writer in writers {
                    let seen = seen.get(writer.name()).map(Vec::as_slice).unwrap_or_default();
                    if !writer.history().starts_with(seen) {
                        let (name, history) = (writer.name(), writer.history());
                        return Err(format!("the watch has seen {seen:?} of {name}, expected {history:?}").into());
                    }
                    if seen.len() < writer.history().len() {
                        missing = Some(format!("{} of {}", writer.history().len() - seen.len(), writer.name()));
                    }
                }
                missing
            };
            match missing {
                None => return Ok(()),
                Some(missing) if Instant::now() > until => return Err(format!("the watch misses {missing}").into()),
                Some(_) => sleep(PAUSE).await,
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watches forever, after the version `last`. Returns an error if the server rejects the version to continue from, or if
/// versions do not increase.
async fn watch(client: Client, mut last: String, seen: Arc<Mutex<BTreeMap<String, Vec<State>>>>) -> Result {
    loop {
        let started = client.watch::<ConfigMap>().within(NAMESPACE).resource_version(&*last).await;
        let mut events = match started {
            Ok(events) => events,
            Err(error) if error.status().is_none() => {
                sleep(PAUSE).await;
                continue;
            }
            Err(error) => return Err(format!("a watch after version {last}: {error}").into()),
        };
        while let Some(event) = events.next().await {
            let (object, state) = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    let state = state(&object);
                    (object, Some(state))
                }
                Ok(WatchEvent::Deleted(object)) => (object, None),
                Ok(_) => continue,
                // The connection was lost.
                Err(error) if error.status().is_none() => break,
                Err(error) => return Err(format!("a watch after version {last}: {error}").into()),
            };
            let version = object.metadata.resource_version.clone().unwrap_or_default();
            if version.parse::<u64>()? <= last.parse::<u64>()? {
                return Err(format!("an event of version {version} after version {last}").into());
            }
            last = version;
            if object.name().starts_with(PREFIX) {
                seen.lock().entry(object.name().to_owned()).or_default().push(state.transpose()?);
            }
        }
    }
}
