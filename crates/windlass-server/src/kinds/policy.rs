//! The group `policy`: pod disruption budgets.

use crate::kinds::{
    prelude::*,
    selector::{validate_conditions, validate_selector},
    workload::INVALID_PERCENT,
};

pub(super) const KINDS: &[Kind] = &[Kind {
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
}];

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
