//! ReplicaSet: keeps so many pods of a template running.
//!
//! Guarantees: between two looks at a cache that has caught up, exactly the missing pods are created and exactly the
//! surplus is deleted, the least useful first. Not guaranteed: that there are never more or fewer pods for a moment.

mod status;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use windlass_api::{LabelSelector, Object, ObjectExt, ObjectKey, ObjectRef};
use windlass_cache::{Cached, Lister};
use windlass_client::Error;
use windlass_runtime::{
    Action, Context, Controller, Manager, Watch,
    events::{Note, Recorder},
};

use crate::{
    error::{ReconcileError, await_newer_state},
    expectations::{Expectations, Seen},
    ownership, pods,
};

/// The most pods that one reconcile creates or deletes.
const BURST: usize = 500;
/// How many pods the first batch of creations has; each batch that succeeds doubles the next.
const FIRST_BATCH: usize = 1;
/// Replica sets reconciled at the same time.
const WORKERS: usize = 5;

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let sets = manager.cluster().informer::<ReplicaSet>(&Watch::all()).store();
    let replicas = Arc::new(Replicas {
        expectations: Expectations::default(),
        recorder: manager.cluster().recorder("replicaset-controller"),
    });
    manager.add(
        Controller::<ReplicaSet>::new()
            .named("replicaset")
            .owns::<Pod>()
            .watches_with(Watch::<Pod>::all(), move |pod| sets_that_want(&sets, pod))
            .concurrency(WORKERS)
            .reconcile_keys(move |key, cx| {
                let replicas = Arc::clone(&replicas);
                async move { await_newer_state(reconcile(key, cx, replicas).await) }
            }),
    );
}

/// What the workers share.
#[derive(Debug)]
struct Replicas {
    expectations: Expectations,
    recorder: Recorder,
}

/// The replica sets that would adopt a pod which nobody manages.
fn sets_that_want(sets: &Lister<ReplicaSet>, pod: &Cached<Pod>) -> Vec<ObjectRef<ReplicaSet>> {
    let meta = pod.meta();
    let Some(namespace) = meta.namespace().filter(|_| meta.controller().is_none()) else { return Vec::new() };
    let wants = |set: &Cached<ReplicaSet>| {
        let set = set.get().ok()?;
        selector(&set).ok()??.matches(|label| meta.label(label)).then(|| set.object_ref())
    };
    sets.within(Arc::clone(namespace)).list().iter().filter_map(wants).collect()
}

async fn reconcile(key: ObjectRef<ReplicaSet>, cx: Context, replicas: Arc<Replicas>) -> Result<Action, ReconcileError> {
    let Some(set) = cx.store::<ReplicaSet>().get(&key) else {
        replicas.expectations.forget(key.key());
        return Ok(Action::await_change());
    };
    let set = set.get()?;
    let Some(selector) = selector(&set)? else {
        // The API server allows no empty selector; it would claim every pod.
        return Ok(Action::await_change());
    };

    let candidates = cx.store::<Pod>().within(key.namespace().unwrap_or_default()).list();
    let caught_up = replicas.expectations.satisfied(key.key(), |uid| seen(&candidates, uid));
    let claimed = ownership::claim_all(cx.client(), &*set, &selector, candidates).await?;
    let mut owned = Vec::with_capacity(claimed.len());
    for pod in &claimed {
        owned.push(pod.get()?);
    }

    let (mut active, ending): (Vec<_>, Vec<_>) = owned.into_iter().partition(|pod| pods::is_active(pod));
    let scaling = if caught_up && !set.is_deleting() {
        scale(&cx, &replicas, key.key(), &set, &mut active).await
    } else {
        Ok(())
    };
    let now = cx.clock().now();
    let failure = scaling.as_ref().err().map(|failure| (failure.reason(), failure.message()));
    let status = status::compute(&set, &active, &ending, failure, now);
    if Some(&status) != set.status.as_ref() {
        let mut changed = (*set).clone();
        changed.status = Some(status);
        cx.client().update_status(&changed).await?;
    }
    scaling.map_err(|failure| ReconcileError::from(failure.error))?;
    Ok(next_look(&set, &active, caught_up, now))
}

/// When something will have changed that no event tells of: a pod becomes available by the passing of time, or what was
/// expected did not come.
fn next_look(set: &ReplicaSet, active: &[Arc<Pod>], caught_up: bool, now: Timestamp) -> Action {
    if !caught_up {
        return Action::requeue_after(Expectations::timeout());
    }
    let min_ready = min_ready_seconds(set);
    let waiting = active.iter().filter(|pod| pods::is_ready(pod) && !pods::is_available(pod, min_ready, now));
    let next = waiting.filter_map(|pod| pods::available_at(pod, min_ready)).min();
    match next.and_then(|at| Duration::try_from(at.duration_since(now)).ok()) {
        Some(wait) => Action::requeue_after(wait),
        None => Action::await_change(),
    }
}

/// Why not all pods could be created or deleted.
struct ScaleFailure {
    verb: ScaleVerb,
    error: Error,
}

#[derive(Clone, Copy)]
enum ScaleVerb {
    Create,
    Delete,
}

