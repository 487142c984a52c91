//! Deployment: replaces the pods of an old template by pods of the new one, and limits how many are unavailable at a
//! time.
//!
//! Each template has a ReplicaSet. A rollout moves replicas from the old ReplicaSets to the new one. Decisions are
//! computed on plain values ([`scale`], [`status`], [`template`]); this file reads the objects and writes the results.

mod annotation;
mod replica_sets;
mod scale;
mod status;
mod template;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use windlass_api::{LabelSelector, ObjectExt, ObjectRef};
use windlass_cache::{Cached, Lister};
use windlass_runtime::{
    Action, Context, Controller, Manager, Watch,
    events::{Note, Recorder},
};

use self::{
    replica_sets::Rollout,
    scale::{ReplicaSets, desired_replicas, is_recreate, spec_replicas},
    status::Progress,
};
use crate::{
    confirmed::Confirmed,
    error::{ReconcileError, await_newer_state},
    expectations::{Expectations, Seen},
    ownership, pods,
    versions::Versions,
};

/// The number of deployments reconciled at the same time.
const WORKERS: usize = 5;

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let sets = manager.cluster().informer::<ReplicaSet>(&Watch::all()).store();
    let memory = Arc::new(Memory {
        recorder: manager.cluster().recorder("deployment-controller"),
        expectations: Expectations::default(),
        versions: Versions::default(),
        confirmed: Confirmed::default(),
    });
    manager.add(
        Controller::<Deployment>::new()
            .named("deployment")
            .owns_with(ownership::managed_by::<Deployment, ReplicaSet>())
            // The Recreate strategy waits until the last old pod is gone.
            .watches_with(Watch::<Pod>::all(), move |pod| deployment_of_ending_pod(&sets, pod))
            .concurrency(WORKERS)
            // Boxed: the future of a rollout is large, and each worker holds one.
            .reconcile_keys(move |key, cx| {
                let memory = Arc::clone(&memory);
                async move { await_newer_state(Box::pin(reconcile(key, cx, memory)).await) }
            }),
    );
}

/// The state shared by the workers.
#[derive(Debug)]
struct Memory {
    recorder: Recorder,
    /// The created replica sets that the cache does not show yet.
    expectations: Expectations,
    /// The versions of the deployments at their last status write.
    versions: Versions,
    confirmed: Confirmed,
}

/// Returns the deployment of a terminating pod, by way of its replica set.
fn deployment_of_ending_pod(sets: &Lister<ReplicaSet>, pod: &Cached<Pod>) -> Option<ObjectRef<Deployment>> {
    let meta = pod.meta();
    let set = meta.controller().filter(|owner| meta.is_deleting() && ownership::is_kind::<ReplicaSet>(owner))?;
    let namespace = meta.namespace().cloned()?;
    let set = sets.get(&ObjectRef::new(set.name.clone()).within(namespace.clone()))?;
    let deployment = set.meta().controller().filter(|owner| ownership::is_kind::<Deployment>(owner))?;
    Some(ObjectRef::new(deployment.name.clone()).within(namespace))
}

async fn reconcile(key: ObjectRef<Deployment>, cx: Context, memory: Arc<Memory>) -> Result<Action, ReconcileError> {
    let Some(deployment) = cx.store::<Deployment>().get(&key).map(|found| found.get()).transpose()? else {
        memory.expectations.forget(key.key());
        memory.versions.forget(key.key());
        memory.confirmed.forget(key.key());
        return Ok(Action::await_change());
    };
    let Some(selector) = selector(&deployment)? else {
        // The API server rejects an empty selector; it would claim every replica set.
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        memory.recorder.record(&*deployment, Note::warning("SelectingAll", message));
        return Ok(Action::await_change());
    };
    let candidates = ownership::candidates::<Deployment, ReplicaSet>(&cx, &*deployment)?;
    if !memory.caught_up(&key, &deployment, &candidates) {
        return Ok(Action::requeue_after(Expectations::timeout()));
    }
    let claimed = ownership::claim_all(cx.live(), &*deployment, &selector, candidates).await?;
    let mut sets = Vec::with_capacity(claimed.len());
    for set in &claimed {
        sets.push((*set.get()?).clone());
    }

    let mut rollout = Rollout::new(&cx, &memory, (*deployment).clone(), sets);
    if deployment.is_deleting() {
        rollout.write_status().await?;
        return Ok(Action::await_change());
    }
    rollout.record_pause();
    if is_paused(&deployment) || size_changed(&deployment, rollout.sets()) {
        rollout.sync_new(replica_sets::IfMissing::Leave).await?;
        rollout.scale_in_proportion().await?;
        if is_paused(&deployment) {
            rollout.clean_up().await?;
        }
    } else if is_recreate(&deployment) {
        recreate(&cx, &mut rollout).await?;
    } else {
        roll(&mut rollout).await?;
    }
    let deadline = rollout.write_status().await?;
    let wait = deadline.and_then(|at| Duration::try_from(at.duration_since(cx.clock().now())).ok());
    // One second late, because a moment too early the deadline would not have passed yet.
    Ok(wait.map_or_else(Action::await_change, |wait| Action::requeue_after(wait + Duration::from_secs(1))))
}

