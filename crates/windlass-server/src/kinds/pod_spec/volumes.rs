//! The volumes of a pod, and their mounts.

use std::collections::{HashMap, HashSet};

use crate::kinds::{
    amount,
    core::persistent_volume_claim::validate_claim_spec,
    pod_spec::{
        environment::{FieldSelector, validate_field_selector, validate_resource_selector},
        volume_sources::{self, KINDS, Owner, forbid_second_source, source, validate_no_backsteps},
    },
    prelude::*,
};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const PROPAGATION_MODES: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const MIN_TOKEN_SECONDS: i64 = 600;

/// The valid volumes of a pod, by name. Only these can be mounted.
pub(super) struct Volumes<'v>(HashMap<&'v str, &'v Value>);

// === volumes ===

/// Validates the volumes of a spec, and returns the valid ones.
pub(super) fn validate_volumes<'v>(spec: &Field<'v>, errors: &mut Errors) -> Volumes<'v> {
    let volumes = spec.child("volumes");
    let mut valid = HashMap::new();
    for (volume, value) in volumes.items().zip(spec.json().items(&["volumes"])) {
        let mut found = Errors::of(errors.kubernetes());
        validate_source(&volume, &mut found);
        let (name, name_field) = (value.text(&["name"]), volume.child("name"));
        name_field.required_text(dns_label, &mut found);
        if valid.contains_key(name) {
            name_field.duplicate(&mut found);
        }
        if found.is_empty() {
            valid.insert(name, value);
        }
        errors.append(found);
    }
    Volumes(valid)
}

/// Validates that a volume has exactly one type. If it has several, the first one is validated.
fn validate_source(volume: &Field<'_>, errors: &mut Errors) {
    let mut kinds = KINDS.iter().map(|(kind, _)| *kind).filter(|kind| volume.child(kind).is_set());
    let Some(kind) = kinds.next() else { return volume.required("must specify a volume type", errors) };
    let source = source(volume, kind);
    volume_sources::validate_source(kind, &source, Owner::Pod, errors);
    validate_details(kind, &source, errors);
    for kind in kinds {
        forbid_second_source(volume, kind, errors);
    }
}

/// Validates the rules of a volume type that persistent volumes do not share.
fn validate_details(kind: &str, source: &Field<'_>, errors: &mut Errors) {
    match kind {
        "emptyDir" => {
            let limit = source.child("sizeLimit");
            if amount(limit.text()).is_some_and(|limit| limit < 0.0) {
                limit.forbidden("SizeLimit field must be a valid resource quantity", errors);
            }
        }
        "ephemeral" => {
            let template = source.child("volumeClaimTemplate");
            if template.is_set() {
                let labels = template.child("metadata.labels");
                validate_labels(labels.value(), labels.path(), errors);
                validate_claim_spec(&template.child("spec"), errors);
            }
        }
        "image" => source.child("pullPolicy").one_of(&["Always", "IfNotPresent", "Never"], errors),
        "gitRepo" => validate_relative(&source.child("directory"), errors),
        "secret" | "configMap" => {
            validate_mode(&source.child("defaultMode"), errors);
            validate_items(source, errors);
        }
        "downwardAPI" => {
            validate_mode(&source.child("defaultMode"), errors);
            for file in source.child("items").items() {
                // The real server does not report the index.
                validate_file(&Field::new(*source.path(), file.value()), errors);
            }
        }
        "projected" => {
            validate_mode(&source.child("defaultMode"), errors);
            validate_projections(source, errors);
        }
        _ => {}
    }
}

/// Validates the mapping of keys to files.
fn validate_items(source: &Field<'_>, errors: &mut Errors) {
    for item in source.child("items").items() {
        item.check(&[("key", Rule::Required), ("path", Rule::Required)], errors);
        validate_local(&item.child("path"), errors);
        validate_mode(&item.child("mode"), errors);
    }
}

