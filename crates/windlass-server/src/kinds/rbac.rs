//! The group `rbac.authorization.k8s.io`: roles and role bindings.

use serde_json::{Value, json};

use super::{BASE, Kind, selector::is_readable};
use crate::{
    object::{Errors, NameRule, Path, Tree, default_to, dns_subdomain, items_mut, object_mut, path_segment},
    resource::Rules,
};

const GROUP: &str = "rbac.authorization.k8s.io";
const RULES: Rules = Rules { name: NameRule::PathSegment, create_on_update: true, ..Rules::COMMON };

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: GROUP,
        name: "Role",
        prefix: "/registry/roles/",
        rules: RULES,
        validate: |role, errors| validate_rules(role, true, errors),
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "ClusterRole",
        prefix: "/registry/clusterroles/",
        rules: RULES,
        validate: validate_cluster_role,
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "RoleBinding",
        prefix: "/registry/rolebindings/",
        rules: RULES,
        default: default_binding,
        validate: |binding, errors| validate_binding(binding, &["Role", "ClusterRole"], errors),
        validate_update: keep_role,
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "ClusterRoleBinding",
        prefix: "/registry/clusterrolebindings/",
        rules: RULES,
        default: default_binding,
        validate: |binding, errors| validate_binding(binding, &["ClusterRole"], errors),
        validate_update: keep_role,
        ..BASE
    },
];

fn default_binding(binding: &mut Value) {
    default_to(object_mut(binding, "roleRef"), "apiGroup", GROUP);
    for subject in items_mut(binding, "subjects") {
        if matches!(subject.text(&["kind"]), "User" | "Group") {
            default_to(crate::object::as_object(subject), "apiGroup", GROUP);
        }
    }
}

fn validate_cluster_role(role: &Value, errors: &mut Errors) {
    validate_rules(role, false, errors);
    if role.at(&["aggregationRule"]).is_some() {
        let list = Path::new("aggregationRule.clusterRoleSelectors");
        let selectors = role.items(&["aggregationRule", "clusterRoleSelectors"]);
        if selectors.is_empty() {
            errors.required(&list, "at least one clusterRoleSelector required if aggregationRule is non-nil");
        }
        for (index, selector) in selectors.iter().enumerate() {
            if !is_readable(Some(selector), &list.index(index), errors) {
                errors.invalid(&list.index(index), &Value::Null, "invalid label selector.");
            }
        }
    }
}

fn validate_rules(role: &Value, namespaced: bool, errors: &mut Errors) {
    let list = Path::new("rules");
    for (index, rule) in role.items(&["rules"]).iter().enumerate() {
        let place = list.index(index);
        let given = |field: &str| !rule.items(&[field]).is_empty();
        if !given("verbs") {
            errors.required(&place.child("verbs"), "verbs must contain at least one value");
        }
        if given("nonResourceURLs") {
            let (path, urls) = (place.child("nonResourceURLs"), &rule["nonResourceURLs"]);
            if namespaced {
                errors.invalid(&path, urls, "namespaced rules cannot apply to non-resource URLs");
            }
            if ["apiGroups", "resources", "resourceNames"].into_iter().any(given) {
                errors.invalid(&path, urls, "rules cannot apply to both regular resources and non-resource URLs");
            }
            continue;
        }
        if !given("apiGroups") {
            errors.required(&place.child("apiGroups"), "resource rules must supply at least one api group");
        }
        if !given("resources") {
            errors.required(&place.child("resources"), "resource rules must supply at least one resource");
        }
    }
}

fn validate_binding(binding: &Value, kinds: &[&str], errors: &mut Errors) {
    let path = Path::new("roleRef");
    let (group, kind, name) = (
        binding.text(&["roleRef", "apiGroup"]),
        binding.text(&["roleRef", "kind"]),
        binding.text(&["roleRef", "name"]),
    );
    if group != GROUP {
        errors.unsupported(&path.child("apiGroup"), group, &[GROUP]);
    }
    if !kinds.contains(&kind) {
        errors.unsupported(&path.child("kind"), kind, kinds);
    }
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.invalid_each(&path.child("name"), name, path_segment(name));
    }
    // In a RoleBinding, the namespace of a service account is optional.
    let namespaced = kinds.contains(&"Role");
    let list = Path::new("subjects");
    for (index, subject) in binding.items(&["subjects"]).iter().enumerate() {
        validate_subject(subject, namespaced, &list.index(index), errors);
    }
}

fn validate_subject(subject: &Value, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    let (name, group) = (subject.text(&["name"]), subject.text(&["apiGroup"]));
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    }
    match subject.text(&["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.invalid_each(&path.child("name"), name, dns_subdomain(name));
            }
            if !group.is_empty() {
                errors.unsupported(&path.child("apiGroup"), group, &[""]);
            }
            if !namespaced && subject.text(&["namespace"]).is_empty() {
                errors.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.unsupported(&path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => errors.unsupported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

/// Validates that a binding's role does not change.
fn keep_role(new: &Value, old: &Value, errors: &mut Errors) {
    if new.at(&["roleRef"]) != old.at(&["roleRef"]) {
        // The value is shown with Go's field names.
        let text = |field: &str| new.text(&["roleRef", field]);
        let shown = json!({"APIGroup": text("apiGroup"), "Kind": text("kind"), "Name": text("name")});
        errors.invalid(&Path::new("roleRef"), &shown, "cannot change roleRef");
    }
}