impl ScaleFailure {
    const fn reason(&self) -> &'static str {
        match self.verb {
            ScaleVerb::Create => "FailedCreate",
            ScaleVerb::Delete => "FailedDelete",
        }
    }

    fn message(&self) -> String {
        words(&self.error)
    }
}

/// Whether the namespace is going away: no pod can be created in it, and none is missed.
fn is_leaving(error: &Error) -> bool {
    error.status().is_some_and(|status| status.has_cause("NamespaceTerminating"))
}

/// The server's own words, if it said any.
fn words(error: &Error) -> String {
    error.status().map_or_else(|| error.to_string(), ToString::to_string)
}

async fn scale(
    cx: &Context,
    replicas: &Replicas,
    key: &ObjectKey,
    set: &ReplicaSet,
    active: &mut [Arc<Pod>],
) -> Result<(), ScaleFailure> {
    let desired = usize::try_from(desired_replicas(set)).unwrap_or(0);
    if active.len() < desired {
        let missing = (desired - active.len()).min(BURST);
        return create(cx, replicas, key, set, missing)
            .await
            .map_err(|error| ScaleFailure { verb: ScaleVerb::Create, error });
    }
    let surplus = (active.len() - desired).min(BURST);
    if surplus == 0 {
        return Ok(());
    }
    let crowd = crowd(active);
    pods::sort_for_deletion(active, |pod| crowd.get(pods::node_name(pod)).copied().unwrap_or(0));
    let chosen = &active[..surplus];
    delete(cx, replicas, set, chosen).await.map_err(|error| ScaleFailure { verb: ScaleVerb::Delete, error })
}

/// Creates in batches of growing size, so that a template that the server refuses is refused once, not a hundred times.
async fn create(
    cx: &Context,
    replicas: &Replicas,
    key: &ObjectKey,
    set: &ReplicaSet,
    missing: usize,
) -> Result<(), Error> {
    let template = pod_from(set);
    let (mut left, mut batch) = (missing, FIRST_BATCH);
    while left > 0 {
        let count = batch.min(left);
        let created = join_all((0..count).map(|_| async { cx.client().create(&template).await })).await;
        let mut failure = None;
        for outcome in created {
            match outcome {
                Ok(pod) => {
                    replicas.expectations.created(key, pod.uid().unwrap_or_default());
                    let message = format!("Created pod: {}", pod.name());
                    replicas.recorder.record(set, Note::normal("SuccessfulCreate", message));
                }
                Err(error) => {
                    if !is_leaving(&error) {
                        let note = Note::warning("FailedCreate", format!("Error creating: {}", words(&error)));
                        replicas.recorder.record(set, note);
                    }
                    failure = Some(error);
                }
            }
        }
        if let Some(error) = failure {
            return if is_leaving(&error) { Ok(()) } else { Err(error) };
        }
        left -= count;
        batch *= 2;
    }
    Ok(())
}

async fn delete(cx: &Context, replicas: &Replicas, set: &ReplicaSet, chosen: &[Arc<Pod>]) -> Result<(), Error> {
    let key = set.object_ref();
    let key = key.key();
    let deletions = chosen.iter().map(|pod| async move {
        let uid = pod.uid().unwrap_or_default();
        match cx.client().delete::<Pod>(pod.object_ref()).uid(uid).await {
            Ok(_) => {
                replicas.expectations.deleted(key, uid);
                let message = format!("Deleted pod: {}", pod.name());
                replicas.recorder.record(set, Note::normal("SuccessfulDelete", message));
                Ok(())
            }
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => {
                let note = Note::warning("FailedDelete", format!("Error deleting: {}", words(&error)));
                replicas.recorder.record(set, note);
                Err(error)
            }
        }
    });
    join_all(deletions).await.into_iter().collect()
}

/// A pod of the set's template, named by the server.
fn pod_from(set: &ReplicaSet) -> Pod {
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let from = template.metadata.unwrap_or_default();
    let mut pod = Pod { spec: template.spec, ..Pod::default() };
    let metadata = pod.metadata_mut();
    metadata.generate_name = Some(format!("{}-", set.name()));
    metadata.namespace = set.namespace().map(str::to_owned);
    metadata.labels = from.labels;
    metadata.annotations = from.annotations;
    metadata.finalizers = from.finalizers;
    pod.controlled_by(set)
}

fn seen(pods: &[Cached<Pod>], uid: &str) -> Seen {
    match pods.iter().find(|pod| *pod.meta().uid() == *uid) {
        None => Seen::Absent,
        Some(pod) if pod.meta().is_deleting() => Seen::Deleting,
        Some(_) => Seen::Alive,
    }
}

/// How many of the pods are on each node.
fn crowd(active: &[Arc<Pod>]) -> HashMap<String, usize> {
    let mut crowd = HashMap::new();
    for pod in active {
        *crowd.entry(pods::node_name(pod).to_owned()).or_default() += 1;
    }
    crowd
}

/// The set's selector; `None` when it selects everything.
fn selector(set: &ReplicaSet) -> Result<Option<LabelSelector>, ReconcileError> {
    let Some(spec) = &set.spec else { return Ok(None) };
    let selector = LabelSelector::try_from(&spec.selector)?;
    Ok(Some(selector).filter(|selector| !selector.is_empty()))
}

fn desired_replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}
