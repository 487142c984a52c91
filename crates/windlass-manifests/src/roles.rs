//! Roles from RBAC rules, merged into as few rules as possible.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use windlass_api::rbac::{RoleRule, Rule, Words, merged};

/// Returns the ClusterRoles and Roles. Rules without a role name become part of `own`.
pub(crate) fn roles(rules: &[Rule], own: &str) -> (Vec<ClusterRole>, Vec<Role>) {
    let mut by_role = BTreeMap::<(Option<&str>, &str), Vec<RoleRule>>::new();
    for rule in rules {
        by_role.entry((rule.namespace, rule.role_name.unwrap_or(own))).or_default().push(rule.into());
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

fn policy_rule(rule: &RoleRule) -> PolicyRule {
    let words = |words: &Words| (!words.is_empty()).then(|| words.iter().cloned().collect());
    PolicyRule {
        api_groups: words(&rule.api_groups),
        non_resource_urls: words(&rule.urls),
        resource_names: words(&rule.resource_names),
        resources: words(&rule.resources),
        verbs: rule.verbs.iter().cloned().collect(),
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
    fn rules_are_not_merged_if_permissions_would_change() {
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
