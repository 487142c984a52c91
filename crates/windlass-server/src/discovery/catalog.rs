//! The built-in resources as kube-apiserver's discovery lists them, parsed once per Kubernetes version.

use std::sync::OnceLock;

use windlass_api::Scope;

use crate::kubernetes::{
    KubernetesVersion,
    removed::{self, RemovedVersion},
};

/// A built-in resource as kube-apiserver describes it. The resource table decides whether this server serves it.
#[derive(Clone, Debug)]
pub(crate) struct CatalogResource {
    /// Empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    /// For example `deployments`.
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) scope: Scope,
    pub(crate) verbs: Vec<&'static str>,
    pub(crate) short_names: Vec<&'static str>,
    pub(crate) categories: Vec<&'static str>,
    /// Empty for resources without storage, which have no hash in kube-apiserver.
    pub(crate) storage_hash: &'static str,
    pub(crate) subresources: Vec<CatalogSubresource>,
}

/// A subresource of a [`CatalogResource`].
#[derive(Clone, Debug)]
pub(crate) struct CatalogSubresource {
    /// For example `status`.
    pub(crate) name: &'static str,
    /// The group and version of its kind if they differ from the resource's: `("autoscaling", "v1")`.
    pub(crate) other: Option<(&'static str, &'static str)>,
    pub(crate) kind: &'static str,
    pub(crate) verbs: Vec<&'static str>,
}

/// Returns all built-in resources of a version in discovery order: the core group, then the groups in the order of
/// `/apis`, sorted by name.
pub(crate) fn catalog(kubernetes: KubernetesVersion) -> &'static [CatalogResource] {
    static CATALOGS: [OnceLock<Vec<CatalogResource>>; KubernetesVersion::ALL.len()] =
        [const { OnceLock::new() }; KubernetesVersion::ALL.len()];
    CATALOGS[kubernetes.index()].get_or_init(|| parse(&kubernetes.tables().discovery))
}

/// Returns the resources of a removed version: those of its successor, with the same order.
pub(crate) fn of_removed(kubernetes: KubernetesVersion, removed: &'static RemovedVersion) -> Vec<CatalogResource> {
    let is_one = |resource: &&CatalogResource| {
        (resource.group, resource.version) == (removed.group, removed.successor)
            && removed.kinds.iter().any(|kind| kind.name == resource.kind)
    };
    let resources = catalog(kubernetes).iter().filter(is_one);
    resources.map(|resource| CatalogResource { version: removed.version, ..resource.clone() }).collect()
}

/// Returns kube-apiserver's storage hash of a built-in resource; `None` if it has none. A removed version has that of its
/// successor, because the objects are the same.
pub(crate) fn storage_hash(
    kubernetes: KubernetesVersion,
    group: &str,
    version: &str,
    plural: &str,
) -> Option<&'static str> {
    let hash_in = |version: &str| {
        let mut resources = catalog(kubernetes).iter();
        resources
            .find(|resource| resource.group == group && resource.version == version && resource.plural == plural)
            .map(|resource| resource.storage_hash)
    };
    let hash = hash_in(version).or_else(|| hash_in(removed::of_version(group, version)?.successor));
    hash.filter(|hash| !hash.is_empty())
}

fn parse(text: &'static str) -> Vec<CatalogResource> {
    let mut resources = Vec::<CatalogResource>::new();
    let (mut group, mut version) = ("", "");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(group_version) = line.strip_prefix('@') {
            (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
            continue;
        }
        let mut cells = line.split('\t');
        let mut next = || cells.next().unwrap_or_default();
        let plural = next();
        if plural.is_empty() {
            let (name, other, kind, verbs) = (next(), next(), next(), split(next()));
            if let Some(resource) = resources.last_mut() {
                resource.subresources.push(CatalogSubresource { name, other: other.split_once('/'), kind, verbs });
            }
            continue;
        }
        resources.push(CatalogResource {
            group,
            version,
            plural,
            kind: next(),
            singular: next(),
            scope: if next() == "N" { Scope::Namespaced } else { Scope::Cluster },
            verbs: split(next()),
            short_names: split(next()),
            categories: split(next()),
            storage_hash: next(),
            subresources: Vec::new(),
        });
    }
    resources
}

fn split(cell: &'static str) -> Vec<&'static str> {
    cell.split(',').filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalog_equals_kube_apiservers_resources_in_order() {
        let catalog = catalog(KubernetesVersion::V1_36);
        assert_eq!(catalog.len(), 68);
        assert_eq!(catalog.iter().map(|resource| resource.subresources.len()).sum::<usize>(), 45);
        let mut groups = catalog.iter().map(|resource| resource.group).collect::<Vec<_>>();
        groups.dedup();
        assert_eq!(groups[..4], ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]);

        let pods = catalog.iter().find(|resource| resource.plural == "pods").unwrap();
        assert_eq!((pods.kind, pods.singular, pods.scope), ("Pod", "pod", Scope::Namespaced));
        assert_eq!((&*pods.short_names, &*pods.categories), (&["po"][..], &["all"][..]));
        let eviction = pods.subresources.iter().find(|subresource| subresource.name == "eviction").unwrap();
        assert_eq!((eviction.other, eviction.kind), (Some(("policy", "v1")), "Eviction"));
    }

    #[test]
    fn storage_hash_depends_on_the_stored_kind() {
        let hash = |group, plural| storage_hash(KubernetesVersion::default(), group, "v1", plural);
        assert_eq!(hash("apps", "deployments"), Some("8aSe+NMegvE="));
        assert_eq!(hash("events.k8s.io", "events"), hash("", "events"));
        assert_eq!(hash("", "bindings"), None);
    }
}