impl Memory {
    /// Reports whether the cache shows the controller's own writes. A reconcile of an older state would repeat them,
    /// and the server would reject them.
    fn caught_up(&self, key: &ObjectRef<Deployment>, deployment: &Deployment, sets: &[Cached<ReplicaSet>]) -> bool {
        let seen = |uid: &str| match sets.iter().find(|set| *set.meta().uid() == *uid) {
            None => Seen::Absent,
            Some(set) if set.meta().is_deleting() => Seen::Deleting,
            Some(_) => Seen::Alive,
        };
        self.versions.caught_up(key.key(), deployment)
            && self.expectations.satisfied(key.key(), deployment.uid().unwrap_or_default(), seen)
    }
}

/// Performs one step of a rolling update: scales up the new replica set, or else scales down old ones.
async fn roll(rollout: &mut Rollout<'_>) -> Result<(), ReconcileError> {
    rollout.sync_new(replica_sets::IfMissing::Create).await?;
    let target = scale::new_replicas(rollout.deployment(), rollout.sets());
    if let Some(new) = rollout.sets().new.clone()
        && spec_replicas(&new) != target
    {
        return rollout.scale(&[(new.name().to_owned(), target)]).await;
    }
    let targets = scale::old_replicas(rollout.deployment(), rollout.sets());
    if !targets.is_empty() {
        return rollout.scale(&targets).await;
    }
    rollout.clean_up().await
}

/// Performs one step of the Recreate strategy: scales the old replica sets to zero, waits for their pods, then scales
/// up the new one.
async fn recreate(cx: &Context, rollout: &mut Rollout<'_>) -> Result<(), ReconcileError> {
    rollout.sync_new(replica_sets::IfMissing::Leave).await?;
    let down: Vec<_> = rollout.sets().old_active().map(|set| (set.name().to_owned(), 0)).collect();
    if !down.is_empty() {
        return rollout.scale(&down).await;
    }
    if has_old_pods(cx, rollout.sets())? {
        return Ok(());
    }
    rollout.sync_new(replica_sets::IfMissing::Create).await?;
    let target = desired_replicas(rollout.deployment());
    if let Some(new) = rollout.sets().new.clone()
        && spec_replicas(&new) != target
    {
        rollout.scale(&[(new.name().to_owned(), target)]).await?;
    }
    rollout.clean_up().await
}

/// Reports whether an unfinished pod of an old replica set exists.
fn has_old_pods(cx: &Context, sets: &ReplicaSets) -> Result<bool, ReconcileError> {
    let Some(namespace) = sets.old.first().and_then(ObjectExt::namespace) else { return Ok(false) };
    for pod in cx.store::<Pod>().within(namespace).list() {
        let owner = pod.meta().controller().map(|owner| owner.uid.clone());
        let is_old = owner.is_some_and(|uid| sets.old.iter().any(|set| set.uid() == Some(&*uid)));
        if is_old && !pods::is_finished(&*pod.get()?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reports whether the deployment's replica count differs from the one that its replica sets were scaled for.
fn size_changed(deployment: &Deployment, sets: &ReplicaSets) -> bool {
    let desired = desired_replicas(deployment).to_string();
    let sized_for = |set: &ReplicaSet| set.annotations().get(annotation::DESIRED_REPLICAS).cloned();
    let active = sets.all().filter(|set| spec_replicas(set) > 0);
    active.filter_map(sized_for).any(|sized| sized != desired)
}

fn is_paused(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().and_then(|spec| spec.paused).unwrap_or(false)
}

/// Returns the deployment's selector, or `None` if it selects everything.
fn selector(deployment: &Deployment) -> Result<Option<LabelSelector>, ReconcileError> {
    let Some(spec) = &deployment.spec else { return Ok(None) };
    ownership::selecting(&spec.selector)
}

/// Returns the new progress if the rollout was paused or resumed since the last status, otherwise `None`.
fn pause_progress(deployment: &Deployment) -> Option<Progress> {
    status::deadline_seconds(deployment)?;
    let was_paused = status::progressing_reason(deployment) == Some("DeploymentPaused");
    // A pause does not overwrite an exceeded deadline.
    let timed_out = status::progressing_reason(deployment) == Some("ProgressDeadlineExceeded");
    match (is_paused(deployment), was_paused) {
        (true, false) if !timed_out => Some(Progress::Paused),
        (false, true) => Some(Progress::Resumed),
        _ => None,
    }
}
