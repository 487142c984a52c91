//! What a server serves: groups, versions, resources.
//!
//! Asked in the aggregated form, two requests for everything; of servers that do not know it, one request per group and
//! version. Groups that cannot be asked (an aggregated API server that is down) are told apart, not fatal: a garbage
//! collector has to go on with the rest.

mod aggregated;
mod legacy;

use serde::{Deserialize, Deserializer};
use windlass_api::{ApiResource, GroupVersion};

use crate::{Client, Error, Result};

/// What a server served when it was asked.
#[derive(Debug, Default)]
pub struct Discovery {
    /// In the order of the server, the core group first.
    pub groups: Vec<DiscoveredGroup>,
    /// The groups and versions that could not be asked.
    pub failed: Vec<FailedVersion>,
}

/// A group and its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredGroup {
    /// Empty for the core group.
    pub name: String,
    /// The preferred one first.
    pub versions: Vec<DiscoveredVersion>,
}

/// A version of a group and its resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredVersion {
    /// `v1`
    pub version: String,
    /// In the order of the server.
    pub resources: Vec<DiscoveredResource>,
}

/// A resource and what can be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredResource {
    /// How to address it.
    pub resource: ApiResource,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: Vec<String>,
    /// `deployment`
    pub singular: String,
    /// `deploy`
    pub short_names: Vec<String>,
    /// `all`
    pub categories: Vec<String>,
    /// `status`, `scale`
    pub subresources: Vec<DiscoveredSubresource>,
}

/// A part of the objects of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredSubresource {
    /// `status`
    pub name: String,
    /// What it shows; often the kind of the resource.
    pub kind: String,
    /// What can be done with it.
    pub verbs: Vec<String>,
}

/// A group and version that could not be asked.
#[derive(Debug)]
pub struct FailedVersion {
    /// Which one.
    pub group_version: GroupVersion,
    /// Why not; `None` when the server itself says that what it knows is stale.
    pub error: Option<Error>,
}

impl Client {
    /// Asks the server what it serves. Fails when the core group, or the list of groups, cannot be had.
    pub async fn discovery(&self) -> Result<Discovery> {
        let (core, groups) = futures::try_join!(aggregated::ask(self, "/api"), aggregated::ask(self, "/apis"))?;
        let mut discovery = Discovery::default();
        match core {
            aggregated::Answer::Aggregated(part) => discovery.extend(part),
            aggregated::Answer::Legacy(body) => discovery.extend(legacy::core(self, &body).await?),
        }
        match groups {
            aggregated::Answer::Aggregated(part) => discovery.extend(part),
            aggregated::Answer::Legacy(body) => discovery.extend(legacy::groups(self, &body).await?),
        }
        Ok(discovery)
    }
}

impl Discovery {
    /// Every resource in every version.
    pub fn resources(&self) -> impl Iterator<Item = &DiscoveredResource> {
        self.groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources)
    }

    /// Every resource in one version: the preferred one of its group, or the next that has it.
    pub fn preferred_resources(&self) -> impl Iterator<Item = &DiscoveredResource> {
        self.groups.iter().flat_map(|group| {
            group.versions.iter().enumerate().flat_map(move |(index, version)| {
                let earlier = &group.versions[..index];
                version
                    .resources
                    .iter()
                    .filter(move |resource| !earlier.iter().any(|version| version.has(&resource.resource.plural)))
            })
        })
    }

    /// The resource of a kind.
    #[must_use]
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&DiscoveredResource> {
        self.resources().find(|found| {
            let resource = &found.resource;
            resource.group == group && resource.version == version && resource.kind == kind
        })
    }

    fn extend(&mut self, other: Self) {
        self.groups.extend(other.groups);
        self.failed.extend(other.failed);
    }
}

impl DiscoveredVersion {
    fn has(&self, plural: &str) -> bool {
        self.resources.iter().any(|resource| resource.resource.plural == plural)
    }
}

impl DiscoveredResource {
    /// Whether it can be done, `list`.
    #[must_use]
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// `null` is an empty list, as Go writes one that was never filled.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
