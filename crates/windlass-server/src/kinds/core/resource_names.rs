//! The names of resources in quotas, limit ranges and autoscalers.

use crate::kinds::prelude::*;

/// The resources that quotas count in whole numbers.
pub(super) const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub(super) const COMPUTE: [&str; 6] =
    ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

const STORAGE: [&str; 4] =
    ["ephemeral-storage", "requests.storage", "requests.ephemeral-storage", "limits.ephemeral-storage"];

/// Reports whether quotas support this resource.
pub(super) fn is_quota_resource(name: &str) -> bool {
    COUNTED.contains(&name)
        || COMPUTE.contains(&name)
        || STORAGE.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

/// Reports whether this is a standard resource of Kubernetes.
pub(super) fn is_standard_resource(name: &str) -> bool {
    is_quota_resource(name) || name == "storage"
}

/// Validates the name of a resource.
pub(super) fn validate_resource_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let problems = qualified_name(name);
    if problems.is_empty() && !name.contains('/') && !is_standard_resource(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
    errors.invalid_each(path, name, problems);
}

/// Validates the name of a resource that containers can use.
pub(crate) fn validate_container_resource(name: &str, path: &Path<'_>, errors: &mut Errors) {
    validate_resource_name(name, path, errors);
    let native = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !native && !name.contains('/') {
        errors.invalid(path, name, "must be a standard resource for containers");
    }
}
