//! The binding of claims to volumes.

use k8s_openapi::api::{
    core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus},
    storage::v1::StorageClass,
};
use windlass_api::{ObjectExt, ObjectRef};
use windlass_runtime::{
    Action, Context,
    events::{Note, Recorder, reference},
};

use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, OLDER_PROVISIONER, PROVISIONER, SELECTED_NODE, candidates,
    matching::{Binding, best_match, class_of_claim, is_reserved, is_reserved_for, mismatch, says_class},
    volume::set_phase,
    volume_of,
};
use crate::{consumers::consumers_of, error::ReconcileError, pods};

/// The annotation of the default class, which applies to claims without a class.
pub(crate) const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const OLDER_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";

/// Binds claims.
#[derive(Debug)]
pub(super) struct Binder {
    recorder: Recorder,
}

impl Binder {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder }
    }

    pub(super) async fn reconcile(
        &self,
        claim: &PersistentVolumeClaim,
        cx: &Context,
    ) -> Result<Action, ReconcileError> {
        let volume = match volume_of(claim) {
            None => None,
            Some(name) => {
                cx.store::<PersistentVolume>().get(&ObjectRef::new(name)).map(|known| known.get()).transpose()?
            }
        };
        if claim.annotations().contains_key(BIND_COMPLETED) {
            Box::pin(self.check(claim, volume.as_deref(), cx)).await
        } else if volume_of(claim).is_some() {
            self.bind_to_named(claim, volume.as_deref(), cx).await
        } else {
            self.bind_to_any(claim, cx).await
        }
    }

    /// Checks that the volume of a bound claim exists and is bound to it.
    async fn check(
        &self,
        claim: &PersistentVolumeClaim,
        volume: Option<&PersistentVolume>,
        cx: &Context,
    ) -> Result<Action, ReconcileError> {
        let Some(name) = volume_of(claim) else {
            let lost = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
            return self.lose(claim, "ClaimLost", lost, cx).await;
        };
        let volume = match volume {
            Some(volume) => Some(volume.clone()),
            // The cache may be stale, and users react to a lost claim.
            None => cx.live().get_opt::<PersistentVolume>(name).await?,
        };
        let Some(volume) = volume else {
            let lost = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
            return self.lose(claim, "ClaimLost", lost, cx).await;
        };
        let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        if holder.is_none_or(|holder| holder.uid.as_deref() == claim.uid()) {
            return self.bind(claim, &volume, cx).await;
        }
        let twice = "Two claims are bound to the same volume, this one is bound incorrectly";
        self.lose(claim, "ClaimMisbound", twice, cx).await
    }

    async fn lose(
        &self,
        claim: &PersistentVolumeClaim,
        reason: &'static str,
        message: &str,
        cx: &Context,
    ) -> Result<Action, ReconcileError> {
        if phase_of(claim) != "Lost" {
            set_status(claim, "Lost", None, cx).await?;
            self.recorder.record(claim, Note::warning(reason, message));
        }
        Ok(Action::await_change())
    }

    /// Binds a claim to the volume that it names.
    async fn bind_to_named(
        &self,
        claim: &PersistentVolumeClaim,
        volume: Option<&PersistentVolume>,
        cx: &Context,
    ) -> Result<Action, ReconcileError> {
        let problem = match volume {
            None => None,
            Some(volume) if is_reserved_for(volume, claim) => return self.bind(claim, volume, cx).await,
            Some(volume) if is_reserved(volume) => {
                let message = format!("volume {:?} already bound to a different claim.", volume.name());
                Some(Note::warning("FailedBinding", message))
            }
            Some(volume) => match mismatch(volume, claim) {
                None => return self.bind(claim, volume, cx).await,
                Some(why) => {
                    let message = format!("Cannot bind to requested volume {:?}: {why}", volume.name());
                    Some(Note::warning("VolumeMismatch", message))
                }
            },
        };
        if let Some(note) = problem {
            self.recorder.record(claim, note);
        }
        wait(claim, cx).await
    }

    async fn bind_to_any(&self, claim: &PersistentVolumeClaim, cx: &Context) -> Result<Action, ReconcileError> {
        let class = match class_of_claim(claim) {
            "" => None,
            name => cx.store::<StorageClass>().get(&ObjectRef::new(name)).map(|class| class.get()).transpose()?,
        };
        let waits = class.as_ref().is_some_and(|class| waits_for_consumer(class));
        let volumes = candidates(&cx.store::<PersistentVolume>(), claim)?;
        let binding = if waits { Binding::Delayed } else { Binding::Immediate };
        if let Some(volume) = best_match(claim, volumes.iter().map(|volume| &**volume), binding) {
            return self.bind(claim, volume, cx).await;
        }
        if !says_class(claim)
            && let Some(default) = default_class(cx)?
        {
            let mut classed = claim.clone();
            classed.spec.get_or_insert_default().storage_class_name = Some(default);
            cx.client().update(&classed).await?;
            return Ok(Action::await_change());
        }
        if waits && !claim.annotations().contains_key(SELECTED_NODE) {
            self.recorder.record(claim, waiting(claim, cx)?);
        } else if class_of_claim(claim).is_empty() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            self.recorder.record(claim, Note::normal("FailedBinding", message));
        } else {
            return self.provision(claim, class.as_deref(), cx).await;
        }
        wait(claim, cx).await
    }

    /// Requests a volume from the provisioner of the class.
    async fn provision(
        &self,
        claim: &PersistentVolumeClaim,
        class: Option<&StorageClass>,
        cx: &Context,
    ) -> Result<Action, ReconcileError> {
        let Some(class) = class else {
            let message = format!("storageclass.storage.k8s.io {:?} not found", class_of_claim(claim));
            self.recorder.record(claim, Note::warning("ProvisioningFailed", message));
            return Ok(Action::await_change());
        };
        let provisioner = class.provisioner.as_str();
        if provisioner.starts_with("kubernetes.io/") {
            let message = format!("no volume plugin matched name: {provisioner}");
            self.recorder.record(claim, Note::warning("ProvisioningFailed", message));
            return Ok(Action::await_change());
        }
        if claim.annotations().get(PROVISIONER).is_none_or(|known| known != provisioner) {
            let mut asking = claim.clone();
            for key in [PROVISIONER, OLDER_PROVISIONER] {
                asking.annotations_mut().insert(key.to_owned(), provisioner.to_owned());
            }
            cx.client().update(&asking).await?;
        }
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        );
        self.recorder.record(claim, Note::normal("ExternalProvisioning", message));
        Ok(Action::await_change())
    }

    /// Binds both to each other in four steps, and skips completed ones.
    async fn bind(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        cx: &Context,
    ) -> Result<Action, ReconcileError> {
        let mut volume = volume.clone();
        if let Some(reserved) = reserved(&volume, claim) {
            volume = match cx.client().update(&reserved).await {
                Ok(volume) => volume,
                // The volume may have been bound to another claim; that event does not trigger this claim.
                Err(error) if error.is_conflict() || error.is_not_found() => {
                    return Err(ReconcileError::Conflict { what: format!("volume {}", volume.name()) });
                }
                Err(error) => return Err(error.into()),
            };
        }
        if let Some(bound) = set_phase(&volume, "Bound", cx).await? {
            volume = bound;
        }
        let mut claim = claim.clone();
        let is_named = volume_of(&claim) == Some(volume.name());
        if !is_named || !claim.annotations().contains_key(BIND_COMPLETED) {
            if !is_named {
                claim.spec.get_or_insert_default().volume_name = Some(volume.name().to_owned());
                claim.annotations_mut().insert(BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned());
            }
            claim.annotations_mut().insert(BIND_COMPLETED.to_owned(), "yes".to_owned());
            claim = cx.client().update(&claim).await?;
        }
        set_status(&claim, "Bound", Some(&volume), cx).await?;
        Ok(Action::await_change())
    }
}

