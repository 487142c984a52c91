//! The group `rbac.authorization.k8s.io`: roles and role bindings.

use crate::kinds::{prelude::*, selector::is_valid_selector};

const GROUP: &str = "rbac.authorization.k8s.io";
const RULES: Rules = Rules { name: NameRule::PathSegment, create_on_update: true, ..Rules::COMMON };

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "Role",
        rules: RULES,
        validate: |role, errors| validate_rules(role, Scope::Namespace, errors),
        ..BASE
    },
    Kind { name: "ClusterRole", rules: RULES, validate: validate_cluster_role, ..BASE },
    Kind {
        name: "RoleBinding",
        validate: |binding, errors| validate_binding(binding, Scope::Namespace, errors),
        ..BINDING
    },
    Kind {
        name: "ClusterRoleBinding",
        validate: |binding, errors| validate_binding(binding, Scope::Cluster, errors),
        ..BINDING
    },
];

/// The row that the bindings extend.
const BINDING: Kind = Kind { rules: RULES, default: default_binding, validate_update: validate_binding_update, ..BASE };

/// The objects that a role or a binding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Namespace,
    Cluster,
}

fn validate_cluster_role(role: &Field<'_>, errors: &mut Errors) {
    validate_rules(role, Scope::Cluster, errors);
    if role.child("aggregationRule").is_set() {
        let selectors = role.child("aggregationRule.clusterRoleSelectors");
        selectors.check_not_empty("at least one clusterRoleSelector required if aggregationRule is non-nil", errors);
        for selector in selectors.items() {
            if !is_valid_selector(&selector, errors) {
                selector.invalid_as(&Value::Null, "invalid label selector.", errors);
            }
        }
    }
}

fn default_binding(binding: &mut Value) {
    default_to(object_mut(binding, "roleRef"), "apiGroup", GROUP);
    change_each(binding, "subjects.*", |subject| {
        if matches!(subject.text(&["kind"]), "User" | "Group") {
            default_to(subject, "apiGroup", GROUP);
        }
    });
}

fn validate_binding(binding: &Field<'_>, scope: Scope, errors: &mut Errors) {
    let role = binding.child("roleRef");
    role.child("apiGroup").supported(&[GROUP], errors);
    let kinds: &[&str] = match scope {
        Scope::Namespace => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    role.child("kind").supported(kinds, errors);
    role.child("name").required_text(path_segment, errors);
    binding.child("subjects").each(|subject, errors| validate_subject(subject, scope, errors), errors);
}

/// Validates that the role does not change.
fn validate_binding_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let role = new.child("roleRef");
    if role.value() != old.child("roleRef").value() {
        // The message shows Go's field names.
        let text = |field: &str| role.json().text(&[field]);
        let shown = json!({"APIGroup": text("apiGroup"), "Kind": text("kind"), "Name": text("name")});
        let is_declared = errors.kubernetes() >= KubernetesVersion::V1_37;
        let detail = if is_declared { "field is immutable" } else { "cannot change roleRef" };
        role.invalid_as(&shown, detail, errors);
    }
}

fn validate_rules(role: &Field<'_>, scope: Scope, errors: &mut Errors) {
    for rule in role.child("rules").items() {
        rule.child("verbs").check_not_empty("verbs must contain at least one value", errors);
        let urls = rule.child("nonResourceURLs");
        if !urls.is_empty() {
            if scope == Scope::Namespace {
                urls.invalid("namespaced rules cannot apply to non-resource URLs", errors);
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !rule.child(name).is_empty()) {
                urls.invalid("rules cannot apply to both regular resources and non-resource URLs", errors);
            }
            continue;
        }
        rule.child("apiGroups").check_not_empty("resource rules must supply at least one api group", errors);
        rule.child("resources").check_not_empty("resource rules must supply at least one resource", errors);
    }
}

fn validate_subject(subject: &Field<'_>, scope: Scope, errors: &mut Errors) {
    let (kind, group, name) = (subject.child("kind"), subject.child("apiGroup"), subject.child("name"));
    name.check_not_empty("", errors);
    match kind.text() {
        "ServiceAccount" => {
            name.optional_text(dns_subdomain, errors);
            group.supported(&[""], errors);
            // In a RoleBinding, the namespace is optional.
            if scope == Scope::Cluster {
                subject.child("namespace").check_not_empty("", errors);
            }
        }
        "User" | "Group" => group.supported(&[GROUP], errors),
        _ => kind.unsupported(&["ServiceAccount", "User", "Group"], errors),
    }
}
