//! PersistentVolume: binds claims to volumes, and reclaims the volumes of claims that are gone.
//!
//! A claim gets the smallest volume that satisfies it, the one that it names, or the one that is reserved for it. If there is
//! none, the provisioner of its class is asked for one, by an annotation on the claim; the simulated nodes have such a
//! provisioner. Claims of a class that waits for a consumer are left to the scheduler.
//!
//! Guaranteed: a volume is bound to at most one claim, and not released as long as the server knows its claim.
//!
//! Not guaranteed: that anything is done with the data. A volume to be recycled is made available without a recycler pod.

mod claim;
pub(crate) mod matching;
mod volume;

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use windlass_api::{ObjectExt, ObjectKey, ObjectRef};
use windlass_cache::{Cached, Lister};
use windlass_runtime::{Context, Controller, Manager, Watch};

pub(crate) use self::claim::{reserved, waits_for_consumer};
use self::{claim::Claims, volume::Volumes};
use crate::error::await_newer_state;

/// The name in events.
const COMPONENT: &str = "persistentvolume-controller";
/// On volumes and claims whose binding was not asked for by a user.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On claims that have been bound; if the volume is gone, it is lost.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On volumes, the provisioner that made them.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On claims, the provisioner that is to make a volume.
pub(crate) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const OLDER_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On claims, the node for which the scheduler wants a volume.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Adds the two controllers to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let recorder = manager.cluster().recorder(COMPONENT);
    let all = manager.cluster().informer::<PersistentVolumeClaim>(&Watch::all()).store();
    let (of_volume, of_class) = (all.clone(), all);
    let claims = Arc::new(Claims::new(recorder.clone()));
    let volumes = Arc::new(Volumes::new(recorder));
    manager.add(
        Controller::<PersistentVolumeClaim>::new()
            .named("persistentvolume-binder")
            .watches_with(Watch::<PersistentVolume>::all(), move |volume| claims_for(&of_volume, volume))
            .watches_with(Watch::<StorageClass>::all(), move |_| pending(&of_class))
            .reads::<Pod>()
            // One at a time: two claims do not try for one volume.
            .concurrency(1)
            .reconcile(move |claim: Arc<PersistentVolumeClaim>, cx: Context| {
                let claims = Arc::clone(&claims);
                async move { await_newer_state(claims.reconcile(&claim, &cx).await) }
            }),
    );
    manager.add(
        Controller::<PersistentVolume>::new()
            .named("persistentvolume-reclaimer")
            .watches(|claim: &PersistentVolumeClaim| volume_of(claim).map(ObjectRef::new))
            .watches_with(Watch::<PersistentVolumeClaim>::all(), |claim: &Cached<PersistentVolumeClaim>| {
                // The volume that was made for it, if it goes before it knows of it.
                Some(ObjectRef::<PersistentVolume>::new(matching::provisioned_name(&claim.meta().uid().to_string())))
            })
            .reconcile(move |volume: Arc<PersistentVolume>, cx: Context| {
                let volumes = Arc::clone(&volumes);
                async move { await_newer_state(volumes.reconcile(&volume, &cx).await) }
            }),
    );
}

/// The volume that a claim names.
pub(crate) fn volume_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// Reports whether a claim is bound for good.
pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    volume_of(claim).is_some() && claim.annotations().contains_key(BIND_COMPLETED)
}

/// The claims that a change of a volume concerns: its own, those that name it, and, if it is free, those that wait.
fn claims_for(
    claims: &Lister<PersistentVolumeClaim>,
    volume: &Cached<PersistentVolume>,
) -> Vec<ObjectRef<PersistentVolumeClaim>> {
    let Ok(known) = volume.get() else { return Vec::new() };
    let reserved = known.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let own = reserved.and_then(|claim| Some(ObjectKey::new(claim.name.clone()?).within(claim.namespace.clone()?)));
    let mut concerned: Vec<_> = own.into_iter().map(ObjectRef::from).collect();
    for claim in claims.list() {
        let Ok(claim) = claim.get() else { continue };
        if volume_of(&claim).map_or(reserved.is_none() && !is_bound(&claim), |name| name == known.name()) {
            concerned.push(claim.object_ref());
        }
    }
    concerned
}

/// The claims that have no volume.
fn pending(claims: &Lister<PersistentVolumeClaim>) -> Vec<ObjectRef<PersistentVolumeClaim>> {
    let waits = |claim: &Cached<PersistentVolumeClaim>| claim.get().is_ok_and(|claim| volume_of(&claim).is_none());
    claims.list().iter().filter(|claim| waits(claim)).map(Cached::object_ref).collect()
}
