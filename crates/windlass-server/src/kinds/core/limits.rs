//! Resource quotas and limit ranges.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::kinds::{BASE, Kind, quantity::amount};
use crate::{
    object::{
        DuplicateCheck, Errors, Path, Tree, as_object, default_pointer, items_mut, metadata_mut, object_mut,
        qualified_name,
    },
    resource::{MetadataRule, Rules},
};

const SPEC: Path<'static> = Path::new("spec");

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "ResourceQuota",
        prefix: "/registry/resourcequotas/",
        subresources: &["status"],
        rules: Rules { metadata: MetadataRule::CHANGES, returns_deleted: true, ..Rules::WITH_STATUS },
        validate: validate_quota,
        validate_update: validate_quota_update,
        validate_status: |new, _, errors| {
            for field in ["hard", "used"] {
                let path = Path::new("status");
                validate_amounts(new, &["status", field], &path.child(field), errors);
            }
        },
        warnings: quota_warnings,
        ..BASE
    },
    Kind {
        name: "LimitRange",
        prefix: "/registry/limitranges/",
        rules: Rules { metadata: MetadataRule::OBJECT, create_on_update: true, ..Rules::COMMON },
        default: default_range,
        prepare_create: |range| {
            // This is the only kind whose name is optional.
            if range.text(&["metadata", "name"]).is_empty() {
                let uid = range.text(&["metadata", "uid"]).to_owned();
                metadata_mut(range).insert("name".to_owned(), uid.into());
            }
        },
        validate: validate_range,
        ..BASE
    },
];

/// The resources that are counted in whole numbers.
const COUNTED: [&str; 9] = [
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

const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

/// Reports whether quotas support this resource.
fn is_quota_resource(name: &str) -> bool {
    const OTHERS: [&str; 5] = [
        "ephemeral-storage",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.ephemeral-storage",
        "requests.hugepages-",
    ];
    COUNTED.contains(&name)
        || COMPUTE.contains(&name)
        || OTHERS[..4].contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with(OTHERS[4])
}

/// Reports whether this is a standard resource of Kubernetes.
fn is_standard_resource(name: &str) -> bool {
    is_quota_resource(name) || name == "storage"
}

// === quotas ===

fn validate_quota(quota: &Value, errors: &mut Errors) {
    validate_amounts(quota, &["spec", "hard"], &SPEC.child("hard"), errors);
    let nothing = json!({});
    let spec = quota.at(&["spec"]).unwrap_or(&nothing);
    let scopes = spec.items(&["scopes"]);
    let path = SPEC.child("scopes");
    let shown = spec.at(&["scopes"]).unwrap_or(&Value::Null);
    let mut counts = HashMap::new();
    for scope in scopes {
        let scope = scope.as_str().unwrap_or_default();
        if !SCOPES.contains(&scope) {
            errors.invalid(&path, shown, "unsupported scope");
        }
        // Counts each scope once, because a quota may have as many scopes as resources.
        let count = *counts.entry(scope).or_insert_with(|| unfit(spec, scope).count());
        for _ in 0..count {
            if errors.is_full() {
                break;
            }
            errors.invalid(&path, shown, "unsupported scope applied to resource");
        }
    }
    let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
    conflicting(&scopes, &path, shown, errors);
    if let Some(selector) = spec.at(&["scopeSelector"]) {
        validate_scope_selector(spec, selector, shown, errors);
    }
}

/// Returns the resources in a quota that one of its scopes does not support.
fn unfit<'v>(spec: &'v Value, scope: &'v str) -> impl Iterator<Item = &'v str> {
    let fits = move |name: &str| match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            name == "pods" || COMPUTE.contains(&name)
        }
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    };
    let names = spec.entries(&["hard"]).map(|(name, _)| name.as_str());
    names.filter(move |name| is_quota_resource(name) && !fits(name))
}

fn conflicting(scopes: &[&str], path: &Path<'_>, shown: &Value, errors: &mut Errors) {
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if scopes.contains(&one) && scopes.contains(&other) {
            errors.invalid(path, shown, "conflicting scopes");
        }
    }
}

