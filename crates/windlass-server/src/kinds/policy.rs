//! The group `policy`: pod disruption budgets.
//!
//! In the removed version `v1beta1`, an empty selector selects no pods. In `v1` it selects all pods of the namespace. As in
//! Kubernetes, each version writes the empty selector of the other one with a label that no pod has.

use crate::kinds::{
    View,
    prelude::*,
    selector::{validate_conditions, validate_selector},
    workload::INVALID_PERCENT,
};

pub(super) const KINDS: &[Kind] = &[
    BUDGET,
    Kind {
        version: "v1beta1",
        view: Some(View { stored: ("policy", "v1"), from_stored: to_v1beta1, to_stored: to_v1 }),
        ..BUDGET
    },
];

const BUDGET: Kind = Kind {
    name: "PodDisruptionBudget",
    rules: Rules {
        metadata: MetadataRule::NONE,
        generation: Generation::Spec,
        unconditional_update: false,
        ..Rules::WITH_STATUS
    },
    validate,
    validate_status,
    ..BASE
};

/// The key of the label that no pod has.
const ABSENT_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let spec = object.child("spec");
    let (available, unavailable) = (spec.child("minAvailable"), spec.child("maxUnavailable"));
    let (selector, eviction) = (spec.child("selector"), spec.child("unhealthyPodEvictionPolicy"));
    if available.is_set() && unavailable.is_set() {
        // The value is shown with Go's field names.
        let value = json!({
            "MinAvailable": available.json(),
            "Selector": selector.json(),
            "MaxUnavailable": unavailable.json(),
            "UnhealthyPodEvictionPolicy": eviction.json(),
        });
        spec.invalid_as(&value, "minAvailable and maxUnavailable cannot be both set", errors);
    }
    validate_amount(&available, errors);
    validate_amount(&unavailable, errors);
    validate_selector(&selector, errors);
    eviction.one_of(&["AlwaysAllow", "IfHealthyBudget"], errors);
}

fn validate_status(object: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let status = object.child("status");
    validate_conditions(&status.child("conditions"), errors);
    let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    status.check_not_negative(&counts, errors);
}

/// Validates a non-negative number, or a percentage of at most 100.
fn validate_amount(amount: &Field<'_>, errors: &mut Errors) {
    let Some(text) = amount.value().and_then(Value::as_str) else { return amount.not_negative(errors) };
    let is_number = |digits: &&str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text.strip_suffix('%').filter(is_number) {
        None => amount.invalid(INVALID_PERCENT, errors),
        Some(digits) if digits.parse::<u64>().is_ok_and(|percent| percent <= 100) => {}
        Some(_) => amount.invalid("must not be greater than 100%", errors),
    }
}

// === versions ===

fn to_v1(mut budget: Value) -> Value {
    let Some(selector) = budget.pointer_mut("/spec/selector").filter(|selector| selector.is_object()) else {
        return budget;
    };
    if is_empty(selector) {
        *selector = selector_of("Exists");
    } else if *selector == selector_of("DoesNotExist") {
        *selector = json!({});
    } else if let Some(Value::Array(expressions)) = selector.get_mut("matchExpressions") {
        expressions.retain(|expression| expression.text(&["key"]) != ABSENT_LABEL);
    }
    budget
}

fn to_v1beta1(mut budget: Value) -> Value {
    if let Some(selector) = budget.pointer_mut("/spec/selector").filter(|selector| selector.is_object()) {
        if is_empty(selector) {
            *selector = selector_of("DoesNotExist");
        } else if *selector == selector_of("Exists") {
            *selector = json!({});
        }
    }
    budget
}

fn is_empty(selector: &Value) -> bool {
    selector.items(&["matchExpressions"]).is_empty() && selector.entries(&["matchLabels"]).next().is_none()
}

/// Returns the selector that all pods meet (`DoesNotExist`), or none (`Exists`).
fn selector_of(operator: &str) -> Value {
    json!({"matchExpressions": [{"key": ABSENT_LABEL, "operator": operator}]})
}
