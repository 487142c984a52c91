//! Deletion of the content of a namespace.

use windlass_api::{ApiResource, ObjectExt, PartialObject, Propagation, Scope};
use windlass_client::{Client, DiscoveredResource, Discovery, Error};

use super::conditions::Progress;

/// The resources with objects left after a pass. A terminating namespace accepts no new objects, so the next pass only
/// checks these.
#[derive(Clone, Debug, Default)]
pub(super) struct Unfinished {
    resources: Vec<DiscoveredResource>,
    are_pods: bool,
}

/// Deletes the content of a namespace as far as possible, and returns what is left.
///
/// Pods are deleted first, and other resources only after all pods are gone, because pods may need them. If an earlier
/// pass left objects, their resources are checked first; all others are checked again when these are empty.
pub(super) async fn delete(client: &Client, namespace: &str, before: Unfinished) -> (Progress, Unfinished) {
    if !before.resources.is_empty() {
        let (progress, left) = stage(client, namespace, &before.resources, before.are_pods).await;
        if !progress.is_complete() {
            return (progress, left);
        }
    }
    let discovery = match client.discovery().await {
        Ok(discovery) => discovery,
        Err(error) => {
            let progress = Progress { discovery_failure: Some(error.chain()), ..Progress::default() };
            return (progress, Unfinished::default());
        }
    };
    let (pods, others): (Vec<_>, Vec<_>) = deletable(&discovery).cloned().partition(|found| is_pods(&found.resource));
    let (mut progress, mut left) = stage(client, namespace, &pods, true).await;
    if progress.is_complete() {
        (progress, left) = stage(client, namespace, &others, false).await;
    }
    progress.discovery_failure = discovery_failure(&discovery);
    if progress.discovery_failure.is_some() {
        // Undiscovered resources may have objects, so the next pass discovers again.
        left = Unfinished::default();
    }
    (progress, left)
}

/// Deletes the objects of some resources.
async fn stage(
    client: &Client,
    namespace: &str,
    resources: &[DiscoveredResource],
    are_pods: bool,
) -> (Progress, Unfinished) {
    let mut progress = Progress::default();
    let mut left = Unfinished { resources: Vec::new(), are_pods };
    for found in resources {
        let are_gone = match delete_all(client, namespace, found, &mut progress).await {
            Ok(are_gone) => are_gone,
            Err(error) => {
                progress.deletion_failures.push(error.chain());
                false
            }
        };
        if !are_gone {
            left.resources.push(found.clone());
        }
    }
    progress.awaits_pods = are_pods && !progress.remaining.is_empty();
    (progress, left)
}

/// Returns the namespaced resources with deletable objects, each in one version.
fn deletable(discovery: &Discovery) -> impl Iterator<Item = &DiscoveredResource> {
    let namespaced = |found: &&DiscoveredResource| found.resource.scope == Scope::Namespaced;
    // A resource without `list` cannot be checked, so it does not block the deletion.
    discovery
        .preferred_resources()
        .filter(namespaced)
        .filter(|found| found.supports("delete") && found.supports("list"))
}

fn is_pods(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.plural == "pods"
}

fn discovery_failure(discovery: &Discovery) -> Option<String> {
    if discovery.failed.is_empty() {
        return None;
    }
    let mut failed: Vec<_> = discovery
        .failed
        .iter()
        .map(|failed| match &failed.error {
            Some(error) => format!("{}: {}", failed.group_version, error.chain()),
            None => format!("{0}: stale GroupVersion discovery: {0}", failed.group_version),
        })
        .collect();
    failed.sort_unstable();
    Some(format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        failed.len(),
        failed.join(", ")
    ))
}

/// Deletes all objects of a resource. Returns `true` if none is left.
async fn delete_all(
    client: &Client,
    namespace: &str,
    found: &DiscoveredResource,
    progress: &mut Progress,
) -> Result<bool, Error> {
    let objects = client.metadata(&found.resource);
    let list = || async {
        match objects.list().within(namespace).await {
            Ok(list) => Ok(list.items),
            // A resource that was removed since its discovery has no objects.
            Err(error) if error.is_not_found() || is_unsupported(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    };
    let present = list().await?;
    if present.is_empty() {
        return Ok(true);
    }
    let at_once = if found.supports("deletecollection") {
        let deleted = objects.delete_collection().within(namespace).propagation(Propagation::Background).await;
        match deleted {
            Ok(()) => true,
            Err(error) if error.is_not_found() => true,
            Err(error) if is_unsupported(&error) => false,
            Err(error) => return Err(error),
        }
    } else {
        false
    };
    if !at_once {
        for object in &present {
            delete_one(client, &found.resource, object).await?;
        }
    }
    let left = list().await?;
    progress.count(&found.resource.group_resource(), left.iter().map(ObjectExt::finalizers));
    Ok(left.is_empty())
}

async fn delete_one(client: &Client, resource: &ApiResource, object: &PartialObject) -> Result<(), Error> {
    if object.is_deleting() {
        return Ok(());
    }
    let deletion = client.metadata(resource).delete(object.object_ref()).uid(object.uid().unwrap_or_default());
    match deletion.propagation(Propagation::Background).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_unsupported(error: &Error) -> bool {
    error.status().is_some_and(|status| status.code == 405)
}
