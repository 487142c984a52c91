//! Workloads: kinds with a pod template whose pods run permanently.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_api::{LabelSelector, Operator, Requirement};

use crate::kinds::{core::volumes::validate_claim_spec, pod_spec::{defaults::default_template, validate_spec}};
use super::selector::{self, label_selector};
use crate::object::{
    Errors, Path, Tree, as_object, default_pointer, default_to, dns_label, entry_mut, metadata_mut, object_mut,
    validate_annotations, validate_labels,
};

const SPEC: Path<'static> = Path::new("spec");

// === defaults ===

pub(super) fn default_deployment(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default_pointer(spec, "replicas", 1);
    default_pointer(spec, "revisionHistoryLimit", 10);
    default_pointer(spec, "progressDeadlineSeconds", 600);
    let strategy = as_object(spec.entry("strategy").or_insert(Value::Null));
    default_to(strategy, "type", "RollingUpdate");
    if strategy.text(&["type"]) == "RollingUpdate" {
        let rolling = as_object(strategy.entry("rollingUpdate").or_insert(Value::Null));
        default_pointer(rolling, "maxUnavailable", "25%");
        default_pointer(rolling, "maxSurge", "25%");
    }
    template(object);
}

pub(super) fn default_replica_set(object: &mut Value) {
    default_pointer(object_mut(object, "spec"), "replicas", 1);
    template(object);
}

pub(super) fn default_replication_controller(object: &mut Value) {
    let labels = object.at(&["spec", "template", "metadata", "labels"]).cloned();
    let spec = object_mut(object, "spec");
    default_pointer(spec, "replicas", 1);
    if let Some(labels) = labels {
        if spec.entries(&["selector"]).next().is_none() {
            spec.insert("selector".to_owned(), labels.clone());
        }
        let metadata = metadata_mut(object);
        if metadata.entries(&["labels"]).next().is_none() {
            metadata.insert("labels".to_owned(), labels);
        }
    }
    template(object);
}

pub(super) fn default_stateful_set(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default_pointer(spec, "replicas", 1);
    default_pointer(spec, "revisionHistoryLimit", 10);
    default_to(spec, "podManagementPolicy", "OrderedReady");
    let strategy = as_object(spec.entry("updateStrategy").or_insert(Value::Null));
    if strategy.text(&["type"]).is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
    }
    if let Some(Value::Object(rolling)) = strategy.get_mut("rollingUpdate") {
        default_pointer(rolling, "partition", 0);
    }
    let retention = as_object(spec.entry("persistentVolumeClaimRetentionPolicy").or_insert(Value::Null));
    default_to(retention, "whenDeleted", "Retain");
    default_to(retention, "whenScaled", "Retain");
    if let Some(Value::Array(claims)) = spec.get_mut("volumeClaimTemplates") {
        for claim in claims {
            let map = as_object(claim);
            map.insert("kind".to_owned(), "PersistentVolumeClaim".into());
            map.insert("apiVersion".to_owned(), "v1".into());
            default_pointer(object_mut(claim, "spec"), "volumeMode", "Filesystem");
            default_to(object_mut(claim, "status"), "phase", "Pending");
        }
    }
    template(object);
}

pub(super) fn default_daemon_set(object: &mut Value) {
    // Set on decoding, so that the client that writes the object owns the annotation.
    let annotations = as_object(metadata_mut(object).entry("annotations").or_insert(Value::Null));
    default_to(annotations, TEMPLATE_GENERATION, "0");
    let spec = object_mut(object, "spec");
    default_pointer(spec, "revisionHistoryLimit", 10);
    let strategy = as_object(spec.entry("updateStrategy").or_insert(Value::Null));
    default_to(strategy, "type", "RollingUpdate");
    if strategy.text(&["type"]) == "RollingUpdate" {
        let rolling = as_object(strategy.entry("rollingUpdate").or_insert(Value::Null));
        default_pointer(rolling, "maxUnavailable", 1);
        default_pointer(rolling, "maxSurge", 0);
    } else if let Some(rolling) = strategy.get_mut("rollingUpdate").filter(|rolling| rolling.is_object()) {
        // In Go's internal type, missing shares are 0.
        for field in ["maxUnavailable", "maxSurge"] {
            default_pointer(as_object(rolling), field, 0);
        }
    }
    template(object);
}

/// Applies the defaults of a workload's pod template.
pub(super) fn template(object: &mut Value) {
    if let Some(spec) = entry_mut(object, "spec") {
        default_template(spec, "template");
    }
}

// === preparation ===

