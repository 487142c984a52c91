//! Mapping of the names that users and objects use to an [`ApiResource`](windlass_api::ApiResource): `deploy`,
//! `deployments.apps`, `Deployment` in `apps/v1`.
//!
//! A [`RestMapper`] is a value created from one discovery result. A [`DeferredRestMapper`] runs discovery on first use,
//! and again when a name is not found.
//!
//! # Ambiguous names
//! A partial name may match several resources, in several versions or groups. They are ordered by preference: the core
//! group first, then the groups in the order of the server, each with its preferred version first. The first matching
//! group and version wins. A name that still matches several resources is an [`Ambiguous`](MappingError::Ambiguous)
//! error.

mod deferred;

use std::fmt;

use thiserror::Error;
use windlass_api::{ApiResource, GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};

use crate::{DiscoveredResource, Discovery};

pub use deferred::DeferredRestMapper;

/// Maps names of resources and kinds to resources.
///
/// The parts of a [`GroupVersionResource`] argument may be empty: an empty group matches any group, an empty version
/// any version. If no resource has the group, it is treated as a prefix: `storage` matches `storage.k8s.io`. The
/// resource may be the plural, singular or short name, in upper or lower case.
#[derive(Clone, Debug, Default)]
pub struct RestMapper {
    /// The resources in order of preference, grouped by group and version.
    resources: Vec<DiscoveredResource>,
}

/// The error of a name that cannot be mapped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MappingError {
    /// No resource has this name.
    #[error("no resource matches {}", Partial(.0))]
    NoResource(GroupVersionResource),
    /// No resource has this kind.
    #[error("no resource is of kind {kind}{}", within(versions))]
    NoKind {
        /// The kind.
        kind: GroupKind,
        /// The requested versions; empty for any version.
        versions: Vec<String>,
    },
    /// The name matches several resources of equal preference.
    #[error("{} may be any of {}", Partial(partial), list(matching))]
    Ambiguous {
        /// The name.
        partial: GroupVersionResource,
        /// The matching resources.
        matching: Vec<GroupVersionResource>,
    },
    /// The resource does not have this subresource.
    #[error("{resource} has no {subresource}")]
    NoSubresource {
        /// The resource.
        resource: GroupResource,
        /// The subresource.
        subresource: &'static str,
    },
    /// Discovery failed.
    #[error(transparent)]
    Discovery(#[from] crate::Error),
}

type Result<T> = std::result::Result<T, MappingError>;

impl RestMapper {
    /// Creates a mapper from a discovery result.
    #[must_use]
    pub fn new(discovery: &Discovery) -> Self {
        Self { resources: discovery.resources().cloned().collect() }
    }

    /// Creates a mapper from statically known resources. Their singular name is the kind in lower case.
    pub fn from_resources(resources: impl IntoIterator<Item = ApiResource>) -> Self {
        let discovered = |resource: ApiResource| DiscoveredResource {
            singular: resource.kind.to_lowercase(),
            resource,
            verbs: Vec::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: Vec::new(),
        };
        Self { resources: resources.into_iter().map(discovered).collect() }
    }

