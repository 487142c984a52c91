//! Watches on the servers, which continue after their last resource version when they end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use windlass_api::{ObjectExt as _, ObjectList};
use windlass_client::{Client, Error, WatchEvent};

use crate::{MEMBERS, NAMESPACE, Result, cluster::Endpoint, gateway, history::Kind, operation::Object};

/// The time for the start of a watch and for a list.
const LIMIT: Duration = Duration::from_secs(5);

/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(50);

/// The time until etcd reports a compaction that a server has reported.
const PATIENCE: Duration = Duration::from_secs(20);

/// An item that a watch has received.
#[derive(Clone, Debug)]
pub(crate) enum Received {
    Event {
        revision: u64,
        kind: Kind,
        name: String,
        value: String,
    },
    /// There are no other events up to this revision.
    Bookmark(u64),
    /// The watch has ended, and another one continues after the last revision.
    Resumed,
    /// The server has no events after the last revision any more. The objects were listed instead.
    Listed {
        /// The revision up to which etcd was compacted, if it has reported it.
        compacted: Option<u64>,
        revision: u64,
        objects: BTreeMap<String, (u64, String)>,
    },
    /// The server has sent an invalid object.
    Invalid(String),
}

impl Received {
    /// Returns the revision that the watch has reached with this.
    pub(crate) fn revision(&self) -> Option<u64> {
        match self {
            Self::Event { revision, .. } | Self::Bookmark(revision) | Self::Listed { revision, .. } => Some(*revision),
            Self::Resumed | Self::Invalid(_) => None,
        }
    }
}

/// Reads an event of a watch.
pub(crate) fn received(event: WatchEvent<ConfigMap>) -> Received {
    let (kind, object) = match event {
        WatchEvent::Added(object) => (Kind::Added, object),
        WatchEvent::Modified(object) => (Kind::Modified, object),
        WatchEvent::Deleted(object) => (Kind::Deleted, object),
        WatchEvent::Bookmark(bookmark) => {
            let revision = bookmark.resource_version.to_string().parse();
            return revision.map_or_else(|_| Received::Invalid(format!("{bookmark:?}")), Received::Bookmark);
        }
        other => return Received::Invalid(format!("an unknown event {other:?}")),
    };
    match Object::of(&object) {
        Ok(Object { value, version: revision, .. }) => {
            Received::Event { revision, kind, name: object.name().to_owned(), value }
        }
        Err(error) => Received::Invalid(error.to_string()),
    }
}

/// Reads a list: its revision and its objects, with their versions and values.
pub(crate) fn listed(list: &ObjectList<ConfigMap>) -> Result<(u64, BTreeMap<String, (u64, String)>)> {
    let object = |object: &ConfigMap| {
        let Object { value, version, .. } = Object::of(object)?;
        Ok((object.name().to_owned(), (version, value)))
    };
    let objects = list.items.iter().map(object).collect::<Result<_>>()?;
    Ok((list.metadata.resource_version.to_string().parse()?, objects))
}

/// A task that watches all objects of the clients on one server. It ends on drop.
#[derive(Debug)]
pub(crate) struct Watching {
    /// The name for messages.
    pub(crate) name: String,
    received: Arc<Mutex<Vec<Received>>>,
    reached: watch::Receiver<u64>,
    /// No watch runs as long as this is true.
    pause: watch::Sender<bool>,
    task: JoinHandle<()>,
}

struct Watcher {
    endpoint: Endpoint,
    /// The time without events after which the watch is started again. There are always writes in a round.
    patience: Duration,
    last: u64,
    received: Arc<Mutex<Vec<Received>>>,
    reach: watch::Sender<u64>,
    paused: watch::Receiver<bool>,
}

impl Watching {
    /// Starts a watch after a revision.
    pub(crate) fn start(name: String, endpoint: Endpoint, patience: Duration, last: u64) -> Self {
        let (reach, reached) = watch::channel(last);
        let (pause, paused) = watch::channel(false);
        let received = Arc::default();
        let watcher = Watcher { endpoint, patience, last, received: Arc::clone(&received), reach, paused };
        let task = tokio::spawn(watcher.run());
        Self { name, received, reached, pause, task }
    }

    /// Ends the watch until [`Self::resume`].
    pub(crate) fn pause(&self) {
        self.pause.send_replace(true);
    }

    pub(crate) fn resume(&self) {
        self.pause.send_replace(false);
    }

    /// Waits until the watch has received everything up to a revision, and takes it.
    pub(crate) async fn until(&self, revision: u64, patience: Duration) -> Result<Vec<Received>> {
        let mut reached = self.reached.clone();
        if timeout(patience, reached.wait_for(|reached| *reached >= revision)).await.is_err() {
            let (reached, seconds) = (*self.reached.borrow(), patience.as_secs());
            return Err(format!("{} is at {reached}, not at {revision}, after {seconds} s", self.name).into());
        }
        Ok(std::mem::take(&mut *self.received.lock()))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watcher {
    async fn run(mut self) {
        loop {
            // The channel is closed only when the task is ended.
            let _ = self.paused.wait_for(|is_paused| !is_paused).await;
            if self.follow().await.is_err() {
                sleep(PAUSE).await;
            }
            let mut received = self.received.lock();
            // Failed attempts to resume are not counted.
            if !matches!(received.last(), Some(Received::Resumed)) {
                received.push(Received::Resumed);
            }
        }
    }

    /// Watches with a new connection until the watch ends. A lost connection is an error.
    async fn follow(&mut self) -> Result {
        let client = self.endpoint.client()?;
        let watch = client.watch::<ConfigMap>().within(NAMESPACE).resource_version(self.last.to_string()).bookmarks();
        let mut events = match timeout(LIMIT, watch).await? {
            Ok(events) => events,
            Err(error) => return self.failed(&client, error).await,
        };
        loop {
            let event = tokio::select! {
                event = timeout(self.patience, events.next()) => event?,
                _ = self.paused.wait_for(|is_paused| *is_paused) => return Ok(()),
            };
            match event {
                None => return Ok(()),
                Some(Ok(event)) => {
                    let received = received(event);
                    self.add(received.revision().unwrap_or(self.last), received);
                }
                Some(Err(error)) => return self.failed(&client, error).await,
            }
        }
    }

    fn add(&mut self, revision: u64, received: Received) {
        self.received.lock().push(received);
        self.last = revision;
        self.reach.send_replace(revision);
    }

    /// Lists the objects if the server does not have the events any more.
    async fn failed(&mut self, client: &Client, error: Error) -> Result {
        if !error.is_expired() {
            return Err(error.into());
        }
        let compacted = compacted_after(self.last).await;
        let list = timeout(LIMIT, client.list::<ConfigMap>().within(NAMESPACE)).await??;
        let (revision, objects) = listed(&list)?;
        self.add(revision, Received::Listed { compacted, revision, objects });
        Ok(())
    }
}

/// Returns the revision up to which etcd is compacted, if it is after this one.
async fn compacted_after(revision: u64) -> Option<u64> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        for member in 0..MEMBERS {
            // A member that does not respond, or that lags behind.
            match gateway::compacted(member).await {
                Ok(compacted) if compacted > revision => return Some(compacted),
                _ => {}
            }
        }
        sleep(PAUSE).await;
    }
    None
}
