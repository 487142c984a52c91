//! The kinds that the server serves.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use windlass_api::{ApiResource, GroupVersion};
use windlass_client::{DiscoveredResource, Discovery};

/// The verbs that a collected resource must support.
const NEEDED: [&str; 3] = ["delete", "list", "watch"];

/// The kinds and resources found by one discovery.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    /// The resources of every served version, by `apiVersion` and kind.
    by_name: HashMap<String, BTreeMap<String, ApiResource>>,
    collected: Vec<ApiResource>,
    /// The group versions whose discovery failed.
    unknown: Vec<GroupVersion>,
}

impl Kinds {
    pub(crate) fn of(discovery: &Discovery) -> Self {
        let mut by_name: HashMap<String, BTreeMap<String, ApiResource>> = HashMap::new();
        for found in discovery.resources().filter(|found| found.supports("get")) {
            let resource = &found.resource;
            let kinds = by_name.entry(resource.api_version()).or_default();
            kinds.entry(resource.kind.clone().into_owned()).or_insert_with(|| resource.clone());
        }
        let collected = discovery.preferred_resources().filter(|found| is_collected(found));
        Self {
            by_name,
            collected: collected.map(|found| found.resource.clone()).collect(),
            unknown: discovery.failed.iter().map(|failed| failed.group_version.clone()).collect(),
        }
    }

    /// Returns the resource of a kind in that version.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<&ApiResource> {
        self.by_name.get(api_version)?.get(kind)
    }

    /// Returns the resources whose objects are collected, each in one version.
    pub(crate) fn collected(&self) -> &[ApiResource] {
        &self.collected
    }

    /// Returns `true` if discovery failed for this resource's group version.
    pub(crate) fn is_unknown(&self, resource: &ApiResource) -> bool {
        self.unknown.iter().any(|version| version.group == resource.group && version.version == resource.version)
    }
}

fn is_collected(found: &DiscoveredResource) -> bool {
    NEEDED.iter().all(|verb| found.supports(verb)) && !is_ignored(&found.resource)
}

/// Returns `true` for events: they are numerous and expire anyway.
pub(crate) fn is_ignored(resource: &ApiResource) -> bool {
    resource.plural == "events" && matches!(&*resource.group, "" | "events.k8s.io")
}

#[cfg(test)]
mod tests {
    use windlass_api::GroupVersionKind;
    use windlass_client::{DiscoveredGroup, DiscoveredVersion};

    use super::*;

    fn resource(group: &'static str, version: &'static str, kind: &'static str, verbs: &[&str]) -> DiscoveredResource {
        let plural = format!("{}s", kind.to_lowercase());
        DiscoveredResource {
            resource: ApiResource::namespaced(GroupVersionKind::new(group, version, kind), plural),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            singular: String::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: Vec::new(),
        }
    }

    #[test]
    fn kinds_with_list_watch_delete_are_collected_except_events() {
        let all = ["get", "list", "watch", "delete"];
        let version = |name: &'static str, kinds: &[(&'static str, &[&str])], group: &'static str| DiscoveredVersion {
            version: name.to_owned(),
            resources: kinds.iter().map(|(kind, verbs)| resource(group, name, kind, verbs)).collect(),
        };
        let discovery = Discovery {
            groups: vec![
                DiscoveredGroup {
                    name: String::new(),
                    versions: vec![version("v1", &[("Pod", &all), ("Event", &all), ("Binding", &["create"])], "")],
                },
                DiscoveredGroup {
                    name: "x.io".to_owned(),
                    versions: vec![version("v2", &[("Foo", &all)], "x.io"), version("v1", &[("Foo", &all)], "x.io")],
                },
            ],
            failed: Vec::new(),
        };
        let kinds = Kinds::of(&discovery);
        let collected: Vec<_> = kinds.collected().iter().map(|found| found.gvk().to_string()).collect();
        assert_eq!(collected, ["/v1, Kind=Pod", "x.io/v2, Kind=Foo"]);
        assert_eq!(kinds.find("x.io/v1", "Foo").unwrap().plural, "foos");
        assert!(kinds.find("v1", "Event").is_some(), "it can own, but is not collected");
        assert!(kinds.find("v1", "Binding").is_none() && kinds.find("x.io/v3", "Foo").is_none());
    }
}
