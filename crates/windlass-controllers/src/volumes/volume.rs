//! Keeps the phases of volumes, and reclaims those whose claims are gone.

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use windlass_api::{ObjectExt, ObjectRef};
use windlass_runtime::{
    Action, Context,
    events::{Note, Recorder},
};

use super::{BOUND_BY_CONTROLLER, PROVISIONED_BY, matching::modes_differ, volume_of};
use crate::error::ReconcileError;

/// The keeper of volumes.
#[derive(Debug)]
pub(super) struct Volumes {
    recorder: Recorder,
}

impl Volumes {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder }
    }

    pub(super) async fn reconcile(&self, volume: &PersistentVolume, cx: &Context) -> Result<Action, ReconcileError> {
        let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let Some(holder) = holder.filter(|holder| holder.uid.as_deref().is_some_and(|uid| !uid.is_empty())) else {
            set_phase(volume, "Available", cx).await?;
            return Ok(Action::await_change());
        };
        match claim_of(holder, cx).await? {
            None => self.release(volume, cx).await?,
            Some(claim) => match volume_of(&claim) {
                None if modes_differ(&claim, volume) => {
                    let message = format!(
                        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
                        claim.name()
                    );
                    self.recorder.record(volume, Note::warning("VolumeMismatch", message));
                }
                // The claim's binding comes next.
                None => {}
                Some(name) if name == volume.name() => _ = set_phase(volume, "Bound", cx).await?,
                // The claim has another volume.
                Some(_) if is_provisioned(volume) && policy_of(volume) == "Delete" => self.release(volume, cx).await?,
                Some(_) => unbind(volume, cx).await?,
            },
        }
        Ok(Action::await_change())
    }

    async fn release(&self, volume: &PersistentVolume, cx: &Context) -> Result<(), ReconcileError> {
        let mut volume = volume.clone();
        if !matches!(phase_of(&volume), "Released" | "Failed")
            && let Some(released) = set_phase(&volume, "Released", cx).await?
        {
            volume = released;
        }
        let spec = volume.spec.clone().unwrap_or_default();
        match policy_of(&volume) {
            "Delete" if is_provisioned(&volume) || spec.csi.is_some() || volume.is_deleting() => {}
            "Delete" => match spec.host_path {
                Some(host) if host.path.starts_with("/tmp/") => {
                    let uid = volume.uid().unwrap_or_default();
                    match cx.client().delete::<PersistentVolume>(volume.object_ref()).uid(uid).await {
                        Err(error) if !error.is_not_found() => return Err(error.into()),
                        _ => {}
                    }
                }
                Some(host) => {
                    let path = host.path;
                    let why = format!("host_path deleter only supports /tmp/.+ but received provided {path}");
                    self.fail(&volume, "VolumeFailedDelete", &why, cx).await?;
                }
                None => {
                    let name = volume.name();
                    let why = format!(
                        "error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched"
                    );
                    self.fail(&volume, "VolumeFailedDelete", &why, cx).await?;
                }
            },
            "Recycle" if spec.host_path.is_some() || spec.nfs.is_some() => {
                self.recorder.record(&volume, Note::normal("VolumeRecycled", "Volume recycled"));
                unbind(&volume, cx).await?;
            }
            "Recycle" => {
                self.fail(&volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!", cx).await?;
            }
            _ => {}
        }
        Ok(())
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

/// Finds the claim that a volume is for. Only the server can say that it is gone: data that is released does not come back.
async fn claim_of(holder: &ObjectReference, cx: &Context) -> Result<Option<PersistentVolumeClaim>, ReconcileError> {
    let key = ObjectRef::<PersistentVolumeClaim>::new(holder.name.clone().unwrap_or_default())
        .within(holder.namespace.clone().unwrap_or_default());
    let is_meant = |claim: &PersistentVolumeClaim| claim.uid() == holder.uid.as_deref();
    if let Some(known) = cx.store::<PersistentVolumeClaim>().get(&key) {
        let known = known.get()?;
        if is_meant(&known) {
            return Ok(Some((*known).clone()));
        }
    }
    Ok(cx.live().get_opt::<PersistentVolumeClaim>(key).await?.filter(is_meant))
}

/// Gives a volume back to those who look for one; if its user reserved it, to the claim of that name.
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

/// Writes the phase of a volume; returns the volume if that changed it.
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

fn phase_of(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn policy_of(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()).unwrap_or("Retain")
}

/// Reports whether a provisioner has made the volume, and will delete it.
fn is_provisioned(volume: &PersistentVolume) -> bool {
    volume.annotations().contains_key(PROVISIONED_BY)
}
