//! The tasks that follow the APIService objects.
//!
//! One task follows the objects in the storage, regardless of who writes them. Each remote API service has a task of its
//! own, so one that does not answer delays no other. It checks the service when the API service or its endpoints change,
//! and every 30 s.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use serde_json::Value;
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{self, Instant},
};
use windlass_api::Status;

use super::{
    Aggregation,
    availability::{self, Holds},
    documents::{Described, Documents},
    remote::{RemoteService, ServiceReference},
};
use crate::{
    object::Tree,
    registry::{Registry, WeakRegistry, storage_failure},
    resource::Item,
    storage::{EventStream, RangeQuery, Revision, Storage, StorageError, StorageEvent, StoredValue, next_event},
};

const PREFIX: &str = "/registry/apiregistration.k8s.io/apiservices/";
/// The pause after a failure of the storage.
const RETRY: Duration = Duration::from_secs(1);
/// The time between two checks without a change, and between two reads of the documents.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
const DOCUMENTS_INTERVAL: Duration = Duration::from_mins(1);
/// The pause after a failed check. It doubles with each failure, up to [`CHECK_INTERVAL`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The time in which changes of endpoints cause only one check.
const SETTLE: Duration = Duration::from_millis(50);

/// Reads the stored objects, then follows them until the returned tasks are dropped.
pub(crate) async fn start(registry: &Registry, aggregation: &Arc<Aggregation>) -> Result<JoinSet<()>, Status> {
    let mut controller = Controller {
        registry: registry.downgrade(),
        storage: Arc::clone(registry.storage()),
        aggregation: Arc::clone(aggregation),
        checks: JoinSet::new(),
        running: HashMap::new(),
    };
    let revision = controller.load().await.map_err(|error| storage_failure(&error))?;
    let mut task = JoinSet::new();
    task.spawn(controller.run(revision));
    Ok(task)
}

struct Controller {
    registry: WeakRegistry,
    storage: Arc<dyn Storage>,
    aggregation: Arc<Aggregation>,
    /// The tasks of the remote API services.
    checks: JoinSet<()>,
    running: HashMap<String, AbortHandle>,
}

impl Controller {
    async fn load(&mut self) -> Result<Revision, StorageError> {
        let range = self.storage.range(RangeQuery::prefix(PREFIX)).await?;
        let mut gone: Vec<String> = self.running.keys().cloned().collect();
        for value in &range.values {
            if let Some(object) = object(value) {
                gone.retain(|name| name != object.text(&["metadata", "name"]));
                self.observe(&object);
            }
        }
        for name in gone {
            self.forget(&name);
        }
        Ok(range.revision)
    }

    async fn run(mut self, mut revision: Revision) {
        loop {
            if let Err(error) = self.follow(&mut revision).await {
                if matches!(error, StorageError::Compacted { .. })
                    && let Ok(current) = self.load().await
                {
                    revision = current;
                    continue;
                }
                tracing::debug!(%error, "the API services cannot be followed");
            }
            time::sleep(RETRY).await;
        }
    }

    /// Follows the changes until the watch ends.
    async fn follow(&mut self, revision: &mut Revision) -> Result<(), StorageError> {
        let mut events = self.storage.watch(PREFIX, *revision).await?;
        loop {
            let event = tokio::select! {
                event = next_event(&mut events) => event,
                Some(_) = self.checks.join_next() => continue,
            };
            match event {
                None => return Ok(()),
                Some(Ok(StorageEvent { key, revision: changed, current, .. })) => {
                    match current.as_ref().and_then(object) {
                        Some(object) => self.observe(&object),
                        None => self.forget(key.strip_prefix(PREFIX).unwrap_or_default()),
                    }
                    *revision = changed.previous().max(*revision);
                }
                Some(Err(StorageError::Unreadable { .. })) => {}
                Some(Err(error)) => return Err(error),
            }
        }
    }

    /// Records the state of an object, and restarts its task if its specification has changed.
    fn observe(&mut self, object: &Value) {
        let name = object.text(&["metadata", "name"]);
        let known = self.aggregation.remotes().services.get(name).is_some_and(|remote| remote.is_of(object));
        if known {
            self.aggregation.change_one(name, |remote| remote.observe(object));
            return;
        }
        self.forget(name);
        let Some(remote) = RemoteService::read(object, self.aggregation.identity.as_ref()) else { return };
        let service = remote.service.clone();
        self.aggregation.change(|remotes| {
            remotes.insert(name.to_owned(), Arc::new(remote));
        });
        let check = Check {
            registry: self.registry.clone(),
            aggregation: Arc::clone(&self.aggregation),
            name: name.to_owned(),
            service,
            last_found: None,
            last_documents: None,
        };
        self.running.insert(name.to_owned(), self.checks.spawn(check.run()));
    }

