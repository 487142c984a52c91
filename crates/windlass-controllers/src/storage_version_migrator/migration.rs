//! StorageVersionMigrations, and the next step of a migration.
//!
//! The controllers build with the types of older Kubernetes versions, which have no such type.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};
use windlass_api::{ApiResource, Conditions, GroupResource, GroupVersionKind, Object, Resource};

/// The condition of a migration whose turn it is.
pub(super) const RUNNING: &str = "Running";
/// The condition of a migration after all objects were rewritten.
pub(super) const SUCCEEDED: &str = "Succeeded";
/// The condition of a migration after an error that no retry resolves.
pub(super) const FAILED: &str = "Failed";

/// A request to rewrite the stored objects of a resource: `storagemigration.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StorageVersionMigration {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: MigrationSpec,
    #[serde(default)]
    pub(super) status: MigrationStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct MigrationSpec {
    #[serde(with = "group_resource")]
    pub(super) resource: GroupResource,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MigrationStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) conditions: Vec<Condition>,
    /// The resource's version at the start of the migration. Empty until it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) resource_version: String,
}

/// The next step of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Waits for older migrations of the same resource.
    Wait,
    /// Records the current resource version.
    RecordVersion,
    /// Rewrites the objects up to the recorded version.
    Rewrite,
    /// Ends the run of a migration that has succeeded or failed.
    Finish,
    /// The migration has ended.
    None,
}

impl StorageVersionMigration {
    pub(super) fn step(&self) -> Step {
        let holds = |condition| self.status.conditions.is_true(condition);
        match (holds(RUNNING), holds(SUCCEEDED) || holds(FAILED)) {
            (false, false) => Step::Wait,
            (true, false) if self.status.resource_version.is_empty() => Step::RecordVersion,
            (true, false) => Step::Rewrite,
            (true, true) => Step::Finish,
            (false, true) => Step::None,
        }
    }

    pub(super) fn has_succeeded(&self) -> bool {
        self.status.conditions.is_true(SUCCEEDED)
    }

    /// Returns the time of creation.
    pub(super) fn created(&self) -> Timestamp {
        self.metadata.creation_timestamp.as_ref().map(|at| at.0).unwrap_or_default()
    }
}

impl Object for StorageVersionMigration {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Resource for StorageVersionMigration {
    fn api_resource() -> ApiResource {
        let kind = GroupVersionKind::new("storagemigration.k8s.io", "v1", "StorageVersionMigration");
        ApiResource::namespaced(kind, "storageversionmigrations").cluster_scoped()
    }
}

/// The encoding of a resource: the core group may be missing.
mod group_resource {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use windlass_api::GroupResource;

    #[derive(Default, Serialize, Deserialize)]
    struct Encoded {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        group: String,
        #[serde(default)]
        resource: String,
    }

    pub(super) fn serialize<S: Serializer>(resource: &GroupResource, serializer: S) -> Result<S::Ok, S::Error> {
        let GroupResource { group, resource } = resource.clone();
        Encoded { group: group.into_owned(), resource: resource.into_owned() }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GroupResource, D::Error> {
        let Encoded { group, resource } = Encoded::deserialize(deserializer)?;
        Ok(GroupResource::new(group, resource))
    }
}
