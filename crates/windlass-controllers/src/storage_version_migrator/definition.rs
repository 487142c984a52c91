//! The status of the migrated resource's CustomResourceDefinition: the condition `StorageMigrating`, and the stored
//! versions.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use windlass_api::{DynamicObject, GroupResource, ObjectExt, Patch, Resource, format_time};
use windlass_client::{Client, Result};

/// The condition that reports a migration.
const MIGRATING: &str = "StorageMigrating";
/// The field manager of the condition and of the stored versions.
const MANAGER: &str = "migration-runner-controller";

/// Reports a started migration. A resource without a CustomResourceDefinition needs no report.
pub(super) async fn begin(client: &Client, resource: &GroupResource, migration: &str, now: Timestamp) -> Result<()> {
    match read(client, resource).await? {
        Some(definition) => apply(client, &definition, begun(&definition, migration, now)).await,
        None => Ok(()),
    }
}

/// Reports a finished migration. After a success, only the storage version remains in the stored versions, unless the
/// CustomResourceDefinition has changed since the start.
pub(super) async fn end(client: &Client, resource: &GroupResource, succeeded: bool, now: Timestamp) -> Result<()> {
    let Some(definition) = read(client, resource).await? else { return Ok(()) };
    match ended(&definition, succeeded, now) {
        Some(status) => apply(client, &definition, status).await,
        None => Ok(()),
    }
}

async fn read(client: &Client, resource: &GroupResource) -> Result<Option<DynamicObject>> {
    // Built-in resources of the core group have no CustomResourceDefinition, and no valid name for one.
    if resource.group.is_empty() {
        return Ok(None);
    }
    let name = format!("{}.{}", resource.resource, resource.group);
    client.dynamic(&CustomResourceDefinition::api_resource()).get_opt(name.as_str()).await
}

/// Applies a status, if the CustomResourceDefinition is unchanged since it was read.
async fn apply(client: &Client, definition: &DynamicObject, status: Value) -> Result<()> {
    let resource = CustomResourceDefinition::api_resource();
    let applied = json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "metadata": {"name": definition.name(), "resourceVersion": definition.resource_version()},
        "status": status,
    });
    let patch = client.dynamic(&resource).patch(definition.name(), Patch::Apply(applied)).subresource("status");
    patch.field_manager(MANAGER).force().discard_response().await
}

fn begun(definition: &DynamicObject, migration: &str, now: Timestamp) -> Value {
    let message = format!("Migration {migration} is running");
    status(definition, condition(definition, true, "MigrationRunning", &message, now), None)
}

/// Returns the status after a migration; `None` if it was applied before.
fn ended(definition: &DynamicObject, succeeded: bool, now: Timestamp) -> Option<Value> {
    let conditions = definition.data["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let migrating = conditions.iter().find(|condition| condition["type"] == MIGRATING);
    // Applied before the migration's own status could be written. The generation in it is that of the end, so a repetition
    // would not detect a change during the migration.
    if migrating.is_some_and(|migrating| migrating["status"] == "False") {
        return None;
    }
    let begun_at = migrating.and_then(|migrating| migrating["observedGeneration"].as_i64());
    let is_unchanged = migrating.is_some() && begun_at == definition.metadata.generation;
    let (reason, message) = match (succeeded, is_unchanged) {
        (true, true) => ("MigrationSucceeded", "The migration has succeeded and the stored versions have been updated"),
        (true, false) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
        ),
        // Objects that were not rewritten may have any of the stored versions.
        (false, _) => ("MigrationFailed", "The migration has failed"),
    };
    let stored = storage_version(definition).filter(|_| succeeded && is_unchanged).map(|version| json!([version]));
    Some(status(definition, condition(definition, false, reason, message, now), stored))
}

/// Returns a status to apply. It always contains the stored versions: an earlier migration may own them, and fields that
/// their only owner no longer applies are removed.
fn status(definition: &DynamicObject, condition: Value, stored: Option<Value>) -> Value {
    let stored = stored.unwrap_or_else(|| definition.data["status"]["storedVersions"].clone());
    json!({"conditions": [condition], "storedVersions": stored})
}

fn condition(definition: &DynamicObject, holds: bool, reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "type": MIGRATING,
        "status": if holds { "True" } else { "False" },
        "lastTransitionTime": format_time(now),
        "reason": reason,
        "message": message,
        "observedGeneration": definition.metadata.generation,
    })
}

fn storage_version(definition: &DynamicObject) -> Option<&Value> {
    let versions = definition.data["spec"]["versions"].as_array()?;
    versions.iter().find(|version| version["storage"] == true).map(|version| &version["name"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(migrating: Option<(&str, i64)>) -> DynamicObject {
        let condition =
            |(status, generation)| json!([{"type": MIGRATING, "status": status, "observedGeneration": generation}]);
        serde_json::from_value(json!({
            "metadata": {"name": "foos.example.com", "generation": 3},
            "spec": {"versions": [{"name": "v1", "storage": false}, {"name": "v2", "storage": true}]},
            "status": {"storedVersions": ["v1", "v2"], "conditions": migrating.map_or(json!([]), condition)},
        }))
        .unwrap()
    }

    fn end_of(definition: &DynamicObject, succeeded: bool) -> Option<(Value, Value)> {
        let status = ended(definition, succeeded, Timestamp::UNIX_EPOCH)?;
        assert_eq!(status["conditions"][0]["status"], "False");
        Some((status["storedVersions"].clone(), status["conditions"][0]["message"].clone()))
    }

    #[test]
    fn running_migration_keeps_the_stored_versions() {
        let status = begun(&definition(None), "mine", Timestamp::UNIX_EPOCH);
        let condition = json!({
            "type": "StorageMigrating", "status": "True", "reason": "MigrationRunning",
            "message": "Migration mine is running", "observedGeneration": 3, "lastTransitionTime": "1970-01-01T00:00:00Z",
        });
        assert_eq!(status, json!({"storedVersions": ["v1", "v2"], "conditions": [condition]}));
    }

    #[test]
    fn success_removes_old_stored_versions_if_the_crd_is_unchanged() {
        let (stored, message) = end_of(&definition(Some(("True", 3))), true).unwrap();
        assert_eq!(stored, json!(["v2"]));
        assert_eq!(message, "The migration has succeeded and the stored versions have been updated");
        for changed in [definition(Some(("True", 2))), definition(None)] {
            let (stored, message) = end_of(&changed, true).unwrap();
            assert_eq!(stored, json!(["v1", "v2"]));
            let expected = "The migration has succeeded but the stored versions have not been updated due to a generation \
                            mismatch";
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn failure_keeps_the_stored_versions() {
        let (stored, message) = end_of(&definition(Some(("True", 3))), false).unwrap();
        assert_eq!((stored, message), (json!(["v1", "v2"]), json!("The migration has failed")));
    }

    #[test]
    fn end_that_was_reported_before_is_not_repeated() {
        assert_eq!(end_of(&definition(Some(("False", 3))), true), None);
    }
}
