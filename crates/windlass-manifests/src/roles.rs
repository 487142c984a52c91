//! From rules beside controllers to roles: as few rules as say the same.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use windlass_api::rbac::Rule;

type Words = BTreeSet<&'static str>;

/// A rule whose words are in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Normal {
    groups: Words,
    resources: Words,
    resource_names: Words,
    urls: Words,
    verbs: Words,
}

/// By which of its words a rule differs from those that it is merged with.
const DIMENSIONS: [fn(&mut Normal) -> &mut Words; 5] = [
    |rule| &mut rule.verbs,
    |rule| &mut rule.resources,
    |rule| &mut rule.groups,
    |rule| &mut rule.resource_names,
    |rule| &mut rule.urls,
];

/// The roles of the whole cluster and those of namespaces; rules that name no role become part of `own`.
pub(crate) fn roles(rules: &[Rule], own: &str) -> (Vec<ClusterRole>, Vec<Role>) {
    let mut by_role = BTreeMap::<(Option<&str>, &str), Vec<Normal>>::new();
    for rule in rules {
        by_role.entry((rule.namespace, rule.role_name.unwrap_or(own))).or_default().push(normal(rule));
    }
    let (mut of_cluster, mut of_namespaces) = (Vec::new(), Vec::new());
    for ((namespace, name), rules) in by_role {
        let rules = Some(merged(rules).iter().map(policy_rule).collect());
        if let Some(namespace) = namespace {
            let mut role = Role { rules, ..Role::default() };
            role.metadata.name = Some(name.to_owned());
            role.metadata.namespace = Some(namespace.to_owned());
            of_namespaces.push(role);
        } else {
            let mut role = ClusterRole { rules, ..ClusterRole::default() };
            role.metadata.name = Some(name.to_owned());
            of_cluster.push(role);
        }
    }
    (of_cluster, of_namespaces)
}

fn normal(rule: &Rule) -> Normal {
    let words = |words: &[&'static str]| {
        // Everything is all that there is to say.
        if words.contains(&"*") { Words::from(["*"]) } else { words.iter().copied().collect() }
    };
    Normal {
        groups: words(rule.groups),
        resources: words(rule.resources),
        resource_names: words(rule.resource_names),
        urls: words(rule.urls),
        verbs: words(rule.verbs),
    }
}

/// Joins rules that differ in one of their dimensions only, until there are no such.
fn merged(mut rules: Vec<Normal>) -> Vec<Normal> {
    loop {
        let before = rules.len();
        for (index, dimension) in DIMENSIONS.iter().enumerate() {
            // No names are all names: with others they would become fewer.
            let is_names = index == 3;
            let mut joined = BTreeMap::<(Normal, bool), Words>::new();
            for mut rule in rules {
                let words = std::mem::take(dimension(&mut rule));
                let is_all = is_names && words.is_empty();
                joined.entry((rule, is_all)).or_default().extend(words);
            }
            rules = joined
                .into_iter()
                .map(|((mut rule, _), words)| {
                    *dimension(&mut rule) = if words.contains("*") { Words::from(["*"]) } else { words };
                    rule
                })
                .collect();
        }
        if rules.len() == before {
            rules.sort();
            return rules;
        }
    }
}

fn policy_rule(rule: &Normal) -> PolicyRule {
    let words = |words: &Words| -> Option<Vec<String>> {
        (!words.is_empty()).then(|| words.iter().map(|word| (*word).to_owned()).collect())
    };
    PolicyRule {
        api_groups: words(&rule.groups),
        non_resource_urls: words(&rule.urls),
        resource_names: words(&rule.resource_names),
        resources: words(&rule.resources),
        verbs: words(&rule.verbs).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn rule(resources: &'static [&'static str], verbs: &'static [&'static str]) -> Rule {
        Rule { groups: &["apps"], resources, verbs, ..Rule::NONE }
    }

    fn rules(rules: &[Rule]) -> Vec<(Vec<String>, Vec<String>, Vec<String>)> {
        let (roles, _) = roles(rules, "own");
        let rules = roles[0].rules.clone().unwrap();
        rules
            .into_iter()
            .map(|rule| (rule.resources.unwrap_or_default(), rule.resource_names.unwrap_or_default(), rule.verbs))
            .collect()
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn rules_that_differ_in_one_thing_become_one() {
        let merged =
            rules(&[rule(&["b"], &["list"]), rule(&["a"], &["get"]), rule(&["b"], &["get"]), rule(&["a"], &["list"])]);
        assert_eq!(merged, [(words(&["a", "b"]), vec![], words(&["get", "list"]))]);
        let everything = rules(&[rule(&["a"], &["get"]), rule(&["a"], &["*"])]);
        assert_eq!(everything, [(words(&["a"]), vec![], words(&["*"]))]);
    }

    #[test]
    fn what_would_allow_more_or_less_stays_apart() {
        let apart = rules(&[rule(&["a"], &["get"]), rule(&["b"], &["list"])]);
        assert_eq!(apart.len(), 2);
        let named = Rule { resource_names: &["x"], ..rule(&["a"], &["get"]) };
        let other = Rule { resource_names: &["y"], ..rule(&["a"], &["get"]) };
        assert_eq!(rules(&[named, rule(&["a"], &["get"]), other]).len(), 2, "all names, and two");
    }

    #[test]
    fn namespaces_and_names_make_roles() {
        let here = Rule { namespace: Some("here"), ..rule(&["a"], &["get"]) };
        let reader = Rule { role_name: Some("reader"), ..rule(&["a"], &["get"]) };
        let (of_cluster, of_namespaces) = roles(&[here, reader, rule(&["a"], &["get"])], "own");
        let names = of_cluster.iter().filter_map(|role| role.metadata.name.as_deref()).collect::<Vec<_>>();
        assert_eq!(names, ["own", "reader"]);
        assert_eq!(of_namespaces[0].metadata.namespace.as_deref(), Some("here"));
    }
}