    /// Adds the resources of `other`. If both contain a name, this mapper's resource is preferred.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        for resource in other.resources {
            if !self.resources.iter().any(|known| known.resource == resource.resource) {
                self.resources.push(resource);
            }
        }
        self
    }

    /// Prefers a group and version over all others. If called several times, the last one is most preferred.
    #[must_use]
    pub fn prefer(mut self, group_version: &GroupVersion) -> Self {
        // The sort is stable, so the others keep their order.
        self.resources.sort_by_key(|known| known.resource.gvk().group_version() != *group_version);
        self
    }

    /// Returns all resources that match the name, in order of preference.
    pub fn resources_for(&self, partial: &GroupVersionResource) -> Result<Vec<&DiscoveredResource>> {
        let named = |name: fn(&DiscoveredResource, &str) -> bool| {
            let wanted = partial.resource.to_lowercase();
            let found: Vec<_> = self
                .resources
                .iter()
                .filter(|known| partial.version.is_empty() || partial.version == known.resource.version)
                .filter(|known| name(known, &wanted))
                .collect();
            in_group(found, &partial.group)
        };
        let mut found = named(|known, name| known.resource.plural == name || known.singular() == name);
        if found.is_empty() {
            found = named(|known, name| known.short_names.iter().any(|short| short == name));
        }
        if found.is_empty() { Err(MappingError::NoResource(partial.clone())) } else { Ok(found) }
    }

    /// Returns the resource that matches the name.
    pub fn resource_for(&self, partial: &GroupVersionResource) -> Result<&DiscoveredResource> {
        let found = self.resources_for(partial)?;
        let first = found[0];
        let in_version =
            |known: &&&DiscoveredResource| known.resource.gvk().group_version() == first.resource.gvk().group_version();
        if found.iter().filter(in_version).count() == 1 {
            return Ok(first);
        }
        let matching = found.iter().map(|known| known.resource.gvr()).collect();
        Err(MappingError::Ambiguous { partial: partial.clone(), matching })
    }

    /// Returns the kinds of all resources that match the name, in order of preference.
    pub fn kinds_for(&self, partial: &GroupVersionResource) -> Result<Vec<GroupVersionKind>> {
        Ok(self.resources_for(partial)?.into_iter().map(|known| known.resource.gvk()).collect())
    }

    /// Returns the kind of the resource that matches the name.
    pub fn kind_for(&self, partial: &GroupVersionResource) -> Result<GroupVersionKind> {
        Ok(self.resource_for(partial)?.resource.gvk())
    }

    /// Returns all resources of a kind in order of preference, limited to `versions` unless that is empty.
    pub fn mappings(&self, kind: &GroupKind, versions: &[&str]) -> Result<Vec<&DiscoveredResource>> {
        let of_kind = |known: &&DiscoveredResource| {
            known.resource.group == kind.group
                && (known.resource.kind == kind.kind || known.resource.kind.to_lowercase() == kind.kind)
        };
        let mut found: Vec<_> = self.resources.iter().filter(of_kind).collect();
        if !versions.is_empty() {
            let place =
                |known: &DiscoveredResource| versions.iter().position(|version| *version == known.resource.version);
            found.retain(|known| place(known).is_some());
            found.sort_by_key(|known| place(known));
        }
        if found.is_empty() {
            let versions = versions.iter().map(|version| (*version).to_owned()).collect();
            return Err(MappingError::NoKind { kind: kind.clone(), versions });
        }
        Ok(found)
    }

    /// Returns the resource of a kind, in the first of `versions` that has it. With empty `versions`, returns the
    /// preferred version.
    pub fn mapping(&self, kind: &GroupKind, versions: &[&str]) -> Result<&DiscoveredResource> {
        Ok(self.mappings(kind, versions)?[0])
    }

    /// Returns the singular name of a resource: `pods` → `pod`.
    pub fn singular(&self, resource: &str) -> Result<String> {
        Ok(self.resource_for(&any(resource))?.singular().into_owned())
    }

    /// Returns the resources of a category such as `all`, each in its preferred version.
    #[must_use]
    pub fn category(&self, name: &str) -> Vec<&DiscoveredResource> {
        let mut found: Vec<&DiscoveredResource> = Vec::new();
        for known in &self.resources {
            let group_resource = known.resource.group_resource();
            if known.categories.iter().any(|category| category == name)
                && !found.iter().any(|other| other.resource.group_resource() == group_resource)
            {
                found.push(known);
            }
        }
        found
    }

    /// Resolves a name as kubectl accepts it: a resource, short name or kind, optionally with a group or with version
    /// and group. Examples are `deploy`, `deployments.apps`, `deployments.v1.apps`, `Deployment`.
    ///
    /// ```
    /// use windlass_api::{ApiResource, GroupVersionKind};
    /// use windlass_client::RestMapper;
    ///
    /// let deployments = ApiResource::namespaced(GroupVersionKind::new("apps", "v1", "Deployment"), "deployments");
    /// let mapper = RestMapper::from_resources([deployments.clone()]);
    /// assert_eq!(mapper.resolve("deployment.v1.apps").unwrap().resource, deployments);
    /// ```
    pub fn resolve(&self, text: &str) -> Result<&DiscoveredResource> {
        let own = |text: &str| text.to_owned();
        let (name, rest) = text.split_once('.').unwrap_or((text, ""));
        let unqualified = GroupVersionResource::new(own(rest), "", own(name));
        if let Some((version, group)) = rest.split_once('.')
            && let Ok(found) = self.resource_for(&GroupVersionResource::new(own(group), own(version), own(name)))
        {
            return Ok(found);
        }
        // `pods.v1.` selects the core group, whose name is empty.
        if let Some(version) = rest.strip_suffix('.')
            && let Ok(found) = self.resource_for(&GroupVersionResource::new("", own(version), own(name)))
        {
            return Ok(found);
        }
        self.resource_for(&unqualified).or_else(|error| self.kind_in(name, rest).ok_or(error))
    }

    fn kind_in(&self, kind: &str, rest: &str) -> Option<&DiscoveredResource> {
        let (version, group) = rest.split_once('.').unwrap_or(("", rest));
        let of_kind = |known: &&DiscoveredResource| known.resource.kind == kind;
        let qualified =
            |known: &&DiscoveredResource| known.resource.version == version && known.resource.group == group;
        let grouped = |known: &&DiscoveredResource| rest.is_empty() || known.resource.group == rest;
        let mut all = self.resources.iter().filter(of_kind);
        all.clone().find(qualified).or_else(|| all.find(grouped))
    }
}

/// Returns the resources of the group or, if there are none, those whose group has this prefix.
fn in_group<'r>(found: Vec<&'r DiscoveredResource>, group: &str) -> Vec<&'r DiscoveredResource> {
    if group.is_empty() {
        return found;
    }
    let exact: Vec<_> = found.iter().copied().filter(|known| known.resource.group == group).collect();
    if exact.is_empty() {
        found.into_iter().filter(|known| known.resource.group.starts_with(group)).collect()
    } else {
        exact
    }
}

/// Matches a resource in any group and version.
fn any(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "", resource.to_owned())
}

/// Guesses the plural name of a kind: `Policy` → `policies`. The result may be wrong; use discovery where a server is
/// available.
#[must_use]
pub fn guess_plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    if singular.is_empty() || singular.ends_with("endpoints") {
        singular
    } else if singular.ends_with('s') {
        singular + "es"
    } else if let Some(stem) = singular.strip_suffix('y') {
        format!("{stem}ies")
    } else {
        singular + "s"
    }
}

/// A partial name, displayed without its empty parts.
struct Partial<'n>(&'n GroupVersionResource);

impl fmt::Display for Partial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupVersionResource { group, version, resource } = self.0;
        let resource = GroupResource::new(group.clone(), resource.clone());
        write!(f, "\"{resource}\"")?;
        if version.is_empty() { Ok(()) } else { write!(f, " in version {version}") }
    }
}

fn list(resources: &[GroupVersionResource]) -> String {
    let names: Vec<String> = resources.iter().map(|known| Partial(known).to_string()).collect();
    names.join(", ")
}

fn within(versions: &[String]) -> String {
    if versions.is_empty() { String::new() } else { format!(" in version {}", versions.join(" or ")) }
}

#[cfg(test)]
mod tests;
