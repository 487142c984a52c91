//! The placement of a pod: affinity, topology spread constraints, tolerations and gates.

use std::collections::{HashMap, HashSet};

use crate::kinds::{
    prelude::*,
    selector::{validate_node_requirements, validate_node_selector, validate_selector},
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const NODE_POLICY: Rule = Rule::OneOf(&["Honor", "Ignore"]);

/// Validates node affinity and pod affinity.
pub(super) fn validate_affinity(spec: &Field<'_>, errors: &mut Errors) {
    let affinity = spec.child("affinity");
    let nodes = affinity.child("nodeAffinity");
    nodes.child(REQUIRED).if_set(validate_node_selector, errors);
    for term in nodes.child(PREFERRED).items() {
        validate_weight(&term, errors);
        validate_node_requirements(&term.child("preference"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.child(kind);
        pods.child(REQUIRED).each(validate_term, errors);
        for term in pods.child(PREFERRED).items() {
            validate_weight(&term, errors);
            validate_term(&term.child("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(term: &Field<'_>, errors: &mut Errors) {
    term.child("weight").check_count(1..=100, "must be in the range 1-100", errors);
}

/// Validates a term of a pod affinity.
fn validate_term(term: &Field<'_>, errors: &mut Errors) {
    validate_selector(&term.child("labelSelector"), errors);
    validate_selector(&term.child("namespaceSelector"), errors);
    for namespace in term.child("namespaces").items() {
        // The real server reports this path.
        errors.invalid_each(&term.path().child("namespace"), namespace.text(), dns_label(namespace.text()));
    }
    validate_label_keys(term, errors);
    let key = term.child("topologyKey");
    key.check_not_empty("can not be empty", errors);
    key.check_text(qualified_name, errors);
}

/// Validates label keys. Their values have already been added to the selector.
fn validate_label_keys(term: &Field<'_>, errors: &mut Errors) {
    let selector = term.child("labelSelector");
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.child(name);
        if selector.is_set() {
            for key in keys.items() {
                key.check_text(qualified_name, errors);
            }
        } else if !keys.is_empty() {
            keys.forbidden("must not be specified when labelSelector is not set", errors);
        }
    }
    let texts = |name| term.json().items(&[name]).iter().filter_map(Value::as_str);
    let matched: Vec<&str> = texts("matchLabelKeys").collect();
    let mut selected: HashSet<&str> = selector.json().entries(&["matchLabels"]).map(|(key, _)| &**key).collect();
    for expression in selector.json().items(&["matchExpressions"]) {
        let key = expression.text(&["key"]);
        if !selected.insert(key)
            && let Some(index) = matched.iter().rposition(|matched| *matched == key)
        {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.invalid(&term.path().index(index), key, detail);
        }
    }
    let mismatched: HashSet<&str> = texts("mismatchLabelKeys").collect();
    for key in term.child("matchLabelKeys").items().filter(|key| mismatched.contains(key.text())) {
        key.invalid("exists in both matchLabelKeys and mismatchLabelKeys", errors);
    }
}

/// Validates topology spread constraints.
pub(super) fn validate_spreading(spec: &Field<'_>, errors: &mut Errors) {
    let constraints = spec.child("topologySpreadConstraints");
    // The number of remaining constraints for each pair of key and action.
    let mut remaining: HashMap<(&str, &str), usize> = HashMap::new();
    for constraint in constraints.items() {
        *remaining.entry(key_and_action(&constraint)).or_default() += 1;
    }
    for constraint in constraints.items() {
        let (key, action) = key_and_action(&constraint);
        constraint.child("maxSkew").check_count(1.., "must be greater than zero", errors);
        constraint.child("topologyKey").check_not_empty("can not be empty", errors);
        constraint.child("whenUnsatisfiable").supported(&["DoNotSchedule", "ScheduleAnyway"], errors);
        let left = remaining.entry((key, action)).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 {
            let pair = format!("{{{key}, {action}}}");
            errors.duplicate(&constraint.path().child("{topologyKey, whenUnsatisfiable}"), &pair);
        }
        let domains = constraint.child("minDomains");
        domains.check_int(1.., "must be greater than zero", errors);
        if domains.is_set() && action != "DoNotSchedule" {
            let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            domains.invalid(&detail, errors);
        }
        constraint.check(&[("nodeAffinityPolicy", NODE_POLICY), ("nodeTaintsPolicy", NODE_POLICY)], errors);
        if errors.before(V1_34) {
            validate_spreading_keys(&constraint, errors);
        } else {
            validate_label_keys(&constraint, errors);
        }
        validate_selector(&constraint.child("labelSelector"), errors);
    }
}

/// Validates the label keys of a topology spread constraint before 1.34, where they are not added to the selector.
fn validate_spreading_keys(constraint: &Field<'_>, errors: &mut Errors) {
    let (keys, selector) = (constraint.child("matchLabelKeys"), constraint.child("labelSelector"));
    if keys.is_empty() {
        return;
    }
    if !selector.is_set() {
        keys.forbidden("must not be specified when labelSelector is not set", errors);
    }
    let mut selected: HashSet<&str> = selector.json().entries(&["matchLabels"]).map(|(key, _)| &**key).collect();
    selected.extend(selector.json().items(&["matchExpressions"]).iter().map(|expression| expression.text(&["key"])));
    for key in keys.items() {
        key.check_text(qualified_name, errors);
        if selected.contains(key.text()) {
            key.invalid("exists in both matchLabelKeys and labelSelector", errors);
        }
    }
}

/// Returns the pair that identifies a topology spread constraint.
fn key_and_action<'v>(constraint: &Field<'v>) -> (&'v str, &'v str) {
    let constraint = constraint.json();
    (constraint.text(&["topologyKey"]), constraint.text(&["whenUnsatisfiable"]))
}

/// Validates tolerations.
pub(in crate::kinds) fn validate_tolerations(spec: &Field<'_>, errors: &mut Errors) {
    for toleration in spec.child("tolerations").items() {
        let (key, operator) = (toleration.child("key"), toleration.child("operator"));
        if !key.is_empty() {
            key.check_text(qualified_name, errors);
        } else if operator.text() != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            operator.invalid_as(operator.text(), detail, errors);
        }
        let effect = toleration.child("effect");
        if toleration.child("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            effect.invalid_as(effect.text(), detail, errors);
        }
        let value = toleration.child("value").text();
        match operator.text() {
            "" | "Equal" => {
                let problems = label_value(value);
                if !problems.is_empty() {
                    operator.invalid_as(value, &problems.join(";"), errors);
                }
            }
            "Exists" if !value.is_empty() => {
                operator.invalid_as(value, "value must be empty when `operator` is 'Exists'", errors);
            }
            "Exists" => {}
            // These operators belong to a disabled feature.
            "Lt" | "Gt" => operator.unsupported(&["Equal", "Exists", "Lt", "Gt"], errors),
            _ => operator.unsupported(&["Equal", "Exists"], errors),
        }
        effect.one_of(&EFFECTS, errors);
    }
}

/// Validates readiness gates and scheduling gates.
pub(super) fn validate_gates(spec: &Field<'_>, errors: &mut Errors) {
    for gate in spec.child("readinessGates").items() {
        gate.child("conditionType").check_text(qualified_name, errors);
    }
    let gates = spec.child("schedulingGates");
    let mut names = DuplicateCheck::default();
    for gate in gates.items() {
        let name = gate.json().text(&["name"]);
        errors.invalid_each(gate.path(), name, qualified_name(name));
        if names.repeats(name) {
            errors.duplicate(gate.path(), name);
        }
    }
}
