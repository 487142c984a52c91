//! Writes of the pods and claims of a stateful set, with their events.

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use windlass_api::{Object, ObjectExt, ObjectKey};
use windlass_cache::Cached;
use windlass_runtime::{Context, events::Note};

use super::{
    Sets,
    claims::{self, Holder},
    identity,
};
use crate::{
    error::ReconcileError,
    pod_control::{is_namespace_terminating, server_message},
};

/// The writes of one reconcile.
#[derive(Debug)]
pub(super) struct Writes<'c> {
    pub(super) cx: &'c Context,
    pub(super) sets: &'c Sets,
    pub(super) key: &'c ObjectKey,
    pub(super) set: Arc<StatefulSet>,
    /// The claims of the namespace in the cache.
    pub(super) claims: Vec<Cached<PersistentVolumeClaim>>,
}

/// The action on a pod, as named in events.
#[derive(Clone, Copy, Debug)]
enum PodAction {
    Create,
    Update,
    Delete,
}

impl PodAction {
    const fn name(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
        }
    }
}

impl Writes<'_> {
    /// Checks that the set is the current one. Called before pods are created or deleted.
    pub(super) async fn ensure_current(&self) -> Result<(), ReconcileError> {
        self.sets.confirmed.ensure(self.cx, &*self.set).await
    }

    fn uid(&self) -> &str {
        self.set.uid().unwrap_or_default()
    }

    /// Creates a pod after its claims.
    pub(super) async fn create(&self, pod: &Pod, ordinal: i32) -> Result<(), ReconcileError> {
        self.ensure_current().await?;
        let holder = Holder { ordinal, pod: None };
        self.record_failure(PodAction::Create, pod.name(), self.complete_claims(holder).await)?;
        self.record_failure(PodAction::Update, pod.name(), self.own_claims(holder).await)?;
        let created = match self.cx.client().create(pod).await {
            Ok(created) => created,
            // A pod of that name exists: the cache does not show it yet, or it belongs to another owner.
            Err(error) if error.is_already_exists() => return Err(error.into()),
            Err(error) => return self.record_outcome(PodAction::Create, pod.name(), Err(error.into())),
        };
        self.sets.expectations.created(self.key, self.uid(), created.uid().unwrap_or_default());
        self.record_outcome(PodAction::Create, pod.name(), Ok(()))
    }

    /// Deletes a pod. A pod that is gone or was recreated counts as deleted.
    pub(super) async fn delete(&self, pod: &Pod) -> Result<(), ReconcileError> {
        let uid = pod.uid().unwrap_or_default();
        match self.cx.client().delete::<Pod>(pod.object_ref()).uid(uid).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                self.record_outcome(PodAction::Delete, pod.name(), Err(error.into()))
            }
            Err(_) => Ok(()),
            Ok(_) => {
                self.sets.expectations.deleted(self.key, self.uid(), uid);
                self.record_outcome(PodAction::Delete, pod.name(), Ok(()))
            }
        }
    }

    /// Updates the pod's identity labels and volumes, and the owners of its claims.
    pub(super) async fn conform(&self, pod: &Pod, ordinal: i32) -> Result<(), ReconcileError> {
        let mut wanted = pod.clone();
        if !identity::has_identity(&self.set, pod, ordinal) {
            identity::name_in_labels(&mut wanted, &self.set, ordinal);
        }
        let holder = Holder { ordinal, pod: Some(pod) };
        if !identity::is_mounted(&self.set, pod, ordinal) {
            identity::mount(&mut wanted, &self.set, ordinal);
            self.record_failure(PodAction::Update, pod.name(), self.complete_claims(holder).await)?;
        }
        if !self.are_owned(holder)? {
            self.record_failure(PodAction::Update, pod.name(), self.own_claims(holder).await)?;
        } else if wanted == *pod {
            return Ok(());
        }
        if wanted != *pod {
            self.record_failure(
                PodAction::Update,
                pod.name(),
                self.cx.client().update(&wanted).await.map_err(Into::into),
            )?;
        }
        self.record_outcome(PodAction::Update, pod.name(), Ok(()))
    }

    /// Creates the missing claims of a pod.
    pub(super) async fn complete_claims(&self, holder: Holder<'_>) -> Result<(), ReconcileError> {
        let mut failure = None;
        for mut claim in claims::of(&self.set, holder.ordinal) {
            if self.known(claim.name()).is_some() {
                continue;
            }
            if let Some(owners) = claims::owners_to_be(&self.set, &claim, holder) {
                claim.metadata_mut().owner_references = Some(owners);
            }
            let outcome = self.cx.client().create(&claim).await;
            let pod = identity::pod_name(&self.set, holder.ordinal);
            let (set, name) = (self.set.name(), claim.name());
            match outcome {
                Ok(created) => {
                    self.sets.expectations.created(self.key, self.uid(), created.uid().unwrap_or_default());
                    let message = format!("Create Claim {name} Pod {pod} in StatefulSet {set} success");
                    self.sets.recorder.record(&*self.set, Note::normal("SuccessfulCreate", message));
                }
                Err(error) => {
                    if !error.is_already_exists() && !is_namespace_terminating(&error) {
                        let why = server_message(&error);
                        let message =
                            format!("Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {why}");
                        self.sets.recorder.record(&*self.set, Note::warning("FailedCreate", message));
                    }
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Returns `true` if all claims of a pod have the desired owners.
    pub(super) fn are_owned(&self, holder: Holder<'_>) -> Result<bool, ReconcileError> {
        for template in claims::of(&self.set, holder.ordinal) {
            let Some(claim) = self.known(template.name()).map(Cached::get).transpose()? else { continue };
            if claims::owners_to_be(&self.set, &claim, holder).is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Updates the owners of all claims of a pod.
    pub(super) async fn own_claims(&self, holder: Holder<'_>) -> Result<(), ReconcileError> {
        for template in claims::of(&self.set, holder.ordinal) {
            let Some(claim) = self.known(template.name()).map(Cached::get).transpose()? else { continue };
            if claims::is_foreign(&self.set, &claim, holder) {
                let message = format!(
                    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim",
                    claim.name()
                );
                self.sets.recorder.record(&*self.set, Note::warning("ConflictingController", message));
            }
            if let Some(owners) = claims::owners_to_be(&self.set, &claim, holder) {
                let mut claim = (*claim).clone();
                claim.metadata_mut().owner_references = Some(owners).filter(|owners| !owners.is_empty());
                self.cx.client().update(&claim).await?;
            }
        }
        Ok(())
    }

    /// Returns `true` if a pod has to wait because one of its claims is about to be deleted.
    pub(super) fn waits_for_claims(&self, ordinal: i32) -> Result<bool, ReconcileError> {
        for template in claims::of(&self.set, ordinal) {
            let Some(claim) = self.known(template.name()).map(Cached::get).transpose()? else { continue };
            if claims::is_stale(&self.set, &claim, Holder { ordinal, pod: None }) || claim.is_deleting() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn known(&self, name: &str) -> Option<&Cached<PersistentVolumeClaim>> {
        self.claims.iter().find(|claim| **claim.meta().name() == *name)
    }

    fn record_failure<T>(
        &self,
        action: PodAction,
        pod: &str,
        outcome: Result<T, ReconcileError>,
    ) -> Result<(), ReconcileError> {
        outcome.map_or_else(|error| self.record_outcome(action, pod, Err(error)), |_| Ok(()))
    }

    /// Records the outcome as an event. A creation in a terminating namespace is not reported as a failure.
    fn record_outcome(
        &self,
        action: PodAction,
        pod: &str,
        outcome: Result<(), ReconcileError>,
    ) -> Result<(), ReconcileError> {
        let (action, set) = (action.name(), self.set.name());
        match &outcome {
            Ok(()) => {
                let message = format!("{action} Pod {pod} in StatefulSet {set} successful");
                self.sets.recorder.record(&*self.set, Note::normal(format!("Successful{action}"), message));
            }
            Err(ReconcileError::Client(error)) if is_namespace_terminating(error) => {}
            Err(error) => {
                let why = said(error);
                let message = format!("{action} Pod {pod} in StatefulSet {set} failed error: {why}");
                self.sets.recorder.record(&*self.set, Note::warning(format!("Failed{action}"), message));
            }
        }
        outcome
    }
}

fn said(error: &ReconcileError) -> String {
    match error {
        ReconcileError::Client(error) => server_message(error),
        other => other.to_string(),
    }
}

/// Returns `true` if the error is due to a terminating namespace.
pub(super) fn is_due_to_terminating_namespace(error: &ReconcileError) -> bool {
    matches!(error, ReconcileError::Client(error) if is_namespace_terminating(error))
}
