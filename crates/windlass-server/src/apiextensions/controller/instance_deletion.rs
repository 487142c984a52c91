//! The deletion of the custom resources of a deleted CRD.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use windlass_api::{Status, format_time};

use super::{super::custom, conditions::set_condition, params, target};
use crate::apiextensions::crd::{Crd, FINALIZER};
use crate::apiextensions::translator::translator;
use crate::{
    object::{Tree, metadata_mut},
    registry::{AdmissionState, DeleteParams, GetParams, ListParams, Registry, WeakRegistry},
    resource::{Body, ResourceInfo, Target},
    storage::{RangeQuery, Storage, next_event},
};

/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// The deletion of all custom resources of a CRD that is being deleted.
///
/// It ends early if the CRD no longer exists. A recreated CRD has a new UID and is treated as a different one.
pub(in crate::apiextensions) struct InstanceDeletion {
    registry: WeakRegistry,
    storage: Arc<dyn Storage>,
    /// The name of the CRD. A recreated CRD has the same name and another UID.
    name: String,
    uid: String,
    /// The resource of the custom resources.
    resource: Arc<ResourceInfo>,
}

impl InstanceDeletion {
    /// Prepares the deletion of a CRD's custom resources. Returns `None` if the CRD has no storage version.
    pub(in crate::apiextensions) fn new(registry: &Registry, definition: &Crd) -> Option<Self> {
        Some(Self {
            registry: registry.downgrade(),
            storage: Arc::clone(registry.storage()),
            name: definition.name.clone(),
            uid: definition.uid.clone(),
            resource: custom::stored_resource(
                definition,
                registry.resources().kubernetes(),
                translator(registry, definition),
            )?,
        })
    }

    /// Deletes the custom resources, then removes the CRD's finalizer. Retries after failures.
    pub(in crate::apiextensions) async fn run(self) {
        while let Err(status) = self.attempt().await {
            tracing::warn!(definition = self.name, error = %status, "deleting custom resources failed");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Deletes the custom resources and removes the finalizer. Returns early if the CRD no longer exists or the server
    /// has stopped.
    async fn attempt(&self) -> Result<(), Status> {
        if !self.report_progress().await? {
            return Ok(());
        }
        loop {
            // The handle is not held while waiting, because it would keep the server alive.
            let Some(registry) = self.registry.upgrade() else { return Ok(()) };
            // The wait may have been long, and the objects may belong to a recreated CRD.
            if self.definition(&registry).await?.is_none() {
                return Ok(());
            }
            let all = Target::collection(&self.resource, None);
            registry
                .delete_collection(
                    &all,
                    DeleteParams { admission: AdmissionState::Granted, ..DeleteParams::default() },
                    ListParams::default(),
                )
                .await?;
            drop(registry);
            let query = RangeQuery { limit: Some(1), ..RangeQuery::prefix(self.resource.prefix.clone()) };
            let left = self.storage.range(query).await.map_err(Status::internal)?;
            if left.values.is_empty() {
                return self.remove_finalizer().await;
            }
            // Other controllers have to remove the remaining objects' finalizers.
            let events = self.storage.watch(&self.resource.prefix, left.revision).await;
            next_event(&mut events.map_err(Status::internal)?).await;
        }
    }

    /// Reports in the status that custom resources are being deleted. Returns `false` if the CRD no longer exists.
    async fn report_progress(&self) -> Result<bool, Status> {
        self.change(|registry, object| {
            let now = format_time(registry.clock().now());
            let why = ("InstanceDeletionInProgress", "CustomResource deletion is in progress");
            set_condition(object, "Terminating", true, why, &now);
            Some("status")
        })
        .await
    }

    async fn remove_finalizer(&self) -> Result<(), Status> {
        let change = |_: &Registry, object: &mut Value| {
            if let Some(finalizers) = metadata_mut(object).get_mut("finalizers").and_then(Value::as_array_mut) {
                finalizers.retain(|finalizer| finalizer != FINALIZER);
            }
            None
        };
        self.change(change).await.map(|_| ())
    }

    /// Reads the CRD. Returns `None` if it no longer exists.
    async fn definition(&self, registry: &Registry) -> Result<Option<(Target, Value)>, Status> {
        let Some(target) = target(registry, &self.name) else { return Ok(None) };
        match registry.get(&target, GetParams::default()).await {
            Ok(item) => {
                Ok(Some((target, item.value())).filter(|(_, object)| object.text(&["metadata", "uid"]) == self.uid))
            }
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Changes the CRD, or the subresource that `change` returns. Retries after a conflict. Returns `false` if the CRD
    /// or the server no longer exists.
    async fn change(&self, change: impl Fn(&Registry, &mut Value) -> Option<&'static str>) -> Result<bool, Status> {
        loop {
            let Some(registry) = self.registry.upgrade() else { return Ok(false) };
            let Some((target, mut object)) = self.definition(&registry).await? else { return Ok(false) };
            let target = match change(&registry, &mut object) {
                Some(subresource) => target.subresource(subresource),
                None => target,
            };
            match registry.update(&target, Body::Value(object), params()).await {
                Ok(_) => return Ok(true),
                Err(status) if status.is_conflict() => {}
                Err(status) if status.is_not_found() => return Ok(false),
                Err(status) => return Err(status),
            }
        }
    }
}
