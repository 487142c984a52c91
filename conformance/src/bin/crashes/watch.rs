//! The watch that continues over each start of the server, and the history that it has seen.

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
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<Result>,
}

/// The changes that the watch has seen.
#[derive(Default)]
struct Seen {
    /// All of them, in the order of their versions.
    changes: Vec<Change>,
    /// The states of each object.
    states: BTreeMap<String, Vec<State>>,
}

/// A change of an object of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) name: String,
    pub(crate) state: State,
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
                    let seen = seen.states.get(writer.name()).map(Vec::as_slice).unwrap_or_default();
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

impl Watching {
    /// Returns all changes that the watch has seen, in the order of their versions.
    pub(crate) fn changes(&self) -> Vec<Change> {
        self.seen.lock().changes.clone()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watches forever, after the version `last`. Returns an error if the server rejects the version to continue from, or if
/// versions do not increase.
async fn watch(client: Client, mut last: String, seen: Arc<Mutex<Seen>>) -> Result {
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
            let change = match event.map(change) {
                Ok(Some(change)) => change?,
                Ok(None) => continue,
                // The connection was lost.
                Err(error) if error.status().is_none() => break,
                Err(error) => return Err(format!("a watch after version {last}: {error}").into()),
            };
            if change.version <= last.parse::<u64>()? {
                return Err(format!("an event of version {} after version {last}", change.version).into());
            }
            last = change.version.to_string();
            if change.name.starts_with(PREFIX) {
                let mut seen = seen.lock();
                seen.states.entry(change.name.clone()).or_default().push(change.state);
                seen.changes.push(change);
            }
        }
    }
}

/// Returns the change of an event, unless it is a bookmark.
pub(crate) fn change(event: WatchEvent<ConfigMap>) -> Option<Result<Change>> {
    let (object, exists) = match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
        WatchEvent::Deleted(object) => (object, false),
        _ => return None,
    };
    let change = || {
        let version = object.metadata.resource_version.as_deref().unwrap_or_default().parse()?;
        // Other objects need no number.
        let is_ours = object.name().starts_with(PREFIX);
        let state = if exists && is_ours { Some(state(&object)?) } else { None };
        Ok(Change { version, name: object.name().to_owned(), state })
    };
    Some(change())
}
