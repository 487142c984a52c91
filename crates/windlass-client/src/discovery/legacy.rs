//! Legacy discovery: a list of groups, then one `APIResourceList` for each group and version.

pub(super) mod documents;

use bytes::Bytes;
use futures::stream::{StreamExt, iter};
use http::Request;
use serde::{Deserialize, de::DeserializeOwned};
use windlass_api::{GroupVersion, ListWatchError};

use documents::{GroupList, ResourceList};

use super::{DiscoveredVersion, Discovery, list};
use crate::{Client, Error, Result, body::Body, operation::Operation};

/// The maximum number of concurrent requests.
const CONCURRENCY: usize = 8;

/// Decodes `APIVersions` and requests the resources of each version of the core group.
pub(super) async fn core(client: &Client, body: &Bytes) -> Result<Discovery> {
    #[derive(Deserialize)]
    struct Versions {
        #[serde(default, deserialize_with = "list")]
        versions: Vec<String>,
    }
    let Versions { versions } = read("/api", body)?;
    let wanted = versions.into_iter().map(|version| GroupVersion::new("", version)).collect();
    let mut discovery = ask_all(client, wanted).await;
    // Discovery without the core group is useless.
    match discovery.failed.pop().and_then(|failed| failed.error) {
        Some(error) => Err(error),
        None => Ok(discovery),
    }
}

/// Decodes `APIGroupList` and requests the resources of each version of each group.
pub(super) async fn groups(client: &Client, body: &Bytes) -> Result<Discovery> {
    let groups: GroupList = read("/apis", body)?;
    let wanted = groups.into_group_versions();
    Ok(ask_all(client, wanted).await)
}

pub(super) async fn ask_all(client: &Client, wanted: Vec<GroupVersion>) -> Discovery {
    let mut answers = iter(wanted)
        .map(|group_version| async move {
            let answer = ask(client, &group_version).await;
            (group_version, answer)
        })
        .buffered(CONCURRENCY);
    let mut discovery = Discovery::default();
    while let Some((group_version, answer)) = answers.next().await {
        discovery.add(group_version, answer);
    }
    discovery
}

pub(super) async fn ask(client: &Client, group_version: &GroupVersion) -> Result<DiscoveredVersion> {
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