fn validate_scope_selector(spec: &Value, selector: &Value, scopes: &Value, errors: &mut Errors) {
    let list = SPEC.child("scopeSelector.matchExpressions");
    // The value is shown with Go's field names.
    let expressions = selector.items(&["matchExpressions"]);
    let show = |expression: &Value| {
        let values = expression.at(&["values"]).unwrap_or(&Value::Null);
        json!({"ScopeName": expression["scopeName"], "Operator": expression["operator"], "Values": values})
    };
    let shown = json!({"MatchExpressions": expressions.iter().map(show).collect::<Vec<_>>()});
    let mut names = Vec::new();
    for expression in expressions {
        let (scope, operator) = (expression.text(&["scopeName"]), expression.text(&["operator"]));
        let values = expression.at(&["values"]).unwrap_or(&Value::Null);
        if !SCOPES.contains(&scope) {
            errors.invalid(&list.child("scopeName"), scope, "unsupported scope");
        }
        for _ in unfit(spec, scope) {
            errors.invalid(&list, &shown, "unsupported scope applied to resource");
        }
        if !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && SCOPES.contains(&scope)
            && operator != "Exists"
        {
            let text = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                        ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                        ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid(&list.child("operator"), operator, text);
        }
        let empty = values.as_array().is_none_or(Vec::is_empty);
        match operator {
            "In" | "NotIn" if empty => {
                let text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.required(&list.child("values"), text);
            }
            "Exists" | "DoesNotExist" if !empty => {
                let text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.invalid(&list.child("values"), values, text);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(&list.child("operator"), other, "not a valid selector operator"),
        }
        names.push(scope);
    }
    conflicting(&names, &list, scopes, errors);
}

/// Validates the amounts of resources.
fn validate_amounts(quota: &Value, place: &[&str], path: &Path<'_>, errors: &mut Errors) {
    for (name, quantity) in quota.entries(place) {
        let path = path.key(name);
        let before = errors.len();
        validate_resource_name(name, &path, errors);
        let named = errors.len() == before;
        if !name.contains('/') && !is_quota_resource(name) && (named || !is_standard_resource(name)) {
            errors.invalid(&path, name, "must be a standard resource for quota");
        }
        let text = quantity.as_str().unwrap_or_default();
        let value = amount(text).unwrap_or_default();
        if value < 0.0 {
            errors.invalid(&path, text, "must be greater than or equal to 0");
        }
        let extended = name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.");
        if (COUNTED.contains(&name.as_str()) || extended) && value.fract() != 0.0 {
            errors.invalid(&path, text, "must be an integer");
        }
    }
}

fn validate_resource_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let problems = qualified_name(name);
    let fine = problems.is_empty();
    errors.invalid_each(path, name, problems);
    if fine && !name.contains('/') && !is_standard_resource(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

/// Validates the name of a resource that containers can use.
pub(super) fn validate_container_resource(name: &str, path: &Path<'_>, errors: &mut Errors) {
    validate_resource_name(name, path, errors);
    let native = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !native && !name.contains('/') {
        errors.invalid(path, name, "must be a standard resource for containers");
    }
}

fn validate_quota_update(new: &Value, old: &Value, errors: &mut Errors) {
    let scopes = |quota: &Value| {
        let mut scopes: Vec<String> = quota.items(&["spec", "scopes"]).iter().map(ToString::to_string).collect();
        scopes.sort();
        scopes.dedup();
        scopes
    };
    if scopes(new) != scopes(old) {
        let shown = new.at(&["spec", "scopes"]).unwrap_or(&Value::Null);
        errors.invalid(&SPEC.child("scopes"), shown, "field is immutable");
    }
}

fn quota_warnings(quota: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let hard = |name: &str| Some(quota.text(&["spec", "hard", name])).filter(|text| !text.is_empty());
    let mut warnings = Vec::new();
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
    warnings
}

// === limit ranges ===

/// Derives the defaults of containers from other fields.
fn default_range(range: &mut Value) {
    let Some(spec) = range.get_mut("spec") else { return };
    for limit in items_mut(spec, "limits") {
        if limit.text(&["type"]) != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let given: Map<String, Value> = limit.at(&[from]).and_then(Value::as_object).cloned().unwrap_or_default();
            let map = object_mut(limit, to);
            for (name, quantity) in given {
                default_pointer(map, &name, quantity);
            }
        }
        // Empty maps are not stored.
        for field in ["default", "defaultRequest"] {
            if limit.entries(&[field]).next().is_none() {
                as_object(limit).shift_remove(field);
            }
        }
    }
}

fn validate_range(range: &Value, errors: &mut Errors) {
    let list = SPEC.child("limits");
    let limits = range.items(&["spec", "limits"]);
    let mut seen = DuplicateCheck::default();
    for (index, limit) in limits.iter().enumerate() {
        let place = list.index(index);
        let kind = limit.text(&["type"]);
        let problems = qualified_name(kind);
        if problems.is_empty() && !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim")
        {
            errors.invalid(&place.child("type"), kind, "must be a standard limit type or fully qualified");
        }
        errors.invalid_each(&place.child("type"), kind, problems);
        if seen.repeats(kind) {
            errors.duplicate(&place.child("type"), kind);
        }
        validate_limit(limit, kind, &place, errors);
    }
}

fn validate_limit(limit: &Value, kind: &str, place: &Path<'_>, errors: &mut Errors) {
    let (mut names, mut seen): (Vec<&str>, _) = (Vec::new(), DuplicateCheck::default());
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let path = place.child(field);
        if kind == "Pod" && field.starts_with("default") {
            if limit.entries(&[field]).next().is_some() {
                errors.forbidden(&path, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        if field == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let bounded = ["min", "max"].iter().any(|field| limit.at(&[field, "storage"]).is_some());
            if !bounded {
                let text = "either minimum or maximum storage value is required, but neither was provided";
                errors.required(&place.child("limits"), text);
            }
        }
        for (name, _) in limit.entries(&[field]) {
            let path = path.key(name);
            if matches!(kind, "Pod" | "Container") {
                validate_container_resource(name, &path, errors);
            } else {
                validate_resource_name(name, &path, errors);
            }
            if !seen.repeats(name.as_str()) {
                names.push(name);
            }
        }
    }
    for name in names {
        compare(limit, kind, name, place, errors);
    }
}

/// Validates that the amounts of one resource are consistent.
fn compare(limit: &Value, kind: &str, name: &str, place: &Path<'_>, errors: &mut Errors) {
    let get = |field: &str| {
        let ignored = kind == "Pod" && field.starts_with("default");
        let text = limit.at(&[field, name]).and_then(Value::as_str).filter(|_| !ignored)?;
        Some((text.to_owned(), amount(text)?))
    };
    let (min, max, request, default) = (get("min"), get("max"), get("defaultRequest"), get("default"));
    let more = |a: &Option<(String, f64)>, b: &Option<(String, f64)>| match (a, b) {
        (Some((a_text, a)), Some((b_text, b))) if a > b => Some((a_text.clone(), b_text.clone())),
        _ => None,
    };
    let mut complain = |field: &str, shown: &str, text: String| {
        errors.invalid(&place.child(field).key(name), shown, &text);
    };
    if let Some((a, b)) = more(&min, &max) {
        complain("min", &a, format!("min value {a} is greater than max value {b}"));
    }
    if let Some((a, b)) = more(&min, &request) {
        complain("defaultRequest", &b, format!("min value {a} is greater than default request value {b}"));
    }
    if let Some((a, b)) = more(&request, &max) {
        complain("defaultRequest", &a, format!("default request value {a} is greater than max value {b}"));
    }
    if let Some((a, b)) = more(&request, &default) {
        complain("defaultRequest", &a, format!("default request value {a} is greater than default limit value {b}"));
    }
    if let Some((a, b)) = more(&min, &default) {
        complain("default", &a, format!("min value {a} is greater than default value {b}"));
    }
    if let Some((a, b)) = more(&default, &max) {
        complain("default", &b, format!("default value {a} is greater than max value {b}"));
    }
    if let Some((text, ratio)) = get("maxLimitRequestRatio") {
        if ratio < 1.0 {
            complain("maxLimitRequestRatio", &text, format!("ratio {text} is less than 1"));
        }
        if let (Some((_, min)), Some((_, max))) = (&min, &max)
            && ratio > max / min
        {
            let most = max / min;
            complain("maxLimitRequestRatio", &text, format!("ratio {text} is greater than max/min = {most:.6}"));
        }
    }
    let overcommitted = !name.contains('/') && !name.starts_with("hugepages-");
    if let (false, Some((a, default)), Some((b, request))) = (overcommitted, &default, &request)
        && (default - request).abs() > f64::EPSILON
    {
        complain("defaultRequest", b, format!("default value {a} must equal to defaultRequest value {b} in {name}"));
    }
}
