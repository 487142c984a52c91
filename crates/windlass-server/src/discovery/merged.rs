//! The groups of this server, merged with those of other servers.

use std::cmp::Reverse;

use serde_json::Value;

use super::{Group, Version, compare_versions};

/// Each built-in group with its priority and the version priority of `v1`, as in kube-apiserver.
const PRIORITIES: [(&str, i64, i64); 21] = [
    ("", 18000, 1),
    ("apps", 17800, 15),
    ("events.k8s.io", 17750, 15),
    ("authentication.k8s.io", 17700, 15),
    ("authorization.k8s.io", 17600, 15),
    ("autoscaling", 17500, 15),
    ("batch", 17400, 15),
    ("certificates.k8s.io", 17300, 15),
    ("networking.k8s.io", 17200, 15),
    ("policy", 17100, 15),
    ("rbac.authorization.k8s.io", 17000, 15),
    ("storage.k8s.io", 16800, 15),
    ("admissionregistration.k8s.io", 16700, 15),
    ("apiextensions.k8s.io", 16700, 15),
    ("scheduling.k8s.io", 16600, 15),
    ("coordination.k8s.io", 16500, 15),
    ("node.k8s.io", 16300, 15),
    ("discovery.k8s.io", 16200, 15),
    ("resource.k8s.io", 16200, 21),
    ("flowcontrol.apiserver.k8s.io", 16100, 21),
    ("storagemigration.k8s.io", 15800, 15),
];
/// The version priority of versions other than `v1`.
const SECOND: i64 = 30;
/// The group priority and version priority of custom resources.
const CUSTOM: (i64, i64) = (1000, 100);
/// The group that is always the first one.
const FIRST: &str = "apiregistration.k8s.io";

/// A group version that another server serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForeignVersion<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    /// The resources as in an aggregated document. `None` if they are not known.
    pub(crate) resources: Option<&'a Value>,
    pub(crate) freshness: Freshness,
}

/// The age of the known resources of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Current,
    Stale,
}

/// A group in a discovery document.
pub(super) struct ListedGroup<'a> {
    pub(super) name: &'a str,
    /// The preferred version is first.
    pub(super) versions: Vec<ListedVersion<'a>>,
    priority: i64,
}

/// A version in a discovery document.
pub(super) struct ListedVersion<'a> {
    pub(super) name: &'a str,
    pub(super) source: Source<'a>,
    priority: i64,
}

/// The server of a version.
pub(super) enum Source<'a> {
    Own(&'a Version<'a>),
    Foreign(&'a ForeignVersion<'a>),
}

/// The order of groups with the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// By the names of their API services, such as `v1.example.com`.
    ApiService,
    Name,
}

/// Returns the group priority and the version priority of a group version of this server.
pub(crate) fn priorities(group: &str, version: &str) -> (i64, i64) {
    let Some((_, priority, first)) = PRIORITIES.iter().find(|(name, ..)| *name == group) else { return CUSTOM };
    (*priority, if version == "v1" { *first } else { SECOND })
}

/// Merges the groups of this server, which are in discovery order, with the group versions of other servers. Another
/// server replaces a version of this one.
pub(super) fn list<'a>(
    groups: &'a [Group<'a>],
    foreign: &'a [ForeignVersion<'a>],
    order: Order,
) -> Vec<ListedGroup<'a>> {
    let mut listed: Vec<ListedGroup<'_>> = groups.iter().map(ListedGroup::own).collect();
    for version in foreign {
        let at = listed.iter().position(|group| group.name == version.group).unwrap_or_else(|| {
            listed.push(ListedGroup { name: version.group, versions: Vec::new(), priority: version.group_priority });
            listed.len() - 1
        });
        listed[at].insert(version);
    }
    listed.sort_by_cached_key(|group| (Reverse(group.priority), group.tie(order)));
    listed
}

