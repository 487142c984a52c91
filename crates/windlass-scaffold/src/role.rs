//! The role of an operator, as `windlass generate rbac` makes it of what the code says: with more rules in it.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::Value;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    Changes, Error,
    documents::{Documents, value},
    kustomization::with_resource,
    source::with_call,
    templates::{Template, templates},
};

const FILE: &str = "config/rbac/role.yaml";

/// What gives the role to the operator.
const BINDING: &[Template] = templates!("api":
    User "config/rbac/role_binding.yaml" from "role_binding.yaml",
);

type Words = BTreeSet<String>;

/// A rule whose words are in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rule {
    #[serde(rename = "apiGroups", skip_serializing_if = "BTreeSet::is_empty")]
    groups: Words,
    #[serde(rename = "resources", skip_serializing_if = "BTreeSet::is_empty")]
    resources: Words,
    #[serde(rename = "resourceNames", skip_serializing_if = "BTreeSet::is_empty")]
    names: Words,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "BTreeSet::is_empty")]
    urls: Words,
    verbs: Words,
}

/// By which of its words a rule differs from those that it is merged with.
const DIMENSIONS: [fn(&mut Rule) -> &mut Words; 5] = [
    |rule| &mut rule.verbs,
    |rule| &mut rule.resources,
    |rule| &mut rule.groups,
    |rule| &mut rule.names,
    |rule| &mut rule.urls,
];

fn words(words: &str) -> Words {
    words.split(',').map(|word| if word == "core" { String::new() } else { word.to_owned() }).collect()
}

impl Rule {
    /// Of groups, resources and verbs, with commas between.
    pub(crate) fn new(groups: &str, resources: &str, verbs: &str) -> Self {
        Self { groups: words(groups), resources: words(resources), verbs: words(verbs), ..Self::default() }
    }

    /// About one object only.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.names = words(name);
        self
    }

    /// In the order of its fields in Kubernetes.
    fn json(&self) -> serde_json::Value {
        let mut rule = value(self);
        let urls = rule.as_object_mut().and_then(|fields| fields.shift_remove("nonResourceURLs"));
        let mut ordered = json!({});
        for key in ["apiGroups", "nonResourceURLs", "resourceNames", "resources", "verbs"] {
            let field = if key == "nonResourceURLs" { urls.clone() } else { rule.get(key).cloned() };
            if let Some(field) = field {
                ordered[key] = field;
            }
        }
        ordered
    }
}

/// Grants the operator what a constant in its code asks for: the code says so, and the role has it.
pub(crate) fn grant(changes: &mut Changes, values: &Value, constant: &str, rules: &[Rule]) -> Result<(), Error> {
    changes
        .edit("src/manifests.rs", |path, text| with_call(path, text, "manifests", &format!(".rules({constant})")))?;
    let project = values.get_attr("project").map(|project| project.to_string()).unwrap_or_default();
    let there = changes.text(FILE)?;
    // One that somebody has written is brought up to date by `windlass generate rbac`.
    if let Some(text) = with_rules(there.as_deref(), &format!("{project}-manager"), rules) {
        changes.set(FILE, text)?;
    }
    for template in BINDING {
        let (path, text) = template.render(values)?;
        changes.create_or_keep(path, text)?;
    }
    changes.edit("config/rbac/kustomization.yaml", |_, text| {
        Ok(with_resource(&with_resource(text, "role.yaml"), "role_binding.yaml"))
    })
}

/// With rules in the role of a name, merged with those that it has.
fn with_rules(text: Option<&str>, name: &str, rules: &[Rule]) -> Option<String> {
    let mut documents = Documents::of(text)?;
    let is_role = |role: &serde_json::Value| role["kind"] == "ClusterRole" && role["metadata"]["name"] == name;
    let place = documents.0.iter().position(is_role).unwrap_or_else(|| {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [],
        });
        let before = |there: &&serde_json::Value| {
            there["kind"] == "ClusterRole" && there["metadata"]["name"].as_str().is_some_and(|there| there < name)
        };
        let place = documents.0.iter().take_while(before).count();
        documents.0.insert(place, role);
        place
    });
    let role = &mut documents.0[place];
    let mut all: Vec<Rule> = serde_json::from_value(role["rules"].clone()).ok()?;
    all.extend_from_slice(rules);
    role["rules"] = merged(all).iter().map(Rule::json).collect();
    Some(documents.text())
}

/// Joins rules that differ in one of their dimensions only, until there are no such: as `windlass generate rbac` does.
fn merged(mut rules: Vec<Rule>) -> Vec<Rule> {
    loop {
        let before = rules.len();
        for (index, dimension) in DIMENSIONS.iter().enumerate() {
            // No names are all names: with others they would become fewer.
            let is_names = index == 3;
            let mut joined = BTreeMap::<(Rule, bool), Words>::new();
            for mut rule in rules {
                let words = std::mem::take(dimension(&mut rule));
                let is_all = is_names && words.is_empty();
                joined.entry((rule, is_all)).or_default().extend(words);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_merged_into_those_that_are_there_and_twice_is_once() {
        let site = [Rule::new("g.io", "sites", "get,list"), Rule::new("core,events.k8s.io", "events", "create")];
        let one = with_rules(None, "shop-manager", &site).unwrap();
        assert!(one.contains("  name: shop-manager\nrules:\n- apiGroups:\n  - \"\"\n  - events.k8s.io\n"), "{one}");
        assert_eq!(with_rules(Some(&one), "shop-manager", &site).unwrap(), one);
        let more = [Rule::new("g.io", "shelves", "list,get"), Rule::new("x.io", "hooks", "get").named("shop")];
        let two = with_rules(Some(&one), "shop-manager", &more).unwrap();
        assert!(two.contains("  resources:\n  - shelves\n  - sites\n"), "{two}");
        assert!(two.contains("- apiGroups:\n  - x.io\n  resourceNames:\n  - shop\n  resources:\n  - hooks\n"), "{two}");
        assert_eq!(with_rules(Some("# Mine.\n"), "shop-manager", &more), None);
    }
}
