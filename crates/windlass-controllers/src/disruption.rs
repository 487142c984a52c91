//! PodDisruptionBudget: computes the number of pods that may be evicted now.
//!
//! Guarantees: the allowed disruptions in the status were correct for the pods and scales in the cache. If they cannot
//! be computed, no disruption is allowed. The API server decrements the allowed disruptions at each eviction and
//! records the pod. This controller removes the record when the pod is gone or was not deleted in time. The numbers are
//! computed on plain values ([`count`]); this file reads the objects and writes the results.

mod count;
mod scale;
mod stale;

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::{Pod, ReplicationController},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use windlass_api::{IntOrPercent as _, LabelSelector, ObjectExt, ObjectRef, Rounding};
use windlass_cache::{Cached, Lister};
use windlass_client::{CachedDiscovery, DeferredRestMapper};
use windlass_runtime::{
    Action, Context, Controller, Manager, Watch,
    events::{Note, Recorder},
};

use self::{count::Counts, scale::Scales};
use crate::{
    error::{ReconcileError, await_newer_state},
    pod_labels::{by_labels, selected},
    selector::as_go_shows,
};

/// Adds the controllers to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let known = manager.cluster().informer::<PodDisruptionBudget>(&Watch::all()).store();
    let recorder = manager.cluster().recorder("controllermanager");
    let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(manager.cluster().client().clone()));
    let budgets = Arc::new(Budgets { recorder, mapper });
    manager.add(
        Controller::<PodDisruptionBudget>::new()
            .named("disruption")
            .watches_with(by_labels(), move |pod| budgets_of(&known, pod))
            .reads::<ReplicaSet>()
            .reads::<Deployment>()
            .reads::<StatefulSet>()
            .reads::<ReplicationController>()
            .reconcile(move |budget: Arc<PodDisruptionBudget>, cx: Context| {
                let budgets = Arc::clone(&budgets);
                async move { await_newer_state(Box::pin(reconcile(&budget, &cx, &budgets)).await) }
            }),
    );
    stale::add_to(manager);
}

#[derive(Debug)]
struct Budgets {
    recorder: Recorder,
    /// Resolves pod owners of kinds that are not built in.
    mapper: DeferredRestMapper,
}

/// Returns the budgets that select a pod.
fn budgets_of(budgets: &Lister<PodDisruptionBudget>, pod: &Cached<Pod>) -> Vec<ObjectRef<PodDisruptionBudget>> {
    let meta = pod.meta();
    let Some(namespace) = meta.namespace() else { return Vec::new() };
    let selects = |budget: &Cached<PodDisruptionBudget>| {
        let budget = budget.get().ok()?;
        let selector = selector(&budget).ok()??;
        selector.matches(|label| meta.label(label)).then(|| budget.object_ref())
    };
    budgets.within(Arc::clone(namespace)).list().iter().filter_map(selects).collect()
}

/// Returns the budget's selector. `None` selects nothing; an empty selector selects everything.
fn selector(budget: &PodDisruptionBudget) -> Result<Option<LabelSelector>, ReconcileError> {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    Ok(selector.map(LabelSelector::try_from).transpose()?)
}

async fn reconcile(budget: &PodDisruptionBudget, cx: &Context, budgets: &Budgets) -> Result<Action, ReconcileError> {
    let now = cx.clock().now();
    let mut pods = Vec::new();
    if let Some(selector) = selector(budget)? {
        let namespace = budget.namespace().unwrap_or_default();
        for pod in selected(&cx.store::<Pod>(), namespace, |set| selector.matches(|key| set.label(key)))? {
            pods.push(pod.get()?);
        }
    }
    if pods.is_empty() {
        budgets.recorder.record(budget, Note::normal("NoPods", "No matching pods found"));
    }
    let outcome = expected(budget, &pods, cx, budgets).await;
    let (status, wait) = match outcome {
        Ok((expected, desired)) => {
            let disrupted = count::disrupted(budget, &pods, now);
            for pod in &disrupted.overdue {
                let namespace = budget.namespace().unwrap_or_default();
                let message = format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
                budgets.recorder.record(&**pod, Note::warning("NotDeleted", message));
            }
            let healthy = count::healthy(&pods, &disrupted.pods);
            let counts = Counts { healthy, desired, expected, disrupted: disrupted.pods };
            (count::status(budget, counts, now), disrupted.next)
        }
        Err(error) => {
            let message = format!("Failed to calculate the number of expected pods: {error}");
            budgets.recorder.record(budget, Note::warning("CalculateExpectedPodCountFailed", message));
            (count::failed(budget, &error.to_string(), now), None)
        }
    };
    if Some(&status) != budget.status.as_ref() {
        let mut changed = budget.clone();
        changed.status = Some(status);
        cx.client().update_status(&changed).await?;
    }
    let wait = wait.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
    // One second late, so that the time has certainly passed.
    Ok(wait.map_or_else(Action::await_change, |wait| Action::requeue_after(wait + Duration::from_secs(1))))
}

/// Returns the expected number of pods and the required number of healthy pods.
async fn expected(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    cx: &Context,
    budgets: &Budgets,
) -> Result<(i32, i32), scale::ScaleError> {
    let spec = budget.spec.clone().unwrap_or_default();
    let number = |count: i64| i32::try_from(count).unwrap_or(i32::MAX);
    if let Some(IntOrString::Int(least)) = spec.min_available.as_ref().filter(|_| spec.max_unavailable.is_none()) {
        return Ok((i32::try_from(pods.len()).unwrap_or(i32::MAX), *least));
    }
    let Some(share) = spec.max_unavailable.as_ref().or(spec.min_available.as_ref()) else { return Ok((0, 0)) };
    let scales = Scales { cx, mapper: &budgets.mapper };
    let (expected, unmanaged) = scales.of_all(pods).await?;
    if !unmanaged.is_empty() {
        let shown = as_go_shows(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()));
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {shown}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
        );
        budgets.recorder.record(budget, Note::warning("UnmanagedPods", message));
    }
    let scaled = number(share.scaled_to(expected.into(), Rounding::Up)?);
    let desired = if spec.max_unavailable.is_some() { (expected - scaled).max(0) } else { scaled };
    Ok((expected, desired))
}
