//! StorageProtection: lets claims and volumes go that are being deleted, once nobody uses them.
//!
//! Guaranteed: a claim stays as long as a pod that has not ended names it, and a volume as long as it is bound.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use windlass_api::{Object, ObjectExt, ObjectRef, Resource};
use windlass_client::Client;
use windlass_runtime::{Action, Context, Controller, Manager};

use crate::{
    error::{ReconcileError, await_newer_state},
    pods,
};

/// Holds a claim.
const CLAIM: &str = "kubernetes.io/pvc-protection";
/// Holds a volume.
const VOLUME: &str = "kubernetes.io/pv-protection";

/// Adds the two controllers to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    manager.add(
        Controller::<PersistentVolumeClaim>::new()
            .named("pvc-protection")
            .watches(|pod: &Pod| claims_of(pod))
            .reconcile(async |claim: Arc<PersistentVolumeClaim>, cx: Context| {
                await_newer_state(release_claim(&claim, &cx).await)
            }),
    );
    manager.add(Controller::<PersistentVolume>::new().named("pv-protection").reconcile(
        async |volume: Arc<PersistentVolume>, cx: Context| {
            let outcome = if is_bound(&volume) { Ok(()) } else { release(cx.client(), &*volume, VOLUME).await };
            await_newer_state(outcome.map(|()| Action::await_change()))
        },
    ));
}

async fn release_claim(claim: &PersistentVolumeClaim, cx: &Context) -> Result<Action, ReconcileError> {
    if claim.is_deleting() && holds(claim, CLAIM) {
        let (key, namespace) = (claim.object_ref(), claim.namespace().unwrap_or_default());
        let uses = |pod: &Pod| !pods::is_finished(pod) && claims_of(pod).contains(&key);
        for pod in cx.store::<Pod>().within(namespace).list() {
            if uses(&*pod.get()?) {
                return Ok(Action::await_change());
            }
        }
        // The cache may be behind, and a claim that is gone does not come back: the server has the last word.
        if cx.live().list::<Pod>().within(namespace).await?.items.iter().any(uses) {
            return Ok(Action::await_change());
        }
        release(cx.client(), claim, CLAIM).await?;
    }
    Ok(Action::await_change())
}

/// Takes a finalizer off an object that is being deleted.
async fn release<K: Resource>(client: &Client, object: &K, finalizer: &str) -> Result<(), ReconcileError> {
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

/// The claims that a pod names, or that are made for it.
fn claims_of(pod: &Pod) -> Vec<ObjectRef<PersistentVolumeClaim>> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let named = volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(claim.claim_name.clone()),
        (None, Some(_)) => Some(format!("{}-{}", pod.name(), volume.name)),
        (None, None) => None,
    });
    named.map(|name| ObjectRef::new(name).within(pod.namespace().unwrap_or_default())).collect()
}

fn is_bound(volume: &PersistentVolume) -> bool {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        EphemeralVolumeSource, PersistentVolumeClaimVolumeSource, PersistentVolumeStatus, PodSpec, Volume,
    };

    use super::*;

    #[test]
    fn a_pod_uses_the_claims_that_it_names_and_those_that_are_made_for_it() {
        let claim = PersistentVolumeClaimVolumeSource { claim_name: "store".to_owned(), read_only: None };
        let volumes = vec![
            Volume { name: "a".to_owned(), persistent_volume_claim: Some(claim), ..Volume::default() },
            Volume { name: "b".to_owned(), ephemeral: Some(EphemeralVolumeSource::default()), ..Volume::default() },
            Volume { name: "c".to_owned(), ..Volume::default() },
        ];
        let spec = PodSpec { volumes: Some(volumes), ..PodSpec::default() };
        let mut pod = Pod { spec: Some(spec), ..Pod::default() };
        pod.metadata.name = Some("web".to_owned());
        pod.metadata.namespace = Some("n".to_owned());
        let claims: Vec<_> = claims_of(&pod).iter().map(ToString::to_string).collect();
        assert_eq!(claims, ["n/store", "n/web-b"]);
    }

    #[test]
    fn a_bound_volume_stays() {
        let in_phase = |phase: &str| PersistentVolume {
            status: Some(PersistentVolumeStatus { phase: Some(phase.to_owned()), ..PersistentVolumeStatus::default() }),
            ..PersistentVolume::default()
        };
        assert!(is_bound(&in_phase("Bound")) && !is_bound(&in_phase("Available")));
    }
}
