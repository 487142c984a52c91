//! Maintains the phases of volumes, and reclaims the volumes of deleted claims.

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use windlass_api::ObjectExt;
use windlass_runtime::{
    Action, Context,
    events::{Note, Recorder},
};

use super::{BOUND_BY_CONTROLLER, PROVISIONED_BY, holder_of, matching::modes_differ, volume_of};
use crate::error::ReconcileError;

/// Reclaims volumes.
#[derive(Debug)]
pub(super) struct Reclaimer {
    recorder: Recorder,
}

impl Reclaimer {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder }
    }

    pub(super) async fn reconcile(&self, volume: &PersistentVolume, cx: &Context) -> Result<Action, ReconcileError> {
        let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let Some(holder) = holder.filter(|holder| holder.uid.as_deref().is_some_and(|uid| !uid.is_empty())) else {
            set_phase(volume, "Available", cx).await?;
            return Ok(Action::await_change());
        };
        match claim_of(holder, volume, cx).await? {
            None => self.release(volume, cx).await?,
            Some(claim) => match volume_of(&claim) {
                None if modes_differ(&claim, volume) => self.report_modes(volume, &claim),
                // The binder finishes the binding.
                None => {}
                Some(name) if name == volume.name() => _ = set_phase(volume, "Bound", cx).await?,
                // The claim is bound to another volume.
                Some(_) if is_provisioned(volume) && policy_of(volume) == "Delete" => self.release(volume, cx).await?,
                Some(_) => unbind(volume, cx).await?,
            },
        }
        Ok(Action::await_change())
    }

    fn report_modes(&self, volume: &PersistentVolume, claim: &PersistentVolumeClaim) {
        let of_volume = format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
            claim.name()
        );
        self.recorder.record(volume, Note::warning("VolumeMismatch", of_volume));
        let of_claim = format!(
            "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
            volume.name()
        );
        self.recorder.record(claim, Note::warning("VolumeMismatch", of_claim));
    }

    /// Marks the volume of a deleted claim as released, and applies its reclaim policy.
    async fn release(&self, volume: &PersistentVolume, cx: &Context) -> Result<(), ReconcileError> {
        let mut volume = volume.clone();
        if !is_released(&volume)
            && let Some(released) = set_phase(&volume, "Released", cx).await?
        {
            volume = released;
        }
        match policy_of(&volume) {
            "Delete" => self.delete(&volume, cx).await,
            "Recycle" => self.recycle(&volume, cx).await,
            _ => Ok(()),
        }
    }

    /// Deletes a volume that is a test directory. Other volumes are left to their provisioner.
    async fn delete(&self, volume: &PersistentVolume, cx: &Context) -> Result<(), ReconcileError> {
        let (name, spec) = (volume.name(), volume.spec.clone().unwrap_or_default());
        if is_provisioned(volume) || spec.csi.is_some() || volume.is_deleting() {
            return Ok(());
        }
        let Some(directory) = spec.host_path else {
            let why =
                format!("error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched");
            return self.fail(volume, "VolumeFailedDelete", &why, cx).await;
        };
        if directory.path.strip_prefix("/tmp/").is_none_or(str::is_empty) {
            let path = directory.path;
            let why = format!("host_path deleter only supports /tmp/.+ but received provided {path}");
            return self.fail(volume, "VolumeFailedDelete", &why, cx).await;
        }
        let uid = volume.uid().unwrap_or_default();
        match cx.client().delete::<PersistentVolume>(volume.object_ref()).uid(uid).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn recycle(&self, volume: &PersistentVolume, cx: &Context) -> Result<(), ReconcileError> {
        let can_be_recycled = volume.spec.as_ref().is_some_and(|spec| spec.host_path.is_some() || spec.nfs.is_some());
        if !can_be_recycled {
            return self.fail(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!", cx).await;
        }
        self.recorder.record(volume, Note::normal("VolumeRecycled", "Volume recycled"));
        unbind(volume, cx).await
    }

    async fn fail(
        &self,
        volume: &PersistentVolume,
        reason: &'static str,
        why: &str,
        cx: &Context,
    ) -> Result<(), ReconcileError> {
        if phase_of(volume) != "Failed" {
            let mut failed = volume.clone();
            let status = failed.status.get_or_insert_default();
            status.phase = Some("Failed".to_owned());
            status.message = Some(why.to_owned());
            cx.client().update_status(&failed).await?;
            self.recorder.record(volume, Note::warning(reason, why));
        }
        Ok(())
    }
}

/// Finds the claim that a volume is for. A missing claim is checked on the server, because a release is not undone.
async fn claim_of(
    holder: &ObjectReference,
    volume: &PersistentVolume,
    cx: &Context,
) -> Result<Option<PersistentVolumeClaim>, ReconcileError> {
    let Some(key) = holder_of(volume) else { return Ok(None) };
    let is_meant = |claim: &PersistentVolumeClaim| claim.uid() == holder.uid.as_deref();
    if let Some(known) = cx.store::<PersistentVolumeClaim>().get(&key) {
        let known = known.get()?;
        if is_meant(&known) {
            return Ok(Some((*known).clone()));
        }
    }
    if is_released(volume) {
        return Ok(None);
    }
    Ok(cx.live().get_opt::<PersistentVolumeClaim>(key).await?.filter(is_meant))
}

/// Makes a volume available again. A volume reserved by a user stays reserved for the claim of that name.
async fn unbind(volume: &PersistentVolume, cx: &Context) -> Result<(), ReconcileError> {
    let mut free = volume.clone();
    let is_ours = free.annotations_mut().remove(BOUND_BY_CONTROLLER).is_some();
    let spec = free.spec.get_or_insert_default();
    if is_ours {
        spec.claim_ref = None;
    } else if let Some(holder) = &mut spec.claim_ref {
        holder.uid = None;
    }
    let free = cx.client().update(&free).await?;
    set_phase(&free, "Available", cx).await?;
    Ok(())
}

/// Writes the phase of a volume. Returns the new volume, or `None` if it already has that phase.
pub(super) async fn set_phase(
    volume: &PersistentVolume,
    phase: &str,
    cx: &Context,
) -> Result<Option<PersistentVolume>, ReconcileError> {
    if phase_of(volume) == phase {
        return Ok(None);
    }
    let mut changed = volume.clone();
    let status = changed.status.get_or_insert_default();
    status.phase = Some(phase.to_owned());
    status.message = None;
    Ok(Some(cx.client().update_status(&changed).await?))
}

/// Reports whether the claim of a volume is known to be gone.
fn is_released(volume: &PersistentVolume) -> bool {
    matches!(phase_of(volume), "Released" | "Failed")
}

pub(super) fn phase_of(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn policy_of(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()).unwrap_or("Retain")
}

/// Reports whether a provisioner created the volume and will delete it.
fn is_provisioned(volume: &PersistentVolume) -> bool {
    volume.annotations().contains_key(PROVISIONED_BY)
}
