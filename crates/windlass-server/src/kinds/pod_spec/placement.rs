//! The placement of a pod: affinity, topology spread constraints, tolerations and gates.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::kinds::pod_spec::one_of;
use crate::{
    kinds::selector::{validate_node_requirements, validate_node_selector, validate_selector},
    object::{Errors, Path, Tree, dns_label, label_value, qualified_name},
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Validates node affinity and pod affinity.
pub(super) fn validate_affinity(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("affinity");
    if let Some(nodes) = spec.at(&["affinity", "nodeAffinity"]) {
        let place = path.child("nodeAffinity");
        if let Some(required) = nodes.at(&[REQUIRED]) {
            validate_node_selector(required, &place.child(REQUIRED), errors);
        }
        let list = place.child(PREFERRED);
        for (index, term) in nodes.items(&[PREFERRED]).iter().enumerate() {
            let place = list.index(index);
            validate_weight(term, &place, errors);
            if let Some(preference) = term.at(&["preference"]) {
                validate_node_requirements(preference, &place.child("preference"), errors);
            }
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let place = path.child(kind);
        let list = place.child(REQUIRED);
        for (index, term) in spec.items(&["affinity", kind, REQUIRED]).iter().enumerate() {
            validate_term(term, &list.index(index), errors);
        }
        let list = place.child(PREFERRED);
        for (index, weighted) in spec.items(&["affinity", kind, PREFERRED]).iter().enumerate() {
            let place = list.index(index);
            validate_weight(weighted, &place, errors);
            let term = weighted.at(&["podAffinityTerm"]).unwrap_or(&Value::Null);
            validate_term(term, &place.child("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    let weight = term.int(&["weight"]).unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), &weight, "must be in the range 1-100");
    }
}

/// Validates a term of a pod affinity.
fn validate_term(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_selector(term.at(&["labelSelector"]), &path.child("labelSelector"), errors);
    validate_selector(term.at(&["namespaceSelector"]), &path.child("namespaceSelector"), errors);
    for name in term.items(&["namespaces"]).iter().filter_map(Value::as_str) {
        errors.invalid_each(&path.child("namespace"), name, dns_label(name));
    }
    validate_label_keys(term, path, errors);
    let key = term.text(&["topologyKey"]);
    if key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    errors.invalid_each(&path.child("topologyKey"), key, qualified_name(key));
}

/// Validates label keys. Their values have already been added to the selector.
fn validate_label_keys(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    const FIELDS: [&str; 2] = ["matchLabelKeys", "mismatchLabelKeys"];
    let keys = |field: &'static str| term.items(&[field]).iter().filter_map(Value::as_str);
    for field in FIELDS {
        let place = path.child(field);
        if term.at(&["labelSelector"]).is_none() {
            if keys(field).next().is_some() {
                errors.forbidden(&place, "must not be specified when labelSelector is not set");
            }
            continue;
        }
        for (index, key) in keys(field).enumerate() {
            errors.invalid_each(&place.index(index), key, qualified_name(key));
        }
    }
    let labels = term.at(&["labelSelector", "matchLabels"]).and_then(Value::as_object);
    let mut selected: HashSet<&str> = labels.into_iter().flat_map(|labels| labels.keys().map(String::as_str)).collect();
    for expression in term.items(&["labelSelector", "matchExpressions"]) {
        let key = expression.text(&["key"]);
        if !selected.insert(key)
            && let Some(index) = keys("matchLabelKeys").collect::<Vec<_>>().iter().rposition(|known| *known == key)
        {
            errors.invalid(&path.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
    let mismatched: HashSet<&str> = keys("mismatchLabelKeys").collect();
    for (index, key) in keys("matchLabelKeys").enumerate() {
        if mismatched.contains(key) {
            let place = path.child("matchLabelKeys");
            errors.invalid(&place.index(index), key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// Validates topology spread constraints.
pub(super) fn validate_spreading(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("topologySpreadConstraints");
    let constraints = spec.items(&["topologySpreadConstraints"]);
    // The number of remaining constraints for each pair.
    let mut coming: HashMap<(&str, &str), usize> = HashMap::new();
    for constraint in constraints {
        *coming.entry((constraint.text(&["topologyKey"]), constraint.text(&["whenUnsatisfiable"]))).or_default() += 1;
    }
    for (index, constraint) in constraints.iter().enumerate() {
        let place = list.index(index);
        let (key, action) = (constraint.text(&["topologyKey"]), constraint.text(&["whenUnsatisfiable"]));
        positive(constraint.int(&["maxSkew"]).or(Some(0)), &place.child("maxSkew"), errors);
        if key.is_empty() {
            errors.required(&place.child("topologyKey"), "can not be empty");
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            errors.unsupported(&place.child("whenUnsatisfiable"), action, &actions);
        }
        let left = coming.entry((key, action)).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 {
            let pair = format!("{{{key}, {action}}}");
            errors.duplicate(&place.child("{topologyKey, whenUnsatisfiable}"), &pair);
        }
        let domains = constraint.int(&["minDomains"]);
        positive(domains, &place.child("minDomains"), errors);
        if let Some(domains) = domains.filter(|_| action != "DoNotSchedule") {
            let text = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            errors.invalid(&place.child("minDomains"), &domains, &text);
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            one_of(constraint, policy, &["Honor", "Ignore"], &place, errors);
        }
        validate_label_keys(constraint, &place, errors);
        validate_selector(constraint.at(&["labelSelector"]), &place.child("labelSelector"), errors);
    }
}

fn positive(number: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(number) = number.filter(|number| *number <= 0) {
        errors.invalid(path, &number, "must be greater than zero");
    }
}

/// Validates tolerations.
pub(in crate::kinds) fn validate_tolerations(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("tolerations");
    for (index, toleration) in spec.items(&["tolerations"]).iter().enumerate() {
        let place = list.index(index);
        let (key, operator) = (toleration.text(&["key"]), toleration.text(&["operator"]));
        if !key.is_empty() {
            errors.invalid_each(&place.child("key"), key, qualified_name(key));
        } else if operator != "Exists" {
            let text = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&place.child("operator"), operator, text);
        }
        let effect = toleration.text(&["effect"]);
        if toleration.int(&["tolerationSeconds"]).is_some() && effect != "NoExecute" {
            let text = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&place.child("effect"), effect, text);
        }
        let value = toleration.text(&["value"]);
        match operator {
            "" | "Equal" => {
                let problems = label_value(value);
                if !problems.is_empty() {
                    errors.invalid(&place.child("operator"), value, &problems.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.invalid(&place.child("operator"), value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            // These operators belong to a disabled feature.
            "Lt" | "Gt" => {
                errors.unsupported(&place.child("operator"), operator, &["Equal", "Exists", "Lt", "Gt"]);
            }
            _ => errors.unsupported(&place.child("operator"), operator, &["Equal", "Exists"]),
        }
        one_of(toleration, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], &place, errors);
    }
}

/// Validates readiness gates and scheduling gates.
pub(super) fn validate_gates(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("readinessGates");
    for (index, gate) in spec.items(&["readinessGates"]).iter().enumerate() {
        let name = gate.text(&["conditionType"]);
        errors.invalid_each(&list.index(index).child("conditionType"), name, qualified_name(name));
    }
    let list = path.child("schedulingGates");
    let mut names = HashSet::new();
    for (index, gate) in spec.items(&["schedulingGates"]).iter().enumerate() {
        let name = gate.text(&["name"]);
        errors.invalid_each(&list.index(index), name, qualified_name(name));
        if !names.insert(name) {
            errors.duplicate(&list.index(index), name);
        }
    }
}
