//! Stateful sets.

use std::collections::BTreeSet;

use crate::kinds::{
    core::persistent_volume_claim::validate_claim_spec,
    pod_spec::warnings,
    prelude::*,
    workload::{
        Selection, WORKLOAD, default_pod_template, is_zero_share, validate_collisions, validate_counts,
        validate_nonempty_selector, validate_permanent_pods, validate_pod_template, validate_share,
        validate_share_limit, validate_template_labels, validate_template_metadata,
    },
};

pub(super) const KIND: Kind = Kind {
    name: "StatefulSet",
    rules: Rules { name: NameRule::Label, ..WORKLOAD },
    default,
    validate_create: |object, errors| validate_spec(&object.child("spec"), true, errors),
    validate_update,
    validate_status,
    warnings: warnings::of_stateful_set,
    ..BASE
};

fn default(object: &mut Value) {
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
    for claim in spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten() {
        let map = as_object(claim);
        map.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        map.insert("apiVersion".to_owned(), "v1".into());
        default_pointer(object_mut(claim, "spec"), "volumeMode", "Filesystem");
        default_to(object_mut(claim, "status"), "phase", "Pending");
    }
    default_pod_template(object);
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    validate_spec(&spec, false, errors);
    if errors.kubernetes() >= KubernetesVersion::V1_37 {
        let names = ["selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"];
        spec.check_immutable(&old_spec, &names, errors);
    } else if immutable_spec(&spec) != immutable_spec(&old_spec) {
        let text = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                    'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                    'minReadySeconds' are forbidden";
        spec.forbidden(text, errors);
    }
}

fn validate_status(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    validate_counts(new, &parts, &["collisionCount"], errors);
    validate_collisions(new, old, errors);
}

/// Validates the spec. The claims and the service name cannot change, so only those of new objects are validated.
fn validate_spec(spec: &Field<'_>, is_new: bool, errors: &mut Errors) {
    let policy = spec.child("podManagementPolicy");
    if !matches!(policy.text(), "OrderedReady" | "Parallel") {
        policy.invalid_as(policy.text(), "must be 'OrderedReady' or 'Parallel'", errors);
    }
    validate_update_strategy(&spec.child("updateStrategy"), errors);
    let retention = Rule::OneOf(&["Retain", "Delete"]);
    let policies = spec.child("persistentVolumeClaimRetentionPolicy");
    policies.check(&[("whenDeleted", retention), ("whenScaled", retention)], errors);
    // Since 1.34, the claims and the pods of the template are validated.
    let is_strict = !errors.before(V1_34);
    if is_new && is_strict {
        let claims = spec.child("volumeClaimTemplates");
        claims.each(|claim, errors| validate_claim_spec(&claim.child("spec"), errors), errors);
    }
    spec.check_not_negative(&["replicas", "minReadySeconds", "ordinals.start"], errors);
    if is_new {
        spec.child("serviceName").optional_text(dns_label, errors);
    }
    let selector = spec.child("selector");
    let selection = validate_nonempty_selector(&selector, "statefulset", errors);
    let completed = with_generated_fields(spec.json());
    let spec = Field::new(*spec.path(), Some(&completed));
    let template = spec.child("template");
    if matches!(selection, Selection::Invalid) {
        selector.invalid("", errors);
    } else {
        validate_template_labels(&template, &selection, errors);
        if is_strict {
            validate_pod_template(&template, errors);
        }
        // The real server validates the metadata twice and reports errors twice.
        validate_template_metadata(&template, errors);
    }
    validate_permanent_pods(&template, "StatefulSet", errors);
}

fn validate_update_strategy(strategy: &Field<'_>, errors: &mut Errors) {
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "OnDelete" if rolling.is_set() => {
            // The value is shown with Go's field names.
            let partition = rolling.child("partition").int().unwrap_or_default();
            let value = json!({"Partition": partition, "MaxUnavailable": rolling.child("maxUnavailable").json()});
            rolling.invalid_as(&value, "only allowed for updateStrategy 'RollingUpdate'", errors);
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.child("partition").not_negative(errors);
            rolling.child("maxUnavailable").if_set(validate_unavailable, errors);
        }
        "" => strategy.required("", errors),
        other => strategy.invalid_as(other, "must be 'RollingUpdate' or 'OnDelete'", errors),
    }
}

/// Validates the number of pods that may be unavailable during an update. Older versions drop it.
fn validate_unavailable(unavailable: &Field<'_>, errors: &mut Errors) {
    validate_share(unavailable, errors);
    if is_zero_share(unavailable) {
        unavailable.invalid("cannot be 0", errors);
    }
    validate_share_limit(unavailable, errors);
}

/// Returns a spec with the fields that the pods get from the stateful set: hostnames, and volumes for its claims.
fn with_generated_fields(spec: &Value) -> Value {
    let names = spec.items(&["volumeClaimTemplates"]).iter().map(|claim| claim.text(&["metadata", "name"]));
    let names: BTreeSet<&str> = names.collect();
    let mut completed = spec.clone();
    let template = entry_mut(&mut completed, "template");
    let Some(pod) = template.and_then(|template| entry_mut(template, "spec")) else { return completed };
    for field in ["subdomain", "hostname"] {
        as_object(pod).shift_remove(field);
    }
    if !names.is_empty() {
        let others = pod.items(&["volumes"]).iter().filter(|volume| !names.contains(volume.text(&["name"])));
        let claimed = names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let volumes: Vec<Value> = claimed.chain(others.cloned()).collect();
        as_object(pod).insert("volumes".to_owned(), volumes.into());
    }
    completed
}

/// Returns the fields of the spec that an update cannot change.
fn immutable_spec(spec: &Field<'_>) -> Value {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let mut spec = spec.json().clone();
    for name in MUTABLE {
        as_object(&mut spec).shift_remove(name);
    }
    spec
}
