//! The group `rbac.authorization.k8s.io`: roles and role bindings.

use crate::kinds::{prelude::*, selector::is_valid_selector};

const GROUP: &str = "rbac.authorization.k8s.io";
const RULES: Rules = Rules { name: NameRule::PathSegment, create_on_update: true, ..Rules::COMMON };

pub(super) const KINDS: &[Kind] = &[
    Kind { group: GROUP, name: "Role", prefix: "/registry/roles/", strategy: |_| Arc::new(Role), ..BASE },
    Kind {
        group: GROUP,
        name: "ClusterRole",
        prefix: "/registry/clusterroles/",
        strategy: |_| Arc::new(ClusterRole),
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "RoleBinding",
        prefix: "/registry/rolebindings/",
        strategy: |_| Arc::new(Binding { scope: Scope::Namespace }),
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "ClusterRoleBinding",
        prefix: "/registry/clusterrolebindings/",
        strategy: |_| Arc::new(Binding { scope: Scope::Cluster }),
        ..BASE
    },
];

#[derive(Debug)]
struct Role;

#[derive(Debug)]
struct ClusterRole;

/// The kinds RoleBinding and ClusterRoleBinding.
#[derive(Debug)]
struct Binding {
    scope: Scope,
}

/// The objects that a role or a binding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Namespace,
    Cluster,
}

impl Strategy for Role {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn validate(&self, role: &Value, errors: &mut Errors) {
        validate_rules(&Field::object(role), Scope::Namespace, errors);
    }
}

impl Strategy for ClusterRole {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn validate(&self, role: &Value, errors: &mut Errors) {
        let role = Field::object(role);
        validate_rules(&role, Scope::Cluster, errors);
        if role.child("aggregationRule").is_set() {
            let selectors = role.child("aggregationRule.clusterRoleSelectors");
            if selectors.is_empty() {
                selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil", errors);
            }
            for selector in selectors.items() {
                if !is_valid_selector(&selector, errors) {
                    selector.invalid_as(&Value::Null, "invalid label selector.", errors);
                }
            }
        }
    }
}

impl Strategy for Binding {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn default(&self, binding: &mut Value) {
        default_to(object_mut(binding, "roleRef"), "apiGroup", GROUP);
        for subject in items_mut(binding, "subjects") {
            if matches!(subject.text(&["kind"]), "User" | "Group") {
                default_to(as_object(subject), "apiGroup", GROUP);
            }
        }
    }

    fn validate(&self, binding: &Value, errors: &mut Errors) {
        let binding = Field::object(binding);
        let role = binding.child("roleRef");
        let group = role.child("apiGroup");
        if group.text() != GROUP {
            group.unsupported(&[GROUP], errors);
        }
        let kinds: &[&str] = match self.scope {
            Scope::Namespace => &["Role", "ClusterRole"],
            Scope::Cluster => &["ClusterRole"],
        };
        let kind = role.child("kind");
        if !kinds.contains(&kind.text()) {
            kind.unsupported(kinds, errors);
        }
        role.child("name").required_text(path_segment, errors);
        for subject in binding.child("subjects").items() {
            validate_subject(&subject, self.scope, errors);
        }
    }

    /// Validates that the role does not change.
    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        if new.at(&["roleRef"]) != old.at(&["roleRef"]) {
            // The message shows Go's field names.
            let text = |field: &str| new.text(&["roleRef", field]);
            let role = json!({"APIGroup": text("apiGroup"), "Kind": text("kind"), "Name": text("name")});
            Field::object(new).child("roleRef").invalid_as(&role, "cannot change roleRef", errors);
        }
    }
}

fn validate_rules(role: &Field<'_>, scope: Scope, errors: &mut Errors) {
    for rule in role.child("rules").items() {
        let has = |name: &str| !rule.child(name).is_empty();
        if !has("verbs") {
            rule.child("verbs").required("verbs must contain at least one value", errors);
        }
        let urls = rule.child("nonResourceURLs");
        if !urls.is_empty() {
            if scope == Scope::Namespace {
                urls.invalid("namespaced rules cannot apply to non-resource URLs", errors);
            }
            if ["apiGroups", "resources", "resourceNames"].into_iter().any(has) {
                urls.invalid("rules cannot apply to both regular resources and non-resource URLs", errors);
            }
            continue;
        }
        if !has("apiGroups") {
            rule.child("apiGroups").required("resource rules must supply at least one api group", errors);
        }
        if !has("resources") {
            rule.child("resources").required("resource rules must supply at least one resource", errors);
        }
    }
}

fn validate_subject(subject: &Field<'_>, scope: Scope, errors: &mut Errors) {
    let (kind, group, name) = (subject.child("kind"), subject.child("apiGroup"), subject.child("name"));
    if name.is_empty() {
        name.required("", errors);
    }
    match kind.text() {
        "ServiceAccount" => {
            name.optional_text(dns_subdomain, errors);
            if !group.is_empty() {
                group.unsupported(&[""], errors);
            }
            // In a RoleBinding, the namespace is optional.
            if scope == Scope::Cluster && subject.child("namespace").is_empty() {
                subject.child("namespace").required("", errors);
            }
        }
        "User" | "Group" => {
            if group.text() != GROUP {
                group.unsupported(&[GROUP], errors);
            }
        }
        _ => kind.unsupported(&["ServiceAccount", "User", "Group"], errors),
    }
}
