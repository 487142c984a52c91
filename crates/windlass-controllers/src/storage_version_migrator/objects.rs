//! The objects of a migrated resource: discovery, the current version, and the rewrite.

use futures::TryStreamExt as _;
use serde_json::json;
use windlass_api::{
    ApiResource, GroupResource, ObjectExt, ObjectRef, PartialObject, Patch, ResourceVersion, ResourceVersionError,
};
use windlass_client::{Client, DiscoveredResource, Error, Result};

/// The field manager of the patches.
const MANAGER: &str = "storage-version-migrator-controller";
/// The verbs that a resource must support, in the order of the error message.
const NEEDED: [&str; 3] = ["update", "patch", "list"];

/// The objects to rewrite.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// The number of all objects, including those that were written since the start of the migration.
    pub(super) total: usize,
    objects: Vec<(ObjectRef<PartialObject>, String)>,
}

/// The result of a rewrite.
#[derive(Debug)]
pub(super) enum Rewrite {
    /// Every object was written or deleted since the start of the migration.
    Done,
    /// The server rejects a write, and a retry cannot succeed.
    Failed {
        /// The number of objects that were not rewritten.
        left: usize,
        /// The server's response.
        error: Error,
    },
    /// An error that a retry may resolve.
    Interrupted {
        /// The number of objects that were not rewritten.
        left: usize,
        /// The cause.
        error: Error,
    },
}

/// Returns the resource in its preferred version; `None` if it is not served.
pub(super) async fn discover(client: &Client, resource: &GroupResource) -> Result<Option<DiscoveredResource>> {
    let discovery = client.discovery().await?;
    let found = discovery.preferred_resources().find(|found| found.resource.group_resource() == *resource);
    Ok(found.cloned())
}

/// Returns the reason why a resource cannot be migrated, if there is one.
pub(super) fn missing_verbs(found: &DiscoveredResource) -> Option<String> {
    let is_migratable = NEEDED.iter().all(|verb| found.supports(verb));
    let (gvr, needed) = (found.resource.gvr().to_string(), NEEDED.join(" "));
    (!is_migratable).then(|| format!("resource {gvr:?} does not support discovery operations: [{needed}]"))
}

/// Returns the current version of the resource's list.
pub(super) async fn current_version(client: &Client, resource: &ApiResource) -> Result<ResourceVersion> {
    Ok(client.metadata(resource).list().limit(1).await?.metadata.resource_version)
}

/// Returns the objects whose version is not newer than `until`.
pub(super) async fn candidates(
    client: &Client,
    resource: &ApiResource,
    until: &ResourceVersion,
) -> Result<Result<Candidates, ResourceVersionError>> {
    let mut candidates = Candidates::default();
    let mut objects = client.metadata(resource).list().items();
    while let Some(object) = objects.try_next().await? {
        candidates.total += 1;
        let version = object.resource_version().unwrap_or_default();
        match ResourceVersion::new(version).compare(until) {
            Ok(order) if order.is_gt() => {}
            Ok(_) => candidates.objects.push((object.object_ref(), version.to_owned())),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(candidates))
}

/// Patches each object without a change, so that the server stores it in its current form. The version in the patch makes
/// it fail if the object was written meanwhile, and therefore needs no rewrite.
pub(super) async fn rewrite(client: &Client, resource: &ApiResource, candidates: Candidates) -> Rewrite {
    let objects = client.metadata(resource);
    let mut left = candidates.objects.len();
    for (key, version) in candidates.objects {
        let patch = Patch::Merge(json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind,
            "metadata": {"resourceVersion": version},
        }));
        match objects.patch(key, patch).field_manager(MANAGER).discard_response().await {
            Ok(()) => {}
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(error) if is_transient(&error) => return Rewrite::Interrupted { left, error },
            Err(error) => return Rewrite::Failed { left, error },
        }
        left -= 1;
    }
    Rewrite::Done
}

/// Reports whether a retry may succeed.
fn is_transient(error: &Error) -> bool {
    error.is_transport()
        || error.is_timeout()
        || error.is_server_timeout()
        || error.is_too_many_requests()
        || error.is_service_unavailable()
        || error.is_internal_error()
}

/// Returns the server's message, or the cause if there is no response.
pub(super) fn text(error: &Error) -> String {
    error.status().map_or_else(|| error.chain(), |status| status.message.clone())
}