    fn forget(&mut self, name: &str) {
        if let Some(task) = self.running.remove(name) {
            task.abort();
            self.aggregation.change(|remotes| {
                remotes.remove(name);
            });
        }
    }
}

/// The repeated check of one remote API service.
struct Check {
    registry: WeakRegistry,
    aggregation: Arc<Aggregation>,
    name: String,
    service: ServiceReference,
    /// The result of the last check. If it changes, the documents are read again.
    last_found: Option<Holds>,
    /// The time of the last successful read of the documents.
    last_documents: Option<Instant>,
}

impl Check {
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let Some(registry) = self.registry.upgrade() else { return };
            // Begins before the check, so that a change during the check causes another one.
            let mut changes = self.changes(registry.storage()).await;
            let wait = match self.check_once(&registry).await {
                Some(Outcome::Settled) => {
                    pause = FIRST_PAUSE;
                    CHECK_INTERVAL
                }
                Some(Outcome::Failed) => {
                    let wait = pause;
                    pause = (pause * 2).min(CHECK_INTERVAL);
                    wait
                }
                None => return,
            };
            drop(registry);
            let changed = time::timeout(wait, changes.next()).await;
            match changed {
                Ok(Some(())) => time::sleep(SETTLE).await,
                Ok(None) => time::sleep(RETRY).await,
                Err(_) => {}
            }
        }
    }

    /// Checks the API service once. Returns `None` if it no longer exists.
    async fn check_once(&mut self, registry: &Registry) -> Option<Outcome> {
        let remote = self.aggregation.remotes().services.get(&self.name).cloned()?;
        let (found, address) = availability::check(registry, &remote).await;
        let recorded = availability::record(registry, &self.name, &found).await;
        let is_unchanged = self.last_found.replace(found.holds) == Some(found.holds);
        let is_recent = is_unchanged && self.last_documents.is_some_and(|last| last.elapsed() < DOCUMENTS_INTERVAL);
        match address {
            Some(address) if !is_recent => {
                let documents = Documents::read(&remote, &address).await;
                self.last_documents = documents.is_ok().then(Instant::now);
                let described = match &documents {
                    Ok(_) => Described::read(&remote, &address).await,
                    Err(_) => remote.described.clone(),
                };
                self.set_documents(documents.map_err(|error| {
                    tracing::debug!(name = self.name, error, "the discovery of an API service cannot be read");
                }));
                self.aggregation.change_one(&self.name, |remote| remote.described = described);
            }
            Some(_) => {}
            None => {
                self.last_documents = None;
                self.set_documents(Err(()));
            }
        }
        let is_failed = found.is_failed_request() || found.holds == Holds::Unknown || recorded.is_err();
        let lacks_documents = found.holds == Holds::True && self.last_documents.is_none();
        Some(if is_failed || lacks_documents { Outcome::Failed } else { Outcome::Settled })
    }

    fn set_documents(&self, documents: Result<Documents, ()>) {
        self.aggregation.change_one(&self.name, |remote| {
            remote.is_stale = documents.is_err();
            remote.documents = documents.ok().map(Arc::new);
        });
    }

    /// Watches the service and the endpoints in its namespace.
    async fn changes(&self, storage: &Arc<dyn Storage>) -> BoxStream<'static, ()> {
        let ServiceReference { namespace, name, .. } = &self.service;
        let prefixes =
            [format!("/registry/services/specs/{namespace}/{name}"), format!("/registry/endpointslices/{namespace}/")];
        let Ok(now) = storage.revision().await else { return futures::stream::empty().boxed() };
        let mut streams: Vec<EventStream> = Vec::new();
        for prefix in &prefixes {
            match storage.watch(prefix, now).await {
                Ok(events) => streams.push(events),
                Err(_) => return futures::stream::empty().boxed(),
            }
        }
        // The end of a watch counts as a change, so that both are started again.
        let each = streams.into_iter().map(|events| {
            let changes = futures::stream::unfold(events, |mut events| async move {
                next_event(&mut events).await.map(|_| ((), events))
            });
            changes.chain(futures::stream::iter([()])).boxed()
        });
        futures::stream::select_all(each).boxed()
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The next check follows a change, or the interval.
    Settled,
    /// The check is repeated after a pause.
    Failed,
}

/// Returns an object, unless it is damaged.
fn object(value: &StoredValue) -> Option<Value> {
    Item::stored(value).ok().map(|item| item.value())
}
