//! What a server serves: groups, versions, resources.
//!
//! Asked in the aggregated form, two requests for everything; of servers that do not know it, one request per group and
//! version. Groups that cannot be asked (an aggregated API server that is down) are told apart, not fatal: a garbage
//! collector has to go on with the rest.

mod aggregated;
mod cached;
mod disk;
mod legacy;
mod version;

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use windlass_api::{ApiResource, GroupVersion, GroupVersionKind, GroupVersionResource, Scope};

pub use cached::CachedDiscovery;
pub use disk::cache_folder;
pub use version::ServerVersion;

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
    pub kind: GroupVersionKind,
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

/// Whether an API server tells of what only its peers serve: during an upgrade, servers of two versions stand side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peers {
    /// What any of them serves.
    #[default]
    Included,
    /// What the one that is asked serves itself. Older servers do not know the question, and answer the other.
    Excluded,
}

impl Client {
    /// Asks the server what it serves. Fails when the core group, or the list of groups, cannot be had.
    pub async fn discovery(&self) -> Result<Discovery> {
        self.discovery_of(Peers::Included).await
    }

    /// Asks the server what it serves, with or without its peers.
    pub async fn discovery_of(&self, peers: Peers) -> Result<Discovery> {
        let client = &self.for_discovery();
        let (core, groups) =
            futures::try_join!(aggregated::ask(client, "/api", peers), aggregated::ask(client, "/apis", peers))?;
        let mut discovery = Discovery::default();
        match core {
            aggregated::Answer::Aggregated(part) => discovery.extend(part),
            aggregated::Answer::Legacy(body) => discovery.extend(legacy::core(client, &body).await?),
        }
        match groups {
            aggregated::Answer::Aggregated(part) => discovery.extend(part),
            aggregated::Answer::Legacy(body) => discovery.extend(legacy::groups(client, &body).await?),
        }
        Ok(discovery)
    }

    /// Whether the server serves a resource. Takes one small request, where [`Self::discovery`] asks for everything.
    pub async fn is_enabled(&self, resource: &GroupVersionResource) -> Result<bool> {
        match legacy::ask(&self.for_discovery(), &resource.group_version()).await {
            Ok(version) => Ok(version.has(&resource.resource)),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
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

    /// Those of the [preferred resources](Self::preferred_resources) whose objects live in namespaces.
    pub fn preferred_namespaced_resources(&self) -> impl Iterator<Item = &DiscoveredResource> {
        self.preferred_resources().filter(|resource| resource.is_namespaced())
    }

    /// Every group and version.
    pub fn group_versions(&self) -> impl Iterator<Item = GroupVersion> {
        self.groups.iter().flat_map(|group| {
            group.versions.iter().map(|version| GroupVersion::new(group.name.clone(), version.version.clone()))
        })
    }

    /// Whether the server serves anything of a group and version.
    #[must_use]
    pub fn supports(&self, group_version: &GroupVersion) -> bool {
        self.group_versions().any(|known| known == *group_version)
    }

    /// Whether the server serves a resource.
    #[must_use]
    pub fn is_enabled(&self, resource: &GroupVersionResource) -> bool {
        self.resources().any(|found| found.resource.gvr() == *resource)
    }

    /// Only the resources for which `keep` holds; versions and groups that lose all theirs are left out.
    ///
    /// ```
    /// # use windlass_client::Discovery;
    /// # let discovery = Discovery::default();
    /// let to_watch = discovery.filtered_by(|resource| resource.supports("list") && resource.supports("watch"));
    /// ```
    #[must_use]
    pub fn filtered_by(mut self, keep: impl Fn(&DiscoveredResource) -> bool) -> Self {
        for version in self.groups.iter_mut().flat_map(|group| &mut group.versions) {
            version.resources.retain(&keep);
        }
        for group in &mut self.groups {
            group.versions.retain(|version| !version.resources.is_empty());
        }
        self.groups.retain(|group| !group.versions.is_empty());
        self
    }

    /// The resource of a kind.
    #[must_use]
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&DiscoveredResource> {
        self.resources().find(|found| {
            let resource = &found.resource;
            resource.group == group && resource.version == version && resource.kind == kind
        })
    }

    /// Adds what a group and version answered. Versions of one group come one after the other.
    fn add(&mut self, group_version: GroupVersion, answer: Result<DiscoveredVersion>) {
        let version = match answer {
            Ok(version) => version,
            Err(error) => {
                self.failed.push(FailedVersion { group_version, error: Some(error) });
                return;
            }
        };
        let name = group_version.group;
        if let Some(group) = self.groups.last_mut().filter(|group| group.name == name) {
            group.versions.push(version);
        } else {
            self.groups.push(DiscoveredGroup { name: name.into_owned(), versions: vec![version] });
        }
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

    /// The singular; where the server tells none, the kind in lower case.
    #[must_use]
    pub fn singular(&self) -> Cow<'_, str> {
        if self.singular.is_empty() { self.resource.kind.to_lowercase().into() } else { self.singular.as_str().into() }
    }

    /// Whether its objects live in namespaces.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.resource.scope == Scope::Namespaced
    }
}

/// `null` is an empty list, as Go writes one that was never filled.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
