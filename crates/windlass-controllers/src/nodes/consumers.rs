//! The claims of a pod that is to be scheduled: what they wait for, and where their volumes can be reached.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use windlass_api::{ObjectExt, ObjectRef};
use windlass_runtime::Context;

use crate::{
    error::ReconcileError,
    storage_protection::claims_of,
    volumes::{
        SELECTED_NODE, is_bound,
        matching::{Binding, best_match, class_of_claim, reaches},
        reserved, volume_of, waits_for_consumer,
    },
};

/// The claims of a pod.
#[derive(Debug, Default)]
pub(super) struct Consumption {
    /// The volumes of those that are bound.
    volumes: Vec<Arc<PersistentVolume>>,
    /// Those that are bound once there is a node, each with whether its class can make volumes.
    waiting: Vec<(Arc<PersistentVolumeClaim>, bool)>,
    /// The volumes that those might get.
    candidates: Vec<Arc<PersistentVolume>>,
}

impl Consumption {
    /// Looks up the claims of a pod. The inner error says why the pod cannot be scheduled.
    pub(super) fn of(pod: &Pod, cx: &Context) -> Result<Result<Self, String>, ReconcileError> {
        let mut consumption = Self::default();
        let mut unbound = false;
        for key in claims_of(pod) {
            let Some(claim) = cx.store::<PersistentVolumeClaim>().get(&key) else {
                return Ok(Err(format!("persistentvolumeclaim {:?} not found", key.name())));
            };
            let claim = claim.get()?;
            if claim.is_deleting() {
                return Ok(Err(format!("persistentvolumeclaim {:?} is being deleted", claim.name())));
            }
            if is_bound(&claim) {
                let name = volume_of(&claim).unwrap_or_default();
                match cx.store::<PersistentVolume>().get(&ObjectRef::new(name)) {
                    Some(volume) => consumption.volumes.push(volume.get()?),
                    None => {
                        return Ok(Err(format!(
                            "persistentvolumeclaim {:?} bound to non-existent persistentvolume {name:?}",
                            claim.name()
                        )));
                    }
                }
                continue;
            }
            let class = cx.store::<StorageClass>().get(&ObjectRef::new(class_of_claim(&claim)));
            let class = class.map(|class| class.get()).transpose()?;
            match class.filter(|class| waits_for_consumer(class) && volume_of(&claim).is_none()) {
                Some(class) => {
                    consumption.waiting.push((claim, class.provisioner != "kubernetes.io/no-provisioner"));
                }
                None => unbound = true,
            }
        }
        if unbound {
            return Ok(Err("pod has unbound immediate PersistentVolumeClaims".to_owned()));
        }
        if !consumption.waiting.is_empty() {
            for volume in cx.store::<PersistentVolume>().list() {
                consumption.candidates.push(volume.get()?);
            }
        }
        Ok(Ok(consumption))
    }

    /// Reports whether all volumes can be reached from a node.
    pub(super) fn reaches(&self, node: &Node) -> bool {
        self.volumes.iter().all(|volume| reaches(volume, node))
    }

    /// Reports whether the claims that wait can get volumes on a node.
    pub(super) fn can_be_bound(&self, node: &Node) -> bool {
        self.waiting.iter().all(|(claim, can_be_made)| *can_be_made || self.match_on(claim, node).is_some())
    }

    /// Whether nothing has to be bound any more.
    pub(super) fn is_bound(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The node for which volumes are being made.
    pub(super) fn selected_node(&self) -> Option<&str> {
        self.waiting.iter().find_map(|(claim, _)| claim.annotations().get(SELECTED_NODE).map(String::as_str))
    }

    /// Reserves volumes that a node reaches, and asks for those that have to be made.
    pub(super) async fn bind_on(&self, node: &Node, cx: &Context) -> Result<(), ReconcileError> {
        for (claim, _) in &self.waiting {
            if let Some(volume) = self.match_on(claim, node) {
                if let Some(reserved) = reserved(volume, claim) {
                    cx.client().update(&reserved).await?;
                }
            } else if claim.annotations().get(SELECTED_NODE).map(String::as_str) != Some(node.name()) {
                let mut asking = (**claim).clone();
                asking.annotations_mut().insert(SELECTED_NODE.to_owned(), node.name().to_owned());
                cx.client().update(&asking).await?;
            }
        }
        Ok(())
    }

    fn match_on(&self, claim: &PersistentVolumeClaim, node: &Node) -> Option<&PersistentVolume> {
        best_match(claim, self.candidates.iter().map(|volume| &**volume), Binding::OnNode(node))
    }
}
