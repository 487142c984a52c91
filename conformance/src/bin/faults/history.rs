//! The history of etcd, read from its members: what the clients and the watches of the servers must have seen.
//!
//! A task for each member watches all keys, so that each revision is seen, and continues after its last revision. The
//! members must agree, and the history is complete as far as no revision is missing in all of them together.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    MEMBERS, NAMESPACE, Result, gateway,
    gateway::{bytes, number},
    operation::value_in,
};

/// The time without events after which a watch is started again. There are always writes.
const IDLE: Duration = Duration::from_secs(2);

/// The pause before a watch that has failed is started again.
const PAUSE: Duration = Duration::from_millis(50);

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The value that the object has now. `None` for a deletion.
    pub(crate) value: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
}

/// The changes by revision.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Those of the clients' objects. Each has a revision of its own.
    pub(crate) ours: BTreeMap<u64, Change>,
    /// The revisions after `reached` that were seen before those in between.
    ahead: BTreeMap<u64, Option<Change>>,
    /// All revisions up to this one are known.
    reached: u64,
    /// A contradiction of etcd.
    failure: Option<String>,
}

/// The running tasks. They end on drop.
#[derive(Debug)]
pub(crate) struct History {
    changes: Arc<Mutex<Changes>>,
    reached: watch::Receiver<u64>,
    tasks: Vec<JoinHandle<()>>,
}

impl History {
    pub(crate) fn start() -> Self {
        // The first revision is that of an empty store.
        let changes = Arc::new(Mutex::new(Changes { reached: 1, ..Changes::default() }));
        let (advance, reached) = watch::channel(1);
        let start = |member| tokio::spawn(read(member, Arc::clone(&changes), advance.clone()));
        let tasks = (0..MEMBERS).map(start).collect();
        Self { changes, reached, tasks }
    }

    /// Waits until the history is complete up to a revision.
    pub(crate) async fn until(&self, revision: u64, patience: Duration) -> Result {
        let mut reached = self.reached.clone();
        // The value that is waited for is borrowed until it is dropped, and then no revision can be added.
        let waited = timeout(patience, reached.wait_for(|reached| *reached >= revision)).await.map(drop);
        let changes = self.changes.lock();
        if let Some(failure) = &changes.failure {
            return Err(failure.clone().into());
        }
        waited.map_err(|_| {
            let (reached, seconds, ahead) = (changes.reached, patience.as_secs(), changes.ahead.len());
            let rest = format!("{ahead} later revisions were read");
            format!("the history of etcd ends at {reached}, not at {revision}, after {seconds} s; {rest}").into()
        })
    }

    /// Returns the last revision.
    pub(crate) fn reached(&self) -> u64 {
        *self.reached.borrow()
    }

    /// Reads the changes.
    pub(crate) fn read<T>(&self, reader: impl FnOnce(&BTreeMap<u64, Change>) -> T) -> T {
        reader(&self.changes.lock().ours)
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Changes {
    /// Adds what one member reports for a revision.
    fn add(&mut self, revision: u64, change: Option<Change>) {
        let known = if revision <= self.reached {
            Some(self.ours.get(&revision))
        } else {
            self.ahead.get(&revision).map(Option::as_ref)
        };
        match known {
            None => drop(self.ahead.insert(revision, change)),
            Some(known) if known == change.as_ref() => {}
            Some(known) => {
                self.failure = Some(format!("two members differ in revision {revision}: {known:?} and {change:?}"));
            }
        }
        while let Some(change) = self.ahead.remove(&(self.reached + 1)) {
            self.reached += 1;
            self.ours.extend(change.map(|change| (self.reached, change)));
        }
    }
}

/// Follows the history as one member has it, and starts again as soon as it fails.
async fn read(member: usize, changes: Arc<Mutex<Changes>>, advance: watch::Sender<u64>) {
    let mut next = 2;
    loop {
        // A member that is down, paused or isolated: the others have the history, too.
        let _ = follow(member, &mut next, &changes, &advance).await;
        sleep(PAUSE).await;
    }
}

async fn follow(member: usize, next: &mut u64, changes: &Mutex<Changes>, advance: &watch::Sender<u64>) -> Result {
    let mut responses = gateway::watch(member, *next).await?;
    while let Some(response) = timeout(IDLE, responses.next()).await?? {
        let result = &response["result"];
        if result["canceled"] == true {
            // The compacted revisions are missing here. Usually another member has them.
            *next = (*next).max(number(&result["compact_revision"]));
            return Ok(());
        }
        for event in result["events"].as_array().into_iter().flatten() {
            let revision = number(&event["kv"]["mod_revision"]);
            let mut changes = changes.lock();
            changes.add(revision, change(event));
            advance.send_if_modified(|reached| std::mem::replace(reached, changes.reached) != changes.reached);
            *next = revision + 1;
        }
    }
    Ok(())
}

/// Reads an event. Returns `None` for other objects than those of the clients.
fn change(event: &Value) -> Option<Change> {
    let pair = &event["kv"];
    let key = String::from_utf8(bytes(&pair["key"])).ok()?;
    let name = key.strip_prefix("/registry/configmaps/")?.strip_prefix(NAMESPACE)?.strip_prefix('/')?.to_owned();
    let kind = match event["type"].as_str() {
        Some("DELETE") => Kind::Deleted,
        _ if pair["create_revision"] == pair["mod_revision"] => Kind::Added,
        _ => Kind::Modified,
    };
    let value = (kind != Kind::Deleted).then(|| value_in(&bytes(&pair["value"])).unwrap_or_default());
    Some(Change { name, kind, value })
}
