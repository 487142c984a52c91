//! `ResourceQuota`.

use std::collections::HashMap;

use crate::kinds::{
    amount,
    core::resource_names::{COMPUTE, COUNTED, is_quota_resource, is_standard_resource, validate_resource_name},
    prelude::*,
    quantity::{check_integer, check_not_negative},
};

pub(super) const KIND: Kind = Kind {
    name: "ResourceQuota",
    rules: Rules { metadata: MetadataRule::CHANGES, returns_deleted: true, ..Rules::WITH_STATUS },
    validate,
    validate_update,
    validate_status,
    warnings,
    ..BASE
};

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

fn validate(quota: &Field<'_>, errors: &mut Errors) {
    let spec = quota.child("spec");
    validate_amounts(&spec.child("hard"), errors);
    validate_scopes(&spec, errors);
    validate_scope_selector(&spec, errors);
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let sorted_scopes = |quota: &Value| {
        let mut scopes: Vec<String> = quota.items(&["spec", "scopes"]).iter().map(ToString::to_string).collect();
        scopes.sort();
        scopes.dedup();
        scopes
    };
    if sorted_scopes(new.json()) != sorted_scopes(old.json()) {
        new.child("spec.scopes").invalid("field is immutable", errors);
    }
}

fn validate_status(quota: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    for amounts in ["status.hard", "status.used"] {
        validate_amounts(&quota.child(amounts), errors);
    }
}

/// Warns if a new quota allows more requests than limits.
fn warnings(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    if old.is_some() {
        return;
    }
    let hard = |name: &str| Some(new.text(&["spec", "hard", name])).filter(|text| !text.is_empty());
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let (mut request_name, limit_name) = (format!("requests.{resource}"), format!("limits.{resource}"));
        let mut request = hard(&request_name);
        if request.is_none() && matches!(resource, "cpu" | "memory") {
            request = hard(resource);
            resource.clone_into(&mut request_name);
        }
        if let (Some(request), Some(limit)) = (request, hard(&limit_name))
            && amount(request) > amount(limit)
        {
            warnings
                .push(format!("ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})"));
        }
    }
}

fn validate_scopes(spec: &Field<'_>, errors: &mut Errors) {
    let scopes = spec.child("scopes");
    let mut counts = HashMap::new();
    for scope in scopes.items() {
        let scope = scope.text();
        if !SCOPES.contains(&scope) {
            scopes.invalid("unsupported scope", errors);
        }
        // Counts each scope once, because a quota may have as many scopes as resources.
        let count = *counts.entry(scope).or_insert_with(|| unsupported_resources(spec, scope));
        for _ in 0..count {
            if errors.is_full() {
                break;
            }
            scopes.invalid("unsupported scope applied to resource", errors);
        }
    }
    let names: Vec<&str> = scopes.items().map(|scope| scope.text()).collect();
    validate_conflicts(&names, scopes.json(), scopes.path(), errors);
}

/// Returns the number of resources in a quota that one of its scopes does not support.
fn unsupported_resources(spec: &Field<'_>, scope: &str) -> usize {
    let supports = |name: &str| match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            name == "pods" || COMPUTE.contains(&name)
        }
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    };
    spec.child("hard").entries().filter(|(name, _)| is_quota_resource(name) && !supports(name)).count()
}

/// Adds an error for each pair of scopes that contradict each other. It shows `value`.
fn validate_conflicts(scopes: &[&str], value: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if scopes.contains(&one) && scopes.contains(&other) {
            errors.invalid(path, value, "conflicting scopes");
        }
    }
}

fn validate_scope_selector(spec: &Field<'_>, errors: &mut Errors) {
    let path = spec.path().child("scopeSelector.matchExpressions");
    let expressions = spec.json().items(&["scopeSelector", "matchExpressions"]);
    // The value is shown with Go's field names.
    let with_go_names = |expression: &Value| {
        let values = expression.at(&["values"]).unwrap_or(&Value::Null);
        json!({"ScopeName": expression["scopeName"], "Operator": expression["operator"], "Values": values})
    };
    let shown = json!({"MatchExpressions": expressions.iter().map(with_go_names).collect::<Vec<_>>()});
    for expression in expressions {
        let (scope, operator) = (expression.text(&["scopeName"]), expression.text(&["operator"]));
        let is_known = SCOPES.contains(&scope);
        if !is_known {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..unsupported_resources(spec, scope) {
            errors.invalid(&path, &shown, "unsupported scope applied to resource");
        }
        if is_known && !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                          ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid(&path.child("operator"), operator, detail);
        }
        let values = Field::new(path.child("values"), expression.at(&["values"]));
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                values.required(detail, errors);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                values.invalid(detail, errors);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
        }
    }
    let names: Vec<&str> = expressions.iter().map(|expression| expression.text(&["scopeName"])).collect();
    validate_conflicts(&names, spec.child("scopes").json(), &path, errors);
}

/// Validates the amounts of resources.
fn validate_amounts(amounts: &Field<'_>, errors: &mut Errors) {
    for (name, quantity) in amounts.entries() {
        let before = errors.len();
        validate_resource_name(name, quantity.path(), errors);
        let is_valid_name = errors.len() == before;
        if !name.contains('/') && !is_quota_resource(name) && (is_valid_name || !is_standard_resource(name)) {
            errors.invalid(quantity.path(), name, "must be a standard resource for quota");
        }
        check_not_negative(&quantity, errors);
        let is_extended = name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.");
        if COUNTED.contains(&name) || is_extended {
            check_integer(&quantity, errors);
        }
    }
}
