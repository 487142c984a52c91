//! DaemonSet: runs a pod on every eligible node.
//!
//! Guarantees: while the cache shows the controller's own writes, no node gets a second pod, except for a surge pod
//! during an update. An update never makes more pods unavailable than allowed. Labels, affinities and taints determine
//! the eligible nodes ([`eligibility`]); the scheduler binds the pods. Decisions are computed on plain values ([`plan`],
//! [`status`]); this file reads the objects and writes the results.

mod backoff;
mod history;
mod eligibility;
mod plan;
mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet},
    core::v1::{Node, Pod},
};
use windlass_api::{LabelSelector, ObjectExt, ObjectKey, ObjectRef};
use windlass_cache::Cached;
use windlass_runtime::{Action, Context, Controller, Manager, Watch, events::Note};

use self::{
    backoff::Backoffs,
    eligibility::{Eligibility, Requirements},
    history::History,
    plan::{Observed, Plan},
};
use crate::{
    confirmed::Confirmed,
    error::{ReconcileError, await_newer_state},
    expectations::Expectations,
    ownership,
    pod_control::PodControl,
    pods,
    versions::Versions,
};

/// The maximum number of pods that one reconcile creates or deletes.
const BURST: usize = 250;
/// The number of daemon sets reconciled at the same time.
const WORKERS: usize = 2;

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let known = manager.cluster().informer::<DaemonSet>(&Watch::all()).store();
    let all = known.clone();
    let control = PodControl::new(manager.cluster().recorder("daemonset-controller"));
    let sets = Arc::new(Sets {
        control,
        versions: Versions::default(),
        confirmed: Confirmed::default(),
        backoffs: Backoffs::default(),
    });
    manager.add(
        Controller::<DaemonSet>::new()
            .named("daemonset")
            .owns_with(ownership::managed_by::<DaemonSet, Pod>())
            .owns_with(ownership::managed_by::<DaemonSet, ControllerRevision>())
            .watches_with(ownership::adoptable::<Pod>(), move |pod| {
                ownership::adopting_owners(&known, pod, |set| selector(set).ok().flatten())
            })
            // A changed node can be eligible for any daemon set.
            .watches_with(Watch::<Node>::all().filter_updates(eligibility::may_differ), move |_| {
                all.list().iter().map(Cached::object_ref).collect::<Vec<ObjectRef<DaemonSet>>>()
            })
            .concurrency(WORKERS)
            .reconcile_keys(move |key, cx| {
                let sets = Arc::clone(&sets);
                async move { await_newer_state(Box::pin(reconcile(key, cx, sets)).await) }
            }),
    );
}

/// The state shared by the workers.
#[derive(Debug)]
struct Sets {
    control: PodControl,
    /// The last written versions of the daemon sets; their status holds the count of name collisions.
    versions: Versions,
    confirmed: Confirmed,
    backoffs: Backoffs,
}

async fn reconcile(key: ObjectRef<DaemonSet>, cx: Context, sets: Arc<Sets>) -> Result<Action, ReconcileError> {
    let Some(set) = cx.store::<DaemonSet>().get(&key).map(|set| set.get()).transpose()? else {
        sets.control.forget(key.key());
        sets.versions.forget(key.key());
        sets.confirmed.forget(key.key());
        sets.backoffs.forget(key.key());
        return Ok(Action::await_change());
    };
    let Some(selector) = selector(&set)? else {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        sets.control.recorder().record(&*set, Note::warning("SelectingAll", message));
        return Ok(Action::await_change());
    };
    // Its pods and revisions may already be deleted or orphaned.
    if set.is_deleting() {
        return Ok(Action::await_change());
    }
    let candidates = ownership::candidates::<DaemonSet, Pod>(&cx, &*set)?;
    if !sets.control.caught_up(key.key(), &*set, &candidates) || !sets.versions.caught_up(key.key(), &*set) {
        return Ok(Action::requeue_after(Expectations::timeout()));
    }
    let Some(history) = History::of(&cx, &set, &selector).await? else { return Ok(Action::await_change()) };
    let claimed = ownership::claim_all(cx.live(), &*set, &selector, candidates).await?;
    let mut owned = Vec::with_capacity(claimed.len());
    for pod in &claimed {
        owned.push(pod.get()?);
    }
    let (wanted, mut eligibility_by_node) = (Requirements::of(&set), BTreeMap::new());
    for node in cx.store::<Node>().list() {
        let node = node.get()?;
        eligibility_by_node.insert(node.name().to_owned(), wanted.eligibility(&node));
    }
    let observed = Observed::new(&set, &history.hash, eligibility_by_node, &owned, cx.clock().now());
    let sync = Sync { cx: &cx, sets: &sets, key: key.key(), observed };
    let (outcome, wait) = sync.act().await;
    let cut = match &outcome {
        Ok(()) => history.truncate(&cx, &set, &Observed::hashes(&owned)).await,
        Err(_) => Ok(()),
    };
    sync.write_status().await?;
    outcome?;
    cut?;
    Ok(sync.requeue_action(wait))
}

