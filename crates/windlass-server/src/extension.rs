//! API servers of programs, which extend a cluster with kinds of their own.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time;
use windlass_api::Status;

use crate::{
    object::Tree,
    registry::{Registry, ResponseBody, WebhookCalls, WriteParams, Written},
    resource::{Body, OwnRules, ResourceRules, ResourceTable, Target},
    storage::Revision,
};

/// The time for which the start of the server waits for its resources, and the pause between two attempts.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// The kinds of a program that extends a cluster: `CustomResourceDefinition`s with rules in Rust, as
/// [`ServerBuilder::extension`](crate::ServerBuilder::extension) serves them.
///
/// Such a server has the groups of these kinds and no other resources. An `APIService` in the cluster makes them part of
/// its API.
///
/// # Guarantees
///
/// - When the server has started, it serves the kinds. Definitions of an earlier start over the same storage are replaced.
///
/// # Not guaranteed
///
/// - The namespaces of objects need not exist. The namespace controller of the cluster deletes the content of a deleted
///   namespace, also here.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ExtensionApi {
    definitions: Vec<Value>,
    rules: OwnRules,
}

impl ExtensionApi {
    /// Creates an API without kinds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind by its `CustomResourceDefinition`.
    pub fn definition(mut self, definition: Value) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Adds a kind, and its rules for defaults, validation and conversion.
    pub fn definition_with(mut self, definition: Value, rules: impl ResourceRules) -> Self {
        let (group, plural) = (definition.text(&["spec", "group"]), definition.text(&["spec", "names", "plural"]));
        self.rules.insert(group.to_owned(), plural.to_owned(), Arc::new(rules));
        self.definition(definition)
    }

    pub(crate) fn rules(&self) -> &OwnRules {
        &self.rules
    }

    /// Returns the part of a table that the server shows.
    pub(crate) fn visible(&self, table: &ResourceTable) -> ResourceTable {
        let shown = table.all().iter().filter(|resource| self.has_group(&resource.group));
        ResourceTable::new(table.kubernetes(), shown.cloned().collect())
    }

    /// Reports whether a group belongs to the API.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.definitions.iter().any(|definition| definition.text(&["spec", "group"]) == group)
    }

    /// Writes the definitions, and waits until their resources are served.
    pub(crate) async fn install(&self, registry: &Registry) -> Result<(), Status> {
        let mut written = Revision(0);
        for definition in &self.definitions {
            written = written.max(write(registry, definition).await?);
        }
        let mut missing: BTreeSet<[&str; 3]> = self.definitions.iter().flat_map(served).collect();
        let served = async {
            loop {
                let table = registry.resources();
                missing.retain(|[group, version, plural]| table.get(group, version, plural).is_none());
                // Resources of an earlier start may be served until their changed definitions are observed.
                if missing.is_empty() && registry.observed_definitions() >= written {
                    return;
                }
                time::sleep(PAUSE).await;
            }
        };
        let served = time::timeout(PATIENCE, served).await;
        served.map_err(|_| Status::internal("the resources of the extension API are not served, see its definitions"))
    }
}

/// Returns the group, the version and the plural name of each served version.
fn served(definition: &Value) -> Vec<[&str; 3]> {
    let (group, plural) = (definition.text(&["spec", "group"]), definition.text(&["spec", "names", "plural"]));
    let versions = definition.items(&["spec", "versions"]).iter().filter(|version| version.flag(&["served"]));
    versions.map(|version| [group, version.text(&["name"]), plural]).collect()
}

/// Creates a definition, or replaces the specification of an existing one. Returns the revision of the write.
async fn write(registry: &Registry, definition: &Value) -> Result<Revision, Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
        return Err(Status::unknown_resource());
    };
    let params = || WriteParams { webhooks: WebhookCalls::Never, ..WriteParams::default() };
    let target = Target::object(resource, None, definition.text(&["metadata", "name"]));
    if let Some(found) = registry.peek(&target).await? {
        let mut object = found.value();
        object["spec"] = definition["spec"].clone();
        return registry.update(&target, Body::Value(object), params()).await.map(|written| revision(&written));
    }
    let collection = Target::collection(resource, None);
    let created = registry.create(&collection, Body::Value(definition.clone()), params()).await;
    created.map(|written| revision(&written))
}

fn revision(written: &Written) -> Revision {
    match &written.answer {
        ResponseBody::Object(item) => item.revision,
        ResponseBody::Status(_) => Revision(0),
    }
}
