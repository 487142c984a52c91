//! The kind PriorityLevelConfiguration.

use crate::kinds::{
    flowcontrol::{RULES, levels, validate_conditions, validate_mandatory_spec},
    prelude::*,
};

const MAX_QUEUES: i64 = 10_000_000;
/// The number of hash bits for shuffle sharding.
const HASH_BITS: f64 = 60.0;

pub(super) const KIND: Kind = Kind {
    name: "PriorityLevelConfiguration",
    rules: RULES,
    default,
    validate,
    validate_status: validate_conditions,
    ..BASE
};

fn default(level: &mut Value) {
    for (kind, shares) in [("spec.exempt", 0), ("spec.limited", 30)] {
        change_each(level, kind, |limits| {
            default_pointer(limits, "nominalConcurrencyShares", shares);
            default_pointer(limits, "lendablePercent", 0);
        });
    }
    change_each(level, "spec.limited.limitResponse.queuing", |queuing| {
        for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            default_to(queuing, field, value);
        }
    });
}

fn validate(level: &Field<'_>, errors: &mut Errors) {
    let spec = level.child("spec");
    let name = level.child("metadata.name").text();
    let kind = spec.child("type");
    if (name == "exempt") != (kind.text() == "Exempt") {
        kind.invalid_as(kind.text(), "must be 'Exempt' if and only if `name` is 'exempt'", errors);
    }
    let (limited, exempt) = (spec.child("limited"), spec.child("exempt"));
    match kind.text() {
        "Exempt" => {
            limited.check_unset("must be nil if the type is not Limited", errors);
            validate_shares(&exempt, errors);
            exempt.child("lendablePercent").in_range(0, 100, errors);
        }
        "Limited" => {
            exempt.check_unset("must be nil if the type is Limited", errors);
            limited.check_set("must not be empty when type is Limited", errors);
            limited.if_set(validate_limited, errors);
        }
        "" if !errors.before(V1_36) => kind.required("", errors),
        _ => kind.unsupported(&["Exempt", "Limited"], errors),
    }
    if !errors.before(V1_37) && kind.text() != "Limited" {
        validate_unused(&spec, errors);
    }
    if name == "catch-all" {
        validate_mandatory_spec(level, &levels(), errors);
    }
}

/// Validates that the settings of other types are unset, by rules that are declared since 1.37.
fn validate_unused(spec: &Field<'_>, errors: &mut Errors) {
    let (limited, exempt) = (spec.child("limited"), spec.child("exempt"));
    if spec.child("type").text() != "Exempt" {
        exempt.check_unset("", errors);
        limited.check_unset("", errors);
    }
    if limited.is_set() {
        let (kind, queuing) = (limited.child("limitResponse.type"), limited.child("limitResponse.queuing"));
        kind.check_not_empty("", errors);
        match kind.text() {
            "Queue" => queuing.check_set("", errors),
            _ => queuing.check_unset("", errors),
        }
    }
}

fn validate_shares(level: &Field<'_>, errors: &mut Errors) {
    let shares = level.child("nominalConcurrencyShares");
    shares.check_int(0.., "must be a non-negative integer", errors);
}

fn validate_limited(limited: &Field<'_>, errors: &mut Errors) {
    validate_shares(limited, errors);
    let kind = limited.child("limitResponse.type");
    let queuing = limited.child("limitResponse.queuing");
    match (kind.text(), queuing.is_set()) {
        ("Reject", true) => {
            queuing.forbidden("must be nil if limited.limitResponse.type is not Limited", errors);
        }
        ("Queue", false) => {
            queuing.required("must not be empty if limited.limitResponse.type is Limited", errors);
        }
        ("Queue", true) => validate_queuing(&queuing, errors),
        ("Reject", false) => {}
        ("", _) if !errors.before(V1_36) => kind.required("", errors),
        _ => kind.unsupported(&["Queue", "Reject"], errors),
    }
    limited.child("lendablePercent").in_range(0, 100, errors);
    limited.child("borrowingLimitPercent").check_int(0.., "if specified, must be a non-negative integer", errors);
}

fn validate_queuing(queuing: &Field<'_>, errors: &mut Errors) {
    let (queues, hand) = (queuing.child("queues"), queuing.child("handSize"));
    let [queue_count, hand_size] = [queues, hand].map(|field| field.int().unwrap_or_default());
    queuing.child("queueLengthLimit").check_count(1.., "must be positive", errors);
    queues.check_count(1.., "must be positive", errors);
    queues.check_int(..=MAX_QUEUES, format_args!("must not be greater than {MAX_QUEUES}"), errors);
    hand.check_count(1.., "must be positive", errors);
    if (1..=queue_count).contains(&hand_size) {
        #[allow(clippy::cast_precision_loss, reason = "numbers of queues are small")]
        let bits = (0..hand_size).map(|dealt| ((queue_count - dealt) as f64).log2()).sum::<f64>().ceil();
        if bits > HASH_BITS {
            let text = format!(
                "required entropy bits of deckSize {queue_count} and handSize {hand_size} should not be greater than {HASH_BITS}"
            );
            hand.invalid(&text, errors);
        }
    } else if hand_size > 0 {
        hand.invalid(&format!("should not be greater than queues ({queue_count})"), errors);
    }
}
