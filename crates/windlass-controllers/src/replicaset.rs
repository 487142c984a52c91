//! ReplicaSet and ReplicationController: keep the desired number of pods of a template running.
//!
//! Both kinds share one controller, generic over [`Replicated`].
//!
//! Guarantees: a reconcile with an up-to-date cache creates exactly the missing pods, or deletes exactly the surplus
//! ones, in deletion order. Not guaranteed: the exact number of pods at every moment.

mod kinds;
mod readiness;
mod status;

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetStatus},
    core::v1::{Pod, PodTemplateSpec, ReplicationController},
};
use windlass_api::{LabelSelector, ObjectExt, ObjectRef, Resource};
use windlass_cache::Cached;
use windlass_client::Error;
use windlass_runtime::{Action, Context, Controller, Manager, Watch};

use self::readiness::{KnownReadiness, Replica};
use crate::{
    confirmed::Confirmed,
    error::{ReconcileError, await_newer_state},
    expectations::Expectations,
    ownership,
    pod_control::{self, PodControl},
    pods,
    versions::Versions,
};

/// The maximum number of pods that one reconcile creates or deletes.
const BURST: usize = 500;
/// The number of replica sets reconciled at the same time.
const WORKERS: usize = 5;

/// A kind that specifies a number of pods of a template.
trait Replicated: Resource {
    /// The controller's name in flags and logs.
    const CONTROLLER: &'static str;
    /// The component name in events.
    const COMPONENT: &'static str;

    /// Returns the selector, or `None` if it selects everything.
    fn selector(&self) -> Result<Option<LabelSelector>, ReconcileError>;
    fn replicas(&self) -> i32;
    fn min_ready_seconds(&self) -> i32;
    fn template(&self) -> Option<&PodTemplateSpec>;
    fn status(&self) -> Option<ReplicaSetStatus>;
    /// Sets the status. Values without a field in the kind are dropped.
    fn set_status(&mut self, status: ReplicaSetStatus);
}

/// Adds the controller of replica sets to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    add::<ReplicaSet>(manager);
}

/// Adds the controller of replication controllers to a manager.
pub(crate) fn add_legacy_to(manager: &mut Manager) {
    add::<ReplicationController>(manager);
}

fn add<K: Replicated>(manager: &mut Manager) {
    let sets = manager.cluster().informer::<K>(&Watch::all()).store();
    let control = PodControl::new(manager.cluster().recorder(K::COMPONENT));
    let replicas = Arc::new(Replicas {
        control,
        versions: Versions::default(),
        confirmed: Confirmed::default(),
        readiness: KnownReadiness::default(),
    });
    manager.add(
        Controller::<K>::new()
            .named(K::CONTROLLER)
            .owns_with(ownership::managed_by::<K, Pod>())
            .watches_with(ownership::adoptable::<Pod>(), move |pod| {
                ownership::adopting_owners(&sets, pod, |set: &K| set.selector().ok().flatten())
            })
            .concurrency(WORKERS)
            .reconcile_keys(move |key, cx| {
                let replicas = Arc::clone(&replicas);
                async move { await_newer_state(reconcile::<K>(key, cx, replicas).await) }
            }),
    );
}

/// The state shared by the workers.
#[derive(Debug)]
struct Replicas {
    control: PodControl,
    /// The versions of the sets at their last status write.
    versions: Versions,
    confirmed: Confirmed,
    readiness: KnownReadiness,
}

