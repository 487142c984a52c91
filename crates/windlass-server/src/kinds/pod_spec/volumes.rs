//! The volumes of a pod, and their mounts.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::kinds::pod_spec::{environment::{FieldSelector, validate_field_selector, validate_resource_selector}, one_of};
use crate::{kinds::{core::volumes::validate_claim_spec, pod_spec::volume_sources::{Owner, no_steps_back, self}, quantity::amount}, object::{Errors, Path, Tree, dns_label, validate_labels}};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const MODES_OF_PROPAGATION: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];

/// The valid volumes of a pod, by name. Only these can be mounted.
pub(super) struct Volumes<'v>(HashMap<&'v str, &'v Value>);

/// The volume types in the order of validation: the field, its name in errors about a second type, and the required
/// fields.
const SOURCES: [(&str, &str, &[&str]); 30] = [
    ("emptyDir", "emptyDir", &[]),
    ("hostPath", "hostPath", &["path"]),
    ("gitRepo", "gitRepo", &["repository"]),
    ("gcePersistentDisk", "gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", "awsElasticBlockStore", &["volumeID"]),
    ("secret", "secret", &["secretName"]),
    ("nfs", "nfs", &["server", "path"]),
    ("iscsi", "iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", "glusterfs", &["endpoints", "path"]),
    ("flocker", "flocker", &[]),
    ("persistentVolumeClaim", "persistentVolumeClaim", &["claimName"]),
    ("rbd", "rbd", &["monitors", "image"]),
    ("cinder", "cinder", &["volumeID"]),
    ("cephfs", "cephFS", &["monitors"]),
    ("quobyte", "quobyte", &[]),
    ("downwardAPI", "downwarAPI", &[]),
    ("fc", "fc", &[]),
    ("flexVolume", "flexVolume", &["driver"]),
    ("configMap", "configMap", &["name"]),
    ("azureFile", "azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", "vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", "photonPersistentDisk", &["pdID"]),
    ("portworxVolume", "portworxVolume", &["volumeID"]),
    ("azureDisk", "azureDisk", &["diskName", "diskURI"]),
    ("storageos", "storageos", &[]),
    ("projected", "projected", &[]),
    ("scaleIO", "scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", "csi", &[]),
    ("ephemeral", "ephemeral", &["volumeClaimTemplate"]),
    ("image", "image", &[]),
];

// === volumes ===

/// Validates the volumes of a spec, and returns the valid ones.
pub(super) fn validate_volumes<'v>(spec: &'v Value, path: &Path<'_>, errors: &mut Errors) -> Volumes<'v> {
    let list = path.child("volumes");
    let mut sound = HashMap::new();
    for (index, volume) in spec.items(&["volumes"]).iter().enumerate() {
        let place = list.index(index);
        let name = volume.text(&["name"]);
        let mut found = Errors::default();
        validate_source(volume, &place, &mut found);
        if name.is_empty() {
            found.required(&place.child("name"), "");
        } else {
            found.invalid_each(&place.child("name"), name, dns_label(name));
        }
        if sound.contains_key(name) {
            found.duplicate(&place.child("name"), name);
        }
        if found.is_empty() {
            sound.insert(name, volume);
        }
        errors.append(found);
    }
    Volumes(sound)
}

/// Validates that a volume has exactly one type. If it has several, the first one is validated.
fn validate_source(volume: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut sources = SOURCES.iter().filter(|(name, ..)| volume.at(&[name]).is_some());
    let Some((name, _, required)) = sources.next() else {
        return errors.required(path, "must specify a volume type");
    };
    let source = volume.at(&[name]).unwrap_or(&Value::Null);
    let place = path.child(if *name == "gcePersistentDisk" { "persistentDisk" } else { name });
    volume_sources::validate_source(name, required, source, &place, Owner::Pod, errors);
    validate_details(name, source, &place, errors);
    for (_, name, _) in sources {
        errors.forbidden(&path.child(name), "may not specify more than 1 volume type");
    }
}

