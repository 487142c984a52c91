//! The allocations of a write, and the notification of strategies that keep state of stored objects.

use serde_json::Value;
use windlass_api::{DryRun, Status};

use super::{WebhookCalls, WriteParams};
use crate::{
    resource::{Allocation, AllocationMode, ResourceInfo},
    storage::{CommitError, Committed},
};

/// The allocation of a write, if its kind has one. [`Self::revert`] must run unless the write succeeds. If this is
/// dropped instead, the allocation is released in the background.
#[derive(Default)]
pub(super) struct WriteAllocation(Option<Box<dyn Allocation>>);

impl WriteAllocation {
    /// Allocates what the object needs, and writes it into the object.
    pub(super) async fn allocate(
        &mut self,
        resource: &ResourceInfo,
        new: &mut Value,
        old: Option<&Value>,
        params: &WriteParams,
    ) -> Result<(), Status> {
        let mode = AllocationMode {
            is_dry_run: params.dry_run == DryRun::All,
            calls_webhooks: params.webhooks == WebhookCalls::Configured,
        };
        if let Some(allocating) = resource.strategy.allocate(new, old, mode) {
            self.0 = Some(allocating.await?);
        }
        Ok(())
    }

    /// Marks the begin of the write to the storage.
    pub(super) fn storing(&mut self) {
        if let Some(allocation) = &mut self.0 {
            allocation.storing();
        }
    }

    /// Receives the result of the write to the storage. Its result is unknown after some errors.
    pub(super) async fn stored(&mut self, result: &Result<Committed, CommitError>) {
        match result {
            Ok(_) => self.committed().await,
            Err(CommitError::Conflict { .. }) => {
                if let Some(allocation) = &mut self.0 {
                    allocation.rejected();
                }
            }
            Err(CommitError::Storage(_)) => {}
        }
    }

    /// Confirms the allocation.
    pub(super) async fn committed(&mut self) {
        if let Some(allocation) = self.0.take() {
            allocation.committed().await;
        }
    }

    /// Releases the allocation, unless it was confirmed.
    pub(super) async fn revert(mut self) {
        if let Some(allocation) = self.0.take() {
            allocation.revert().await;
        }
    }
}

/// Notifies a strategy that keeps state of a stored object.
pub(super) fn observe_stored(resource: &ResourceInfo, object: &Value) {
    if resource.strategy.rules().restores {
        resource.strategy.stored(object);
    }
}

/// Notifies a strategy of a deleted object.
pub(super) async fn observe_deleted(resource: &ResourceInfo, object: &Value) {
    if let Some(releasing) = resource.strategy.deleted(object) {
        releasing.await;
    }
}
