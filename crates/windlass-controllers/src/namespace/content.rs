//! Deleting all that is in a namespace.

use windlass_api::{ApiResource, ObjectExt, PartialObject, Propagation, Scope};
use windlass_client::{Client, DiscoveredResource, Discovery, Error};

use super::conditions::Progress;

/// Deletes the content of a namespace, as far as that goes at once, and tells what is left.
///
/// Pods go first, and nothing else before they are gone: what they need is to outlive them.
pub(crate) async fn delete(client: &Client, namespace: &str) -> Progress {
    let mut progress = Progress::default();
    let discovery = match client.discovery().await {
        Ok(discovery) => discovery,
        Err(error) => {
            progress.discovery_failure = Some(error.chain());
            return progress;
        }
    };
    progress.discovery_failure = discovery_failure(&discovery);

    let (pods, others): (Vec<_>, Vec<_>) = deletable(&discovery).partition(|found| is_pods(&found.resource));
    for (stage, is_of_pods) in [(pods, true), (others, false)] {
        for found in stage {
            if let Err(error) = delete_all(client, namespace, found, &mut progress).await {
                progress.deletion_failures.push(error.chain());
            }
        }
        progress.awaits_pods = is_of_pods && !progress.remaining.is_empty();
        if !(progress.remaining.is_empty() && progress.deletion_failures.is_empty()) {
            break;
        }
    }
    progress
}

/// The namespaced resources whose objects can be deleted, each in one version.
fn deletable(discovery: &Discovery) -> impl Iterator<Item = &DiscoveredResource> {
    let namespaced = |found: &&DiscoveredResource| found.resource.scope == Scope::Namespaced;
    // What cannot be listed cannot be found, and so cannot hold the namespace back.
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

async fn delete_all(
    client: &Client,
    namespace: &str,
    found: &DiscoveredResource,
    progress: &mut Progress,
) -> Result<(), Error> {
    let objects = client.metadata(&found.resource);
    let list = || async {
        match objects.list().within(namespace).await {
            Ok(list) => Ok(list.items),
            // A resource that has gone since it was discovered has no objects.
            Err(error) if error.is_not_found() || is_unsupported(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    };
    let present = list().await?;
    if present.is_empty() {
        return Ok(());
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
    Ok(())
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
