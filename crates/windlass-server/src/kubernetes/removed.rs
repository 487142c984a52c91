//! The API versions that Kubernetes has removed, and that a server can serve again for old clients.
//!
//! A removed version shows the objects of its successor, a version that is still served. Most kinds have the same fields
//! in both. The module `kinds` converts the others.

/// An API version that Kubernetes has removed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RemovedVersion {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    /// The served version of the same objects.
    pub(crate) successor: &'static str,
    pub(crate) kinds: &'static [RemovedKind],
}

/// A kind of a [`RemovedVersion`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RemovedKind {
    pub(crate) name: &'static str,
    /// The minor version of Kubernetes that deprecated it.
    deprecated: u32,
    /// The minor version of Kubernetes that removed it.
    removed: u32,
    /// `true` if the deprecation warning names the successor.
    names_successor: bool,
    /// `true` if the spec has other fields than that of the successor.
    pub(crate) has_own_spec: bool,
}

const fn kind(name: &'static str, deprecated: u32, removed: u32) -> RemovedKind {
    RemovedKind { name, deprecated, removed, names_successor: true, has_own_spec: false }
}

/// Marks a kind whose spec has other fields than that of the successor.
const fn with_own_spec(kind: RemovedKind) -> RemovedKind {
    RemovedKind { has_own_spec: true, ..kind }
}

/// Marks a kind whose deprecation warning does not name the successor.
const fn without_successor(kind: RemovedKind) -> RemovedKind {
    RemovedKind { names_successor: false, ..kind }
}

/// The part that all rows have in common.
const V1BETA1: RemovedVersion = RemovedVersion { group: "", version: "v1beta1", successor: "v1", kinds: &[] };

/// All removed versions that a server can serve, sorted by group. The numbers are those of the tags
/// `prerelease-lifecycle-gen` of the Go types.
pub(crate) static REMOVED: &[RemovedVersion] = &[
    RemovedVersion {
        group: "admissionregistration.k8s.io",
        kinds: &[kind("MutatingWebhookConfiguration", 16, 22), kind("ValidatingWebhookConfiguration", 16, 22)],
        ..V1BETA1
    },
    RemovedVersion {
        group: "apiextensions.k8s.io",
        kinds: &[with_own_spec(kind("CustomResourceDefinition", 16, 22))],
        ..V1BETA1
    },
    RemovedVersion { group: "batch", kinds: &[kind("CronJob", 21, 25)], ..V1BETA1 },
    RemovedVersion { group: "coordination.k8s.io", kinds: &[kind("Lease", 19, 22)], ..V1BETA1 },
    RemovedVersion { group: "events.k8s.io", kinds: &[without_successor(kind("Event", 22, 25))], ..V1BETA1 },
    RemovedVersion {
        group: "networking.k8s.io",
        kinds: &[with_own_spec(kind("Ingress", 19, 22)), without_successor(kind("IngressClass", 19, 22))],
        ..V1BETA1
    },
    RemovedVersion { group: "policy", kinds: &[kind("PodDisruptionBudget", 21, 25)], ..V1BETA1 },
    RemovedVersion {
        group: "rbac.authorization.k8s.io",
        kinds: &[
            kind("ClusterRole", 17, 22),
            kind("ClusterRoleBinding", 17, 22),
            kind("Role", 17, 22),
            kind("RoleBinding", 17, 22),
        ],
        ..V1BETA1
    },
    RemovedVersion {
        group: "storage.k8s.io",
        kinds: &[
            kind("CSIDriver", 19, 22),
            kind("CSINode", 17, 22),
            kind("StorageClass", 19, 22),
            kind("VolumeAttachment", 19, 22),
        ],
        ..V1BETA1
    },
];

/// Returns the removed version of a kind, or of the list of a kind; `None` if a server cannot serve it.
pub(crate) fn of_kind(group: &str, version: &str, kind: &str) -> Option<&'static RemovedVersion> {
    let item = kind.strip_suffix("List").unwrap_or(kind);
    of_version(group, version).filter(|removed| removed.kinds.iter().any(|known| known.name == item))
}

/// Returns a removed version; `None` if a server cannot serve it.
pub(crate) fn of_version(group: &str, version: &str) -> Option<&'static RemovedVersion> {
    REMOVED.iter().find(|removed| (removed.group, removed.version) == (group, version))
}

// === impl RemovedVersion ===

impl RemovedVersion {
    /// Returns the apiVersion, such as `policy/v1beta1`.
    pub(crate) fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Returns the warning with which Kubernetes answered requests for a kind.
    pub(crate) fn deprecation(&self, kind: &RemovedKind) -> String {
        let Self { group, version, successor, .. } = self;
        let RemovedKind { name, deprecated, removed, .. } = kind;
        let instead = if kind.names_successor { format!("; use {group}/{successor} {name}") } else { String::new() };
        format!("{group}/{version} {name} is deprecated in v1.{deprecated}+, unavailable in v1.{removed}+{instead}")
    }
}
