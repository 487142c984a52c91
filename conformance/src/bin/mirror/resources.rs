//! The resources to watch, and their versions.

use std::{collections::BTreeSet, error::Error as _};

use futures::TryStreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use windlass_api::{ApiResource, GroupResource, GroupVersion, ListItem, ListOptions, ListWatch as _, ListWatchError};

use crate::{Result, Server};

/// Returns the built-in resources that can be watched, in their preferred versions. Returns an error if the servers
/// serve different ones.
pub(crate) async fn built_in(servers: &[Server; 2]) -> Result<Vec<ApiResource>> {
    let [first, second] = servers;
    let (resources, others) = futures::try_join!(watchable(first), watchable(second))?;
    let is_in = |all: &[ApiResource], resource: &ApiResource| all.iter().any(|other| other.gvr() == resource.gvr());
    for (server, own, others) in [(first, &resources, &others), (second, &others, &resources)] {
        if let Some(alone) = own.iter().find(|resource| !is_in(others, resource)) {
            return Err(format!("only {} prefers {}", server.name, alone.gvr()).into());
        }
    }
    if resources.is_empty() {
        return Err(format!("{} serves no resource that can be watched", first.name).into());
    }
    Ok(resources)
}

async fn watchable(server: &Server) -> Result<Vec<ApiResource>> {
    let custom = custom_resources(server).await?;
    let discovery = server.client.discovery().await?;
    for failed in &discovery.failed {
        println!("{}: {} is unavailable and is not compared", server.name, failed.group_version);
    }
    let built_in = discovery.preferred_resources().filter(|found| found.supports("watch"));
    let resources = built_in.map(|found| found.resource.clone());
    Ok(resources.filter(|resource| !custom.contains(&resource.group_resource().to_string())).collect())
}

/// Returns the names of the custom resources.
async fn custom_resources(server: &Server) -> Result<BTreeSet<String>> {
    let definitions = server.client.list::<CustomResourceDefinition>().await?;
    let named = definitions.items.into_iter().map(|definition| {
        let spec = definition.spec;
        GroupResource::new(spec.group, spec.names.plural).to_string()
    });
    Ok(named.collect())
}

/// Returns the version of a list of the current objects.
pub(crate) async fn version_of(server: &Server, resource: &ApiResource) -> Result<u64> {
    let failed = |error: ListWatchError| {
        format!("cannot list {} of {}: {}", resource.group_resource(), server.name, with_source(&error))
    };
    let list = server.client.list_watch(resource, None);
    let mut items = list.list(ListOptions::default()).await.map_err(failed)?;
    let mut end = None;
    while let Some(item) = items.try_next().await.map_err(failed)? {
        if let ListItem::End(metadata) = item {
            end = metadata.resource_version.as_u64();
        }
    }
    end.ok_or_else(|| {
        format!("cannot list {} of {}: the list has no version", resource.group_resource(), server.name).into()
    })
}

/// Writes an Event. kube-apiserver has no cache of Events and sends no bookmarks in time, so this one marks the progress
/// of their watches.
pub(crate) async fn write_event(server: &Server) -> Result {
    let involved = json!({"kind": "Namespace", "name": "default", "namespace": "default"});
    let event = json!({"metadata": {"generateName": "mirror-"}, "involvedObject": involved, "reason": "Compared"});
    let core = server.client.rest(GroupVersion::new("", "v1"));
    core.post().namespace("default").resource("events").json(&event).send().await?;
    Ok(())
}

/// Returns the message of an error with that of its source.
pub(crate) fn with_source(error: &ListWatchError) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
