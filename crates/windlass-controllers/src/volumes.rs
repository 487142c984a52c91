//! PersistentVolume: binds claims to volumes, and reclaims the volumes of deleted claims.
//!
//! A claim gets the volume that it names, the one that is reserved for it, or the smallest that satisfies it. If there
//! is none, the controller requests one from the provisioner of the claim's class, by an annotation on the claim. The
//! simulated nodes have a provisioner. A claim of a class with the binding mode `WaitForFirstConsumer` is bound after
//! the scheduler has selected a node.
//!
//! Guaranteed: a volume is bound to at most one claim, and is not released while its claim exists on the server.
//!
//! Not guaranteed: that the data is deleted. A volume with the policy Recycle becomes available without a recycler pod.

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
use windlass_runtime::{Cluster, Context, Controller, Manager, Watch};

pub(crate) use self::claim::{DEFAULT_CLASS, is_default, reserved, waits_for_consumer};
use self::{claim::Binder, volume::Reclaimer};
use crate::{
    consumers::{claims_of, consumers},
    error::{ReconcileError, await_newer_state},
};

/// The component name in events.
const COMPONENT: &str = "persistentvolume-controller";
/// The annotation of volumes and claims that were bound by the controller, not by a user.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of claims whose binding is complete. If the volume of such a claim is gone, the claim is lost.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of volumes with the name of the provisioner that created them.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotation of claims with the name of the provisioner that is to create a volume.
pub(crate) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const OLDER_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// The annotation of claims with the node that the scheduler has selected.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Indexes volumes by the claim for which they are reserved. Free volumes are under [`FREE`].
static BY_CLAIM: LazyLock<Index<PersistentVolume>> = LazyLock::new(|| {
    Index::on_object("volumes by claim", |volume| {
        Some(holder_of(volume).map_or_else(|| FREE.to_owned(), |claim| claim.to_string()))
    })
});
/// The index value of free volumes. No claim has this key.
const FREE: &str = "";
/// Indexes claims by the volume that they name. Claims without one are under [`unbound`].
static BY_VOLUME: LazyLock<Index<PersistentVolumeClaim>> = LazyLock::new(|| {
    Index::on_object("claims by volume", |claim| {
        Some(volume_of(claim).map_or_else(|| unbound(matching::class_of_claim(claim)), str::to_owned))
    })
});

/// Returns the index value of a class's claims that name no volume. No volume has such a name.
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
            // The events of claims that wait for a consumer contain the names of these pods.
            .watches_with(consumers(), |pod| pod.get().map(|pod| claims_of(&pod)).unwrap_or_default())
            // One at a time, so that two claims do not compete for one volume.
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

/// Returns a watch of the volumes, with the index by claim.
pub(crate) fn volumes() -> Watch<PersistentVolume> {
    Watch::all().index(BY_CLAIM.clone())
}

/// Adds the index of [`candidates`] to the cache of volumes, for tasks that are no controllers.
pub(crate) async fn index_volumes(cluster: &Cluster) -> windlass_runtime::Result<()> {
    cluster.index(BY_CLAIM.clone()).await
}

/// Returns a watch of the claims, with the index by volume.
pub(crate) fn claims() -> Watch<PersistentVolumeClaim> {
    Watch::all().index(BY_VOLUME.clone())
}

/// Returns the volumes that a claim may get: those reserved for its name, and the free ones.
pub(crate) fn candidates(
    store: &Lister<PersistentVolume>,
    claim: &PersistentVolumeClaim,
) -> Result<Vec<Arc<PersistentVolume>>, ReconcileError> {
    let mut found = store.by_index(BY_CLAIM.name(), &claim.object_ref().to_string())?;
    found.extend(store.by_index(BY_CLAIM.name(), FREE)?);
    found.iter().map(|volume| Ok(volume.get()?)).collect()
}

/// Returns the claim that a volume is reserved for or bound to.
pub(crate) fn holder_of(volume: &PersistentVolume) -> Option<ObjectRef<PersistentVolumeClaim>> {
    let holder = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(ObjectRef::new(holder.name.clone()?).within(holder.namespace.clone()?))
}

/// Returns the volume that a claim names.
pub(crate) fn volume_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns `true` if the binding of a claim is complete.
pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    volume_of(claim).is_some() && claim.annotations().contains_key(BIND_COMPLETED)
}

/// Returns the claims to reconcile after a change of a volume: its own, those that name it and, if it is available, the
/// unbound claims of its class.
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

/// Returns the unbound claims to reconcile after a change of a class: those of the class and, if it is the default,
/// those without a class.
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
    // The store belongs to a watch with this index.
    claims.by_index(BY_VOLUME.name(), volume).unwrap_or_default().iter().map(Cached::object_ref).collect()
}

/// Returns the volumes to reconcile after a change of a claim: the one that it names, and those reserved for it.
fn volumes_for(
    volumes: &Lister<PersistentVolume>,
    claim: &Cached<PersistentVolumeClaim>,
) -> Vec<ObjectRef<PersistentVolume>> {
    let named = claim.get().ok().and_then(|claim| volume_of(&claim).map(ObjectRef::new));
    let reserved = volumes.by_index(BY_CLAIM.name(), &claim.object_ref().to_string()).unwrap_or_default();
    reserved.iter().map(Cached::object_ref).chain(named).collect()
}
