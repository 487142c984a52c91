//! Discovery of the groups, versions and resources that a server serves.
//!
//! Uses aggregated discovery, which takes two requests. For servers without it, sends one request per group and
//! version.
//!
//! If the discovery of a group fails, for example because its aggregated API server is unreachable, the group is
//! reported separately. The failure is not fatal: programs such as a garbage collector must continue with the other
//! groups.

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

/// The groups, versions and resources that a server served at one point in time.
#[derive(Debug, Default)]
pub struct Discovery {
    /// The groups in the order of the server, the core group first.
    pub groups: Vec<DiscoveredGroup>,
    /// The groups and versions whose discovery failed.
    pub failed: Vec<FailedVersion>,
}

/// A group and its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredGroup {
    /// The name of the group; empty for the core group.
    pub name: String,
    /// The versions, the preferred one first.
    pub versions: Vec<DiscoveredVersion>,
}

/// A version of a group and its resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredVersion {
    /// The version, such as `v1`.
    pub version: String,
    /// The resources in the order of the server.
    pub resources: Vec<DiscoveredResource>,
}

/// A resource with its verbs and names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredResource {
    /// The resource's group, version, kind, plural name and scope.
    pub resource: ApiResource,
    /// The supported verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: Vec<String>,
    /// The singular name, such as `deployment`.
    pub singular: String,
    /// The short names, such as `deploy`.
    pub short_names: Vec<String>,
    /// The categories, such as `all`.
    pub categories: Vec<String>,
    /// The subresources, such as `status` and `scale`.
    pub subresources: Vec<DiscoveredSubresource>,
}

/// A subresource of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredSubresource {
    /// The name, such as `status`.
    pub name: String,
    /// The kind of the subresource; often that of the resource itself.
    pub kind: GroupVersionKind,
    /// The supported verbs.
    pub verbs: Vec<String>,
}

/// A group and version whose discovery failed.
#[derive(Debug)]
pub struct FailedVersion {
    /// The group and version.
    pub group_version: GroupVersion,
    /// The cause. `None` if the server itself reports its information as stale.
    pub error: Option<Error>,
}

/// Determines whether discovery includes resources that only other API servers of the cluster serve. During an upgrade,
/// API servers of two versions run side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peers {
    /// The resources of all API servers.
    #[default]
    Included,
    /// The resources of the contacted API server only. Older servers ignore this option and return those of all.
    Excluded,
}

impl Client {
    /// Discovers the resources that the server serves. Returns an error if the discovery of the core group or of the
    /// group list fails.
    pub async fn discovery(&self) -> Result<Discovery> {
        self.discovery_of(Peers::Included).await
    }

    /// Discovers the resources that the server serves, with or without its peers.
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

    /// Reports whether the server serves a resource. Sends one small request, in contrast to [`Self::discovery`], which
    /// discovers everything.
    pub async fn is_enabled(&self, resource: &GroupVersionResource) -> Result<bool> {
        match legacy::ask(&self.for_discovery(), &resource.group_version()).await {
            Ok(version) => Ok(version.has(&resource.resource)),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Discovery {
    /// Returns every resource in every version.
    pub fn resources(&self) -> impl Iterator<Item = &DiscoveredResource> {
        self.groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources)
    }

    /// Returns every resource in one version: the preferred version of its group, or else the next one that has it.
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

    /// Returns the [preferred resources](Self::preferred_resources) that are namespaced.
    pub fn preferred_namespaced_resources(&self) -> impl Iterator<Item = &DiscoveredResource> {
        self.preferred_resources().filter(|resource| resource.is_namespaced())
    }

    /// Returns every group and version.
    pub fn group_versions(&self) -> impl Iterator<Item = GroupVersion> {
        self.groups.iter().flat_map(|group| {
            group.versions.iter().map(|version| GroupVersion::new(group.name.clone(), version.version.clone()))
        })
    }

    /// Reports whether the server serves any resource of a group and version.
    #[must_use]
    pub fn supports(&self, group_version: &GroupVersion) -> bool {
        self.group_versions().any(|known| known == *group_version)
    }

    /// Reports whether the server serves a resource.
    #[must_use]
    pub fn is_enabled(&self, resource: &GroupVersionResource) -> bool {
        self.resources().any(|found| found.resource.gvr() == *resource)
    }

    /// Retains only the resources for which `keep` returns `true`. Versions and groups without resources are removed.
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

    /// Returns the resource of a kind.
    #[must_use]
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&DiscoveredResource> {
        self.resources().find(|found| {
            let resource = &found.resource;
            resource.group == group && resource.version == version && resource.kind == kind
        })
    }

    /// Adds the result for a group and version. Versions of one group are added consecutively.
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
    /// Reports whether the resource supports a verb, such as `list`.
    #[must_use]
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Returns the singular name. Defaults to the kind in lower case if the server sends none.
    #[must_use]
    pub fn singular(&self) -> Cow<'_, str> {
        if self.singular.is_empty() { self.resource.kind.to_lowercase().into() } else { self.singular.as_str().into() }
    }

    /// Reports whether the resource is namespaced.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.resource.scope == Scope::Namespaced
    }
}

/// Decodes a list. Go encodes a nil slice as `null`, which decodes as an empty list.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