/// One reconcile of one daemon set.
#[derive(Debug)]
struct Sync<'c> {
    cx: &'c Context,
    sets: &'c Sets,
    key: &'c ObjectKey,
    observed: Observed<'c>,
}

impl Sync<'_> {
    /// Creates missing pods and deletes surplus pods; if there are none, replaces outdated pods. Also returns the
    /// remaining back-off of failed pods.
    async fn act(&self) -> (Result<(), ReconcileError>, Option<Duration>) {
        let keep = self.observed.keep();
        let (ended, wait) = self.of_ended(&keep);
        if !keep.create.is_empty() || !keep.delete.is_empty() || !ended.is_empty() {
            let delete = [keep.delete, ended].concat();
            return (self.write(&keep.create, &delete).await, wait);
        }
        let Plan { create, delete, .. } = self.observed.roll();
        (self.write(&create, &delete).await, wait)
    }

    /// Returns the finished pods to delete now, and the wait until the next one may be deleted. Records an event for
    /// each pod to delete.
    fn of_ended(&self, plan: &Plan) -> (Vec<Arc<Pod>>, Option<Duration>) {
        let (mut ended, mut wait) = (Vec::new(), None::<Duration>);
        let set = self.observed.set;
        let observed = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
        for (node, pod) in &plan.ended {
            let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name());
            let note = if pods::phase(pod) == "Succeeded" {
                let message = format!("Found succeeded daemon pod {name} on node {node}, will try to delete it");
                Note::normal("SucceededDaemonPod", message)
            } else if let Some(delay) = self.sets.backoffs.wait(self.key, observed, node) {
                wait = Some(wait.map_or(delay, |wait| wait.min(delay)));
                continue;
            } else {
                let message = format!("Found failed daemon pod {name} on node {node}, will try to kill it");
                Note::warning("FailedDaemonPod", message)
            };
            self.sets.control.recorder().record(set, note);
            ended.push(Arc::clone(pod));
        }
        (ended, wait)
    }

    async fn write(&self, create: &[String], delete: &[Arc<Pod>]) -> Result<(), ReconcileError> {
        let Observed { set, hash, .. } = self.observed;
        let delete = &delete[..delete.len().min(BURST)];
        if !create.is_empty() || !delete.is_empty() {
            self.sets.confirmed.ensure(self.cx, set).await?;
            self.ensure_ineligible(delete).await?;
        }
        let new = create.iter().take(BURST).map(|node| eligibility::pod(set, hash, node)).collect();
        let created = self.sets.control.create(self.cx, set, new).await;
        let deleted = self.sets.control.delete(self.cx, set, delete).await;
        created.failure.or(deleted.failure).map_or(Ok(()), |error| Err(error.into()))
    }

    /// Fails with [`ReconcileError::StaleCache`] if pods are to leave a node that the server classifies differently from the
    /// cache.
    async fn ensure_ineligible(&self, delete: &[Arc<Pod>]) -> Result<(), ReconcileError> {
        let Observed { set, eligibility_by_node, .. } = &self.observed;
        let nodes: BTreeSet<&str> = delete.iter().filter_map(|pod| eligibility::node_of(pod)).collect();
        let known = |node: &str| eligibility_by_node.get(node).copied();
        let wanted = Requirements::of(set);
        for node in nodes.into_iter().filter(|node| known(node).is_none_or(|known| known == Eligibility::Leave)) {
            // The role of the controller permits no get.
            let live = self.cx.live().list::<Node>().fields(format!("metadata.name={node}")).await?;
            if live.items.first().map(|live| wanted.eligibility(live)) != known(node) {
                return Err(ReconcileError::StaleCache { what: format!("the last change of Node {node}") });
            }
        }
        Ok(())
    }

    async fn write_status(&self) -> Result<(), ReconcileError> {
        let status = status::compute(&self.observed);
        if Some(&status) != self.observed.set.status.as_ref() {
            let mut changed = self.observed.set.clone();
            changed.status = Some(status);
            let written = self.cx.client().update_status(&changed).await?;
            self.sets.versions.wrote(self.key, &written);
        }
        Ok(())
    }

    /// Schedules the next reconcile for changes that cause no event.
    fn requeue_action(&self, wait: Option<Duration>) -> Action {
        let min_ready = min_ready_seconds(self.observed.set);
        let available = pods::next_available(self.observed.by_node.values().flatten(), min_ready, self.observed.now);
        let next = [wait, available].into_iter().flatten().min();
        next.map_or_else(Action::await_change, Action::requeue_after)
    }
}

/// Returns the set's selector, or `None` if it selects everything.
fn selector(set: &DaemonSet) -> Result<Option<LabelSelector>, ReconcileError> {
    let Some(spec) = &set.spec else { return Ok(None) };
    ownership::selecting(&spec.selector)
}

fn min_ready_seconds(set: &DaemonSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}
