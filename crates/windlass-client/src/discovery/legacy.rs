//! The older form: a list of groups, then one `APIResourceList` for each group and version.

use bytes::Bytes;
use futures::stream::{StreamExt, iter};
use http::Request;
use serde::{Deserialize, de::DeserializeOwned};
use windlass_api::{ApiResource, GroupVersion, GroupVersionKind, ListWatchError};

use super::{
    DiscoveredGroup, DiscoveredResource, DiscoveredSubresource, DiscoveredVersion, Discovery, FailedVersion, list,
};
use crate::{Client, Error, Result, error::Operation, transport::Body};

/// How many versions are asked for at once.
const CONCURRENCY: usize = 8;

/// Reads `APIVersions`, and asks for the resources of each version of the core group.
pub(super) async fn core(client: &Client, body: &Bytes) -> Result<Discovery> {
    #[derive(Deserialize)]
    struct Versions {
        #[serde(default, deserialize_with = "list")]
        versions: Vec<String>,
    }
    let Versions { versions } = read("/api", body)?;
    let wanted = versions.into_iter().map(|version| GroupVersion::new("", version)).collect();
    let mut discovery = ask_all(client, wanted).await;
    // Without the core group nothing works: no point in going on.
    match discovery.failed.pop().and_then(|failed| failed.error) {
        Some(error) => Err(error),
        None => Ok(discovery),
    }
}

/// Reads `APIGroupList`, and asks for the resources of each version of each group.
pub(super) async fn groups(client: &Client, body: &Bytes) -> Result<Discovery> {
    #[derive(Deserialize)]
    struct Groups {
        #[serde(default, deserialize_with = "list")]
        groups: Vec<Group>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Group {
        name: String,
        #[serde(default, deserialize_with = "list")]
        versions: Vec<Version>,
        #[serde(default)]
        preferred_version: Option<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    let Groups { groups } = read("/apis", body)?;
    let mut wanted = Vec::new();
    for group in groups {
        let preferred = group.preferred_version.map(|preferred| preferred.version);
        let mut versions: Vec<String> = group.versions.into_iter().map(|version| version.version).collect();
        // Stable: the others keep the order of the server.
        versions.sort_by_key(|version| Some(version) != preferred.as_ref());
        wanted.extend(versions.into_iter().map(|version| GroupVersion::new(group.name.clone(), version)));
    }
    Ok(ask_all(client, wanted).await)
}

async fn ask_all(client: &Client, wanted: Vec<GroupVersion>) -> Discovery {
    let mut answers = iter(wanted)
        .map(|group_version| async move {
            let answer = ask(client, &group_version).await;
            (group_version, answer)
        })
        .buffered(CONCURRENCY);
    let mut discovery = Discovery::default();
    while let Some((group_version, answer)) = answers.next().await {
        let version = match answer {
            Ok(version) => version,
            Err(error) => {
                discovery.failed.push(FailedVersion { group_version, error: Some(error) });
                continue;
            }
        };
        let name = group_version.group;
        if let Some(group) = discovery.groups.last_mut().filter(|group| group.name == name) {
            group.versions.push(version);
        } else {
            discovery.groups.push(DiscoveredGroup { name: name.into_owned(), versions: vec![version] });
        }
    }
    discovery
}

async fn ask(client: &Client, group_version: &GroupVersion) -> Result<DiscoveredVersion> {
    let root = if group_version.group.is_empty() { "/api" } else { "/apis" };
    let path = format!("{root}/{group_version}");
    let request = Request::get(&path)
        .body(Body::empty())
        .map_err(|error| Error::new(Operation::request(&path), ListWatchError::Decode(error.into())))?;
    let list: ResourceList = client.request_json(request).await?;
    Ok(list.into_version(group_version))
}

fn read<T: DeserializeOwned>(path: &str, body: &Bytes) -> Result<T> {
    serde_json::from_slice(body)
        .map_err(|error| Error::new(Operation::request(path), ListWatchError::Decode(error.into())))
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default, deserialize_with = "list")]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    /// `pods`, or `pods/status`.
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    kind: String,
    #[serde(default, deserialize_with = "list")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "list")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "list")]
    categories: Vec<String>,
}

impl ResourceList {
    fn into_version(self, group_version: &GroupVersion) -> DiscoveredVersion {
        let (parts, wholes): (Vec<_>, Vec<_>) =
            self.resources.into_iter().partition(|resource| resource.name.contains('/'));
        let mut resources: Vec<DiscoveredResource> = Vec::with_capacity(wholes.len());
        for whole in wholes {
            let GroupVersion { group, version } = group_version.clone();
            let resource = ApiResource::namespaced(GroupVersionKind::new(group, version, whole.kind), whole.name);
            resources.push(DiscoveredResource {
                resource: if whole.namespaced { resource } else { resource.cluster_scoped() },
                verbs: whole.verbs,
                singular: whole.singular_name,
                short_names: whole.short_names,
                categories: whole.categories,
                subresources: Vec::new(),
            });
        }
        for part in parts {
            let Some((plural, name)) = part.name.split_once('/') else { continue };
            if let Some(whole) = resources.iter_mut().find(|whole| whole.resource.plural == plural) {
                let name = name.to_owned();
                whole.subresources.push(DiscoveredSubresource { name, kind: part.kind, verbs: part.verbs });
            }
        }
        DiscoveredVersion { version: group_version.version.clone().into_owned(), resources }
    }
}
