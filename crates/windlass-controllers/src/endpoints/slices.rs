//! The controller of EndpointSlices.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{Node, Service},
    discovery::v1::EndpointSlice,
};
use windlass_api::{ObjectExt, ObjectKey, ObjectRef};
use windlass_cache::Cached;
use windlass_client::Error;
use windlass_runtime::{Action, Context, Controller, Manager, Watch};

use super::{
    backend::{backends, has_endpoints, services_of},
    packing::{Plan, is_of, plan},
};
use crate::{
    error::{ReconcileError, await_newer_state},
    expectations::{Expectations, Seen},
    pod_labels::by_labels,
};

/// The number of services reconciled at the same time.
const WORKERS: usize = 5;
/// The label with a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let services = manager.cluster().informer::<Service>(&Watch::all()).store();
    let expectations = Arc::new(Expectations::default());
    manager.add(
        Controller::<Service>::new()
            .named("endpointslice")
            .owns::<EndpointSlice>()
            .watches_with(by_labels(), move |pod| services_of(&services, pod))
            .reads::<Node>()
            .concurrency(WORKERS)
            .reconcile_keys(move |key, cx| {
                let expectations = Arc::clone(&expectations);
                async move { await_newer_state(reconcile(key, cx, &expectations).await) }
            }),
    );
}

async fn reconcile(
    key: ObjectRef<Service>,
    cx: Context,
    expectations: &Expectations,
) -> Result<Action, ReconcileError> {
    let Some(service) = cx.store::<Service>().get(&key) else {
        // The garbage collector deletes its slices.
        expectations.forget(key.key());
        return Ok(Action::await_change());
    };
    let service = service.get()?;
    if service.is_deleting() || !has_endpoints(&service) {
        return Ok(Action::await_change());
    }
    let mut existing = Vec::new();
    for slice in cx.store::<EndpointSlice>().within(key.namespace().unwrap_or_default()).list() {
        if is_ours(&slice, &service) {
            existing.push((*slice.get()?).clone());
        }
    }
    // Slices get generated names, so a stale cache would lead to duplicates.
    let of = service.uid().unwrap_or_default();
    if !is_settled(expectations, key.key(), of, &existing) {
        return Ok(Action::requeue_after(Expectations::timeout()));
    }
    let nodes = cx.store::<Node>();
    let zone = |node: &str| nodes.get(&ObjectRef::new(node))?.meta().label(ZONE).map(str::to_owned);
    let plan = plan(&service, &backends(&cx, &service)?, existing, zone);
    apply(&cx, key.key(), of, &plan, expectations).await?;
    Ok(Action::await_change())
}

/// Reports whether the cache shows all created and deleted slices of the owner with the UID `of`.
pub(super) fn is_settled(expectations: &Expectations, key: &ObjectKey, of: &str, existing: &[EndpointSlice]) -> bool {
    expectations.satisfied(key, of, |uid| match existing.iter().find(|slice| slice.uid() == Some(uid)) {
        None => Seen::Absent,
        Some(slice) if slice.is_deleting() => Seen::Deleting,
        Some(_) => Seen::Alive,
    })
}

/// Writes the planned changes for the owner with the UID `of`. A terminating namespace is not an error.
pub(super) async fn apply(
    cx: &Context,
    key: &ObjectKey,
    of: &str,
    plan: &Plan,
    expectations: &Expectations,
) -> Result<(), ReconcileError> {
    for slice in &plan.create {
        match cx.client().create(slice).await {
            Ok(created) => expectations.created(key, of, created.uid().unwrap_or_default()),
            Err(error) if error.status().is_some_and(|status| status.has_cause("NamespaceTerminating")) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    for slice in &plan.update {
        cx.client().update(slice).await?;
    }
    for slice in &plan.delete {
        let uid = slice.uid().unwrap_or_default();
        ignore_gone(cx.client().delete::<EndpointSlice>(slice.object_ref()).uid(uid).await.map(drop))?;
        expectations.deleted(key, of, uid);
    }
    Ok(())
}

fn is_ours(slice: &Cached<EndpointSlice>, service: &Service) -> bool {
    slice.get().is_ok_and(|slice| is_of(&*slice, service.name()))
}

fn ignore_gone(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        other => other,
    }
}
