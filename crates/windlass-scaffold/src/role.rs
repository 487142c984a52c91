//! Adds rules to the operator's role, in the format of `windlass generate rbac`.

use minijinja::Value;
use serde_json::json;
use windlass_api::rbac::{RoleRule, Words, merged};

use crate::{
    Changes, Error,
    documents::{Documents, value},
    kustomization::with_resource,
    source::with_call,
    templates::{Template, templates},
};

const FILE: &str = "config/rbac/role.yaml";

/// The file that binds the role to the operator.
const BINDING: &[Template] = templates!("api":
    User "config/rbac/role_binding.yaml" from "role_binding.yaml",
);

/// Creates a rule for resources. The arguments are comma-separated lists.
pub(crate) fn rule(groups: &str, resources: &str, verbs: &str) -> RoleRule {
    let words = |words: &str| -> Words {
        words.split(',').map(|word| if word == "core" { String::new() } else { word.to_owned() }).collect()
    };
    RoleRule { api_groups: words(groups), resources: words(resources), verbs: words(verbs), ..RoleRule::default() }
}

/// Restricts a rule to one object.
pub(crate) fn named(rule: RoleRule, name: &str) -> RoleRule {
    RoleRule { resource_names: Words::from([name.to_owned()]), ..rule }
}

/// Grants the operator the rules of a constant in its code: adds the constant to the manifests and the rules to the
/// role.
pub(crate) fn grant(changes: &mut Changes, values: &Value, constant: &str, rules: &[RoleRule]) -> Result<(), Error> {
    changes
        .edit("src/manifests.rs", |path, text| with_call(path, text, "manifests", &format!(".rules({constant})")))?;
    let project = values.get_attr("project").map(|project| project.to_string()).unwrap_or_default();
    let existing = changes.text(FILE)?;
    // A hand-written file is left to `windlass generate rbac`.
    if let Some(text) = with_rules(existing.as_deref(), &format!("{project}-manager"), rules) {
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

/// Merges rules into the role with this name; `None` if the file is hand-written.
fn with_rules(text: Option<&str>, name: &str, rules: &[RoleRule]) -> Option<String> {
    let mut documents = Documents::of(text)?;
    let is_role = |role: &serde_json::Value| role["kind"] == "ClusterRole" && role["metadata"]["name"] == name;
    let place = documents.0.iter().position(is_role).unwrap_or_else(|| {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [],
        });
        let before = |existing: &&serde_json::Value| {
            existing["kind"] == "ClusterRole"
                && existing["metadata"]["name"].as_str().is_some_and(|existing| existing < name)
        };
        let place = documents.0.iter().take_while(before).count();
        documents.0.insert(place, role);
        place
    });
    let role = &mut documents.0[place];
    let mut all: Vec<RoleRule> = serde_json::from_value(role["rules"].clone()).ok()?;
    all.extend_from_slice(rules);
    role["rules"] = merged(all).iter().map(value).collect();
    Some(documents.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_merged_into_existing_ones_once() {
        let site = [rule("g.io", "sites", "get,list"), rule("core,events.k8s.io", "events", "create")];
        let one = with_rules(None, "shop-manager", &site).unwrap();
        assert!(one.contains("  name: shop-manager\nrules:\n- apiGroups:\n  - \"\"\n  - events.k8s.io\n"), "{one}");
        assert_eq!(with_rules(Some(&one), "shop-manager", &site).unwrap(), one);
        let more = [rule("g.io", "shelves", "list,get"), named(rule("x.io", "hooks", "get"), "shop")];
        let two = with_rules(Some(&one), "shop-manager", &more).unwrap();
        assert!(two.contains("  resources:\n  - shelves\n  - sites\n"), "{two}");
        assert!(two.contains("- apiGroups:\n  - x.io\n  resourceNames:\n  - shop\n  resources:\n  - hooks\n"), "{two}");
        assert_eq!(with_rules(Some("# Mine.\n"), "shop-manager", &more), None);
    }
}
