//! The group `node.k8s.io`: runtime classes.

use crate::kinds::{pod_spec::validate_tolerations, prelude::*, quantity::amount};

pub(super) const KINDS: &[Kind] = &[Kind {
    name: "RuntimeClass",
    rules: Rules {
        metadata: MetadataRule { finalizers: false, ..MetadataRule::FULL },
        unconditional_update: false,
        create_on_update: true,
        ..Rules::COMMON
    },
    validate,
    immutable: &["handler"],
    ..BASE
}];

fn validate(class: &Field<'_>, errors: &mut Errors) {
    let handler = class.child("handler");
    if errors.before(V1_36) {
        handler.check_text(dns_label, errors);
    } else {
        handler.required_text(dns_label, errors);
    }
    validate_overhead(&class.child("overhead.podFixed"), errors);
    validate_scheduling(&class.child("scheduling"), errors);
}

/// Validates the overhead of a pod. Like the real server, it reports errors at `overhead.limits`.
fn validate_overhead(overhead: &Field<'_>, errors: &mut Errors) {
    let limits = Path::new("overhead.limits");
    for (name, quantity) in overhead.entries() {
        let path = limits.key(name);
        let is_native = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if !is_native {
            errors.invalid_each(&path, name, qualified_name(name));
            if !name.contains('/') {
                errors.invalid(&path, name, "must be a standard resource type or fully qualified");
                errors.invalid(&path, name, "must be a standard resource for containers");
            }
        }
        if amount(quantity.text()).is_some_and(|amount| amount < 0.0) {
            errors.invalid(&path, quantity.text(), "must be greater than or equal to 0");
        }
    }
}

fn validate_scheduling(scheduling: &Field<'_>, errors: &mut Errors) {
    let selector = scheduling.child("nodeSelector");
    validate_labels(selector.value(), selector.path(), errors);
    validate_tolerations(scheduling, errors);
    let tolerations = scheduling.child("tolerations");
    let mut seen = DuplicateCheck::default();
    for toleration in tolerations.items() {
        if seen.repeats(toleration.json()) {
            // The value is shown with Go's field names.
            let value = json!({
                "Key": toleration.child("key").text(),
                "Operator": toleration.child("operator").text(),
                "Value": toleration.child("value").text(),
                "Effect": toleration.child("effect").text(),
                "TolerationSeconds": toleration.child("tolerationSeconds").int(),
            });
            errors.duplicate(toleration.path(), &value);
        }
    }
}
