//! The observations in the order in which they happened.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use windlass_api::{EventType, ObjectKey};
use windlass_cache::Cached;
use windlass_client::Verb;
use windlass_runtime::{Change, Outcome, ReconcileEvent};

/// The record of a run. Clones are handles of the same record.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    began: Instant,
    entries: Mutex<Vec<Entry>>,
    changed: watch::Sender<usize>,
}

/// An observation and its time since the start.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) at: Duration,
    pub(super) observed: Observed,
}

/// One observation in the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// A watch was opened.
    Watching { kind: String },
    /// A watch event arrived, on its way to the event queue, where it becomes a delta.
    Delta { kind: String, event: EventType, key: ObjectKey, version: String, owner: Option<Arc<str>> },
    /// The store holds this state of a ReplicaSet.
    StoredSet { key: ObjectKey, spec: i32, status: i32 },
    /// The store holds a new pod.
    StoredPod { key: ObjectKey },
    /// A change added a key to the queue of a controller.
    Key { controller: String, kind: String, change: Change, object: ObjectKey, key: ObjectKey },
    /// A reconcile wrote.
    Wrote { controller: String, key: ObjectKey, reconcile: String, write: Write },
    /// A reconcile succeeded; `again` is the delay after which it requests to run again.
    Done { reconcile: String, again: Option<Duration> },
}

/// A write request and its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) verb: Verb,
    /// The resource with its subresource: `replicasets.apps/status`.
    pub(super) resource: String,
    pub(super) name: Option<String>,
    pub(super) status: u16,
}

impl Log {
    pub(super) fn new() -> Self {
        let (changed, _) = watch::channel(0);
        Self(Arc::new(Inner { began: Instant::now(), entries: Mutex::default(), changed }))
    }

    pub(super) fn add(&self, observed: Observed) {
        let mut entries = self.0.entries.lock();
        entries.push(Entry { at: self.now(), observed });
        let length = entries.len();
        drop(entries);
        self.0.changed.send_replace(length);
    }

    /// Returns the time since the start.
    pub(super) fn now(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Returns the number of observations, which is the position of the next one.
    pub(super) fn position(&self) -> usize {
        self.0.entries.lock().len()
    }

    /// Returns the first match from a position on, with its position.
    pub(super) fn find(&self, from: usize, matches: impl Fn(&Observed) -> bool) -> Option<(usize, Entry)> {
        let entries = self.0.entries.lock();
        let mut rest = entries.iter().enumerate().skip(from);
        rest.find(|(_, entry)| matches(&entry.observed)).map(|(at, entry)| (at, entry.clone()))
    }

    /// Returns the number of matches from a position on.
    pub(super) fn count(&self, from: usize, matches: impl Fn(&Observed) -> bool) -> usize {
        self.0.entries.lock().iter().skip(from).filter(|entry| matches(&entry.observed)).count()
    }

    /// Returns a receiver that is notified of each observation.
    pub(super) fn changes(&self) -> watch::Receiver<usize> {
        self.0.changed.subscribe()
    }

    /// Adds an event of the manager.
    pub(super) fn reconcile(&self, event: &ReconcileEvent<'_>) {
        match event {
            ReconcileEvent::Triggered(trigger) => self.add(Observed::Key {
                controller: trigger.controller.to_owned(),
                kind: trigger.resource.kind.to_string(),
                change: trigger.change,
                object: trigger.object.clone(),
                key: trigger.key.clone(),
            }),
            ReconcileEvent::Wrote(wrote) => {
                let operation = wrote.operation;
                let subresource = operation.subresource.as_ref().map(|part| format!("/{part}")).unwrap_or_default();
                let write = Write {
                    verb: operation.verb,
                    resource: format!("{}{subresource}", operation.resource),
                    name: operation.name.clone(),
                    status: wrote.status.unwrap_or_default(),
                };
                let (controller, reconcile) = (wrote.controller.to_owned(), wrote.id.to_owned());
                self.add(Observed::Wrote { controller, key: wrote.key.clone(), reconcile, write });
            }
            ReconcileEvent::Finished(finished) => {
                if let Outcome::Done(action) = finished.outcome {
                    self.add(Observed::Done { reconcile: finished.id.to_owned(), again: action.delay() });
                }
            }
            _ => {}
        }
    }

    /// Adds a state of a ReplicaSet in the store, unless it cannot be decoded.
    pub(super) fn stored_set(&self, set: &Cached<ReplicaSet>) {
        let Ok(decoded) = set.get() else { return };
        let spec = decoded.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = decoded.status.as_ref().map_or(0, |status| status.replicas);
        self.add(Observed::StoredSet { key: set.key().clone(), spec, status });
    }

    /// Adds a pod in the store.
    pub(super) fn stored_pod(&self, pod: &Cached<Pod>) {
        self.add(Observed::StoredPod { key: pod.key().clone() });
    }
}
