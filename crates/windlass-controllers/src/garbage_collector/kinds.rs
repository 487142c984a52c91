//! What the server serves, as the collector needs to know it.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use windlass_api::{ApiResource, GroupVersion};
use windlass_client::{DiscoveredResource, Discovery};

/// What an object must allow to be collected: it is found by list and watch, and goes by delete.
const NEEDED: [&str; 3] = ["delete", "list", "watch"];

/// Kinds and resources, of one discovery.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    /// In every served version, by `apiVersion` and kind.
    by_name: HashMap<String, BTreeMap<String, ApiResource>>,
    collected: Vec<ApiResource>,
    /// What could not be asked: nothing is known of these.
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

    /// The resource of a kind, in that version.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<&ApiResource> {
        self.by_name.get(api_version)?.get(kind)
    }

    /// The resources whose objects are collected, each in one version.
    pub(crate) fn collected(&self) -> &[ApiResource] {
        &self.collected
    }

    /// Whether the server could not say if it serves this.
    pub(crate) fn is_unknown(&self, resource: &ApiResource) -> bool {
        self.unknown.iter().any(|version| version.group == resource.group && version.version == resource.version)
    }
}

fn is_collected(found: &DiscoveredResource) -> bool {
    NEEDED.iter().all(|verb| found.supports(verb)) && !is_ignored(&found.resource)
}

/// Events come and go in numbers, and expire by themselves.
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
    fn what_can_be_listed_watched_and_deleted_is_collected_once_but_for_events() {
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
