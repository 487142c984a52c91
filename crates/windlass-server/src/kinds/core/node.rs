//! `Node`.

use std::borrow::Cow;

use crate::{
    codec::go_quote,
    kinds::{
        prelude::*,
        quantity::{check_integer, check_not_negative},
    },
};

pub(super) const KIND: Kind = Kind {
    name: "Node",
    prefix: Some("/registry/minions/"),
    rules: Rules {
        status: StatusRule::Initial,
        fields: &[FieldRule { label: "spec.unschedulable", path: "spec.unschedulable" }],
        selects_namespace: false,
        ..Rules::WITH_STATUS
    },
    default,
    prepare_create: |object, _| drop_config(object),
    prepare_update: |new, _| drop_config(new),
    prepare_status: |new, _, _| drop_config(new),
    validate,
    validate_update,
    validate_status: validate_update,
    warnings,
    field: |node, label| {
        let is_unset = label == "spec.unschedulable" && !node.flag(&["spec", "unschedulable"]);
        is_unset.then_some(Cow::Borrowed("false"))
    },
    ..BASE
};

fn default(object: &mut Value) {
    // Both fields contain the pod range. If they differ, the older one wins.
    let range = object.text(&["spec", "podCIDR"]).to_owned();
    let first = object.items(&["spec", "podCIDRs"]).first().cloned();
    let spec = object_mut(object, "spec");
    match first {
        Some(first) if range.is_empty() => drop(spec.insert("podCIDR".to_owned(), first)),
        first if !range.is_empty() && first.as_ref().is_none_or(|first| *first != *range) => {
            spec.insert("podCIDRs".to_owned(), json!([range]));
        }
        _ => {}
    }
    if let Some(capacity) = object.at(&["status", "capacity"]).cloned() {
        let status = object_mut(object, "status");
        if status.at(&["allocatable"]).is_none() {
            status.insert("allocatable".to_owned(), capacity);
        }
    }
}

fn validate(node: &Field<'_>, errors: &mut Errors) {
    validate_taints(node, errors);
    validate_resources(node, errors);
    if let Some(capacity) = node.child("status.nodeInfo.swap.capacity").int().filter(|capacity| *capacity <= 0) {
        errors.invalid(&Path::new("metadata.nodeSwapStatus.capacity"), &capacity, "must be greater than zero");
    }
    validate_features(node, errors);
    validate_pod_ranges(&node.child("spec.podCIDRs"), errors);
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    let (ranges, old_ranges) = (spec.child("podCIDRs"), old_spec.child("podCIDRs"));
    if !old_ranges.is_empty() && old_ranges.value() != ranges.value() {
        ranges.forbidden("node updates may not change podCIDR except from \"\" to valid", errors);
    }
    let (provider, old_provider) = (spec.child("providerID"), old_spec.child("providerID"));
    if !old_provider.is_empty() && old_provider.text() != provider.text() {
        if errors.kubernetes() < KubernetesVersion::V1_37 {
            provider.forbidden("node updates may not change providerID except from \"\" to valid", errors);
        } else {
            let done = if provider.is_empty() { "cleared" } else { "modified" };
            provider.invalid_as(&Value::Null, &format!("field cannot be {done} once set"), errors);
        }
    }
    // The real server validates these twice and reports errors twice.
    validate_resources(new, errors);
    validate_features(new, errors);
    validate_taints(new, errors);
    let external = spec.child("externalID");
    if external.text() != old_spec.child("externalID").text() {
        external.forbidden("may not be updated", errors);
    }
}

fn warnings(new: &Value, _old: Option<&Value>, warnings: &mut Vec<String>) {
    if !new.text(&["spec", "externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
}

/// Removes the source of the kubelet's configuration, which belongs to a removed feature.
fn drop_config(node: &mut Value) {
    object_mut(node, "spec").shift_remove("configSource");
    change_each(node, "status", |status| drop(status.shift_remove("config")));
}

/// Validates the pod ranges of a node: at most one for each IP family.
fn validate_pod_ranges(ranges: &Field<'_>, errors: &mut Errors) {
    for range in ranges.items() {
        if let Some(problem) = range_problem(errors.kubernetes(), range.text()) {
            range.invalid_as(range.text(), problem, errors);
        }
    }
    let ipv6_count = ranges.items().filter(|range| range.text().contains(':')).count();
    if ranges.len() > 2 || (ranges.len() == 2 && ipv6_count != 1) {
        ranges.invalid("may specify no more than one CIDR for each IP family", errors);
    }
}

/// Validates that the resources of a node are not negative.
fn validate_resources(node: &Field<'_>, errors: &mut Errors) {
    for list in ["status.capacity", "status.allocatable"] {
        let list = node.child(list);
        for (name, quantity) in list.entries() {
            let quantity = Field::new(list.path().child(name), quantity.value());
            check_not_negative(&quantity, errors);
            if name.contains('/') && !name.contains("kubernetes.io/") {
                check_integer(&quantity, errors);
            }
        }
    }
}

/// Validates the declared features of a node: names in order, whose first segment starts with a capital letter.
fn validate_features(node: &Field<'_>, errors: &mut Errors) {
    const MAX_LENGTH: usize = 253;
    const SYNTAX: &str = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' \
                          (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and \
                          slashes";
    let is_segment = |segment: &str| {
        segment.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let features = node.child("status.declaredFeatures");
    let mut last = None;
    for feature in features.items() {
        let name = feature.text();
        match last {
            Some(last) if last == name => feature.duplicate(errors),
            Some(last) if last > name => feature.invalid_as(name, "list must be sorted alphabetically", errors),
            _ => {}
        }
        last = Some(name);
        let problem = if name.len() > MAX_LENGTH {
            format!("must be no more than {MAX_LENGTH} characters")
        } else if !name.starts_with(|letter: char| letter.is_ascii_uppercase()) || !name.split('/').all(is_segment) {
            SYNTAX.to_owned()
        } else {
            continue;
        };
        feature.invalid_as(name, &format!("invalid feature name {}: {problem}", go_quote(name)), errors);
    }
}

fn validate_taints(node: &Field<'_>, errors: &mut Errors) {
    // The taints are in the spec, but the real server reports this path.
    let taints = Field::new(Path::new("metadata.taints"), node.child("spec.taints").value());
    let mut seen = DuplicateCheck::default();
    for taint in taints.items() {
        let (key, value) = (taint.child("key"), taint.child("value"));
        key.check_text(qualified_name, errors);
        let problems = label_value(value.text());
        if !problems.is_empty() {
            value.invalid_as(value.text(), &problems.join(";"), errors);
        }
        taint.check(&[("effect", Rule::RequiredOneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"]))], errors);
        let (key, effect) = (taint.json().text(&["key"]), taint.json().text(&["effect"]));
        if seen.repeats((key, effect)) {
            // The value is shown with Go's field names.
            let time_added = taint.child("timeAdded").json();
            let shown = json!({"Key": key, "Value": value.text(), "Effect": effect, "TimeAdded": time_added});
            let message = format!("Duplicate value: {shown}: taints must be unique by key and effect pair");
            errors.add(taint.path(), "FieldValueDuplicate", message);
        }
    }
}