/// Validates a file of a downward API volume.
fn validate_file(file: &Field<'_>, errors: &mut Errors) {
    file.check(&[("path", Rule::Required)], errors);
    validate_local(&file.child("path"), errors);
    let (field, resource) = (file.child("fieldRef"), file.child("resourceFieldRef"));
    if field.is_set() {
        validate_field_selector(&field, FieldSelector::Volume, errors);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            file.invalid_as("resource", detail, errors);
        }
    } else if resource.is_set() {
        validate_resource_selector(&resource, FieldSelector::Volume, errors);
    } else {
        file.required("one of fieldRef and resourceFieldRef is required", errors);
    }
    validate_mode(&file.child("mode"), errors);
}

/// Validates the sources of a projected volume. Their paths must not conflict.
fn validate_projections(projected: &Field<'_>, errors: &mut Errors) {
    const CONFLICT: &str = "conflicting duplicate paths";
    let sources = projected.child("sources");
    let mut paths = DuplicateCheck::default();
    for source in sources.items() {
        for kind in ["secret", "configMap"] {
            let object = source.child(kind);
            if !object.is_set() {
                continue;
            }
            object.check(&[("name", Rule::Required)], errors);
            validate_items(&object, errors);
            for item in source.json().items(&[kind, "items"]) {
                let file = item.text(&["path"]);
                if !file.is_empty() && paths.repeats(file) {
                    projected.invalid_as(object.child("name").text(), CONFLICT, errors);
                }
            }
        }
        for item in source.json().items(&["downwardAPI", "items"]) {
            // The real server does not report the index.
            validate_file(&Field::new(source.path().child("downwardAPI"), Some(item)), errors);
            let file = item.text(&["path"]);
            if !file.is_empty() && paths.repeats(file) {
                projected.invalid_as(file, CONFLICT, errors);
            }
        }
        validate_token(&source.child("serviceAccountToken"), projected, errors);
        if source.entries().filter(|(_, source)| !source.json().is_null()).count() > 1 {
            source.forbidden("may not specify more than 1 volume type per source", errors);
        }
    }
}

/// Validates a service account token of a projected volume.
fn validate_token(token: &Field<'_>, projected: &Field<'_>, errors: &mut Errors) {
    if !token.is_set() {
        return;
    }
    let lifetime = token.child("expirationSeconds");
    lifetime.check_int(MIN_TOKEN_SECONDS.., "may not specify a duration less than 10 minutes", errors);
    // The real server reports this path.
    let file = Field::new(projected.path().child("path"), token.child("path").value());
    file.check_not_empty("", errors);
    validate_local(&file, errors);
}

fn validate_mode(mode: &Field<'_>, errors: &mut Errors) {
    mode.check_int(0..=0o777, MODE, errors);
}

/// Validates that a path is relative and does not leave its directory.
fn validate_relative(file: &Field<'_>, errors: &mut Errors) {
    if file.text().starts_with('/') {
        file.invalid("must be a relative path", errors);
    }
    validate_no_backsteps(file, errors);
}

/// Like [`validate_relative`], and rejects names that the kubelet reserves.
fn validate_local(file: &Field<'_>, errors: &mut Errors) {
    validate_relative(file, errors);
    let text = file.text();
    if text.starts_with("..") && !text.starts_with("../") && text != ".." {
        file.invalid("must not start with '..'", errors);
    }
}

// === volume mounts ===

/// Validates the volume mounts of a container.
pub(super) fn validate_mounts(container: &Field<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let device_names = texts(container, "volumeDevices", "name");
    let device_paths = texts(container, "volumeDevices", "devicePath");
    let privileged = container.child("securityContext.privileged").flag();
    let mounts = container.child("volumeMounts");
    let mut paths = DuplicateCheck::default();
    for mount in mounts.items() {
        let (name_field, path_field) = (mount.child("name"), mount.child("mountPath"));
        let (name, path) = (name_field.text(), mount.json().text(&["mountPath"]));
        name_field.check_not_empty("", errors);
        if !volumes.0.contains_key(name) {
            errors.not_found(name_field.path(), name);
        }
        path_field.check_not_empty("", errors);
        if paths.repeats(path) {
            path_field.invalid_as(path, "must be unique", errors);
        }
        if device_names.contains(name) {
            name_field.invalid_as(name, "must not already exist in volumeDevices", errors);
        }
        if device_paths.contains(path) {
            path_field.invalid_as(path, "must not already exist as a path in volumeDevices", errors);
        }
        validate_sub_paths(&mount, &mounts, errors);
        validate_propagation(&without_index(&mounts, &mount, "mountPropagation"), privileged, errors);
        validate_recursive_read_only(&mount, &mounts, errors);
    }
}

