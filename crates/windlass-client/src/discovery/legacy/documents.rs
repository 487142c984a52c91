//! The documents of legacy discovery, used in responses and in the disk cache.

use serde::{Deserialize, Serialize};
use windlass_api::{ApiResource, GroupVersion, GroupVersionKind};

use super::super::DiscoveredGroup;
use super::super::DiscoveredResource;
use super::super::DiscoveredSubresource;
use super::super::DiscoveredVersion;
use super::super::list;

/// The response to `/apis`: groups and their versions.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupList {
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) api_version: String,
    #[serde(default, deserialize_with = "list")]
    pub(crate) groups: Vec<Group>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    pub(crate) name: String,
    #[serde(default, deserialize_with = "list")]
    pub(crate) versions: Vec<Version>,
    #[serde(default)]
    pub(crate) preferred_version: Option<Version>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    #[serde(default)]
    pub(crate) group_version: String,
    pub(crate) version: String,
}

/// The response for a group and version: its resources, with their subresources in the same list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceList {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    group_version: String,
    #[serde(default, deserialize_with = "list")]
    resources: Vec<Resource>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    /// The name, such as `pods` or `pods/status`.
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    /// The group of the kind, if it differs from the resource's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    version: String,
    kind: String,
    #[serde(default, deserialize_with = "list")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
}

impl GroupList {
    pub(crate) fn of(groups: &[DiscoveredGroup]) -> Self {
        let group = |group: &DiscoveredGroup| {
            let version = |version: &DiscoveredVersion| Version {
                group_version: GroupVersion::new(group.name.clone(), version.version.clone()).to_string(),
                version: version.version.clone(),
            };
            let versions: Vec<_> = group.versions.iter().map(version).collect();
            Group { name: group.name.clone(), preferred_version: versions.first().cloned(), versions }
        };
        Self {
            kind: "APIGroupList".to_owned(),
            api_version: "v1".to_owned(),
            groups: groups.iter().map(group).collect(),
        }
    }

    /// Returns every group and version, the preferred version of a group before its others.
    pub(crate) fn into_group_versions(self) -> Vec<GroupVersion> {
        let mut all = Vec::new();
        for Group { name, versions, preferred_version } in self.groups {
            let preferred = preferred_version.map(|preferred| preferred.version);
            let mut versions: Vec<String> = versions.into_iter().map(|version| version.version).collect();
            // The sort is stable, so the others keep the server's order.
            versions.sort_by_key(|version| Some(version) != preferred.as_ref());
            all.extend(versions.into_iter().map(|version| GroupVersion::new(name.clone(), version)));
        }
        all
    }
}

impl ResourceList {
    pub(crate) fn of(group: &str, version: &DiscoveredVersion) -> Self {
        let own = GroupVersion::new(group.to_owned(), version.version.clone());
        let mut resources = Vec::new();
        for found in &version.resources {
            let (whole, namespaced) = (&found.resource, found.is_namespaced());
            resources.push(Resource {
                name: whole.plural.clone().into_owned(),
                singular_name: found.singular.clone(),
                namespaced,
                group: String::new(),
                version: String::new(),
                kind: whole.kind.clone().into_owned(),
                verbs: found.verbs.clone(),
                short_names: found.short_names.clone(),
                categories: found.categories.clone(),
            });
            resources.extend(found.subresources.iter().map(|part| {
                let foreign = part.kind.group_version() != own && !part.kind.version.is_empty();
                let only_foreign = |text: &str| if foreign { text.to_owned() } else { String::new() };
                Resource {
                    name: format!("{}/{}", whole.plural, part.name),
                    singular_name: String::new(),
                    namespaced,
                    group: only_foreign(&part.kind.group),
                    version: only_foreign(&part.kind.version),
                    kind: part.kind.kind.clone().into_owned(),
                    verbs: part.verbs.clone(),
                    short_names: Vec::new(),
                    categories: Vec::new(),
                }
            }));
        }
        Self {
            kind: "APIResourceList".to_owned(),
            api_version: "v1".to_owned(),
            group_version: own.to_string(),
            resources,
        }
    }

    pub(crate) fn into_version(self, group_version: &GroupVersion) -> DiscoveredVersion {
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
                let kind = if part.version.is_empty() {
                    group_version.with_kind(part.kind)
                } else {
                    GroupVersionKind::new(part.group, part.version, part.kind)
                };
                whole.subresources.push(DiscoveredSubresource { name: name.to_owned(), kind, verbs: part.verbs });
            }
        }
        DiscoveredVersion { version: group_version.version.clone().into_owned(), resources }
    }
}
