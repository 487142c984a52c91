//! Validation of updates of pods: most of the spec is immutable.

use std::collections::HashSet;

use crate::kinds::{pod_spec::validate_tolerations, prelude::*};

const IMMUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                         `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                         to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                         previously negative)";

/// The terms of the required node affinity.
const NODE_TERMS: &str = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";

/// Validates the changes of a pod's spec.
pub(super) fn validate(spec: &Field<'_>, old_spec: &Field<'_>, errors: &mut Errors) {
    if !spec.is_set() || !old_spec.is_set() {
        return;
    }
    for name in ["containers", "initContainers"] {
        let containers = spec.child(name);
        if containers.len() != old_spec.child(name).len() {
            return containers.forbidden("pod updates may not add or remove containers", errors);
        }
        containers.each(|container, errors| container.child("image").check_not_empty("", errors), errors);
    }
    validate_deadline(spec, old_spec, errors);
    validate_kept_tolerations(spec, old_spec, errors);
    // The real server validates the tolerations twice.
    validate_tolerations(spec, errors);
    validate_gates(spec, old_spec, errors);
    if !old_spec.child("schedulingGates").is_empty() {
        validate_directives(spec, old_spec, errors);
    }
    validate_immutable(spec, old_spec, errors);
}

/// Validates that the deadline does not become later.
fn validate_deadline(spec: &Field<'_>, old_spec: &Field<'_>, errors: &mut Errors) {
    let deadline = spec.child("activeDeadlineSeconds");
    let old = old_spec.child("activeDeadlineSeconds").int();
    match deadline.int() {
        Some(seconds) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            deadline.in_range(0, i64::from(i32::MAX), errors);
        }
        Some(seconds) if old.is_some_and(|old| old < seconds) => {
            deadline.invalid("must be less than or equal to previous value", errors);
        }
        None if old.is_some() => {
            deadline.invalid_as(&Value::Null, "must not update from a positive integer to nil value", errors);
        }
        _ => {}
    }
}

/// Validates that tolerations are only added, or get another `tolerationSeconds`.
fn validate_kept_tolerations(spec: &Field<'_>, old_spec: &Field<'_>, errors: &mut Errors) {
    let without_seconds =
        |toleration: &Value| ["key", "operator", "value", "effect"].map(|field| toleration.at(&[field]).cloned());
    let tolerations = spec.child("tolerations");
    let kept: HashSet<_> = tolerations.items().map(|toleration| without_seconds(toleration.json())).collect();
    if !old_spec.child("tolerations").items().all(|old| kept.contains(&without_seconds(old.json()))) {
        tolerations.forbidden("existing toleration can not be modified except its tolerationSeconds", errors);
    }
}

/// Validates that scheduling gates are only removed.
fn validate_gates(spec: &Field<'_>, old_spec: &Field<'_>, errors: &mut Errors) {
    let old_gates = old_spec.json().items(&["schedulingGates"]);
    let known: HashSet<&str> = old_gates.iter().map(|gate| gate.text(&["name"])).collect();
    for gate in spec.child("schedulingGates").items() {
        let name = gate.child("name");
        if !known.contains(name.text()) {
            let text = format!("only deletion is allowed, but found new scheduling gate '{}'", name.text());
            name.forbidden(&text, errors);
        }
    }
}

/// Validates that a gated pod's node selection only becomes narrower.
fn validate_directives(spec: &Field<'_>, old_spec: &Field<'_>, errors: &mut Errors) {
    let selector = spec.child("nodeSelector");
    let stays = |(key, value): (&str, Field<'_>)| selector.key(key).value() == value.value();
    if !old_spec.child("nodeSelector").entries().all(stays) {
        let text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        selector.invalid(text, errors);
    }
    let (terms, old_terms) = (spec.child(NODE_TERMS), old_spec.child(NODE_TERMS));
    if !old_terms.is_empty() && terms.len() != old_terms.len() {
        let text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return match terms.value() {
            Some(value) => terms.invalid_as(value, text, errors),
            None => terms.invalid_as(&Value::Array(Vec::new()), text, errors),
        };
    }
    for (term, old_term) in terms.items().zip(old_terms.items()) {
        let grows = |name: &str| term.json().items(&[name]).starts_with(old_term.json().items(&[name]));
        let is_empty =
            |term: &Field<'_>| term.child("matchExpressions").is_empty() && term.child("matchFields").is_empty();
        if !grows("matchExpressions") || !grows("matchFields") || (is_empty(&old_term) && !is_empty(&term)) {
            term.invalid("only additions are allowed (no mutations or deletions)", errors);
        }
    }
}

/// Validates that the other fields do not change.
fn validate_immutable(spec: &Field<'_>, old_spec: &Field<'_>, errors: &mut Errors) {
    let mut mutable = vec!["activeDeadlineSeconds", "schedulingGates", "tolerations"];
    if !old_spec.child("schedulingGates").is_empty() {
        mutable.extend(["nodeSelector", "affinity"]);
    }
    let grace = |spec: &Field<'_>| spec.child("terminationGracePeriodSeconds").int();
    if grace(old_spec).is_some_and(|seconds| seconds < 0) && grace(spec) == Some(1) {
        mutable.push("terminationGracePeriodSeconds");
    }
    let without_mutable = |spec: &Field<'_>| {
        let mut spec = spec.json().as_object().cloned().unwrap_or_default();
        for name in &mutable {
            spec.shift_remove(*name);
        }
        Value::Object(spec)
    };
    let (mut new, old) = (without_mutable(spec), without_mutable(old_spec));
    for list in ["containers", "initContainers"] {
        if let Some(Value::Array(containers)) = new.get_mut(list) {
            for (container, old) in containers.iter_mut().zip(old.items(&[list])) {
                as_object(container).insert("image".to_owned(), old.text(&["image"]).into());
            }
        }
    }
    // For these fields, an empty value differs from a missing one.
    let appears = |name: &&str| new.at(&[name]).is_some() != old.at(&[name]).is_some();
    let appears = ["affinity", "resources", "dnsConfig", "os"].iter().any(appears);
    if appears || (new != old && !same(Some(&new), Some(&old))) {
        let names = new.as_object().into_iter().chain(old.as_object()).flat_map(Map::keys);
        let changed = names.map(String::as_str).find(|name| new.at(&[name]) != old.at(&[name]));
        spec.forbidden(&format!("{IMMUTABLE}\n{}", changed.unwrap_or_default()), errors);
    }
}
