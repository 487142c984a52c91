//! Disruption budgets, priority classes and runtime classes.

use serde_json::{Value, json};

use super::{
    BASE, Kind,
    quantity::amount,
    selector::{validate_conditions, validate_selector},
};
use crate::{
    object::{
        DuplicateCheck, Errors, Path, Tree, as_object, default_pointer, dns_label, metadata_mut, qualified_name,
        validate_labels,
    },
    resource::{Generation, MetadataRule, Rules},
};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: "policy",
        name: "PodDisruptionBudget",
        prefix: "/registry/poddisruptionbudgets/",
        subresources: &["status"],
        rules: Rules {
            metadata: MetadataRule::NONE,
            generation: Generation::Spec,
            unconditional_update: false,
            ..Rules::WITH_STATUS
        },
        validate: validate_budget,
        validate_status: validate_budget_status,
        ..BASE
    },
    Kind {
        group: "scheduling.k8s.io",
        name: "PriorityClass",
        prefix: "/registry/priorityclasses/",
        rules: Rules { metadata: MetadataRule::CHANGES, ..Rules::COMMON },
        default: |class| default_pointer(as_object(class), "preemptionPolicy", "PreemptLowerPriority"),
        prepare_create: |class| {
            // Priority classes never get another generation.
            metadata_mut(class).insert("generation".to_owned(), 1.into());
        },
        validate_create: validate_priority_class,
        validate_update: |new, old, errors| {
            if new.at(&["value"]) != old.at(&["value"]) {
                errors.forbidden(&Path::new("value"), "may not be changed in an update.");
            }
            errors.immutable(
                &Path::new("preemptionPolicy"),
                new.at(&["preemptionPolicy"]),
                old.at(&["preemptionPolicy"]),
            );
        },
        ..BASE
    },
    Kind {
        group: "node.k8s.io",
        name: "RuntimeClass",
        prefix: "/registry/runtimeclasses/",
        rules: Rules {
            metadata: MetadataRule { finalizers: false, ..MetadataRule::FULL },
            unconditional_update: false,
            create_on_update: true,
            ..Rules::COMMON
        },
        validate: validate_runtime_class,
        validate_update: |new, old, errors| {
            errors.immutable(&Path::new("handler"), new.at(&["handler"]), old.at(&["handler"]));
        },
        ..BASE
    },
];

// === disruption budgets ===

fn validate_budget(budget: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let at = |field: &str| budget.at(&["spec", field]);
    if at("minAvailable").is_some() && at("maxUnavailable").is_some() {
        // The value is shown with Go's field names.
        let value = |field: &str| at(field).cloned().unwrap_or_default();
        let shown = json!({
            "MinAvailable": value("minAvailable"),
            "Selector": value("selector"),
            "MaxUnavailable": value("maxUnavailable"),
            "UnhealthyPodEvictionPolicy": value("unhealthyPodEvictionPolicy"),
        });
        errors.invalid(&path, &shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        validate_amount(at(field), &path.child(field), errors);
    }
    validate_selector(at("selector"), &path.child("selector"), errors);
    let nothing = Value::Null;
    let spec = budget.at(&["spec"]).unwrap_or(&nothing);
    super::pod_rules::one_of(spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], &path, errors);
}

/// Validates a non-negative number, or a percentage of at most 100.
fn validate_amount(value: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let Some(value) = value else { return };
    let Some(text) = value.as_str() else { return errors.not_negative(path, value.as_i64()) };
    let percent =
        text.strip_suffix('%').filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    match percent {
        None => errors.invalid(
            path,
            text,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
             validation is '[0-9]+%')",
        ),
        Some(digits) if digits.parse::<u64>().is_ok_and(|percent| percent <= 100) => {}
        Some(_) => errors.invalid(path, text, "must not be greater than 100%"),
    }
}

fn validate_budget_status(new: &Value, _old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    validate_conditions(new.items(&["status", "conditions"]), &path.child("conditions"), errors);
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        errors.not_negative(&path.child(field), new.int(&["status", field]));
    }
}

// === priority classes ===

/// The system priority classes.
pub(crate) const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

fn validate_priority_class(class: &Value, errors: &mut Errors) {
    const MOST: i64 = 1_000_000_000;
    let (name, value) = (class.text(&["metadata", "name"]), class.int(&["value"]).unwrap_or_default());
    if name.starts_with("system-") {
        let why = match SYSTEM_CLASSES.iter().find(|(system, ..)| *system == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, priority, _)) if *priority != value => {
                Some(format!("value of {name} PriorityClass must be {priority}"))
            }
            Some(_) if class.flag(&["globalDefault"]) => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let text =
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
            errors.forbidden(&Path::new("metadata.name"), &text);
        }
    } else if value > MOST {
        let text = format!("maximum allowed value of a user defined priority is {MOST}");
        errors.forbidden(&Path::new("value"), &text);
    }
    let path = Path::new("preemptionPolicy");
    match class.text(&["preemptionPolicy"]) {
        "PreemptLowerPriority" | "Never" => {}
        "" => errors.required(&path, ""),
        other => errors.unsupported(&path, other, &["PreemptLowerPriority", "Never"]),
    }
}

// === runtime classes ===

fn validate_runtime_class(class: &Value, errors: &mut Errors) {
    let handler = class.text(&["handler"]);
    if handler.is_empty() {
        errors.required(&Path::new("handler"), "");
    } else {
        errors.invalid_each(&Path::new("handler"), handler, dns_label(handler));
    }
    let limits = Path::new("overhead.limits");
    for (name, quantity) in class.entries(&["overhead", "podFixed"]) {
        let path = limits.key(name);
        let native = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if !native {
            errors.invalid_each(&path, name, qualified_name(name));
            if !name.contains('/') {
                errors.invalid(&path, name, "must be a standard resource type or fully qualified");
                errors.invalid(&path, name, "must be a standard resource for containers");
            }
        }
        let text = quantity.as_str().unwrap_or_default();
        if amount(text).is_some_and(|amount| amount < 0.0) {
            errors.invalid(&path, text, "must be greater than or equal to 0");
        }
    }
    let scheduling = Path::new("scheduling");
    validate_labels(class.at(&["scheduling", "nodeSelector"]), &scheduling.child("nodeSelector"), errors);
    if let Some(spec) = class.at(&["scheduling"]) {
        super::pod_rules::validate_tolerations(spec, &scheduling, errors);
        let list = scheduling.child("tolerations");
        let tolerations = spec.items(&["tolerations"]);
        let mut seen = DuplicateCheck::default();
        for (index, toleration) in tolerations.iter().enumerate() {
            if seen.repeats(toleration) {
                // The value is shown with Go's field names.
                let text = |field: &str| toleration.text(&[field]);
                let shown = json!({
                    "Key": text("key"), "Operator": text("operator"), "Value": text("value"), "Effect": text("effect"),
                    "TolerationSeconds": toleration.int(&["tolerationSeconds"]),
                });
                errors.duplicate(&list.index(index), &shown);
            }
        }
    }
}
