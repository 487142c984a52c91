//! RBAC rules as data. `#[rbac(…)]` declares them beside the code that needs them, and roles contain them merged into
//! as few rules as possible.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    mem,
};

use serde::{Deserialize, Serialize};

/// A permission that a program needs.
///
/// ```
/// use windlass_api::rbac::Rule;
///
/// const RULES: &[Rule] = &[Rule { groups: &["apps"], resources: &["deployments"], verbs: &["get", "list", "watch"], ..Rule::NONE }];
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The groups of the resources; empty for the core group.
    pub groups: &'static [&'static str],
    /// The plural names of the resources, with subresources after a slash: `deployments`, `deployments/status`.
    pub resources: &'static [&'static str],
    /// The names of the objects; empty for all objects.
    pub resource_names: &'static [&'static str],
    /// Non-resource URLs, such as `/metrics`.
    pub urls: &'static [&'static str],
    /// The verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, …
    pub verbs: &'static [&'static str],
    /// The namespace of the permission; `None` for the whole cluster.
    pub namespace: Option<&'static str>,
    /// The name of the role. `None` for the program's default role.
    pub role_name: Option<&'static str>,
}

impl Rule {
    /// A rule without permissions.
    pub const NONE: Self = Self {
        groups: &[],
        resources: &[],
        resource_names: &[],
        urls: &[],
        verbs: &[],
        namespace: None,
        role_name: None,
    };
}

/// The values of one dimension of a rule, in order.
pub type Words = BTreeSet<String>;

/// A rule of a role. Its values are ordered, and rules can be [merged]. It is serialized as in Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the fields are those of `Rule`")]
pub struct RoleRule {
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub api_groups: Words,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Words::is_empty")]
    pub urls: Words,
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub resource_names: Words,
    #[serde(skip_serializing_if = "Words::is_empty")]
    pub resources: Words,
    pub verbs: Words,
}

/// The dimensions in which rules may differ when they are merged.
const DIMENSIONS: [fn(&mut RoleRule) -> &mut Words; 5] = [
    |rule| &mut rule.verbs,
    |rule| &mut rule.resources,
    |rule| &mut rule.api_groups,
    |rule| &mut rule.resource_names,
    |rule| &mut rule.urls,
];

/// Merges rules that differ in one dimension only, until there are none, and sorts the result. The permissions stay the
/// same.
#[must_use]
pub fn merged(mut rules: Vec<RoleRule>) -> Vec<RoleRule> {
    loop {
        let before = rules.len();
        for (index, dimension) in DIMENSIONS.iter().enumerate() {
            // A rule without names covers all objects. Adding names would restrict it.
            let is_names = index == 3;
            let mut joined = BTreeMap::<(RoleRule, bool), Words>::new();
            for mut rule in rules {
                let words = mem::take(dimension(&mut rule));
                let is_all = is_names && words.is_empty();
                joined.entry((rule, is_all)).or_default().extend(words);
            }
            // `*` makes other values redundant.
            let whole = |words: Words| if words.contains("*") { Words::from(["*".to_owned()]) } else { words };
            let joined = joined.into_iter().map(|((mut rule, _), words)| {
                *dimension(&mut rule) = whole(words);
                rule
            });
            rules = joined.collect();
        }
        if rules.len() == before {
            rules.sort();
            return rules;
        }
    }
}

impl RoleRule {
    /// Returns the sort key: groups first, then resources.
    fn rank(&self) -> [&Words; 5] {
        [&self.api_groups, &self.resources, &self.resource_names, &self.urls, &self.verbs]
    }
}

impl From<&Rule> for RoleRule {
    fn from(rule: &Rule) -> Self {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            api_groups: words(rule.groups),
            urls: words(rule.urls),
            resource_names: words(rule.resource_names),
            resources: words(rule.resources),
            verbs: words(rule.verbs),
        }
    }
}

impl Ord for RoleRule {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for RoleRule {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