/// Builds the event that names the pods for which an unbound claim waits.
fn waiting(claim: &PersistentVolumeClaim, cx: &Context) -> Result<Note, ReconcileError> {
    let mut consumers = Vec::new();
    for pod in consumers_of(&cx.store(), &claim.object_ref())? {
        let pod = pod.get()?;
        if !pods::is_finished(&pod) && pods::node_name(&pod).is_empty() {
            consumers.push(pod.name().to_owned());
        }
    }
    consumers.sort_unstable();
    Ok(match consumers.as_slice() {
        [] => Note::normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        [one] => Note::normal("WaitForPodScheduled", format!("waiting for pod {one} to be scheduled")),
        more => Note::normal("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", more.join(","))),
    })
}

async fn wait(claim: &PersistentVolumeClaim, cx: &Context) -> Result<Action, ReconcileError> {
    set_status(claim, "Pending", None, cx).await?;
    Ok(Action::await_change())
}

/// Reserves a volume for a claim. Returns `None` if it is already reserved for it.
pub(crate) fn reserved(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<PersistentVolume> {
    let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let is_known = is_reserved_for(volume, claim);
    if is_known && holder.is_some_and(|holder| holder.uid.as_deref() == claim.uid()) {
        return None;
    }
    let mut reserved = volume.clone();
    let to = ObjectReference { resource_version: claim.metadata.resource_version.clone(), ..reference(claim) };
    reserved.spec.get_or_insert_default().claim_ref = Some(to);
    if !is_known {
        reserved.annotations_mut().insert(BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned());
    }
    Some(reserved)
}

/// Reports whether claims of a class are bound only when a pod uses them.
pub(crate) fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// Reports whether a class is the default class.
pub(crate) fn is_default(class: &StorageClass) -> bool {
    let marks = [DEFAULT_CLASS, OLDER_DEFAULT_CLASS];
    marks.iter().any(|mark| class.annotations().get(*mark).is_some_and(|value| value == "true"))
}

/// Returns the name of the newest default class.
fn default_class(cx: &Context) -> Result<Option<String>, ReconcileError> {
    let mut defaults = Vec::new();
    for class in cx.store::<StorageClass>().list() {
        let class = class.get()?;
        if is_default(&class) {
            let created = class.metadata.creation_timestamp.as_ref().map(|time| time.0);
            defaults.push((std::cmp::Reverse(created), class.name().to_owned()));
        }
    }
    Ok(defaults.into_iter().min().map(|(_, name)| name))
}

fn phase_of(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Writes the status for a phase and the bound volume, if it differs.
async fn set_status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
    cx: &Context,
) -> Result<(), ReconcileError> {
    let before = claim.status.clone().unwrap_or_default();
    let after = status(&before, phase, volume);
    if before != after {
        let mut changed = claim.clone();
        changed.status = Some(after);
        cx.client().update_status(&changed).await?;
    }
    Ok(())
}

fn status(
    before: &PersistentVolumeClaimStatus,
    phase: &str,
    volume: Option<&PersistentVolume>,
) -> PersistentVolumeClaimStatus {
    let mut after = PersistentVolumeClaimStatus { phase: Some(phase.to_owned()), ..before.clone() };
    let Some(spec) = volume.and_then(|volume| volume.spec.as_ref()) else {
        after.access_modes = None;
        after.capacity = None;
        after.current_volume_attributes_class_name = None;
        return after;
    };
    after.access_modes.clone_from(&spec.access_modes);
    // After the binding, the resizer writes the capacity.
    if before.phase.as_deref() != Some(phase) {
        after.capacity.clone_from(&spec.capacity);
        after.current_volume_attributes_class_name.clone_from(&spec.volume_attributes_class_name);
    }
    after
}
