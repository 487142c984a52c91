//! PersistentVolume: binds claims to volumes, and reclaims the volumes of deleted claims.
//!
//! A claim gets the volume that it names, the one that is reserved for it, or the smallest that satisfies it. If there is
//! none, the controller asks the provisioner of the claim's class for one, by an annotation on the claim. The simulated nodes
//! have such a provisioner. A claim of a class that waits for a consumer is bound when the scheduler has chosen a node.
//!
//! Guaranteed: a volume is bound to at most one claim, and is not released while its claim exists on the server.
//!
//! Not guaranteed: that anything happens to the data. A volume to be recycled becomes available without a recycler pod.

mod claim;
pub(crate) mod matching;
mod volume;

use std::sync::{Arc, LazyLock};

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use windlass_api::{ObjectExt, ObjectRef};
use windlass_cache::{Cached, Index, Lister};
use windlass_runtime::{Context, Controller, Manager, Watch};

pub(crate) use self::claim::{DEFAULT_CLASS, is_default, reserved, waits_for_consumer};
use self::{claim::Binder, volume::Reclaimer};
use crate::{
    consumers::{claims_of, consumers},
    error::{ReconcileError, await_newer_state},
};

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

/// The volumes by the claim for which they are reserved. Free volumes are under [`FREE`].
static BY_CLAIM: LazyLock<Index<PersistentVolume>> = LazyLock::new(|| {
    Index::on_object("volumes by claim", |volume| {
        Some(holder_of(volume).map_or_else(|| FREE.to_owned(), |claim| claim.to_string()))
    })
});
/// No claim has this key.
const FREE: &str = "";
/// The claims by the volume that they name. Claims without one are under [`unbound`].
static BY_VOLUME: LazyLock<Index<PersistentVolumeClaim>> = LazyLock::new(|| {
    Index::on_object("claims by volume", |claim| {
        Some(volume_of(claim).map_or_else(|| unbound(matching::class_of_claim(claim)), str::to_owned))
    })
});

/// The value of claims of a class that name no volume. No volume has such a name.
fn unbound(class: &str) -> String {
    format!("/{class}")
}

/// Adds the two controllers to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let recorder = manager.cluster().recorder(COMPONENT);
    let known_claims = manager.cluster().informer(&claims()).store();
    let known_volumes = manager.cluster().informer(&volumes()).store();
    let (of_volume, of_class) = (known_claims.clone(), known_claims);
    let binder = Arc::new(Binder::new(recorder.clone()));
    let reclaimer = Arc::new(Reclaimer::new(recorder));
    manager.add(
        Controller::watching(claims())
            .named("persistentvolume-binder")
            .watches_with(volumes(), move |volume| claims_for(&of_volume, volume))
            .watches_with(Watch::<StorageClass>::all(), move |class| pending(&of_class, class))
            // Their names are in the events of claims that wait for a consumer.
            .watches_with(consumers(), |pod| pod.get().map(|pod| claims_of(&pod)).unwrap_or_default())
            // One at a time: two claims do not try for one volume.
            .concurrency(1)
            .reconcile(move |claim: Arc<PersistentVolumeClaim>, cx: Context| {
                let binder = Arc::clone(&binder);
                async move { await_newer_state(Box::pin(binder.reconcile(&claim, &cx)).await) }
            }),
    );
    manager.add(
        Controller::watching(volumes())
            .named("persistentvolume-reclaimer")
            .watches_with(claims(), move |claim| volumes_for(&known_volumes, claim))
            .reconcile(move |volume: Arc<PersistentVolume>, cx: Context| {
                let reclaimer = Arc::clone(&reclaimer);
                async move { await_newer_state(Box::pin(reclaimer.reconcile(&volume, &cx)).await) }
            }),
    );
}

/// The volumes of the cluster, found by their claims.
pub(crate) fn volumes() -> Watch<PersistentVolume> {
    Watch::all().index(BY_CLAIM.clone())
}

/// The claims of the cluster, found by their volumes.
pub(crate) fn claims() -> Watch<PersistentVolumeClaim> {
    Watch::all().index(BY_VOLUME.clone())
}

/// The volumes that a claim may get: those that are reserved for its name, and those that are free.
pub(crate) fn candidates(
    cx: &Context,
    claim: &PersistentVolumeClaim,
) -> Result<Vec<Arc<PersistentVolume>>, ReconcileError> {
    let store = cx.store::<PersistentVolume>();
    let mut found = store.by_index(BY_CLAIM.name(), &claim.object_ref().to_string())?;
    found.extend(store.by_index(BY_CLAIM.name(), FREE)?);
    found.iter().map(|volume| Ok(volume.get()?)).collect()
}

/// The claim that a volume is reserved for, or bound to.
pub(crate) fn holder_of(volume: &PersistentVolume) -> Option<ObjectRef<PersistentVolumeClaim>> {
    let holder = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(ObjectRef::new(holder.name.clone()?).within(holder.namespace.clone()?))
}

/// The volume that a claim names.
pub(crate) fn volume_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// Reports whether a claim is bound for good.
pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    volume_of(claim).is_some() && claim.annotations().contains_key(BIND_COMPLETED)
}

/// The claims that a change of a volume concerns: its own, those that name it, and, if it is available, those of its class
/// without a volume.
fn claims_for(
    claims: &Lister<PersistentVolumeClaim>,
    volume: &Cached<PersistentVolume>,
) -> Vec<ObjectRef<PersistentVolumeClaim>> {
    let Ok(known) = volume.get() else { return Vec::new() };
    let holder = holder_of(&known);
    let mut concerned = with_volume(claims, known.name());
    if holder.is_none() && volume::phase_of(&known) == "Available" {
        concerned.extend(with_volume(claims, &unbound(matching::class_of_volume(&known))));
    }
    concerned.extend(holder);
    concerned
}

/// The claims without a volume that a change of a class concerns: its own, and if it is the default, those without a class.
pub(crate) fn pending(
    claims: &Lister<PersistentVolumeClaim>,
    class: &Cached<StorageClass>,
) -> Vec<ObjectRef<PersistentVolumeClaim>> {
    let mut concerned = with_volume(claims, &unbound(&class.key().name));
    if class.get().is_ok_and(|class| is_default(&class)) {
        concerned.extend(with_volume(claims, &unbound("")));
    }
    concerned
}

fn with_volume(claims: &Lister<PersistentVolumeClaim>, volume: &str) -> Vec<ObjectRef<PersistentVolumeClaim>> {
    // The index is there: the store is that of a watch which has it.
    claims.by_index(BY_VOLUME.name(), volume).unwrap_or_default().iter().map(Cached::object_ref).collect()
}

/// The volumes that a change of a claim concerns: the one that it names, and those that are reserved for it.
fn volumes_for(
    volumes: &Lister<PersistentVolume>,
    claim: &Cached<PersistentVolumeClaim>,
) -> Vec<ObjectRef<PersistentVolume>> {
    let named = claim.get().ok().and_then(|claim| volume_of(&claim).map(ObjectRef::new));
    let reserved = volumes.by_index(BY_CLAIM.name(), &claim.object_ref().to_string()).unwrap_or_default();
    reserved.iter().map(Cached::object_ref).chain(named).collect()
}