pub(super) fn prepare_daemon_set_create(object: &mut Value) {
    // The kind still maintains this deprecated annotation; apps/v1 has no field for the stored value.
    set_template_generation(object, 1);
}

pub(super) fn prepare_daemon_set_update(new: &mut Value, old: &Value) {
    let key = ["metadata", "annotations", TEMPLATE_GENERATION];
    let generation = old.text(&key).parse().unwrap_or(1);
    let same = new.at(&["spec", "template"]) == old.at(&["spec", "template"]);
    set_template_generation(new, if same { generation } else { generation + 1 });
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(object: &mut Value, generation: i64) {
    let annotations = as_object(metadata_mut(object).entry("annotations").or_insert(Value::Null));
    annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}

// === validation ===

pub(super) fn validate_deployment(object: &Value, errors: &mut Errors) {
    let nothing = json!({});
    let spec = object.at(&["spec"]).unwrap_or(&nothing);
    errors.not_negative(&SPEC.child("replicas"), spec.int(&["replicas"]));
    let selector = validate_selector(spec, "deployment", errors);
    validate_template(spec, &selector, "ReplicaSet", errors);
    let path = SPEC.child("strategy");
    match spec.text(&["strategy", "type"]) {
        "Recreate" => {
            if spec.at(&["strategy", "rollingUpdate"]).is_some() {
                let text = "may not be specified when strategy `type` is 'Recreate'";
                errors.forbidden(&path.child("rollingUpdate"), text);
            }
        }
        "RollingUpdate" => {
            let rolling = path.child("rollingUpdate");
            validate_rolling(spec, &rolling, errors);
        }
        _ => {
            let shown = shown_strategy(spec.at(&["strategy"]).unwrap_or(&Value::Null));
            errors.unsupported(&path, &shown, &["Recreate", "RollingUpdate"]);
        }
    }
    errors.not_negative(&SPEC.child("minReadySeconds"), spec.int(&["minReadySeconds"]));
    errors.not_negative(&SPEC.child("revisionHistoryLimit"), spec.int(&["revisionHistoryLimit"]));
    let deadline = spec.int(&["progressDeadlineSeconds"]);
    errors.not_negative(&SPEC.child("progressDeadlineSeconds"), deadline);
    let ready = spec.int(&["minReadySeconds"]).unwrap_or_default();
    if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready) {
        errors.invalid(&SPEC.child("progressDeadlineSeconds"), &deadline, "must be greater than minReadySeconds");
    }
}

pub(super) fn validate_replica_set(object: &Value, errors: &mut Errors) {
    validate_replicated(object, errors);
}

pub(super) fn validate_replication_controller(object: &Value, errors: &mut Errors) {
    let Some(spec) = object.at(&["spec"]) else { return };
    errors.not_negative(&SPEC.child("minReadySeconds"), spec.int(&["minReadySeconds"]));
    if spec.entries(&["selector"]).next().is_none() {
        errors.required(&SPEC.child("selector"), "");
    }
    errors.not_negative(&SPEC.child("replicas"), spec.int(&["replicas"]));
    let selector = spec.entries(&["selector"]);
    let equals =
        |(key, value): (&String, &Value)| Requirement::new(key, Operator::Equals, [value.as_str().unwrap_or_default()]);
    let selector = LabelSelector::new(selector.map(equals).collect());
    if spec.at(&["template"]).is_none() {
        return errors.required(&SPEC.child("template"), "");
    }
    validate_template(spec, &Selected::By(selector), "ReplicationController", errors);
}

pub(super) fn validate_new_stateful_set(object: &Value, errors: &mut Errors) {
    validate_stateful_set(object, None, errors);
}

