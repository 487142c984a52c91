//! PersistentVolume.

use crate::kinds::{
    amount,
    pod_spec::volume_sources::{self, Owner, forbid_second_source},
    prelude::*,
    selector::validate_node_selector,
};

pub(super) const KIND: Kind = Kind {
    name: "PersistentVolume",
    rules: Rules {
        metadata: MetadataRule { changed: 2, ..MetadataRule::OBJECT },
        returns_deleted: true,
        ..Rules::WITH_STATUS
    },
    default,
    prepare_create,
    prepare_status,
    validate,
    validate_update,
    warnings,
    ..BASE
};

/// The annotation that names a storage class, for volumes and claims from before the field for it.
pub(super) const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
pub(super) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const ATTRIBUTES_CLASS: &str = "volumeAttributesClassName";
const PHASE_TIME: &str = "lastPhaseTransitionTime";

/// The volume types in the order of validation.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub(super) const STORAGE_CLASS_DEPRECATED: &str = "deprecated since v1.8; use \"storageClassName\" attribute instead";
/// The annotations that cause a warning, and its text.
const DEPRECATED_ANNOTATIONS: [(&str, &str); 2] = [
    (STORAGE_CLASS, STORAGE_CLASS_DEPRECATED),
    ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead"),
];
/// The volume types that cause a warning, and its text.
const DEPRECATED_SOURCES: [(&str, &str); 6] = [
    ("cephfs", "spec.cephfs: deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "spec.photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "spec.scaleIO: deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "spec.storageOS: deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "spec.glusterfs: deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "spec.rbd: deprecated in v1.28, non-functional in v1.31+"),
];
const RECYCLE_WARNING: &str = "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, \
                               the recommended approach is to use dynamic provisioning.";

fn default(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default_to(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_pointer(spec, "volumeMode", "Filesystem");
    default_source(spec);
    default_to(object_mut(object, "status"), "phase", "Pending");
}

fn prepare_create(object: &mut Value, write: &WriteContext<'_>) {
    let status = object_mut(object, "status");
    status.insert("phase".to_owned(), "Pending".into());
    status.insert(PHASE_TIME.to_owned(), write.now().into());
}

fn prepare_status(new: &mut Value, old: &Value, write: &WriteContext<'_>) {
    let status = object_mut(new, "status");
    let same_phase = status.text(&["phase"]) == old.text(&["status", "phase"]);
    let (time, old_time) = (status.at(&[PHASE_TIME]), old.at(&["status", PHASE_TIME]));
    if same_phase && time.is_none() {
        status.insert(PHASE_TIME.to_owned(), old_time.cloned().unwrap_or_default());
    } else if !same_phase && (time.is_none() || time == old_time) {
        status.insert(PHASE_TIME.to_owned(), write.now().into());
    }
}

fn validate(volume: &Field<'_>, errors: &mut Errors) {
    let spec = volume.child("spec");
    validate_access_modes(&spec.child("accessModes"), errors);
    validate_capacity(&spec.child("capacity"), errors);
    spec.child("persistentVolumeReclaimPolicy").one_of(&["Delete", "Recycle", "Retain"], errors);
    let affinity = spec.child("nodeAffinity");
    let required = affinity.child("required");
    if required.is_set() {
        validate_node_selector(&required, errors);
    } else if affinity.is_set() {
        required.required("must specify required node constraints", errors);
    }
    validate_source(&spec, volume.child("metadata.name").text(), errors);
    spec.child("storageClassName").optional_text(dns_subdomain, errors);
    spec.child("volumeMode").one_of(&VOLUME_MODES, errors);
    let class = spec.child(ATTRIBUTES_CLASS);
    if class.is_set() {
        class.check_not_empty("an empty string is disallowed", errors);
        class.optional_text(dns_subdomain, errors);
        spec.child("csi").check_set("has to be specified when using volumeAttributesClassName", errors);
    }
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    // The real server validates the spec twice and reports errors twice.
    validate(new, errors);
    let (new, old) = (new.child("spec"), old.child("spec"));
    let (mut new_source, old_source) = (sources(new.json()), sources(old.json()));
    // A secret for expansion may be added later.
    if old_source.at(&["csi"]).is_some()
        && old_source.at(&["csi", "controllerExpandSecretRef"]).is_none()
        && let Some(csi) = entry_mut(&mut new_source, "csi")
    {
        as_object(csi).shift_remove("controllerExpandSecretRef");
    }
    if !same(Some(&new_source), Some(&old_source)) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        new.child("persistentvolumesource").forbidden(detail, errors);
    }
    // The real server reports these two paths without the spec.
    errors.immutable(&Path::new("volumeMode"), new.child("volumeMode").value(), old.child("volumeMode").value());
    if let Some(affinity) = old.child("nodeAffinity").value() {
        errors.immutable(&Path::new("nodeAffinity"), new.child("nodeAffinity").value(), Some(affinity));
    }
    let class = new.child(ATTRIBUTES_CLASS);
    if old.child(ATTRIBUTES_CLASS).is_set() && !class.is_set() {
        class.forbidden("update from non-nil value to nil is forbidden", errors);
    }
}

fn warnings(new: &Value, _old: Option<&Value>, warnings: &mut Vec<String>) {
    for (key, text) in DEPRECATED_ANNOTATIONS {
        if new.at(&["metadata", "annotations", key]).is_some() {
            warnings.push(format!("metadata.annotations[{key}]: {text}"));
        }
    }
    if new.text(&["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        warnings.push(RECYCLE_WARNING.to_owned());
    }
    let deprecated = DEPRECATED_SOURCES.iter().filter(|(kind, _)| new.at(&["spec", kind]).is_some());
    warnings.extend(deprecated.map(|(_, text)| (*text).to_owned()));
}

/// Applies the defaults of volume types, for persistent volumes and pods.
pub(crate) fn default_source(volume: &mut Map<String, Value>) {
    let defaults: [(&str, &[(&str, &str)]); 3] = [
        ("iscsi", &[("iscsiInterface", "default")]),
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
    ];
    for (source, fields) in defaults {
        if let Some(Value::Object(source)) = volume.get_mut(source) {
            for (field, value) in fields {
                default_to(source, field, *value);
            }
        }
    }
    if let Some(Value::Object(path)) = volume.get_mut("hostPath") {
        default_pointer(path, "type", "");
    }
    if let Some(Value::Object(disk)) = volume.get_mut("azureDisk") {
        for (field, value) in [("cachingMode", "ReadWrite"), ("fsType", "ext4")] {
            default_pointer(disk, field, value);
        }
        default_pointer(disk, "readOnly", false);
        default_pointer(disk, "kind", "Shared");
    }
}

/// Returns the sources of a volume, by type.
fn sources(spec: &Value) -> Value {
    let sources = SOURCES.iter().filter_map(|kind| Some(((*kind).to_owned(), spec.at(&[kind])?.clone())));
    Value::Object(sources.collect())
}

/// Validates the capacity of a volume: a positive amount of storage, and nothing else.
fn validate_capacity(capacity: &Field<'_>, errors: &mut Errors) {
    capacity.check_not_empty("", errors);
    if !capacity.entries().map(|(name, _)| name).eq(["storage"]) {
        errors.unsupported(capacity.path(), capacity.json(), &["storage"]);
    }
    for (_, quantity) in capacity.entries() {
        validate_amount(&quantity, errors);
        validate_positive(&quantity, errors);
    }
}

/// Validates a volume that a VolumeAttachment describes inline. Claims do not apply to it.
pub(crate) fn validate_inline_volume(spec: &Field<'_>, errors: &mut Errors) {
    const UNSUPPORTED: &str = "may not be specified in the context of inline volumes";
    spec.child("claimRef").check_unset(UNSUPPORTED, errors);
    spec.child("capacity").check_empty(UNSUPPORTED, errors);
    spec.child("csi").check_set("has to be specified in the context of inline volumes", errors);
    validate_access_modes(&spec.child("accessModes"), errors);
    let (reclaim_policy, mode) = (spec.child("persistentVolumeReclaimPolicy"), spec.child("volumeMode"));
    if !matches!(reclaim_policy.text(), "" | "Retain") {
        reclaim_policy.forbidden("may only be Retain in the context of inline volumes", errors);
    }
    spec.child("nodeAffinity").check_unset(UNSUPPORTED, errors);
    validate_source(spec, "", errors);
    spec.child("storageClassName").check_empty(UNSUPPORTED, errors);
    if mode.is_set() && mode.text() != "Filesystem" {
        let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        mode.forbidden(detail, errors);
    }
}

/// Validates that a volume has exactly one type, or `flexVolume` in addition. Inline volumes have no name.
fn validate_source(spec: &Field<'_>, name: &str, errors: &mut Errors) {
    let mut has_source = false;
    for kind in SOURCES.into_iter().filter(|kind| spec.child(kind).is_set()) {
        if has_source && kind != "flexVolume" {
            forbid_second_source(spec, kind, errors);
            continue;
        }
        has_source = true;
        volume_sources::validate_source(kind, &volume_sources::source(spec, kind), Owner::Volume(name), errors);
        let affinity = spec.child("nodeAffinity");
        if kind == "local" && (name.is_empty() || !affinity.is_set()) {
            affinity.required("Local volume requires node affinity", errors);
        }
    }
    if !has_source {
        spec.required("must specify a volume type", errors);
    }
    let host_path = spec.child("hostPath.path").text();
    let is_root = !host_path.is_empty() && host_path.split('/').all(|part| matches!(part, "" | "."));
    let reclaim_policy = spec.child("persistentVolumeReclaimPolicy");
    if is_root && reclaim_policy.text() == "Recycle" {
        reclaim_policy.forbidden("may not be 'recycle' for a hostPath mount of '/'", errors);
    }
}

// === rules that volumes and claims share ===

/// Validates the access modes of a volume or a claim.
pub(super) fn validate_access_modes(modes: &Field<'_>, errors: &mut Errors) {
    modes.check_not_empty("", errors);
    let (mut exclusive, mut shared) = (false, false);
    for mode in modes.items() {
        match mode.text() {
            "ReadWriteOncePod" => exclusive = true,
            text if ACCESS_MODES.contains(&text) => shared = true,
            // The real server does not report the index.
            text => errors.unsupported(modes.path(), text, &ACCESS_MODES),
        }
    }
    if exclusive && shared {
        modes.forbidden("may not use ReadWriteOncePod with other access modes", errors);
    }
}

/// Validates that an amount is not negative. Errors show whole units, rounded up. As in Go, an overflow counts as -1.
pub(super) fn validate_amount(quantity: &Field<'_>, errors: &mut Errors) {
    const OVERFLOW: f64 = 9_223_372_036_854_775_808.0;
    let value = amount(quantity.text()).unwrap_or_default();
    let value = if value >= OVERFLOW { -1.0 } else { value.ceil() };
    if value < 0.0 {
        #[allow(clippy::cast_possible_truncation, reason = "a negative number of bytes, shown in an error")]
        quantity.invalid_as(&(value as i64), "must be a valid resource quantity", errors);
    }
}

pub(super) fn validate_positive(quantity: &Field<'_>, errors: &mut Errors) {
    if amount(quantity.text()).is_none_or(|amount| amount <= 0.0) {
        quantity.invalid_as(quantity.text(), "must be greater than zero", errors);
    }
}