async fn reconcile<K: Replicated>(
    key: ObjectRef<K>,
    cx: Context,
    replicas: Arc<Replicas>,
) -> Result<Action, ReconcileError> {
    let Some(set) = cx.store::<K>().get(&key) else {
        replicas.control.forget(key.key());
        replicas.versions.forget(key.key());
        replicas.confirmed.forget(key.key());
        replicas.readiness.forget(key.key());
        return Ok(Action::await_change());
    };
    let set = set.get()?;
    let Some(selector) = set.selector()? else {
        // The API server rejects an empty selector; it would claim every pod.
        return Ok(Action::await_change());
    };

    let candidates = ownership::candidates::<K, Pod>(&cx, &*set)?;
    // The events of the pending writes trigger further reconciles. The status is written once all of them are visible.
    if !replicas.control.caught_up(key.key(), &*set, &candidates) || !replicas.versions.caught_up(key.key(), &*set) {
        return Ok(Action::requeue_after(Expectations::timeout()));
    }
    let claimed = ownership::claim_all(cx.live(), &*set, &selector, candidates).await?;
    let owned = replicas.readiness.replicas(key.key(), &claimed)?;
    let alive: Vec<_> =
        claimed.iter().zip(&owned).filter(|(_, replica)| replica.is_active()).map(|(pod, _)| pod).collect();
    let (active, ending): (Vec<_>, Vec<_>) = owned.into_iter().partition(Replica::is_active);
    let scaling = if set.is_deleting() { Ok(Scaled::Not) } else { scale(&cx, &replicas, &*set, &alive).await? };
    if matches!(scaling, Ok(Scaled::Up)) {
        return Ok(Action::requeue_after(Expectations::timeout()));
    }
    let now = cx.clock().now();
    let failure = scaling.as_ref().err().map(|failure| (failure.reason(), failure.message()));
    let status = status::compute(&*set, &active, &ending, failure, now);
    let mut changed = (*set).clone();
    changed.set_status(status);
    if changed.status() != set.status() {
        let written = cx.client().update_status(&changed).await?;
        replicas.versions.wrote(key.key(), &written);
    }
    scaling.map_err(|failure| ReconcileError::from(failure.error))?;
    Ok(requeue_action(&*set, &active, now))
}

/// Schedules the next reconcile for a change that causes no event: a pod becomes available as time passes.
fn requeue_action<K: Replicated>(set: &K, active: &[Replica<'_>], now: Timestamp) -> Action {
    let next = readiness::next_available(active, set.min_ready_seconds(), now);
    next.map_or_else(Action::await_change, Action::requeue_after)
}

/// The action taken to reach the desired number of pods.
#[derive(Clone, Copy)]
enum Scaled {
    Not,
    /// Pods were created.
    Up,
    /// Pods were deleted.
    Down,
}

/// The error of a creation or deletion of pods.
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
        pod_control::server_message(&self.error)
    }
}

/// Creates missing pods, or deletes surplus ones. The outer error is a stale cache, or a pod that cannot be decoded.
async fn scale<K: Replicated>(
    cx: &Context,
    replicas: &Replicas,
    set: &K,
    active: &[&Cached<Pod>],
) -> Result<Result<Scaled, ScaleFailure>, ReconcileError> {
    let desired = usize::try_from(set.replicas()).unwrap_or(0);
    if active.len() != desired {
        replicas.confirmed.ensure(cx, set).await?;
    }
    let (verb, written) = match active.len().cmp(&desired) {
        Ordering::Equal => return Ok(Ok(Scaled::Not)),
        Ordering::Less => {
            let missing = (desired - active.len()).min(BURST);
            let pod = pods::from_template(set, set.template().cloned().unwrap_or_default());
            (ScaleVerb::Create, replicas.control.create(cx, set, vec![pod; missing]).await)
        }
        Ordering::Greater => {
            let surplus = (active.len() - desired).min(BURST);
            let mut active = active.iter().map(|pod| pod.get()).collect::<Result<Vec<_>, _>>()?;
            let crowd = crowd(&active);
            pods::sort_for_deletion(&mut active, |pod| crowd.get(pods::node_name(pod)).copied().unwrap_or(0));
            (ScaleVerb::Delete, replicas.control.delete(cx, set, &active[..surplus]).await)
        }
    };
    Ok(match (written.failure, verb) {
        (Some(error), _) => Err(ScaleFailure { verb, error }),
        (None, _) if written.pods.is_empty() => Ok(Scaled::Not),
        (None, ScaleVerb::Create) => Ok(Scaled::Up),
        (None, ScaleVerb::Delete) => Ok(Scaled::Down),
    })
}

/// Returns the number of pods on each node.
fn crowd(active: &[Arc<Pod>]) -> HashMap<String, usize> {
    let mut crowd = HashMap::new();
    for pod in active {
        *crowd.entry(pods::node_name(pod).to_owned()).or_default() += 1;
    }
    crowd
}
