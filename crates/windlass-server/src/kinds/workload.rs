//! Rules that workloads share: kinds with a pod template.

use windlass_api::LabelSelector;

use crate::kinds::{
    pod_spec::{defaults::default_template, validate_pod_spec},
    prelude::*,
    selector::{is_valid_selector, label_selector},
};

/// The rules of most workloads.
pub(super) const WORKLOAD: Rules = Rules {
    metadata: MetadataRule::CHANGES,
    generation: Generation::Spec,
    pod_spec: Some("/spec/template/spec"),
    ..Rules::WITH_STATUS
};

/// The error for a text that is neither a number nor a percentage.
pub(super) const INVALID_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. \
                                          '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// The result of validating a workload's selector.
#[derive(Debug)]
pub(super) enum Selection {
    /// The selector is missing. It matches no template.
    Missing,
    Invalid,
    Valid(LabelSelector),
}

/// Applies the defaults of a workload's pod template.
pub(super) fn default_pod_template(object: &mut Value) {
    if let Some(spec) = entry_mut(object, "spec") {
        default_template(spec, "template");
    }
}

// === selector and template ===

/// Validates a required selector. The caller reports an additional error for [`Selection::Invalid`] if the real server
/// does.
pub(super) fn validate_selector(selector: &Field<'_>, errors: &mut Errors) -> Selection {
    if !selector.is_set() {
        selector.required("", errors);
        Selection::Missing
    } else if is_valid_selector(selector, errors) {
        Selection::Valid(label_selector(selector.json()))
    } else {
        Selection::Invalid
    }
}

/// Validates a required selector that must not be empty. `kind` is the kind in the error message.
pub(super) fn validate_nonempty_selector(selector: &Field<'_>, kind: &str, errors: &mut Errors) -> Selection {
    let selection = validate_selector(selector, errors);
    if selector.is_set() && selector.child("matchLabels").is_empty() && selector.child("matchExpressions").is_empty() {
        selector.invalid(&format!("empty selector is invalid for {kind}"), errors);
    }
    selection
}

/// Validates the selector and the template of a deployment or replica set. With an invalid selector, the template is
/// not validated.
pub(super) fn validate_replicated_template(spec: &Field<'_>, errors: &mut Errors) {
    let selector = spec.child("selector");
    match validate_nonempty_selector(&selector, "deployment", errors) {
        Selection::Invalid => selector.invalid("invalid label selector", errors),
        selection => validate_template(&spec.child("template"), &selection, "ReplicaSet", errors),
    }
}

/// Validates the template of pods that run permanently. `kind` is the kind in the error messages.
pub(super) fn validate_template(template: &Field<'_>, selection: &Selection, kind: &str, errors: &mut Errors) {
    validate_template_labels(template, selection, errors);
    validate_pod_template(template, errors);
    validate_permanent_pods(template, kind, errors);
}

/// Validates that the selector matches the labels of the template. An invalid selector has been reported already.
pub(super) fn validate_template_labels(template: &Field<'_>, selection: &Selection, errors: &mut Errors) {
    let labels = template.child("metadata.labels");
    let matches = match selection {
        Selection::Missing => false,
        Selection::Invalid => true,
        Selection::Valid(selector) => selector.matches(|key| labels.json().get(key)?.as_str()),
    };
    if !matches {
        labels.invalid("`selector` does not match template `labels`", errors);
    }
}

/// Validates a pod template.
pub(super) fn validate_pod_template(template: &Field<'_>, errors: &mut Errors) {
    validate_template_metadata(template, errors);
    validate_pod_spec(&template.child("spec"), errors);
    let containers = template.child("spec.ephemeralContainers");
    containers.check_empty("ephemeral containers not allowed in pod template", errors);
}

/// Validates the labels and annotations of a pod template. Like the real server, it omits `metadata` from their paths.
pub(super) fn validate_template_metadata(template: &Field<'_>, errors: &mut Errors) {
    let path = template.path();
    validate_labels(template.child("metadata.labels").value(), &path.child("labels"), errors);
    validate_annotations(template.child("metadata").json(), &path.child("annotations"), errors);
}

/// Validates that the pods of a template run permanently. `kind` is the kind in the error message.
pub(super) fn validate_permanent_pods(template: &Field<'_>, kind: &str, errors: &mut Errors) {
    template.child("spec.restartPolicy").supported(&["Always"], errors);
    let deadline = template.child("spec.activeDeadlineSeconds");
    deadline.check_unset(format_args!("activeDeadlineSeconds in {kind} is not Supported"), errors);
}

// === rolling updates ===

/// Formats an update strategy with Go's internal field names.
pub(super) fn format_strategy(strategy: &Field<'_>) -> Value {
    let rolling = strategy.child("rollingUpdate");
    let share = |name: &str| rolling.child(name).value().cloned().unwrap_or_else(|| 0.into());
    let shares = || json!({"MaxUnavailable": share("maxUnavailable"), "MaxSurge": share("maxSurge")});
    json!({"Type": strategy.child("type").text(), "RollingUpdate": rolling.is_set().then(shares)})
}

/// Validates a number of pods or a percentage.
pub(super) fn validate_share(share: &Field<'_>, errors: &mut Errors) {
    if share.json().is_string() && percent(share).is_none() {
        share.invalid(INVALID_PERCENT, errors);
    } else {
        share.not_negative(errors);
    }
}

/// Validates that a percentage is not greater than 100.
pub(super) fn validate_share_limit(share: &Field<'_>, errors: &mut Errors) {
    if percent(share).is_some_and(|percent| percent > 100) {
        share.invalid("must not be greater than 100%", errors);
    }
}

/// Reports whether a number of pods or a percentage is 0 or absent.
pub(super) fn is_zero_share(share: &Field<'_>) -> bool {
    percent(share).or(share.int()).unwrap_or_default() == 0
}

fn percent(share: &Field<'_>) -> Option<i64> {
    share.text().strip_suffix('%')?.parse().ok()
}

// === status ===

/// Validates that the counts in a status are not negative, and that `parts` are not greater than `status.replicas`.
pub(super) fn validate_counts(object: &Field<'_>, parts: &[&str], others: &[&str], errors: &mut Errors) {
    let status = object.child("status");
    status.check_not_negative(&["observedGeneration", "replicas"], errors);
    status.check_not_negative(parts, errors);
    status.check_not_negative(others, errors);
    let count = |name: &str| status.child(name).int().unwrap_or_default();
    for name in parts {
        if count(name) > count("replicas") {
            status.child(name).invalid_as(&count(name), "cannot be greater than status.replicas", errors);
        }
    }
    let available = count("availableReplicas");
    if available > count("readyReplicas") {
        let ready = if object.child("kind").text() == "StatefulSet" { "status.readyReplicas" } else { "readyReplicas" };
        let text = format!("cannot be greater than {ready}");
        status.child("availableReplicas").invalid_as(&available, &text, errors);
    }
}

/// Validates the status of a replica set or replication controller.
pub(super) fn validate_replica_set_status(object: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    validate_counts(object, &parts, &["terminatingReplicas"], errors);
}

/// Validates that the collision count in a status does not decrease.
pub(super) fn validate_collisions(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (new, old) = (new.child("status.collisionCount"), old.child("status.collisionCount"));
    if old.int() > new.int() {
        new.invalid_as(&new.int().unwrap_or_default(), "cannot be decremented", errors);
    }
}