/// Validates the rules of a volume type beyond required fields.
fn validate_details(name: &str, source: &Value, path: &Path<'_>, errors: &mut Errors) {
    match name {
        "emptyDir" if amount(source.text(&["sizeLimit"])).is_some_and(|limit| limit < 0.0) => {
            errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
        }
        "ephemeral" => {
            let path = path.child("volumeClaimTemplate");
            let Some(template) = source.at(&["volumeClaimTemplate"]) else { return };
            validate_labels(template.at(&["metadata", "labels"]), &path.child("metadata.labels"), errors);
            validate_claim_spec(template.at(&["spec"]).unwrap_or(&Value::Null), &path.child("spec"), errors);
        }
        "image" => one_of(source, "pullPolicy", &["Always", "IfNotPresent", "Never"], path, errors),
        "gitRepo" => descending(source.text(&["directory"]), &path.child("directory"), errors),
        "secret" | "configMap" => {
            validate_mode(source, "defaultMode", path, errors);
            validate_items(source, path, errors);
        }
        "downwardAPI" => {
            validate_mode(source, "defaultMode", path, errors);
            for file in source.items(&["items"]) {
                // The real server does not report the index.
                validate_file(file, path, errors);
            }
        }
        "projected" => {
            validate_mode(source, "defaultMode", path, errors);
            validate_projections(source, path, errors);
        }
        _ => {}
    }
}

/// Validates the mapping of keys to files.
fn validate_items(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("items");
    for (index, item) in source.items(&["items"]).iter().enumerate() {
        let place = list.index(index);
        for field in ["key", "path"] {
            if item.text(&[field]).is_empty() {
                errors.required(&place.child(field), "");
            }
        }
        local(item.text(&["path"]), &place.child("path"), errors);
        validate_mode(item, "mode", &place, errors);
    }
}

/// Validates a file of a downward API volume.
fn validate_file(file: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = file.text(&["path"]);
    if name.is_empty() {
        errors.required(&path.child("path"), "");
    }
    local(name, &path.child("path"), errors);
    match (file.at(&["fieldRef"]), file.at(&["resourceFieldRef"])) {
        (Some(field), other) => {
            validate_field_selector(field, FieldSelector::Volume, &path.child("fieldRef"), errors);
            if other.is_some() {
                let text = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", text);
            }
        }
        (None, Some(resource)) => {
            validate_resource_selector(resource, FieldSelector::Volume, &path.child("resourceFieldRef"), errors);
        }
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    validate_mode(file, "mode", path, errors);
}

/// Validates the sources of a projected volume. Their paths must not conflict.
fn validate_projections(projected: &Value, path: &Path<'_>, errors: &mut Errors) {
    let sources = path.child("sources");
    let mut paths = HashSet::new();
    for (index, source) in projected.items(&["sources"]).iter().enumerate() {
        let place = sources.index(index);
        for kind in ["secret", "configMap"] {
            let Some(inner) = source.at(&[kind]) else { continue };
            let name = inner.text(&["name"]);
            if name.is_empty() {
                errors.required(&place.child(kind).child("name"), "");
            }
            validate_items(inner, &place.child(kind), errors);
            for item in inner.items(&["items"]) {
                let file = item.text(&["path"]);
                if !file.is_empty() && !paths.insert(file) {
                    errors.invalid(path, name, "conflicting duplicate paths");
                }
            }
        }
        for file in source.items(&["downwardAPI", "items"]) {
            validate_file(file, &place.child("downwardAPI"), errors);
            let name = file.text(&["path"]);
            if !name.is_empty() && !paths.insert(name) {
                errors.invalid(path, name, "conflicting duplicate paths");
            }
        }
        if let Some(token) = source.at(&["serviceAccountToken"]) {
            let place = place.child("serviceAccountToken");
            if let Some(seconds) = token.int(&["expirationSeconds"]).filter(|seconds| *seconds < 600) {
                let text = "may not specify a duration less than 10 minutes";
                errors.invalid(&place.child("expirationSeconds"), &seconds, text);
            }
            match token.text(&["path"]) {
                "" => errors.required(&path.child("path"), ""),
                file => local(file, &path.child("path"), errors),
            }
        }
        if source.entries(&[]).filter(|(_, source)| !source.is_null()).count() > 1 {
            errors.forbidden(&place, "may not specify more than 1 volume type per source");
        }
    }
}

fn validate_mode(value: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = value.int(&[field]).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(&path.child(field), &mode, MODE);
    }
}

/// Validates that a path is relative and does not leave its directory.
fn descending(file: &str, path: &Path<'_>, errors: &mut Errors) {
    if file.starts_with('/') {
        errors.invalid(path, file, "must be a relative path");
    }
    no_steps_back(file, path, errors);
}

/// Like [`descending`], and rejects names that the kubelet reserves.
fn local(file: &str, path: &Path<'_>, errors: &mut Errors) {
    descending(file, path, errors);
    if file.starts_with("..") && !file.starts_with("../") && file != ".." {
        errors.invalid(path, file, "must not start with '..'");
    }
}

