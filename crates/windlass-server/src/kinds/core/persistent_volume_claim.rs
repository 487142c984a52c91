//! PersistentVolumeClaim.

use crate::kinds::{
    amount,
    core::persistent_volume::{
        STORAGE_CLASS, STORAGE_CLASS_DEPRECATED, VOLUME_MODES, validate_access_modes, validate_amount,
        validate_positive,
    },
    pod_spec::warnings::warn_of_fraction,
    prelude::*,
    selector::validate_selector,
};

pub(super) const KIND: Kind = Kind {
    name: "PersistentVolumeClaim",
    rules: Rules { returns_deleted: true, rewrites_new: |_| true, ..Rules::WITH_STATUS },
    default,
    prepare_create,
    prepare_update: |new, _| copy_source(new),
    validate: |object, errors| validate_claim_spec(&object.child("spec"), errors),
    validate_update,
    validate_status,
    warnings,
    ..BASE
};

fn default(object: &mut Value) {
    default_pointer(object_mut(object, "spec"), "volumeMode", "Filesystem");
    default_to(object_mut(object, "status"), "phase", "Pending");
}

fn prepare_create(object: &mut Value, _write: &WriteContext<'_>) {
    drop_unsupported_sources(object);
    copy_source(object);
    object_mut(object, "status").insert("phase".to_owned(), "Pending".into());
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    validate_spec_change(new.json(), old.json(), errors);
    let size = |claim: &Field<'_>, path: &str| amount(claim.child(path).text()).unwrap_or_default();
    let requests = new.child("spec.resources.requests.storage");
    let requested = size(new, "spec.resources.requests.storage");
    if requested < size(old, "spec.resources.requests.storage") && requested <= size(old, "status.capacity.storage") {
        requests.forbidden("field can not be less than status.capacity", errors);
    }
    let mode = old.child("spec.volumeMode");
    // The real server reports this path without the spec.
    errors.immutable(&Path::new("volumeMode"), new.child("spec.volumeMode").value(), mode.value());
    let class = new.child("spec.volumeAttributesClassName");
    let has_changed = class.value() != old.child("spec.volumeAttributesClassName").value();
    if has_changed && old.child("status.currentVolumeAttributesClassName").is_set() {
        let change = match class.value().and_then(Value::as_str) {
            None => "nil",
            Some("") => "empty string",
            Some(_) => return,
        };
        let detail = format!("update to {change} is forbidden when status.currentVolumeAttributesClassName is not nil");
        class.forbidden(&detail, errors);
    }
}

fn validate_status(claim: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    for (_, quantity) in claim.child("status.capacity").entries() {
        validate_amount(&quantity, errors);
    }
}

fn warnings(new: &Value, _old: Option<&Value>, warnings: &mut Vec<String>) {
    if new.at(&["metadata", "annotations", STORAGE_CLASS]).is_some() {
        warnings.push(format!("metadata.annotations[{STORAGE_CLASS}]: {STORAGE_CLASS_DEPRECATED}"));
    }
    for list in ["requests", "limits"] {
        let amounts = Field::new(Path::new("spec.resources"), new.at(&["spec", "resources"]));
        warn_of_fraction(&amounts.child(list).key("storage"), warnings);
    }
}

// === preparation ===

/// Removes unsupported sources: other kinds in `dataSource`, and other namespaces in `dataSourceRef`.
fn drop_unsupported_sources(claim: &mut Value) {
    let Some(spec) = entry_mut(claim, "spec") else { return };
    let spec = as_object(spec);
    if !spec.text(&["dataSourceRef", "namespace"]).is_empty() {
        spec.shift_remove("dataSourceRef");
    }
    // If both fields are set, validation reports the unsupported kind instead.
    let has_reference = spec.at(&["dataSourceRef"]).is_some();
    let group_and_kind = (spec.text(&["dataSource", "apiGroup"]), spec.text(&["dataSource", "kind"]));
    if !has_reference
        && !matches!(group_and_kind, ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    {
        spec.shift_remove("dataSource");
    }
}

/// Copies `dataSource` to `dataSourceRef` or vice versa if only one is set.
fn copy_source(claim: &mut Value) {
    let Some(spec) = entry_mut(claim, "spec") else { return };
    let spec = as_object(spec);
    match (spec.at(&["dataSource"]).cloned(), spec.at(&["dataSourceRef"]).cloned()) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(mut reference)) if reference.text(&["namespace"]).is_empty() => {
            as_object(&mut reference).shift_remove("namespace");
            spec.insert("dataSource".to_owned(), reference);
        }
        _ => {}
    }
}

