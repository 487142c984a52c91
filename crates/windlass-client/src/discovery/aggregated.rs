//! Aggregated discovery: `APIGroupDiscoveryList`, v2 and v2beta1.

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use serde::Deserialize;
use windlass_api::{ApiResource, GroupVersion, GroupVersionKind, ListWatchError};

use super::{
    DiscoveredGroup, DiscoveredResource, DiscoveredSubresource, DiscoveredVersion, Discovery, FailedVersion, Peers,
    list,
};
use crate::{Client, Error, Result, body::Body, operation::Operation, response};

const ACCEPT: HeaderValue = HeaderValue::from_static(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
     application/json",
);
const ACCEPT_WITHOUT_PEERS: HeaderValue = HeaderValue::from_static(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,\
     application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
     application/json",
);
const KIND: &str = "APIGroupDiscoveryList";

/// The response to a request for aggregated discovery.
pub(super) enum Answer {
    Aggregated(Discovery),
    /// The server does not support it; the body is in the legacy format.
    Legacy(Bytes),
}

pub(super) async fn ask(client: &Client, path: &'static str, peers: Peers) -> Result<Answer> {
    let operation = Operation::request(path);
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = path.parse().expect("a constant path");
    request.headers_mut().insert(
        header::ACCEPT,
        match peers {
            Peers::Included => ACCEPT,
            Peers::Excluded => ACCEPT_WITHOUT_PEERS,
        },
    );
    let answer = async {
        let response = client.execute(request, &operation).await?;
        let body = response::collect(response.into_body(), client.response_limit()).await?;
        read(body)
    };
    let outcome: Result<Answer, ListWatchError> = answer.await;
    outcome.map_err(|error| Error::new(operation, error))
}

fn read(body: Bytes) -> Result<Answer, ListWatchError> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: String,
    }
    let decode = |error: serde_json::Error| ListWatchError::Decode(error.into());
    let Kind { kind } = serde_json::from_slice(&body).map_err(decode)?;
    if kind != KIND {
        return Ok(Answer::Legacy(body));
    }
    let list: GroupList = serde_json::from_slice(&body).map_err(decode)?;
    let mut discovery = Discovery::default();
    for group in list.items {
        group.add_to(&mut discovery);
    }
    Ok(Answer::Aggregated(discovery))
}

#[derive(Deserialize)]
struct GroupList {
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Name,
    #[serde(default, deserialize_with = "list")]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct Name {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
#[allow(clippy::struct_field_names, reason = "the names of the API")]
struct Version {
    version: String,
    #[serde(default, deserialize_with = "list")]
    resources: Vec<Resource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names of the API")]
struct Resource {
    resource: String,
    #[serde(default)]
    response_kind: Option<Kind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default, deserialize_with = "list")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "list")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "list")]
    categories: Vec<String>,
    #[serde(default, deserialize_with = "list")]
    subresources: Vec<Subresource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names of the API")]
struct Subresource {
    subresource: String,
    #[serde(default)]
    response_kind: Option<Kind>,
    #[serde(default, deserialize_with = "list")]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
}

impl Group {
    fn add_to(self, discovery: &mut Discovery) {
        let group = self.metadata.name;
        let mut versions = Vec::with_capacity(self.versions.len());
        for Version { version, resources, freshness } in self.versions {
            if freshness == "Stale" {
                let group_version = GroupVersion::new(group.clone(), version.clone());
                discovery.failed.push(FailedVersion { group_version, error: None });
            }
            let resources = resources.into_iter().filter_map(|resource| resource.of(&group, &version)).collect();
            versions.push(DiscoveredVersion { version, resources });
        }
        discovery.groups.push(DiscoveredGroup { name: group, versions });
    }
}

impl Kind {
    /// Returns the kind, with the group and version of the resource if it has none of its own.
    fn within(self, group: &str, version: &str) -> GroupVersionKind {
        if self.version.is_empty() {
            GroupVersionKind::new(group.to_owned(), version.to_owned(), self.kind)
        } else {
            GroupVersionKind::new(self.group, self.version, self.kind)
        }
    }
}

impl Resource {
    /// Converts a resource. Returns `None` if it has only subresources.
    fn of(self, group: &str, version: &str) -> Option<DiscoveredResource> {
        let kind = self.response_kind.map(|kind| kind.kind).filter(|kind| !kind.is_empty())?;
        let gvk = GroupVersionKind::new(group.to_owned(), version.to_owned(), kind);
        let resource = ApiResource::namespaced(gvk, self.resource);
        let subresources = self.subresources.into_iter().map(|part| DiscoveredSubresource {
            name: part.subresource,
            kind: part.response_kind.map_or_else(GroupVersionKind::default, |kind| kind.within(group, version)),
            verbs: part.verbs,
        });
        Some(DiscoveredResource {
            resource: if self.scope == "Namespaced" { resource } else { resource.cluster_scoped() },
            verbs: self.verbs,
            singular: self.singular_resource,
            short_names: self.short_names,
            categories: self.categories,
            subresources: subresources.collect(),
        })
    }
}
