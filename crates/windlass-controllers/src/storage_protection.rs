//! StorageProtection: keeps claims, volumes and VolumeAttributesClasses that are being deleted until they are unused.
//!
//! Guaranteed: a claim stays as long as a scheduled, unfinished pod uses it. A volume stays as long as it is bound. A
//! class stays as long as a claim or a volume names it.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    k8s_if_ge_1_34,
};
use windlass_api::{Object, ObjectExt, ObjectRef, Resource};
use windlass_runtime::{Action, CachedClient, Context, Controller, Manager};

use crate::{
    consumers::{claims_of, consumers, consumers_of},
    error::{ReconcileError, await_newer_state},
    pods,
};

k8s_if_ge_1_34! {
    use k8s_openapi::api::storage::v1::VolumeAttributesClass;
}

/// The finalizer of claims.
const CLAIM: &str = "kubernetes.io/pvc-protection";
/// The finalizer of volumes.
const VOLUME: &str = "kubernetes.io/pv-protection";

/// The finalizer of VolumeAttributesClasses. This controller adds it; the API server adds the other two.
const CLASS: &str = "kubernetes.io/vac-protection";

/// Adds the controller of claims to a manager.
pub(crate) fn add_claims_to(manager: &mut Manager) {
    manager.add(
        Controller::<PersistentVolumeClaim>::new()
            .named("pvc-protection")
            .watches_with(consumers(), |pod| pod.get().map(|pod| claims_of(&pod)).unwrap_or_default())
            .reconcile(async |claim: Arc<PersistentVolumeClaim>, cx: Context| {
                await_newer_state(release_claim(&claim, &cx).await)
            }),
    );
}

/// Adds the controller of volumes to a manager.
pub(crate) fn add_volumes_to(manager: &mut Manager) {
    manager.add(Controller::<PersistentVolume>::new().named("pv-protection").reconcile(
        async |volume: Arc<PersistentVolume>, cx: Context| {
            let outcome = if is_bound(&volume) { Ok(()) } else { release(cx.client(), &*volume, VOLUME).await };
            await_newer_state(outcome.map(|()| Action::await_change()))
        },
    ));
}

/// Adds the controller of VolumeAttributesClasses to a manager. They are protected from Kubernetes 1.34.
#[allow(unused_variables, reason = "older minor versions have no such kind")]
pub(crate) fn add_classes_to(manager: &mut Manager) {
    k8s_if_ge_1_34! {
        manager.add(
            Controller::<VolumeAttributesClass>::new()
                .named("vac-protection")
                .watches(|claim: &PersistentVolumeClaim| classes_of_claim(claim).map(ObjectRef::new).collect::<Vec<_>>())
                .watches(|volume: &PersistentVolume| class_of_volume(volume).map(ObjectRef::new))
                .reconcile(async |class: Arc<VolumeAttributesClass>, cx: Context| {
                    await_newer_state(protect_class(&*class, &cx).await)
                }),
        );
    }
}

/// Adds the finalizer to a class, or removes it from an unused class that is being deleted.
#[allow(dead_code, reason = "older minor versions have no such kind")]
async fn protect_class<K: Resource>(class: &K, cx: &Context) -> Result<Action, ReconcileError> {
    if !class.is_deleting() && !holds(class, CLASS) {
        let mut held = class.clone();
        held.metadata_mut().finalizers.get_or_insert_default().push(CLASS.to_owned());
        cx.client().update(&held).await?;
    }
    if !class.is_deleting() || !holds(class, CLASS) {
        return Ok(Action::await_change());
    }
    for volume in cx.store::<PersistentVolume>().list() {
        if class_of_volume(&*volume.get()?) == Some(class.name()) {
            return Ok(Action::await_change());
        }
    }
    for claim in cx.store::<PersistentVolumeClaim>().list() {
        if classes_of_claim(&*claim.get()?).any(|name| name == class.name()) {
            return Ok(Action::await_change());
        }
    }
    // The cache may be stale, so the server is asked.
    let volumes = cx.live().list::<PersistentVolume>().await?;
    let claims = cx.live().list::<PersistentVolumeClaim>().await?;
    let is_used = volumes.items.iter().any(|volume| class_of_volume(volume) == Some(class.name()))
        || claims.items.iter().any(|claim| classes_of_claim(claim).any(|name| name == class.name()));
    if !is_used {
        release(cx.client(), class, CLASS).await?;
    }
    Ok(Action::await_change())
}