// === volume mounts ===

/// Validates the volume mounts of a container.
pub(super) fn validate_mounts(container: &Value, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("volumeMounts");
    let mut paths = HashSet::new();
    let texts = |field| container.items(&["volumeDevices"]).iter().map(move |device| device.text(&[field])).collect();
    let (device_names, device_paths): (HashSet<&str>, HashSet<&str>) = (texts("name"), texts("devicePath"));
    for (index, mount) in container.items(&["volumeMounts"]).iter().enumerate() {
        let place = list.index(index);
        let (name, mount_path) = (mount.text(&["name"]), mount.text(&["mountPath"]));
        if name.is_empty() {
            errors.required(&place.child("name"), "");
        }
        if !volumes.0.contains_key(name) {
            errors.not_found(&place.child("name"), name);
        }
        if mount_path.is_empty() {
            errors.required(&place.child("mountPath"), "");
        }
        if !paths.insert(mount_path) {
            errors.invalid(&place.child("mountPath"), mount_path, "must be unique");
        }
        if device_names.contains(name) {
            errors.invalid(&place.child("name"), name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(mount_path) {
            let text = "must not already exist as a path in volumeDevices";
            errors.invalid(&place.child("mountPath"), mount_path, text);
        }
        validate_sub_paths(mount, &list, &place, errors);
        validate_propagation(mount, container, &list.child("mountPropagation"), errors);
        validate_depth(mount, &list.child("recursiveReadOnly"), errors);
    }
}

fn validate_sub_paths(mount: &Value, list: &Path<'_>, place: &Path<'_>, errors: &mut Errors) {
    let (plain, expression) = (mount.text(&["subPath"]), mount.text(&["subPathExpr"]));
    descending(plain, &list.child("subPath"), errors);
    if !expression.is_empty() {
        if !plain.is_empty() {
            let text = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&place.child("subPathExpr"), expression, text);
        }
        descending(expression, &list.child("subPathExpr"), errors);
    }
}

fn validate_propagation(mount: &Value, container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(mode) = mount.at(&["mountPropagation"]).and_then(Value::as_str) else { return };
    if !MODES_OF_PROPAGATION.contains(&mode) {
        errors.unsupported(path, mode, &MODES_OF_PROPAGATION);
    }
    if mode == "Bidirectional" && !container.flag(&["securityContext", "privileged"]) {
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

/// Validates the recursive read-only setting of a mount.
fn validate_depth(mount: &Value, path: &Path<'_>, errors: &mut Errors) {
    match mount.at(&["recursiveReadOnly"]).and_then(Value::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.flag(&["readOnly"]) {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if !matches!(mount.text(&["mountPropagation"]), "" | "None") {
                errors.forbidden(path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => errors.unsupported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// Validates the volume devices of a container.
pub(super) fn validate_devices(container: &Value, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("volumeDevices");
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    let texts = |field| container.items(&["volumeMounts"]).iter().map(move |mount| mount.text(&[field])).collect();
    let (mount_names, mount_paths): (HashSet<&str>, HashSet<&str>) = (texts("name"), texts("mountPath"));
    for (index, device) in container.items(&["volumeDevices"]).iter().enumerate() {
        let place = list.index(index);
        let (name, file) = (device.text(&["name"]), device.text(&["devicePath"]));
        if name.is_empty() {
            errors.required(&place.child("name"), "");
        }
        if names.contains(name) {
            errors.invalid(&place.child("name"), name, "must be unique");
        }
        match volumes.0.get(name) {
            None => errors.not_found(&place.child("name"), name),
            Some(volume) if volume.at(&["persistentVolumeClaim"]).or(volume.at(&["ephemeral"])).is_none() => {
                let text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&place.child("name"), name, text);
            }
            Some(_) => {}
        }
        if file.is_empty() {
            errors.required(&place.child("devicePath"), "");
        }
        if paths.contains(file) {
            errors.invalid(&place.child("devicePath"), file, "must be unique");
        }
        if file.split('/').any(|part| part == "..") {
            errors.invalid(&place.child("devicePath"), file, "can not contain backsteps ('..')");
        } else {
            paths.insert(file);
        }
        if mount_names.contains(name) {
            errors.invalid(&place.child("name"), name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(file) {
            errors.invalid(&place.child("devicePath"), file, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
