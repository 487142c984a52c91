//! Scheduler: selects a node for each pod of `default-scheduler`, by the rules of kube-scheduler.
//!
//! One task makes all decisions, one after the other, from a [`Snapshot`](snapshot::Snapshot) of the nodes and their
//! pods. Events keep the snapshot up to date; no object is decoded for a decision, except for pods with claims. A
//! selected node is recorded at once, and the binding is sent in parallel with others. If the binding fails, the record
//! is removed and the pod is tried again.
//!
//! A pod that fits on no node waits in the [`Queue`] for an event that may help. Its condition has the reasons, with the
//! texts of kube-scheduler. It may preempt pods of lower priority.
//!
//! If the nodes have storage, a pod with unbound claims waits. For claims with the binding mode `WaitForFirstConsumer`,
//! the node is selected first.
//!
//! Not implemented: dynamic resource allocation, pod groups, limits of volumes per node, the score of images, default
//! spread constraints. Affinity to nominated pods is not considered, only their resources and ports.

mod affinity;
mod amounts;
mod counts;
mod decide;
mod filter;
mod nominations;
mod observe;
mod preemption;
mod profile;
mod queue;
pub(super) mod reason;
mod score;
mod snapshot;
mod spread;
mod writes;

use std::sync::Arc;

use hashbrown::HashMap;
use k8s_openapi::api::{
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use windlass_api::{Object, ObjectKey, ObjectRef};
use windlass_cache::{Cached, HandlerOptions, Notification, Registrations};
use windlass_client::Error;
use windlass_runtime::{Group, Manager, Result, RunnableContext, Task, Watch};

use self::{
    decide::{Candidate, Core, Failure, Nomination},
    preemption::Victims,
    profile::Profiles,
    queue::{Queue, Queued},
    reason::Causes,
    snapshot::{Placed, Slot},
    writes::{Report, Writer},
};
use super::{
    consumers::{Consumption, Stores},
    fit::Labeled,
    storage::Storage,
};
use crate::{
    consumers::index_pods,
    volumes::{claims, index_volumes, volumes},
};

/// The name in logs, and the field manager.
const NAME: &str = "scheduler";

/// The number of requests in progress at which no further decisions are made.
const MOST_WRITES: usize = 64;

/// The component name in events, that of the default scheduler.
const COMPONENT: &str = "default-scheduler";

/// Adds the scheduler to a manager.
pub(crate) fn add_to(manager: &mut Manager, storage: Storage) {
    let task = Task::new(NAME, move |running| run(running, storage));
    manager.add(task.in_group(Group::Controllers));
}

/// A change of an object that affects decisions.
#[derive(Debug)]
enum Event {
    Pod(Notification<Pod>),
    Node(Notification<Node>),
    Namespace(Notification<Namespace>),
    Budget(Notification<PodDisruptionBudget>),
    Claim(ObjectRef<PersistentVolumeClaim>),
    Volume(Cached<PersistentVolume>),
    Class,
}

/// The end of a request.
#[derive(Debug)]
enum Written {
    Bound(ObjectKey, Arc<str>, Result<(), Error>),
    /// A report, a preemption or the preparation of volumes. The pod is tried again after an error.
    Reported(ObjectKey, Result<(), Error>),
}

/// The state of the scheduler.
#[derive(Debug)]
struct Scheduler {
    core: Core,
    queue: Queue,
    profiles: Profiles,
    /// The nodes selected for pods whose volumes are being bound, with the UID of the pod.
    selected: HashMap<ObjectKey, (Arc<str>, String)>,
    /// `None` if no controller binds claims.
    stores: Option<Stores>,
    writer: Writer,
    writes: JoinSet<Written>,
}

async fn run(running: RunnableContext, storage: Storage) -> Result<()> {
    let cluster = running.cluster();
    let (sender, mut events) = unbounded_channel();
    if storage == Storage::Simulated {
        // The controller that binds claims adds the same ones, but may run in another program.
        index_pods(cluster).await?;
        index_volumes(cluster).await?;
    }
    let watch = Watch::<Pod>::all();
    let pods = cluster.informer(&watch).store();
    let mut handlers = vec![
        handle(&running, &sender, &watch, Event::Pod),
        handle(&running, &sender, &Watch::all(), Event::Node),
        handle(&running, &sender, &Watch::all(), Event::Namespace),
        handle(&running, &sender, &Watch::all(), Event::Budget),
    ];
    let stores = match storage {
        Storage::None => None,
        Storage::Simulated => {
            let of_claim = |change: Notification<_>| Event::Claim(change.object().object_ref());
            let of_volume = |change: Notification<_>| Event::Volume(change.into_touched());
            handlers.push(handle(&running, &sender, &claims(), of_claim));
            handlers.push(handle(&running, &sender, &volumes(), of_volume));
            handlers.push(handle(&running, &sender, &Watch::<StorageClass>::all(), |_| Event::Class));
            Some(Stores {
                claims: cluster.informer(&claims()).store(),
                volumes: cluster.informer(&volumes()).store(),
                classes: cluster.informer(&Watch::all()).store(),
            })
        }
    };
    let writer = Writer {
        client: cluster.client().clone().with_component(NAME),
        recorder: cluster.recorder(COMPONENT),
        pods,
        clock: cluster.clock().clone(),
    };
    let mut scheduler = Scheduler::new(writer, stores);
    let stop = running.stop().clone();
    tokio::select! {
        biased;
        () = stop.requested() => {}
        () = scheduler.work(&handlers, &mut events) => {}
    }
    while scheduler.writes.join_next().await.is_some() {}
    for handler in &handlers {
        handler.shut_down().await;
    }
    Ok(())
}

/// Sends the events of a watch to the scheduler.
fn handle<T: Object>(
    running: &RunnableContext,
    sender: &UnboundedSender<Event>,
    watch: &Watch<T>,
    event: impl Fn(Notification<T>) -> Event + Clone + Send + 'static,
) -> Registrations {
    let handler = || {
        let (sender, event) = (sender.clone(), event.clone());
        // The receiver is dropped only when the scheduler stops.
        move |change: Notification<T>| drop(sender.send(event(change)))
    };
    running.cluster().informer(watch).add_handler_with(handler, HandlerOptions::default().no_resync().quick())
}

impl Scheduler {
    fn new(writer: Writer, stores: Option<Stores>) -> Self {
        Self {
            core: Core::default(),
            queue: Queue::default(),
            profiles: Profiles::default(),
            selected: HashMap::new(),
            stores,
            writer,
            writes: JoinSet::new(),
        }
    }

    /// Schedules pods until the informers stop.
    async fn work(&mut self, handlers: &[Registrations], events: &mut UnboundedReceiver<Event>) {
        for handler in handlers {
            if handler.has_synced().await.is_err() {
                return;
            }
        }
        loop {
            while let Ok(event) = events.try_recv() {
                self.observe(event);
            }
            let now = Instant::now();
            let wake = self.queue.flush(now);
            let has_capacity = self.writes.len() < MOST_WRITES;
            let is_idle = !has_capacity || !self.step(now);
            let sleep = async {
                match wake {
                    _ if !is_idle => tokio::task::yield_now().await,
                    Some(wake) if has_capacity => sleep_until(wake).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(written) = self.writes.join_next() => self.finish(written),
                event = events.recv() => match event {
                    Some(event) => self.observe(event),
                    None => return,
                },
                () = sleep => {}
            }
        }
    }

    /// Decides about one pod. Returns `false` if there is none.
    fn step(&mut self, now: Instant) -> bool {
        let Some((key, pod)) = self.queue.pop(now) else { return false };
        let is_nominated = self.core.nominations.node(&key).is_some();
        // The failure of other pods may be due to the room that is kept for this one.
        if let Some(failure) = self.queue.known_failure(&pod.profile).filter(|_| !is_nominated) {
            let failure = failure.clone();
            self.fail(&key, &pod, failure);
            return true;
        }
        let consumption = match self.claims_of(&key, &pod) {
            Ok(consumption) => consumption,
            Err(error) => {
                tracing::warn!(%key, %error, "cannot schedule a pod; trying again");
                self.queue.retry(&key, now);
                return true;
            }
        };
        let selected = self.selected.get(&key).filter(|(uid, _)| *uid == pod.uid).map(|(_, node)| node.clone());
        let preferred = selected.or_else(|| self.core.nominations.node(&key).map(str::to_owned));
        let candidate = Candidate {
            key: &key,
            profile: &pod.profile,
            claims: consumption.as_ref(),
            preferred: preferred.as_deref(),
        };
        match (self.core.decide(candidate), &consumption) {
            (Ok(slot), Some(Ok(consumption))) if !consumption.is_bound() => {
                self.bind_claims(&key, &pod, slot, consumption);
            }
            (Ok(slot), _) => self.bind(&key, &pod, slot),
            (Err(failure), _) => self.fail(&key, &pod, failure),
        }
        true
    }

    /// Looks up the claims of a pod, if it has any and a controller binds them.
    fn claims_of(
        &self,
        key: &ObjectKey,
        pod: &Queued,
    ) -> Result<Option<Result<Consumption, String>>, crate::error::ReconcileError> {
        let Some(stores) = self.stores.as_ref().filter(|_| !pod.profile.claims.is_empty()) else { return Ok(None) };
        let Some(pod) = self.writer.pods.get(&ObjectRef::from(key.clone())) else { return Ok(None) };
        Ok(Some(Consumption::of(&*pod.get()?, stores)?))
    }

    /// Records that a pod is on a node, and sends the binding.
    fn bind(&mut self, key: &ObjectKey, pod: &Queued, slot: Slot) {
        let node = Arc::clone(&self.core.snapshot.node(slot).name);
        let placed = Placed {
            uid: Arc::clone(&pod.uid),
            slot,
            profile: Arc::clone(&pod.profile),
            terminating: false,
            assumed: true,
            preempted: false,
            started: None,
            generation: None,
        };
        self.core.snapshot.place(key, &node, placed);
        self.core.nominations.remove(key);
        self.selected.remove(key);
        self.queue.placed(key);
        self.pod_arrived(&pod.profile);
        let (writer, key, uid) = (self.writer.clone(), key.clone(), Arc::clone(&pod.uid));
        self.writes.spawn(async move {
            let bound = writer.bind(&key, &uid, &node).await;
            Written::Bound(key, uid, bound)
        });
    }

    /// Gives the claims of a pod volumes on the selected node. The pod is scheduled once they are bound.
    fn bind_claims(&mut self, key: &ObjectKey, pod: &Queued, slot: Slot, consumption: &Consumption) {
        let node = self.core.snapshot.node(slot);
        self.selected.insert(key.clone(), (Arc::clone(&pod.uid), node.node_name().to_owned()));
        let changes = consumption.changes_on(node);
        let waits = Failure { message: String::new(), causes: Causes::VOLUMES, nomination: Nomination::Keep };
        self.queue.wait(key, &waits, false);
        let (client, key) = (self.writer.client.clone(), key.clone());
        self.writes.spawn(async move {
            for change in changes {
                if let Err(error) = change.send(&client).await {
                    return Written::Reported(key, Err(error));
                }
            }
            Written::Reported(key, Ok(()))
        });
    }

    /// Reports that a pod fits on no node, and deletes pods of lower priority if that helps.
    fn fail(&mut self, key: &ObjectKey, pod: &Queued, failure: Failure) {
        let profile = &pod.profile;
        let is_preempting = matches!(failure.nomination, Nomination::Preempt(_));
        let is_nominated = self.core.nominations.node(key).is_some();
        self.queue.wait(key, &failure, !is_preempting && !is_nominated && profile.claims.is_empty());
        let mut report =
            Report { key: key.clone(), uid: Arc::clone(&pod.uid), message: failure.message, nominated: None };
        let mut victims = None;
        match failure.nomination {
            Nomination::Keep => {}
            Nomination::Clear => {
                self.core.nominations.remove(key);
                report.nominated = Some(String::new());
            }
            Nomination::Preempt(found) => {
                let node = self.core.snapshot.node(found.slot).name.to_string();
                self.core.nominations.set(key, &node, profile);
                report.nominated = Some(node.clone());
                victims = Some(self.deletions(found, &node, profile.priority));
            }
        }
        let writer = self.writer.clone();
        self.writes.spawn(async move {
            let mut outcome = writer.report(&report).await;
            if let (Some((deletions, displaced)), Some(node)) = (victims, &report.nominated) {
                for key in &displaced {
                    outcome = outcome.and(writer.clear_nomination(key).await);
                }
                for (victim, uid) in &deletions {
                    outcome = outcome.and(writer.preempt(victim, uid, &report.uid, node).await);
                }
            }
            Written::Reported(report.key, outcome)
        });
    }

    /// Returns the victims with their UIDs, and removes the nominations of less important pods for the node.
    fn deletions(
        &mut self,
        victims: Victims,
        node: &str,
        priority: i32,
    ) -> (Vec<(ObjectKey, Arc<str>)>, Vec<ObjectKey>) {
        let displaced = self.core.nominations.below(node, priority);
        for key in &displaced {
            self.core.nominations.remove(key);
            self.queue.activate(key);
        }
        let placed = |key: ObjectKey| {
            let uid = Arc::clone(&self.core.snapshot.pod(&key)?.uid);
            Some((key, uid))
        };
        (victims.pods.into_iter().filter_map(placed).collect(), displaced)
    }

    /// Handles the end of a request.
    fn finish(&mut self, written: std::result::Result<Written, tokio::task::JoinError>) {
        let now = Instant::now();
        match written {
            Ok(Written::Bound(key, uid, Ok(()))) => {
                if self.queue.get(&key).is_some_and(|pod| pod.uid == uid) {
                    self.queue.remove(&key);
                }
            }
            Ok(Written::Bound(key, uid, Err(error))) => {
                tracing::debug!(%key, error = error.chain(), "cannot bind a pod");
                if self.core.snapshot.pod(&key).is_some_and(|pod| pod.assumed && pod.uid == uid) {
                    self.pod_left(&key);
                }
                // The pod may be gone or bound: an event removes it from the queue.
                if self.queue.get(&key).is_some_and(|pod| pod.uid == uid) {
                    self.queue.retry(&key, now);
                }
            }
            Ok(Written::Reported(_, Ok(()))) => {}
            Ok(Written::Reported(key, Err(error))) => {
                tracing::debug!(%key, error = error.chain(), "cannot report about a pod; trying again");
                if self.queue.get(&key).is_some_and(Queued::is_waiting) {
                    self.queue.retry(&key, now);
                }
            }
            Err(error) => tracing::error!(%error, "a request of the scheduler panicked"),
        }
    }
}

#[cfg(test)]
mod tests;