fn validate_stateful_set(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let nothing = json!({});
    let spec = object.at(&["spec"]).unwrap_or(&nothing);
    let policy = spec.text(&["podManagementPolicy"]);
    if !matches!(policy, "OrderedReady" | "Parallel") {
        errors.invalid(&SPEC.child("podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'");
    }
    let path = SPEC.child("updateStrategy");
    let rolling = spec.at(&["updateStrategy", "rollingUpdate"]);
    let place = path.child("rollingUpdate");
    match (spec.text(&["updateStrategy", "type"]), rolling) {
        ("OnDelete", Some(rolling)) => {
            // The value is shown with Go's field names.
            let of = |field: &str| rolling.at(&[field]).cloned().unwrap_or_default();
            let partition = rolling.int(&["partition"]).unwrap_or_default();
            let shown = json!({"Partition": partition, "MaxUnavailable": of("maxUnavailable")});
            errors.invalid(&place, &shown, "only allowed for updateStrategy 'RollingUpdate'");
        }
        ("RollingUpdate", Some(rolling)) => {
            errors.not_negative(&place.child("partition"), rolling.int(&["partition"]));
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        ("", _) => errors.required(&path, ""),
        (other, _) => errors.invalid(&path, other, "must be 'RollingUpdate' or 'OnDelete'"),
    }
    let path = SPEC.child("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        let policy = spec.at(&["persistentVolumeClaimRetentionPolicy"]).unwrap_or(&nothing);
        crate::kinds::pod_spec::one_of(policy, field, &["Retain", "Delete"], &path, errors);
    }
    // The claims cannot change either, so those of an existing object are not validated again.
    let claims = SPEC.child("volumeClaimTemplates");
    for (index, claim) in spec.items(&["volumeClaimTemplates"]).iter().enumerate().filter(|_| old.is_none()) {
        let place = claims.index(index);
        validate_claim_spec(claim.at(&["spec"]).unwrap_or(&nothing), &place.child("spec"), errors);
    }
    errors.not_negative(&SPEC.child("replicas"), spec.int(&["replicas"]));
    errors.not_negative(&SPEC.child("minReadySeconds"), spec.int(&["minReadySeconds"]));
    errors.not_negative(&SPEC.child("ordinals.start"), spec.int(&["ordinals", "start"]));
    // The service name cannot change, so that of an existing object is not validated again.
    let service = spec.text(&["serviceName"]);
    if old.is_none() && !service.is_empty() {
        errors.invalid_each(&SPEC.child("serviceName"), service, dns_label(service));
    }
    let selector = validate_selector(spec, "statefulset", errors);
    let mut spec = spec.clone();
    complete_pods(&mut spec);
    validate_template(&spec, &selector, "StatefulSet", errors);
}

/// Adds the fields that the pods of a stateful set get from it: hostnames, and volumes for its claims.
fn complete_pods(spec: &mut Value) {
    let names = spec.items(&["volumeClaimTemplates"]).iter().map(|claim| claim.text(&["metadata", "name"]).to_owned());
    let names: Vec<String> = names.collect::<BTreeSet<_>>().into_iter().collect();
    let Some(pod) = entry_mut(spec, "template").and_then(|template| entry_mut(template, "spec")) else { return };
    for field in ["subdomain", "hostname"] {
        as_object(pod).shift_remove(field);
    }
    if names.is_empty() {
        return;
    }
    let own = pod.items(&["volumes"]).iter().filter(|volume| !names.iter().any(|name| name == volume.text(&["name"])));
    let claimed = names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let volumes: Vec<Value> = claimed.chain(own.cloned()).collect();
    as_object(pod).insert("volumes".to_owned(), volumes.into());
}

pub(super) fn validate_stateful_set_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate_stateful_set(new, Some(old), errors);
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let rest = |object: &Value| {
        let mut spec = object.at(&["spec"]).cloned().unwrap_or_default();
        for key in FREE {
            as_object(&mut spec).shift_remove(key);
        }
        spec
    };
    if rest(new) != rest(old) {
        let text = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                    'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.forbidden(&SPEC, text);
    }
}

/// Formats an update strategy with Go's internal field names.
fn shown_strategy(strategy: &Value) -> Value {
    let share = |rolling: &Value, field: &str| rolling.at(&[field]).cloned().unwrap_or_else(|| 0.into());
    let shares = |rolling: &Value| json!({"MaxUnavailable": share(rolling, "maxUnavailable"), "MaxSurge": share(rolling, "maxSurge")});
    json!({"Type": strategy.text(&["type"]), "RollingUpdate": strategy.at(&["rollingUpdate"]).map(shares)})
}

pub(super) fn validate_daemon_set(object: &Value, errors: &mut Errors) {
    let Some(spec) = object.at(&["spec"]) else { return };
    // A missing selector matches no template; the check below reports it.
    let selector = match spec.at(&["selector"]) {
        Some(_) => validate_selector(spec, "daemonset", errors),
        None => Selected::Never,
    };
    validate_template(spec, &selector, "DaemonSet", errors);
    errors.not_negative(&SPEC.child("minReadySeconds"), spec.int(&["minReadySeconds"]));
    let path = SPEC.child("updateStrategy");
    let rolling = spec.at(&["updateStrategy", "rollingUpdate"]);
    match spec.text(&["updateStrategy", "type"]) {
        "OnDelete" => {}
        "RollingUpdate" => validate_daemon_rolling(rolling, &path.child("rollingUpdate"), errors),
        _ => {
            let shown = shown_strategy(spec.at(&["updateStrategy"]).unwrap_or(&Value::Null));
            errors.unsupported(&path, &shown, &["RollingUpdate", "OnDelete"]);
        }
    }
    errors.not_negative(&SPEC.child("revisionHistoryLimit"), spec.int(&["revisionHistoryLimit"]));
}

/// Validates the rolling update of a daemon set: exactly one of `maxUnavailable` and `maxSurge` must be non-zero.
fn validate_daemon_rolling(rolling: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let Some(rolling) = rolling else { return errors.required(path, "") };
    for field in ["maxUnavailable", "maxSurge"] {
        validate_share(rolling.at(&[field]).unwrap_or(&Value::Null), &path.child(field), errors);
    }
    let given = |field: &str| share(rolling.at(&[field]).unwrap_or(&Value::Null)) != 0;
    let surge = rolling.at(&["maxSurge"]).unwrap_or(&Value::Null);
    match (given("maxUnavailable"), given("maxSurge")) {
        (true, true) => {
            errors.invalid(&path.child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero");
        }
        (false, false) => errors.required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
    for field in ["maxUnavailable", "maxSurge"] {
        at_most_all(rolling.at(&[field]).unwrap_or(&Value::Null), &path.child(field), errors);
    }
}

/// Validates replicas, the selector, and the template, which the selector must match.
fn validate_replicated(object: &Value, errors: &mut Errors) {
    let nothing = json!({});
    let spec = object.at(&["spec"]).unwrap_or(&nothing);
    errors.not_negative(&SPEC.child("replicas"), spec.int(&["replicas"]));
    errors.not_negative(&SPEC.child("minReadySeconds"), spec.int(&["minReadySeconds"]));
    let selector = validate_selector(spec, "deployment", errors);
    validate_template(spec, &selector, "ReplicaSet", errors);
}

/// The effect of a workload's selector on its template.
enum Selected {
    /// The selector is missing, so it does not match the template.
    Never,
    By(LabelSelector),
    /// The selector is invalid, and the template is not validated.
    Unknown,
    /// The selector is invalid, but the template is validated.
    Unreadable,
}

fn validate_selector(spec: &Value, noun: &str, errors: &mut Errors) -> Selected {
    let path = SPEC.child("selector");
    let Some(selector) = spec.at(&["selector"]) else {
        errors.required(&path, "");
        return Selected::Never;
    };
    let before = errors.len();
    selector::validate_selector(Some(selector), &path, errors);
    let makes_sense = errors.len() == before;
    if selector.entries(&["matchLabels"]).next().is_none() && selector.items(&["matchExpressions"]).is_empty() {
        errors.invalid(&path, selector, &format!("empty selector is invalid for {noun}"));
    }
    if !makes_sense {
        if noun == "daemonset" {
            return Selected::Unreadable;
        }
        errors.invalid(&path, selector, if noun == "statefulset" { "" } else { "invalid label selector" });
        return Selected::Unknown;
    }
    Selected::By(selector_of(spec))
}

/// Parses the `spec.selector` of a workload. Invalid requirements are ignored.
pub(super) fn selector_of(spec: &Value) -> LabelSelector {
    spec.at(&["selector"]).map(label_selector).unwrap_or_default()
}

/// Validates a pod template with the restart policy `Always`.
fn validate_template(spec: &Value, selected: &Selected, noun: &str, errors: &mut Errors) {
    let path = SPEC.child("template");
    let template = spec.at(&["template"]).unwrap_or(&Value::Null);
    let labels = template.at(&["metadata", "labels"]);
    let matches = match selected {
        Selected::Never => false,
        Selected::By(selector) => selector.matches(|key| labels.and_then(|labels| labels.at(&[key])?.as_str())),
        Selected::Unknown if noun != "StatefulSet" => return,
        Selected::Unknown | Selected::Unreadable => true,
    };
    if !matches {
        let shown = labels.unwrap_or(&Value::Null);
        errors.invalid(&path.child("metadata.labels"), shown, "`selector` does not match template `labels`");
    }
    let looked_at = !matches!(selected, Selected::Unknown);
    if looked_at {
        validate_pod_template(template, &path, errors);
    }
    if looked_at && noun == "StatefulSet" {
        // The real server validates these twice and reports errors twice.
        validate_template_metadata(template, &path, errors);
    }
    let policy = template.text(&["spec", "restartPolicy"]);
    if policy != "Always" {
        errors.unsupported(&path.child("spec.restartPolicy"), policy, &["Always"]);
    }
    if template.at(&["spec", "activeDeadlineSeconds"]).is_some() {
        let text = format!("activeDeadlineSeconds in {noun} is not Supported");
        errors.forbidden(&path.child("spec.activeDeadlineSeconds"), &text);
    }
}

fn validate_template_metadata(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    let nothing = json!({});
    let metadata = template.at(&["metadata"]).unwrap_or(&nothing);
    validate_labels(metadata.at(&["labels"]), &path.child("labels"), errors);
    validate_annotations(metadata, &path.child("annotations"), errors);
}

pub(super) fn validate_pod_template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_template_metadata(template, path, errors);
    validate_spec(template.at(&["spec"]).unwrap_or(&json!({})), &path.child("spec"), errors);
    if !template.items(&["spec", "ephemeralContainers"]).is_empty() {
        let text = "ephemeral containers not allowed in pod template";
        errors.forbidden(&path.child("spec.ephemeralContainers"), text);
    }
}

fn validate_rolling(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let value = |field: &str| spec.at(&["strategy", "rollingUpdate", field]).unwrap_or(&Value::Null);
    for field in ["maxUnavailable", "maxSurge"] {
        validate_share(value(field), &path.child(field), errors);
    }
    let unavailable = value("maxUnavailable");
    if share(unavailable) == 0 && share(value("maxSurge")) == 0 {
        errors.invalid(&path.child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0");
    }
    at_most_all(unavailable, &path.child("maxUnavailable"), errors);
}

/// Validates a number of pods or a percentage.
fn validate_share(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    const RULE: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                        regex used for validation is '[0-9]+%')";
    match value {
        text @ Value::String(_) if percent(text).is_none() => errors.invalid(path, text, RULE),
        value => errors.not_negative(path, value.as_i64()),
    }
}

fn at_most_all(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if percent(value).is_some_and(|percent| percent > 100) {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}

fn percent(value: &Value) -> Option<i64> {
    value.as_str()?.strip_suffix('%')?.parse().ok()
}

fn share(value: &Value) -> i64 {
    percent(value).or(value.as_i64()).unwrap_or_default()
}

pub(super) fn selector_is_immutable(new: &Value, old: &Value, errors: &mut Errors) {
    errors.immutable(&SPEC.child("selector"), new.at(&["spec", "selector"]), old.at(&["spec", "selector"]));
}

pub(super) fn validate_deployment_status(new: &Value, old: &Value, errors: &mut Errors) {
    counts(
        new,
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
        &["unavailableReplicas", "terminatingReplicas", "collisionCount"],
        errors,
    );
    collisions(new, old, errors);
}

pub(super) fn validate_replica_set_status(new: &Value, _old: &Value, errors: &mut Errors) {
    counts(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], &["terminatingReplicas"], errors);
}

pub(super) fn validate_stateful_set_status(new: &Value, old: &Value, errors: &mut Errors) {
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    counts(new, &parts, &["collisionCount"], errors);
    collisions(new, old, errors);
}

pub(super) fn validate_daemon_set_status(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    for field in [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ] {
        errors.not_negative(&path.child(field), new.int(&["status", field]));
    }
    collisions(new, old, errors);
}

/// Validates that the collision count does not decrease.
fn collisions(new: &Value, old: &Value, errors: &mut Errors) {
    let count = |object: &Value| object.int(&["status", "collisionCount"]);
    if count(old) > count(new) {
        let path = Path::new("status.collisionCount");
        errors.invalid(&path, &count(new).unwrap_or_default(), "cannot be decremented");
    }
}

/// Validates that counts are not negative, and that `parts` are not greater than `status.replicas`.
fn counts(object: &Value, parts: &[&str], others: &[&str], errors: &mut Errors) {
    let path = Path::new("status");
    let count = |field: &str| object.int(&["status", field]).unwrap_or_default();
    for field in ["observedGeneration", "replicas"].iter().chain(parts).chain(others) {
        errors.not_negative(&path.child(field), object.int(&["status", field]));
    }
    for field in parts {
        if count(field) > count("replicas") {
            errors.invalid(&path.child(field), &count(field), "cannot be greater than status.replicas");
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let ready = if object.text(&["kind"]) == "StatefulSet" { "status.readyReplicas" } else { "readyReplicas" };
        let text = &format!("cannot be greater than {ready}");
        errors.invalid(&path.child("availableReplicas"), &count("availableReplicas"), text);
    }
}