impl<'a> ListedGroup<'a> {
    fn own(group: &'a Group<'a>) -> Self {
        let own = |version: &'a Version<'a>| ListedVersion {
            name: version.name,
            source: Source::Own(version),
            priority: priorities(group.name, version.name).1,
        };
        let priority = if group.name == FIRST { i64::MAX } else { priorities(group.name, "").0 };
        Self { name: group.name, versions: group.versions.iter().map(own).collect(), priority }
    }

    fn insert(&mut self, foreign: &'a ForeignVersion<'a>) {
        self.priority = self.priority.max(foreign.group_priority);
        self.versions.retain(|version| version.name != foreign.version);
        let before = |version: &ListedVersion<'_>| {
            version.priority > foreign.version_priority
                || version.priority == foreign.version_priority
                    && compare_versions(version.name, foreign.version).is_gt()
        };
        let at = self.versions.iter().position(|version| !before(version)).unwrap_or(self.versions.len());
        let (name, priority) = (foreign.version, foreign.version_priority);
        self.versions.insert(at, ListedVersion { name, source: Source::Foreign(foreign), priority });
    }

    /// Returns the text that decides between groups of the same priority.
    fn tie(&self, order: Order) -> String {
        match order {
            Order::Name => self.name.to_owned(),
            Order::ApiService => {
                let services = self.versions.iter().map(|version| format!("{}.{}", version.name, self.name));
                services.min().unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group<'a>(name: &'a str, versions: &[&'a str]) -> Group<'a> {
        let versions = versions.iter().map(|name| Version { name, resources: Vec::new() }).collect();
        Group { name, versions }
    }

    fn foreign<'a>(group: &'a str, version: &'a str, priorities: (i64, i64)) -> ForeignVersion<'a> {
        let (group_priority, version_priority) = priorities;
        ForeignVersion {
            group,
            version,
            group_priority,
            version_priority,
            resources: None,
            freshness: Freshness::Stale,
        }
    }

    fn names(groups: &[Group<'_>], foreign: &[ForeignVersion<'_>], order: Order) -> Vec<String> {
        let listed = list(groups, foreign, order);
        let group = |group: &ListedGroup<'_>| {
            let versions = group.versions.iter().map(|version| match version.source {
                Source::Own(_) => version.name.to_owned(),
                Source::Foreign(_) => format!("{}!", version.name),
            });
            format!("{}: {}", group.name, versions.collect::<Vec<_>>().join(" "))
        };
        listed.iter().map(group).collect()
    }

    #[test]
    fn groups_of_other_servers_are_sorted_by_priority() {
        let own = [
            group("apiregistration.k8s.io", &["v1"]),
            group("apps", &["v1"]),
            group("batch", &["v1"]),
            group("b.example.com", &["v2", "v1"]),
        ];
        let all = [
            foreign("metrics.k8s.io", "v1beta1", (100, 100)),
            foreign("first.example.com", "v1", (20000, 10)),
            foreign("b.example.com", "v3", (1000, 100)),
            foreign("batch", "v1", (17400, 15)),
            foreign("a.example.com", "v2", (1000, 100)),
        ];
        let expected = [
            "apiregistration.k8s.io: v1",
            "first.example.com: v1!",
            "apps: v1",
            "batch: v1!",
            "b.example.com: v3! v2 v1",
            "a.example.com: v2!",
            "metrics.k8s.io: v1beta1!",
        ];
        assert_eq!(names(&own, &all, Order::ApiService), expected);
        let by_name = names(&own, &all, Order::Name);
        assert_eq!(by_name[4..6], ["a.example.com: v2!", "b.example.com: v3! v2 v1"]);
    }

    #[test]
    fn versions_are_sorted_by_priority_and_then_by_stability() {
        let own = [group("example.com", &["v1", "v1beta1"])];
        let all = [foreign("example.com", "v2alpha1", (1000, 100)), foreign("example.com", "v1alpha1", (10, 200))];
        assert_eq!(names(&own, &all, Order::Name), ["example.com: v1alpha1! v1 v1beta1 v2alpha1!"]);
    }
}
