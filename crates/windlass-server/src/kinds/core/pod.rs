//! Pods: the strategy, and the fields that the server sets.

use std::borrow::Cow;

use crate::kinds::{
    pod_spec::{
        defaults::{default_pod, quality_of_service},
        validate_pod_spec, warnings,
    },
    prelude::*,
};

mod parts;
mod status;
mod update;

pub(super) const KIND: Kind = Kind {
    name: "Pod",
    rules: Rules {
        resets: Resets {
            status: &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
            ..Resets::STATUS
        },
        generation: Generation::Spec,
        returns_deleted: true,
        deletion: Deletion::Graceful,
        pod_spec: Some("/spec"),
        fields: &[
            FieldRule { label: "spec.nodeName", path: "spec.nodeName" },
            FieldRule { label: "spec.host", path: "spec.nodeName" },
            FieldRule { label: "spec.restartPolicy", path: "spec.restartPolicy" },
            FieldRule { label: "spec.schedulerName", path: "spec.schedulerName" },
            FieldRule { label: "spec.serviceAccountName", path: "spec.serviceAccountName" },
            FieldRule { label: "spec.hostNetwork", path: "spec.hostNetwork" },
            FieldRule { label: "status.phase", path: "status.phase" },
            FieldRule { label: "status.podIP", path: "status.podIP" },
            FieldRule { label: "status.podIPs", path: "status.podIPs" },
            FieldRule { label: "status.nominatedNodeName", path: "status.nominatedNodeName" },
        ],
        indexed_field: Some("spec.nodeName"),
        ..Rules::WITH_STATUS
    },
    default: default_pod,
    prepare_create,
    prepare_status,
    prepare_part: |part, new, old, _| parts::prepare(part, new, old),
    validate,
    validate_create,
    validate_update: |new, old, errors| update::validate(&new.child("spec"), &old.child("spec"), errors),
    validate_status: status::validate,
    validate_part,
    warnings: warnings::of_pod,
    field,
    ..BASE
};

fn prepare_create(pod: &mut Value, write: &WriteContext<'_>) {
    let spec = object_mut(pod, "spec");
    if spec.int(&["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    let quality = quality_of_service(pod);
    let gated = !pod.items(&["spec", "schedulingGates"]).is_empty();
    let now = pod.at(&["metadata", "creationTimestamp"]).cloned();
    let status = object_mut(pod, "status");
    status.insert("phase".to_owned(), "Pending".into());
    if gated {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null, "lastTransitionTime": now,
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        status.insert("conditions".to_owned(), json!([condition]));
    }
    status.insert("qosClass".to_owned(), quality.into());
    select_by_label_keys(pod, write.kubernetes);
}

fn prepare_status(new: &mut Value, old: &Value, _write: &WriteContext<'_>) {
    metadata_mut(new).shift_remove("deletionTimestamp");
    let (single, first) = (new.text(&["status", "podIP"]).to_owned(), new.items(&["status", "podIPs"]).first());
    if !single.is_empty() && first.is_some_and(|first| first.text(&["ip"]) != single) {
        // Older kubelets only set the single address, so that address wins.
        object_mut(new, "status").insert("podIPs".to_owned(), json!([{"ip": single}]));
    }
    let quality = old.text(&["status", "qosClass"]);
    let status = object_mut(new, "status");
    if status.text(&["qosClass"]).is_empty() && !quality.is_empty() {
        status.insert("qosClass".to_owned(), quality.into());
    }
}

fn validate(pod: &Field<'_>, errors: &mut Errors) {
    let spec = pod.child("spec");
    if !spec.is_set() {
        return spec.child("containers").required("", errors);
    }
    validate_pod_spec(&spec, errors);
    validate_token_owner(&spec, errors);
    for list in ["containers", "initContainers"] {
        for container in spec.child(list).items() {
            let image = container.child("image");
            if image.text().trim() != image.text() {
                image.invalid("must not have leading or trailing whitespace", errors);
            }
        }
    }
}

fn validate_create(pod: &Field<'_>, errors: &mut Errors) {
    let (ephemeral, node) = (pod.child("spec.ephemeralContainers"), pod.child("spec.nodeName"));
    ephemeral.check_empty("cannot be set on create", errors);
    if !pod.child("spec.schedulingGates").is_empty() && !node.is_empty() {
        node.forbidden("cannot be set until all schedulingGates have been cleared", errors);
    }
}

fn validate_part(part: Part, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    validate(new, errors);
    parts::validate(part, new, old, errors);
}

fn field<'v>(pod: &'v Value, label: &str) -> Option<Cow<'v, str>> {
    match label {
        "spec.hostNetwork" => Some(Cow::Owned(pod.flag(&["spec", "hostNetwork"]).to_string())),
        "status.podIP" | "status.podIPs" => {
            let first = pod.items(&["status", "podIPs"]).first().map(|ip| ip.text(&["ip"]));
            Some(Cow::Borrowed(first.unwrap_or_else(|| pod.text(&["status", "podIP"]))))
        }
        _ => None,
    }
}

/// Adds the pod's own label values for `matchLabelKeys` and `mismatchLabelKeys` to its selectors.
fn select_by_label_keys(pod: &mut Value, kubernetes: KubernetesVersion) {
    let Some(labels) = pod.at(&["metadata", "labels"]).and_then(Value::as_object).cloned() else { return };
    let spec = object_mut(pod, "spec");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else { continue };
        for preferred in items_mut(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = preferred.get_mut("podAffinityTerm") {
                add_label_expressions(term, &labels);
            }
        }
        for term in items_mut(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            add_label_expressions(term, &labels);
        }
    }
    // The feature MatchLabelKeysInPodTopologySpreadSelectorMerge.
    if kubernetes < V1_34 {
        return;
    }
    let constraints = spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten() {
        add_label_expressions(constraint, &labels);
    }
}

/// Adds an expression for each label key of a term to the term's selector.
fn add_label_expressions(term: &mut Value, labels: &Map<String, Value>) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.items(&[field]).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(selector) = term.get_mut("labelSelector").filter(|selector| selector.is_object() && !added.is_empty())
    else {
        return;
    };
    let mut expressions = selector.items(&["matchExpressions"]).to_vec();
    expressions.append(&mut added);
    selector["matchExpressions"] = expressions.into();
}

/// Validates that projected tokens have a service account. Templates are exempt, because admission sets the account of
/// pods.
fn validate_token_owner(spec: &Field<'_>, errors: &mut Errors) {
    if !spec.child("serviceAccountName").is_empty() {
        return;
    }
    for volume in spec.child("volumes").items() {
        for source in volume.child("projected.sources").items() {
            source
                .child("serviceAccountToken")
                .check_unset("must not be specified when serviceAccountName is not set", errors);
        }
    }
}