/// Returns a field of a mount. Like in the errors of the real server, its path does not contain the index of the mount.
fn without_index<'c>(mounts: &'c Field<'_>, mount: &'c Field<'_>, name: &'c str) -> Field<'c> {
    Field::new(mounts.path().child(name), mount.child(name).value())
}

fn validate_sub_paths(mount: &Field<'_>, mounts: &Field<'_>, errors: &mut Errors) {
    validate_relative(&without_index(mounts, mount, "subPath"), errors);
    let expression = mount.child("subPathExpr");
    if !expression.is_empty() && !mount.child("subPath").is_empty() {
        expression.invalid("subPathExpr and subPath are mutually exclusive", errors);
    }
    validate_relative(&without_index(mounts, mount, "subPathExpr"), errors);
}

fn validate_propagation(mode: &Field<'_>, privileged: bool, errors: &mut Errors) {
    if !mode.is_set() {
        return;
    }
    mode.supported(&PROPAGATION_MODES, errors);
    if mode.text() == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        mode.forbidden(detail, errors);
    }
}

/// Validates the recursive read-only setting of a mount.
fn validate_recursive_read_only(mount: &Field<'_>, mounts: &Field<'_>, errors: &mut Errors) {
    let setting = without_index(mounts, mount, "recursiveReadOnly");
    if !setting.is_set() {
        return;
    }
    match setting.text() {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.child("readOnly").flag() {
                setting.forbidden("may only be specified when readOnly is true", errors);
            }
            if !matches!(mount.child("mountPropagation").text(), "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                setting.forbidden(detail, errors);
            }
        }
        _ => setting.unsupported(&["Disabled", "Enabled", "IfPossible"], errors),
    }
}

/// Validates the volume devices of a container.
pub(super) fn validate_devices(container: &Field<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let mount_names = texts(container, "volumeMounts", "name");
    let mount_paths = texts(container, "volumeMounts", "mountPath");
    let devices = container.child("volumeDevices");
    let (mut names, mut paths) = (DuplicateCheck::default(), DuplicateCheck::default());
    for device in devices.items() {
        let (name_field, path_field) = (device.child("name"), device.child("devicePath"));
        let (name, path) = (device.json().text(&["name"]), device.json().text(&["devicePath"]));
        if name.is_empty() {
            name_field.required("", errors);
        } else if names.repeats(name) {
            name_field.invalid("must be unique", errors);
        }
        match volumes.0.get(name) {
            None => errors.not_found(name_field.path(), name),
            Some(volume) if volume.at(&["persistentVolumeClaim"]).or(volume.at(&["ephemeral"])).is_none() => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                name_field.invalid(detail, errors);
            }
            Some(_) => {}
        }
        path_field.check_not_empty("", errors);
        if path.split('/').any(|part| part == "..") {
            path_field.invalid("can not contain backsteps ('..')", errors);
        } else if paths.repeats(path) {
            path_field.invalid_as(path, "must be unique", errors);
        }
        if mount_names.contains(name) {
            name_field.invalid_as(name, "must not already exist in volumeMounts", errors);
        }
        if mount_paths.contains(path) {
            path_field.invalid_as(path, "must not already exist as a path in volumeMounts", errors);
        }
    }
}

/// Returns the texts of a field of all elements of a container's list.
fn texts<'v>(container: &Field<'v>, list: &str, name: &str) -> HashSet<&'v str> {
    container.json().items(&[list]).iter().map(|item| item.text(&[name])).collect()
}
