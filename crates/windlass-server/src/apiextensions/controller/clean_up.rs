//! The deletion of the objects of a definition that is being deleted.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use serde_json::Value;
use windlass_api::{Status, format_time};

use super::{
    super::{
        custom,
        definition::{Definition, FINALIZER},
    },
    conditions::set_condition,
    params, target,
};
use crate::{
    registry::{
        Body, DeleteParams, GetParams, ListParams, Registry, ResourceInfo, Target, Tree, WeakRegistry, metadata_mut,
    },
    storage::{RangeQuery, Storage},
};

/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// The deletion of all objects of a definition that is being deleted itself.
///
/// It ends early when the definition is gone. A definition that was created again under the same name is another one: its UID
/// differs.
pub(in crate::apiextensions) struct CleanUp {
    registry: WeakRegistry,
    storage: Arc<dyn Storage>,
    /// The name of the CRD, which a later one can have, too; the UID tells them apart.
    name: String,
    uid: String,
    /// The resource of the objects.
    resource: Arc<ResourceInfo>,
}

impl CleanUp {
    /// Prepares the deletion of the objects of a definition. `None`: it stores none.
    pub(in crate::apiextensions) fn new(registry: &Registry, definition: &Definition) -> Option<Self> {
        Some(Self {
            registry: registry.downgrade(),
            storage: Arc::clone(registry.storage()),
            name: definition.name.clone(),
            uid: definition.uid.clone(),
            resource: custom::stored_resource(definition, registry.entropy())?,
        })
    }

    /// Deletes the objects, then lets the definition go. Tries again after failures.
    pub(in crate::apiextensions) async fn run(self) {
        while let Err(status) = self.attempt().await {
            tracing::warn!(definition = self.name, error = %status, "deleting custom resources failed");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Returns when nothing is left of objects and definition, or the server is gone.
    async fn attempt(&self) -> Result<(), Status> {
        if !self.report_progress().await? {
            return Ok(());
        }
        loop {
            // Not held while waiting: it would keep the server alive.
            let Some(registry) = self.registry.upgrade() else { return Ok(()) };
            // Waiting may have taken long: the objects may be those of the next definition of that name.
            if self.definition(&registry).await?.is_none() {
                return Ok(());
            }
            let all = Target::collection(&self.resource, None);
            registry.delete_collection(&all, DeleteParams::default(), ListParams::default()).await?;
            drop(registry);
            let query = RangeQuery { limit: Some(1), ..RangeQuery::prefix(self.resource.prefix.clone()) };
            let left = self.storage.range(query).await.map_err(Status::internal)?;
            if left.values.is_empty() {
                return self.remove_finalizer().await;
            }
            // Their finalizers are for others to remove.
            let events = self.storage.watch(&self.resource.prefix, left.revision).await;
            events.map_err(Status::internal)?.next().await;
        }
    }

    /// Reports in the status that objects are being deleted. Returns false if the definition is gone.
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

    /// Reads the definition. `None`: it is gone.
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

    /// Changes the definition or the subresource that `change` names, again after a conflict. Returns false if the definition
    /// or the server is gone.
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
