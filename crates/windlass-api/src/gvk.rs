//! The identity of kinds: group, version, kind, and the plural name used in URLs.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A group and a version: `apps/v1`, or `v1` for the core group, whose name is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersion {
    /// The group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The version: `v1`, `v1beta1`, …
    pub version: Cow<'static, str>,
}

/// A kind within a group, in any version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupKind {
    /// The group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The kind, such as `Deployment`.
    pub kind: Cow<'static, str>,
}

/// A resource (plural name) within a group, in any version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupResource {
    /// The group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The plural name, such as `deployments`.
    pub resource: Cow<'static, str>,
}

/// The kind of an object: its `apiVersion` and `kind`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionKind {
    /// The group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The version: `v1`, `v1beta1`, …
    pub version: Cow<'static, str>,
    /// The kind, such as `Deployment`.
    pub kind: Cow<'static, str>,
}

/// The resource of a URL: group, version and plural name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionResource {
    /// The group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The version: `v1`, `v1beta1`, …
    pub version: Cow<'static, str>,
    /// The plural name, such as `deployments`.
    pub resource: Cow<'static, str>,
}

/// The scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// Each object is in a namespace.
    Namespaced,
    /// Objects are not in namespaces.
    Cluster,
}

/// A kind with everything needed to address its objects, as known from a type, from discovery or from a RESTMapper.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ApiResource {
    /// The group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The version: `v1`, `v1beta1`, …
    pub version: Cow<'static, str>,
    /// The kind, such as `Deployment`.
    pub kind: Cow<'static, str>,
    /// The plural name, as in URLs, such as `deployments`.
    pub plural: Cow<'static, str>,
    /// The scope.
    pub scope: Scope,
}

/// The error of an `apiVersion` with more than one slash or an empty part.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct GroupVersionError(pub String);

// === impl GroupVersion ===

impl GroupVersion {
    /// Creates a value from a group (empty for core) and a version.
    pub fn new(group: impl Into<Cow<'static, str>>, version: impl Into<Cow<'static, str>>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Combines this value with a kind.
    pub fn with_kind(&self, kind: impl Into<Cow<'static, str>>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    /// Combines this value with a plural name.
    pub fn with_resource(&self, resource: impl Into<Cow<'static, str>>) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: self.version.clone(), resource: resource.into() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_api_version(f, &self.group, &self.version)
    }
}

impl FromStr for GroupVersion {
    type Err = GroupVersionError;

    /// Parses an `apiVersion`. An empty text is an empty group and version, as in Go.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let own = |part: &str| Cow::Owned(part.to_owned());
        match text.split_once('/') {
            None => Ok(Self { group: Cow::Borrowed(""), version: own(text) }),
            Some((_, version)) if version.contains('/') => Err(GroupVersionError(text.to_owned())),
            Some((group, version)) => Ok(Self { group: own(group), version: own(version) }),
        }
    }
}

// === impl GroupKind, GroupResource ===

impl GroupKind {
    /// Creates a value from a group (empty for core) and a kind.
    pub fn new(group: impl Into<Cow<'static, str>>, kind: impl Into<Cow<'static, str>>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl GroupResource {
    /// Creates a value from a group (empty for core) and a plural name.
    pub fn new(group: impl Into<Cow<'static, str>>, resource: impl Into<Cow<'static, str>>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupKind {
    /// Writes `Deployment.apps`, or the kind alone for the core group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.kind, &self.group)
    }
}

impl fmt::Display for GroupResource {
    /// Writes `deployments.apps`, or the resource alone for the core group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.resource, &self.group)
    }
}

// === impl GroupVersionKind, GroupVersionResource ===

impl GroupVersionKind {
    /// Creates a value from a group (empty for core), a version and a kind.
    pub fn new(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        kind: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Returns the `apiVersion`, such as `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    /// Returns the group and version.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// Returns the group and kind.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

impl fmt::Display for GroupVersionKind {
    /// Writes `apps/v1, Kind=Deployment`, as Go does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl GroupVersionResource {
    /// Creates a value from a group (empty for core), a version and a plural name.
    pub fn new(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        resource: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// Returns the group and plural name.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }

    /// Returns the group and version.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }
}

impl fmt::Display for GroupVersionResource {
    /// Writes `apps/v1, Resource=deployments`, as Go does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

// === impl ApiResource ===

impl ApiResource {
    /// Creates a namespaced resource. Use [`Self::cluster_scoped`] for a cluster-scoped one.
    pub fn namespaced(gvk: GroupVersionKind, plural: impl Into<Cow<'static, str>>) -> Self {
        let GroupVersionKind { group, version, kind } = gvk;
        Self { group, version, kind, plural: plural.into(), scope: Scope::Namespaced }
    }

    /// Returns this resource as cluster-scoped.
    #[must_use]
    pub fn cluster_scoped(mut self) -> Self {
        self.scope = Scope::Cluster;
        self
    }

    /// Returns the `apiVersion`, such as `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        self.gvk().api_version()
    }

    /// Returns the path of the kind's webhooks: `/mutate-<group>-<version>-<kind>`, with dashes instead of dots in the
    /// group, and with the kind in lower case.
    #[must_use]
    pub fn webhook_path(&self, verb: &str) -> String {
        format!("/{verb}-{}-{}-{}", self.group.replace('.', "-"), self.version, self.kind.to_lowercase())
    }

    /// Returns the group, version and kind.
    #[must_use]
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: self.kind.clone() }
    }

    /// Returns the group, version and plural name.
    #[must_use]
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: self.version.clone(), resource: self.plural.clone() }
    }

    /// Returns the group and plural name.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.plural.clone() }
    }

    /// Returns the URL path of the collection in a namespace, or of the whole cluster with `None`. It is not
    /// percent-encoded; names are validated when a request is built.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis/" };
        match namespace {
            Some(namespace) => format!("{root}{}/{}/namespaces/{namespace}/{}", self.group, self.version, self.plural),
            None => format!("{root}{}/{}/{}", self.group, self.version, self.plural),
        }
    }
}

fn write_api_version(f: &mut fmt::Formatter<'_>, group: &str, version: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(version) } else { write!(f, "{group}/{version}") }
}

fn write_qualified(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_read_and_print_alike() {
        for text in ["v1", "apps/v1", ""] {
            assert_eq!(text.parse::<GroupVersion>().unwrap().to_string(), text);
        }
        assert_eq!("a/b/c".parse::<GroupVersion>().unwrap_err().to_string(), "unexpected GroupVersion string: a/b/c");
    }

    #[test]
    fn paths_differ_by_group_and_namespace() {
        let pods = ApiResource::namespaced(GroupVersionKind::new("", "v1", "Pod"), "pods");
        assert_eq!(pods.path(Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(pods.path(None), "/api/v1/pods");
        let leases = ApiResource::namespaced(GroupVersionKind::new("g.io", "v1", "Lease"), "leases");
        assert_eq!(leases.path(None), "/apis/g.io/v1/leases");
    }

    #[test]
    fn qualified_names_leave_out_the_core_group() {
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
        assert_eq!(GroupResource::new("apps", "deployments").to_string(), "deployments.apps");
    }
}
