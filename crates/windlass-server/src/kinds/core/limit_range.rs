//! `LimitRange`.

use crate::kinds::{
    amount,
    core::resource_names::{validate_container_resource, validate_resource_name},
    prelude::*,
};

pub(super) const KIND: Kind = Kind {
    name: "LimitRange",
    rules: Rules { metadata: MetadataRule::OBJECT, create_on_update: true, ..Rules::COMMON },
    default,
    prepare_create,
    validate,
    ..BASE
};

/// Derives the defaults of containers from other fields.
fn default(object: &mut Value) {
    let Some(spec) = object.get_mut("spec") else { return };
    for limit in items_mut(spec, "limits") {
        if limit.text(&["type"]) != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let given: Map<String, Value> = limit.at(&[from]).and_then(Value::as_object).cloned().unwrap_or_default();
            let derived = object_mut(limit, to);
            for (name, quantity) in given {
                default_pointer(derived, &name, quantity);
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

fn prepare_create(object: &mut Value, _write: &WriteContext<'_>) {
    // This is the only kind whose name is optional.
    if object.text(&["metadata", "name"]).is_empty() {
        let uid = object.text(&["metadata", "uid"]).to_owned();
        metadata_mut(object).insert("name".to_owned(), uid.into());
    }
}

fn validate(range: &Field<'_>, errors: &mut Errors) {
    let limits = range.child("spec.limits");
    let mut seen = DuplicateCheck::default();
    for limit in limits.items() {
        let name = limit.child("type");
        let kind = limit.json().text(&["type"]);
        let problems = qualified_name(kind);
        if problems.is_empty() && !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim")
        {
            name.invalid_as(kind, "must be a standard limit type or fully qualified", errors);
        }
        name.invalid_each(problems, errors);
        limit.check_unique_by("type", &mut seen, errors);
        validate_limit(&limit, kind, errors);
    }
}

fn validate_limit(limit: &Field<'_>, kind: &str, errors: &mut Errors) {
    const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let lists = LISTS.map(|list| limit.child(list));
    let (mut names, mut seen) = (Vec::new(), DuplicateCheck::default());
    for (list, amounts) in LISTS.iter().zip(&lists) {
        if kind == "Pod" && list.starts_with("default") {
            amounts.check_empty("may not be specified when `type` is 'Pod'", errors);
            continue;
        }
        if *list == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let is_bounded = ["min.storage", "max.storage"].iter().any(|bound| limit.child(bound).is_set());
            if !is_bounded {
                let detail = "either minimum or maximum storage value is required, but neither was provided";
                limit.child("limits").required(detail, errors);
            }
        }
        for (name, quantity) in amounts.entries() {
            if matches!(kind, "Pod" | "Container") {
                validate_container_resource(name, quantity.path(), errors);
            } else {
                validate_resource_name(name, quantity.path(), errors);
            }
            if !seen.repeats(name) {
                names.push(name);
            }
        }
    }
    for name in names {
        validate_amounts(limit, kind, name, errors);
    }
}

/// Validates that the amounts of one resource are consistent.
fn validate_amounts(limit: &Field<'_>, kind: &str, name: &str, errors: &mut Errors) {
    let get = |list: &str| {
        let is_ignored = kind == "Pod" && list.starts_with("default");
        let text = limit.json().at(&[list, name]).and_then(Value::as_str).filter(|_| !is_ignored)?;
        Some((text, amount(text)?))
    };
    let mut report = |list: &str, shown: &str, detail: String| {
        limit.child(list).key(name).invalid_as(shown, &detail, errors);
    };
    let (min, max, request, default) = (get("min"), get("max"), get("defaultRequest"), get("default"));
    // A lower bound and an upper bound with their names, the field of the error, and the amount that it shows.
    let bounds = [
        (("min value", min), ("max value", max), "min", min),
        (("min value", min), ("default request value", request), "defaultRequest", request),
        (("default request value", request), ("max value", max), "defaultRequest", request),
        (("default request value", request), ("default limit value", default), "defaultRequest", request),
        (("min value", min), ("default value", default), "default", min),
        (("default value", default), ("max value", max), "default", max),
    ];
    for ((lower_name, lower), (upper_name, upper), list, shown) in bounds {
        if let (Some((lower, lower_amount)), Some((upper, upper_amount)), Some((shown, _))) = (lower, upper, shown)
            && lower_amount > upper_amount
        {
            report(list, shown, format!("{lower_name} {lower} is greater than {upper_name} {upper}"));
        }
    }
    if let Some((text, ratio)) = get("maxLimitRequestRatio") {
        if ratio < 1.0 {
            report("maxLimitRequestRatio", text, format!("ratio {text} is less than 1"));
        }
        if let (Some((_, min)), Some((_, max))) = (min, max)
            && ratio > max / min
        {
            let max_ratio = max / min;
            report("maxLimitRequestRatio", text, format!("ratio {text} is greater than max/min = {max_ratio:.6}"));
        }
    }
    let can_be_overcommitted = !name.contains('/') && !name.starts_with("hugepages-");
    if let (false, Some((default, default_amount)), Some((request, request_amount))) =
        (can_be_overcommitted, default, request)
        && (default_amount - request_amount).abs() > f64::EPSILON
    {
        let detail = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        report("defaultRequest", request, detail);
    }
}
