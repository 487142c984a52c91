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
    let Some(spec) = entry_mut(level, "spec") else { return };
    if let Some(exempt) = entry_mut(spec, "exempt").map(as_object) {
        default_pointer(exempt, "nominalConcurrencyShares", 0);
        default_pointer(exempt, "lendablePercent", 0);
    }
    let Some(limited) = entry_mut(spec, "limited") else { return };
    default_pointer(as_object(limited), "nominalConcurrencyShares", 30);
    default_pointer(as_object(limited), "lendablePercent", 0);
    let queuing = entry_mut(limited, "limitResponse").and_then(|response| entry_mut(response, "queuing"));
    if let Some(queuing) = queuing.map(as_object) {
        for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            default_to(queuing, field, value);
        }
    }
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
            if limited.is_set() {
                limited.forbidden("must be nil if the type is not Limited", errors);
            }
            validate_shares(&exempt, errors);
            exempt.child("lendablePercent").in_range(0, 100, errors);
        }
        "Limited" => {
            if exempt.is_set() {
                exempt.forbidden("must be nil if the type is Limited", errors);
            }
            if limited.is_set() {
                validate_limited(&limited, errors);
            } else {
                limited.required("must not be empty when type is Limited", errors);
            }
        }
        "" => kind.required("", errors),
        _ => kind.unsupported(&["Exempt", "Limited"], errors),
    }
    if name == "catch-all" {
        validate_mandatory_spec(level, &levels(), errors);
    }
}

fn validate_shares(level: &Field<'_>, errors: &mut Errors) {
    let shares = level.child("nominalConcurrencyShares");
    if shares.int().is_some_and(|shares| shares < 0) {
        shares.invalid("must be a non-negative integer", errors);
    }
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
        ("", _) => kind.required("", errors),
        _ => kind.unsupported(&["Queue", "Reject"], errors),
    }
    limited.child("lendablePercent").in_range(0, 100, errors);
    let borrowing_limit = limited.child("borrowingLimitPercent");
    if borrowing_limit.int().is_some_and(|percent| percent < 0) {
        borrowing_limit.invalid("if specified, must be a non-negative integer", errors);
    }
}

fn validate_queuing(queuing: &Field<'_>, errors: &mut Errors) {
    let fields = ["queueLengthLimit", "queues", "handSize"].map(|name| queuing.child(name));
    let [max_length, queue_count, hand_size] = fields.map(|field| field.int().unwrap_or_default());
    let [length_limit, queues, hand] = &fields;
    if max_length <= 0 {
        length_limit.invalid_as(&max_length, "must be positive", errors);
    }
    if queue_count <= 0 {
        queues.invalid_as(&queue_count, "must be positive", errors);
    } else if queue_count > MAX_QUEUES {
        queues.invalid(&format!("must not be greater than {MAX_QUEUES}"), errors);
    }
    if hand_size <= 0 {
        hand.invalid_as(&hand_size, "must be positive", errors);
    } else if hand_size > queue_count {
        hand.invalid(&format!("should not be greater than queues ({queue_count})"), errors);
    } else {
        #[allow(clippy::cast_precision_loss, reason = "numbers of queues are small")]
        let bits = (0..hand_size).map(|dealt| ((queue_count - dealt) as f64).log2()).sum::<f64>().ceil();
        if bits > HASH_BITS {
            let text = format!(
                "required entropy bits of deckSize {queue_count} and handSize {hand_size} should not be greater than {HASH_BITS}"
            );
            hand.invalid(&text, errors);
        }
    }
}