/// Returns the current, the desired and the target class of a claim.
fn classes_of_claim(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &str> {
    let (spec, status) = (claim.spec.as_ref(), claim.status.as_ref());
    let wanted = spec.and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let current = status.and_then(|status| status.current_volume_attributes_class_name.as_deref());
    let target = status.and_then(|status| status.modify_volume_status.as_ref());
    let target = target.and_then(|modify| modify.target_volume_attributes_class_name.as_deref());
    [wanted, current, target].into_iter().flatten()
}

fn class_of_volume(volume: &PersistentVolume) -> Option<&str> {
    volume.spec.as_ref()?.volume_attributes_class_name.as_deref()
}

async fn release_claim(claim: &PersistentVolumeClaim, cx: &Context) -> Result<Action, ReconcileError> {
    if claim.is_deleting() && holds(claim, CLAIM) {
        let key = claim.object_ref();
        // A pod without a node has not started, and is not scheduled once its claim is being deleted.
        let is_begun = |pod: &Pod| !pods::node_name(pod).is_empty() && !pods::is_finished(pod);
        for pod in consumers_of(&cx.store(), &key)? {
            if is_begun(&*pod.get()?) {
                return Ok(Action::await_change());
            }
        }
        // The cache may be stale and the deletion is final, so the server is asked.
        let pods = cx.live().list::<Pod>().within(claim.namespace().unwrap_or_default()).await?;
        if pods.items.iter().any(|pod| is_begun(pod) && claims_of(pod).contains(&key)) {
            return Ok(Action::await_change());
        }
        release(cx.client(), claim, CLAIM).await?;
    }
    Ok(Action::await_change())
}

/// Removes a finalizer from an object that is being deleted.
async fn release<K: Resource>(client: &CachedClient, object: &K, finalizer: &str) -> Result<(), ReconcileError> {
    if object.is_deleting() && holds(object, finalizer) {
        let mut free = object.clone();
        free.metadata_mut().finalizers.get_or_insert_default().retain(|held| held != finalizer);
        client.update(&free).await?;
    }
    Ok(())
}

fn holds<K: Object>(object: &K, finalizer: &str) -> bool {
    object.finalizers().iter().any(|held| held == finalizer)
}

fn is_bound(volume: &PersistentVolume) -> bool {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PersistentVolumeStatus;

    use super::*;

    #[test]
    fn a_claim_uses_its_present_and_its_future_class() {
        let claim: PersistentVolumeClaim = serde_json::from_value(serde_json::json!({
            "spec": {"volumeAttributesClassName": "gold"},
            "status": {
                "currentVolumeAttributesClassName": "silver",
                "modifyVolumeStatus": {"targetVolumeAttributesClassName": "bronze", "status": "InProgress"},
            },
        }))
        .unwrap();
        assert_eq!(classes_of_claim(&claim).collect::<Vec<_>>(), ["gold", "silver", "bronze"]);
    }

    #[test]
    fn bound_volume_is_recognized_by_its_phase() {
        let in_phase = |phase: &str| PersistentVolume {
            status: Some(PersistentVolumeStatus { phase: Some(phase.to_owned()), ..PersistentVolumeStatus::default() }),
            ..PersistentVolume::default()
        };
        assert!(is_bound(&in_phase("Bound")) && !is_bound(&in_phase("Available")));
    }
}