// === validation ===

/// Validates the spec of a claim in any object.
pub(crate) fn validate_claim_spec(spec: &Field<'_>, errors: &mut Errors) {
    let modes = spec.child("accessModes");
    modes.check_not_empty("at least 1 access mode is required", errors);
    validate_selector(&spec.child("selector"), errors);
    if !modes.is_empty() {
        validate_access_modes(&modes, errors);
    }
    let resources = spec.child("resources");
    // The real server reports this path without the requests.
    let storage = Field::new(resources.path().key("storage"), resources.child("requests.storage").value());
    if storage.is_set() {
        validate_positive(&storage, errors);
    } else {
        storage.required("", errors);
    }
    spec.child("storageClassName").optional_text(dns_subdomain, errors);
    spec.child("volumeMode").one_of(&VOLUME_MODES, errors);
    let (source, reference) = (spec.child("dataSource"), spec.child("dataSourceRef"));
    validate_data_source(&source, errors);
    validate_data_source(&reference, errors);
    if source.is_set() && reference.is_set() {
        let mut names = ["apiGroup", "kind", "name"].iter();
        let is_same = names.all(|name| source.child(name).value() == reference.child(name).value());
        // The errors show an empty object.
        if !reference.child("namespace").is_empty() {
            spec.invalid_as(&json!({}), "may not be specified when dataSourceRef.namespace is specified", errors);
        } else if !is_same {
            spec.invalid_as(&json!({}), "must match dataSourceRef", errors);
        }
    }
    spec.child("volumeAttributesClassName").optional_text(dns_subdomain, errors);
}

fn validate_data_source(source: &Field<'_>, errors: &mut Errors) {
    if !source.is_set() {
        return;
    }
    source.check(&[("name", Rule::Required), ("kind", Rule::Required)], errors);
    let (group, kind) = (source.child("apiGroup"), source.child("kind").text());
    if !group.is_empty() {
        group.check_text(dns_subdomain, errors);
    } else if kind != "PersistentVolumeClaim" {
        source.invalid_as(kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup", errors);
    }
    source.child("namespace").optional_text(dns_label, errors);
}

/// Validates that an update changes only the mutable fields of the spec.
fn validate_spec_change(new: &Value, old: &Value, errors: &mut Errors) {
    let spec = |claim: &Value| claim.at(&["spec"]).cloned().unwrap_or_default();
    let (mut new_spec, mut old_spec) = (spec(new), spec(old));
    if old.text(&["spec", "volumeName"]).is_empty() {
        as_object(&mut new_spec).shift_remove("volumeName");
        as_object(&mut old_spec).shift_remove("volumeName");
    }
    let path = ["metadata", "annotations", STORAGE_CLASS];
    let (new_annotation, old_annotation) = (new.text(&path), old.text(&path));
    if new_annotation != old_annotation {
        let annotations = Path::new("metadata.annotations");
        errors.invalid(&annotations.key(STORAGE_CLASS), new_annotation, "field is immutable");
    } else if old.at(&["spec", "storageClassName"]).is_none() && old_annotation.is_empty() {
        // A class may be set later.
        as_object(&mut new_spec).shift_remove("storageClassName");
    }
    if new.text(&["status", "phase"]) == "Bound" {
        for spec in [&mut new_spec, &mut old_spec] {
            as_object(spec).shift_remove("volumeAttributesClassName");
            if let Some(requests) = entry_mut(spec, "resources").and_then(|resources| entry_mut(resources, "requests"))
            {
                as_object(requests).shift_remove("storage");
            }
        }
    }
    if !same(Some(&new_spec), Some(&old_spec)) {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.forbidden(&Path::new("spec"), detail);
    }
}
