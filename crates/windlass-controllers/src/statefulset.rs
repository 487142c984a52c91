//! StatefulSet: runs pods with stable identities, each with its ordinal, its name and its claims.
//!
//! Guarantees: no two pods of an ordinal exist at the same time. Unless the set is parallel, a pod is created only when
//! all pods before it are available. It is deleted only when all pods after it are gone. Not guaranteed: that a pod
//! keeps its node. Decisions are computed on plain values ([`identity`], [`claims`], [`status`]); [`sync`] reads and
//! writes, pod by pod.

mod claims;
mod identity;
mod status;
mod sync;
mod writes;

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod},
};
use windlass_api::{LabelSelector, ObjectExt, ObjectRef};
use windlass_cache::{Cached, Lister};
use windlass_runtime::{Action, Context, Controller, Manager, Watch, events::Recorder};

use self::sync::Sync;
use crate::{
    confirmed::Confirmed,
    error::{ReconcileError, await_newer_state},
    expectations::{Expectations, Seen},
    ownership, pods, revisions,
    versions::Versions,
};

/// The number of stateful sets reconciled at the same time.
const WORKERS: usize = 5;
/// The default number of old revisions to retain.
const HISTORY: i32 = 10;

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let known = manager.cluster().informer::<StatefulSet>(&Watch::all()).store();
    let of_claims = known.clone();
    let recorder = manager.cluster().recorder("statefulset-controller");
    let sets = Arc::new(Sets {
        recorder,
        expectations: Expectations::default(),
        versions: Versions::default(),
        confirmed: Confirmed::default(),
    });
    manager.add(
        Controller::<StatefulSet>::new()
            .named("statefulset")
            .owns_with(ownership::managed_by::<StatefulSet, Pod>())
            .owns_with(ownership::managed_by::<StatefulSet, ControllerRevision>())
            .watches_with(ownership::adoptable::<Pod>(), move |pod| {
                ownership::adopting_owners(&known, pod, |set| selector(set).ok().flatten())
            })
            .watches_with(Watch::<PersistentVolumeClaim>::all(), move |claim| sets_of_claim(&of_claims, claim))
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
    recorder: Recorder,
    expectations: Expectations,
    /// The last written versions of the sets; their status holds the current and the update revision.
    versions: Versions,
    confirmed: Confirmed,
}

/// Returns the sets that a claim belongs to, by its name.
fn sets_of_claim(sets: &Lister<StatefulSet>, claim: &Cached<PersistentVolumeClaim>) -> Vec<ObjectRef<StatefulSet>> {
    let meta = claim.meta();
    let Some(namespace) = meta.namespace() else { return Vec::new() };
    let is_of = |set: &Cached<StatefulSet>| {
        let set = set.get().ok()?;
        claims::is_of(&set, meta.name()).then(|| set.object_ref())
    };
    sets.within(Arc::clone(namespace)).list().iter().filter_map(is_of).collect()
}

async fn reconcile(key: ObjectRef<StatefulSet>, cx: Context, sets: Arc<Sets>) -> Result<Action, ReconcileError> {
    let Some(set) = cx.store::<StatefulSet>().get(&key).map(|set| set.get()).transpose()? else {
        sets.expectations.forget(key.key());
        sets.versions.forget(key.key());
        sets.confirmed.forget(key.key());
        return Ok(Action::await_change());
    };
    let Some(selector) = selector(&set)? else { return Ok(Action::await_change()) };
    let namespace = key.namespace().unwrap_or_default();
    let mut candidates = ownership::candidates::<StatefulSet, Pod>(&cx, &*set)?;
    let claims = cx.store::<PersistentVolumeClaim>().within(namespace).list();
    let seen = |uid: &str| {
        let pod = candidates.iter().map(Cached::meta).find(|meta| *meta.uid() == *uid);
        match pod.or_else(|| claims.iter().map(Cached::meta).find(|meta| *meta.uid() == *uid)) {
            None => Seen::Absent,
            Some(meta) if meta.is_deleting() => Seen::Deleting,
            Some(_) => Seen::Alive,
        }
    };
    let uid = set.uid().unwrap_or_default();
    if !sets.versions.caught_up(key.key(), &*set) || !sets.expectations.satisfied(key.key(), uid, seen) {
        return Ok(Action::requeue_after(Expectations::timeout()));
    }

    let history = revisions::of(&cx, &*set, &selector).await?;
    candidates.retain(|pod| identity::ordinal_in(set.name(), pod.meta().name()).is_some());
    let claimed = ownership::claim_all(cx.live(), &*set, &selector, candidates).await?;
    let mut owned = Vec::with_capacity(claimed.len());
    for pod in &claimed {
        owned.push(pod.get()?);
    }
    let now = cx.clock().now();
    let next = pods::next_available(&owned, min_ready_seconds(&set), now);
    match Sync::new(&cx, &sets, key.key(), set, owned, claims, now).run(&history).await {
        Err(error) if !writes::is_due_to_terminating_namespace(&error) => return Err(error),
        _ => {}
    }
    Ok(next.map_or_else(Action::await_change, Action::requeue_after))
}

/// Returns the set's selector, or `None` if it selects everything.
fn selector(set: &StatefulSet) -> Result<Option<LabelSelector>, ReconcileError> {
    let Some(spec) = &set.spec else { return Ok(None) };
    ownership::selecting(&spec.selector)
}

/// Returns the volume claim templates of the set.
fn templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_deref()).unwrap_or_default()
}

fn min_ready_seconds(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

fn is_parallel(set: &StatefulSet) -> bool {
    set.spec.as_ref().and_then(|spec| spec.pod_management_policy.as_deref()) == Some("Parallel")
}

/// Returns `true` if the update strategy is RollingUpdate, not OnDelete.
fn is_rolling(set: &StatefulSet) -> bool {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete")
}

fn history_limit(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(HISTORY)
}
