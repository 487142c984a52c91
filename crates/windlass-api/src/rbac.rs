//! What a program needs to be allowed, as data: `#[rbac(…)]` writes it beside the code that does it, and roles have it in as few rules
//! as say the same.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    mem,
};

use serde::{Deserialize, Serialize};

/// One thing that an API server has to allow.
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
    /// In the plural, with subresources behind a slash: `deployments`, `deployments/status`.
    pub resources: &'static [&'static str],
    /// The objects; all where there are none.
    pub resource_names: &'static [&'static str],
    /// Paths that are no resources: `/metrics`.
    pub urls: &'static [&'static str],
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, …
    pub verbs: &'static [&'static str],
    /// The namespace in which it is needed; everywhere without one.
    pub namespace: Option<&'static str>,
    /// The role that it becomes part of, in place of the program's own.
    pub role_name: Option<&'static str>,
}

impl Rule {
    /// Nothing of anything.
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

/// The words of a part of a rule, in order.
pub type Words = BTreeSet<String>;

/// A rule of a role: what it says is in order, and rules can be [merged]. Serialized as Kubernetes has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "they are those of `Rule`")]
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

/// By which of its words a rule differs from those that it is merged with.
const DIMENSIONS: [fn(&mut RoleRule) -> &mut Words; 5] = [
    |rule| &mut rule.verbs,
    |rule| &mut rule.resources,
    |rule| &mut rule.api_groups,
    |rule| &mut rule.resource_names,
    |rule| &mut rule.urls,
];

/// Joins rules that differ in one of their dimensions only, until there are no such, and puts them in order. What they allow
/// together stays the same.
#[must_use]
pub fn merged(mut rules: Vec<RoleRule>) -> Vec<RoleRule> {
    loop {
        let before = rules.len();
        for (index, dimension) in DIMENSIONS.iter().enumerate() {
            // No names are all names: with others they would become fewer.
            let is_names = index == 3;
            let mut joined = BTreeMap::<(RoleRule, bool), Words>::new();
            for mut rule in rules {
                let words = mem::take(dimension(&mut rule));
                let is_all = is_names && words.is_empty();
                joined.entry((rule, is_all)).or_default().extend(words);
            }
            // Everything is all that there is to say.
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
    /// Rules are told apart by their groups first, then by their resources.
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
