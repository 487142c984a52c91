//! Persistent volumes and persistent volume claims.

use serde_json::{Value, json};

use crate::kinds::{BASE, Kind, pod_spec::{one_of, volume_sources::{Owner, self}}, quantity::amount, selector::{validate_node_selector, validate_selector}};
use crate::{
    object::{
        Errors, Path, Tree, as_object, default_pointer, default_to, dns_label, dns_subdomain, entry_mut, object_mut,
        same,
    },
    resource::{MetadataRule, Rules},
};

const SPEC: Path<'static> = Path::new("spec");
const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "PersistentVolume",
        prefix: "/registry/persistentvolumes/",
        subresources: &["status"],
        rules: Rules {
            metadata: MetadataRule { changed: 2, ..MetadataRule::OBJECT },
            returns_deleted: true,
            ..Rules::WITH_STATUS
        },
        default: default_volume,
        stamp: Some(stamp_volume),
        validate: validate_volume,
        validate_update: validate_volume_update,
        warnings: |volume, _| volume_warnings(volume),
        ..BASE
    },
    Kind {
        name: "PersistentVolumeClaim",
        prefix: "/registry/persistentvolumeclaims/",
        subresources: &["status"],
        rules: Rules { returns_deleted: true, rewrites_new: |_| true, ..Rules::WITH_STATUS },
        default: default_claim,
        prepare_create: prepare_claim_create,
        prepare_update: |claim, _| normalise_sources(claim),
        validate: validate_claim,
        validate_update: validate_claim_update,
        validate_status: validate_claim_status,
        warnings: |claim, _| claim_warnings(claim),
        ..BASE
    },
];

/// The volume types in the order of validation, with their required fields. In errors, `cephfs` has another name.
const SOURCES: [(&str, &[&str]); 22] = [
    ("hostPath", &["path"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("nfs", &["server", "path"]),
    ("rbd", &["monitors", "image"]),
    ("quobyte", &[]),
    ("cephfs", &["monitors"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("cinder", &["volumeID"]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("local", &["path"]),
    ("storageos", &[]),
    ("csi", &[]),
];

// === defaults ===

fn default_volume(volume: &mut Value) {
    let spec = object_mut(volume, "spec");
    default_to(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_pointer(spec, "volumeMode", "Filesystem");
    default_source(spec);
    default_to(object_mut(volume, "status"), "phase", "Pending");
}

/// Applies the defaults of volume types, for persistent volumes and pods.
pub(super) fn default_source(volume: &mut serde_json::Map<String, Value>) {
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
        for (field, value) in [
            ("cachingMode", json!("ReadWrite")),
            ("fsType", json!("ext4")),
            ("readOnly", json!(false)),
            ("kind", json!("Shared")),
        ] {
            default_pointer(disk, field, value);
        }
    }
}

fn default_claim(claim: &mut Value) {
    default_pointer(object_mut(claim, "spec"), "volumeMode", "Filesystem");
    default_to(object_mut(claim, "status"), "phase", "Pending");
}

// === preparation ===

/// Records the time of a phase change.
fn stamp_volume(new: &mut Value, old: Option<&Value>, now: &str) {
    const TIME: &str = "lastPhaseTransitionTime";
    let status = object_mut(new, "status");
    let Some(old) = old else {
        status.insert("phase".to_owned(), "Pending".into());
        status.insert(TIME.to_owned(), now.into());
        return;
    };
    let (since, given) = (old.at(&["status", TIME]).cloned(), status.at(&[TIME]).cloned());
    let same_phase = status.text(&["phase"]) == old.text(&["status", "phase"]);
    if same_phase && given.is_none() {
        status.insert(TIME.to_owned(), since.unwrap_or_default());
    } else if !same_phase && (given.is_none() || given == since) {
        status.insert(TIME.to_owned(), now.into());
    }
}

fn prepare_claim_create(claim: &mut Value) {
    drop_foreign_sources(claim);
    normalise_sources(claim);
    object_mut(claim, "status").insert("phase".to_owned(), "Pending".into());
}

/// Removes unsupported sources: other kinds in `dataSource`, and other namespaces in `dataSourceRef`.
fn drop_foreign_sources(claim: &mut Value) {
    let Some(spec) = entry_mut(claim, "spec") else { return };
    let spec = as_object(spec);
    if !spec.text(&["dataSourceRef", "namespace"]).is_empty() {
        spec.shift_remove("dataSourceRef");
    }
    let refers = spec.at(&["dataSourceRef"]).is_some();
    let (group, kind) = (spec.text(&["dataSource", "apiGroup"]), spec.text(&["dataSource", "kind"]));
    // If both fields are set, validation reports the unsupported kind instead.
    if !refers
        && !matches!((group, kind), ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    {
        spec.shift_remove("dataSource");
    }
}

/// Copies `dataSource` to `dataSourceRef` or vice versa if only one is set.
fn normalise_sources(claim: &mut Value) {
    let Some(spec) = entry_mut(claim, "spec") else { return };
    let spec = as_object(spec);
    match (spec.at(&["dataSource"]).cloned(), spec.at(&["dataSourceRef"]).cloned()) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(reference)) if reference.text(&["namespace"]).is_empty() => {
            let mut source = reference;
            as_object(&mut source).shift_remove("namespace");
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

// === validation of volumes ===

fn validate_volume(volume: &Value, errors: &mut Errors) {
    let nothing = json!({});
    let spec = volume.at(&["spec"]).unwrap_or(&nothing);
    validate_modes(spec, "", &SPEC, errors);
    let path = SPEC.child("capacity");
    let capacity = spec.at(&["capacity"]).and_then(Value::as_object);
    if capacity.is_none_or(serde_json::Map::is_empty) {
        errors.required(&path, "");
    }
    let shown = spec.at(&["capacity"]).unwrap_or(&Value::Null);
    if capacity.is_none_or(|capacity| !capacity.contains_key("storage") || capacity.len() > 1) {
        errors.unsupported(&path, shown, &["storage"]);
    }
    for (name, quantity) in spec.entries(&["capacity"]) {
        validate_amount(quantity, &path.key(name), errors);
        validate_positive(quantity, &path.key(name), errors);
    }
    one_of(spec, "persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"], &SPEC, errors);
    let affinity = SPEC.child("nodeAffinity");
    match (spec.at(&["nodeAffinity"]), spec.at(&["nodeAffinity", "required"])) {
        (None, _) => {}
        (Some(_), None) => errors.required(&affinity.child("required"), "must specify required node constraints"),
        (Some(_), Some(required)) => validate_node_selector(required, &affinity.child("required"), errors),
    }
    validate_source(spec, volume.text(&["metadata", "name"]), &SPEC, errors);
    let class = spec.text(&["storageClassName"]);
    if !class.is_empty() {
        errors.invalid_each(&SPEC.child("storageClassName"), class, dns_subdomain(class));
    }
    one_of(spec, "volumeMode", &["Block", "Filesystem"], &SPEC, errors);
    if let Some(class) = spec.at(&["volumeAttributesClassName"]).and_then(Value::as_str) {
        let path = SPEC.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.required(&path, "an empty string is disallowed");
        } else {
            errors.invalid_each(&path, class, dns_subdomain(class));
        }
        if spec.at(&["csi"]).is_none() {
            errors.required(&SPEC.child("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

/// Validates a volume that a VolumeAttachment describes inline. Claims do not apply to it.
pub(super) fn validate_inline_volume(spec: &Value, whole: &Path<'_>, errors: &mut Errors) {
    const WHERE: &str = "in the context of inline volumes";
    let refuse = |field: &str, errors: &mut Errors| {
        errors.forbidden(&whole.child(field), &format!("may not be specified {WHERE}"));
    };
    if spec.at(&["claimRef"]).is_some() {
        refuse("claimRef", errors);
    }
    if spec.entries(&["capacity"]).next().is_some() {
        refuse("capacity", errors);
    }
    if spec.at(&["csi"]).is_none() {
        errors.required(&whole.child("csi"), &format!("has to be specified {WHERE}"));
    }
    validate_modes(spec, "", whole, errors);
    if !matches!(spec.text(&["persistentVolumeReclaimPolicy"]), "" | "Retain") {
        let path = whole.child("persistentVolumeReclaimPolicy");
        errors.forbidden(&path, &format!("may only be Retain {WHERE}"));
    }
    if spec.at(&["nodeAffinity"]).is_some() {
        refuse("nodeAffinity", errors);
    }
    validate_source(spec, "", whole, errors);
    if !spec.text(&["storageClassName"]).is_empty() {
        refuse("storageClassName", errors);
    }
    if spec.at(&["volumeMode"]).is_some_and(|mode| *mode != "Filesystem") {
        let path = whole.child("volumeMode");
        errors.forbidden(&path, &format!("may not specify volumeMode other than Filesystem {WHERE}"));
    }
}

/// Validates that a volume has exactly one type, or `flexVolume` in addition. Inline volumes have no name.
fn validate_source(spec: &Value, name: &str, whole: &Path<'_>, errors: &mut Errors) {
    let mut first = true;
    for (kind, fields) in SOURCES {
        let Some(source) = spec.at(&[kind]) else { continue };
        if !first && kind != "flexVolume" {
            let shown = if kind == "cephfs" { "cephFS" } else { kind };
            errors.forbidden(&whole.child(shown), "may not specify more than 1 volume type");
            continue;
        }
        first = false;
        let path = whole.child(if kind == "gcePersistentDisk" { "persistentDisk" } else { kind });
        volume_sources::validate_source(kind, fields, source, &path, Owner::Volume(name), errors);
        if kind == "local" && (name.is_empty() || spec.at(&["nodeAffinity"]).is_none()) {
            errors.required(&whole.child("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if first {
        errors.required(whole, "must specify a volume type");
    }
    let file = spec.text(&["hostPath", "path"]);
    let root = !file.is_empty() && file.split('/').all(|part| matches!(part, "" | "."));
    if root && spec.text(&["persistentVolumeReclaimPolicy"]) == "Recycle" {
        let text = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(&whole.child("persistentVolumeReclaimPolicy"), text);
    }
}

fn validate_modes(spec: &Value, why: &str, whole: &Path<'_>, errors: &mut Errors) {
    let path = whole.child("accessModes");
    let modes = spec.items(&["accessModes"]);
    if modes.is_empty() {
        errors.required(&path, why);
    }
    for mode in modes.iter().filter(|mode| !MODES.iter().any(|known| *mode == known)) {
        errors.unsupported(&path, mode, &MODES);
    }
    let known = modes.iter().filter_map(Value::as_str).filter(|mode| MODES.contains(mode));
    let (alone, shared): (Vec<&str>, Vec<&str>) = known.partition(|mode| *mode == "ReadWriteOncePod");
    if !alone.is_empty() && !shared.is_empty() {
        errors.forbidden(&path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Validates that an amount is not negative. Errors show whole units, rounded up. As in Go, an overflow counts as -1.
fn validate_amount(quantity: &Value, path: &Path<'_>, errors: &mut Errors) {
    const TOO_MANY: f64 = 9_223_372_036_854_775_808.0;
    let value = amount(quantity.as_str().unwrap_or_default()).unwrap_or_default();
    let value = if value >= TOO_MANY { -1.0 } else { value };
    if value.ceil() < 0.0 {
        #[allow(clippy::cast_possible_truncation, reason = "a negative number of bytes, shown in a complaint")]
        errors.invalid(path, &(value.ceil() as i64), "must be a valid resource quantity");
    }
}

fn validate_positive(quantity: &Value, path: &Path<'_>, errors: &mut Errors) {
    let text = quantity.as_str().unwrap_or_default();
    if amount(text).is_none_or(|amount| amount <= 0.0) {
        errors.invalid(path, text, "must be greater than zero");
    }
}

fn validate_volume_update(new: &Value, old: &Value, errors: &mut Errors) {
    // The real server validates the spec twice and reports errors twice.
    validate_volume(new, errors);
    const CLASS: &str = "volumeAttributesClassName";
    let source = |volume: &Value| {
        let mut source = json!({});
        for (name, _) in SOURCES {
            if let Some(value) = volume.at(&["spec", name]) {
                as_object(&mut source).insert(name.to_owned(), value.clone());
            }
        }
        source
    };
    let (mut new_source, old_source) = (source(new), source(old));
    // A secret for expansion may be added later.
    if old_source.at(&["csi"]).is_some()
        && old_source.at(&["csi", "controllerExpandSecretRef"]).is_none()
        && let Some(csi) = entry_mut(&mut new_source, "csi")
    {
        as_object(csi).shift_remove("controllerExpandSecretRef");
    }
    if !same(Some(&new_source), Some(&old_source)) {
        let path = SPEC.child("persistentvolumesource");
        errors.forbidden(&path, "spec.persistentvolumesource is immutable after creation");
    }
    let at = |volume: &'_ Value, field: &str| volume.at(&["spec", field]).cloned();
    errors.immutable(&Path::new("volumeMode"), at(new, "volumeMode").as_ref(), at(old, "volumeMode").as_ref());
    if at(old, "nodeAffinity").is_some() {
        let path = Path::new("nodeAffinity");
        errors.immutable(&path, at(new, "nodeAffinity").as_ref(), at(old, "nodeAffinity").as_ref());
    }
    if at(old, CLASS).is_some() && at(new, CLASS).is_none() {
        errors.forbidden(&SPEC.child(CLASS), "update from non-nil value to nil is forbidden");
    }
}

fn volume_warnings(volume: &Value) -> Vec<String> {
    const GONE: [(&str, &str, &str); 6] = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let mut warnings = Vec::new();
    let annotations = [
        (STORAGE_CLASS, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
        ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    for (key, message) in annotations {
        if volume.at(&["metadata", "annotations", key]).is_some() {
            warnings.push(format!("metadata.annotations[{key}]: {message}"));
        }
    }
    if volume.text(&["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach \
             is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let gone = GONE.iter().filter(|(field, ..)| volume.at(&["spec", field]).is_some());
    warnings.extend(gone.map(|(_, shown, message)| format!("spec.{shown}: {message}")));
    warnings
}

// === validation of claims ===

fn validate_claim(claim: &Value, errors: &mut Errors) {
    validate_claim_spec(claim.at(&["spec"]).unwrap_or(&json!({})), &SPEC, errors);
}

/// Validates the spec of a claim in any object.
pub(super) fn validate_claim_spec(spec: &Value, whole: &Path<'_>, errors: &mut Errors) {
    if spec.items(&["accessModes"]).is_empty() {
        errors.required(&whole.child("accessModes"), "at least 1 access mode is required");
    }
    validate_selector(spec.at(&["selector"]), &whole.child("selector"), errors);
    if !spec.items(&["accessModes"]).is_empty() {
        validate_modes(spec, "", whole, errors);
    }
    let resources = whole.child("resources");
    let storage = resources.key("storage");
    match spec.at(&["resources", "requests", "storage"]) {
        None => errors.required(&storage, ""),
        Some(request) => validate_positive(request, &storage, errors),
    }
    let class = spec.text(&["storageClassName"]);
    if !class.is_empty() {
        errors.invalid_each(&whole.child("storageClassName"), class, dns_subdomain(class));
    }
    one_of(spec, "volumeMode", &["Block", "Filesystem"], whole, errors);
    for field in ["dataSource", "dataSourceRef"] {
        validate_data_source(spec.at(&[field]), &whole.child(field), errors);
    }
    if let (Some(source), Some(reference)) = (spec.at(&["dataSource"]), spec.at(&["dataSourceRef"])) {
        // The error has no field value to show.
        let shown = json!({});
        if !reference.text(&["namespace"]).is_empty() {
            errors.invalid(whole, &shown, "may not be specified when dataSourceRef.namespace is specified");
        } else if !["apiGroup", "kind", "name"].iter().all(|field| source.at(&[field]) == reference.at(&[field])) {
            errors.invalid(whole, &shown, "must match dataSourceRef");
        }
    }
    let class = spec.text(&["volumeAttributesClassName"]);
    if !class.is_empty() {
        errors.invalid_each(&whole.child("volumeAttributesClassName"), class, dns_subdomain(class));
    }
}

fn validate_data_source(source: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let Some(source) = source else { return };
    for field in ["name", "kind"] {
        if source.text(&[field]).is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    let (group, kind) = (source.text(&["apiGroup"]), source.text(&["kind"]));
    if !group.is_empty() {
        errors.invalid_each(&path.child("apiGroup"), group, dns_subdomain(group));
    } else if kind != "PersistentVolumeClaim" {
        errors.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    let namespace = source.text(&["namespace"]);
    if !namespace.is_empty() {
        errors.invalid_each(&path.child("namespace"), namespace, dns_label(namespace));
    }
}

fn validate_claim_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (mut new_spec, mut old_spec) =
        (new.at(&["spec"]).cloned().unwrap_or_default(), old.at(&["spec"]).cloned().unwrap_or_default());
    if old.text(&["spec", "volumeName"]).is_empty() {
        as_object(&mut new_spec).shift_remove("volumeName");
        as_object(&mut old_spec).shift_remove("volumeName");
    }
    let annotation = |claim: &Value| claim.text(&["metadata", "annotations", STORAGE_CLASS]).to_owned();
    if annotation(new) != annotation(old) {
        let path = Path::new("metadata.annotations");
        errors.invalid(&path.key(STORAGE_CLASS), &annotation(new), "field is immutable");
    } else if old.at(&["spec", "storageClassName"]).is_none() && annotation(old).is_empty() {
        // A class may be set later.
        as_object(&mut new_spec).shift_remove("storageClassName");
    }
    let bound = new.text(&["status", "phase"]) == "Bound";
    if bound {
        for spec in [&mut new_spec, &mut old_spec] {
            as_object(spec).shift_remove("volumeAttributesClassName");
            if let Some(requests) = entry_mut(spec, "resources").and_then(|resources| entry_mut(resources, "requests"))
            {
                as_object(requests).shift_remove("storage");
            }
        }
    }
    if !same(Some(&new_spec), Some(&old_spec)) {
        let text =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.forbidden(&SPEC, text);
    }
    let size = |claim: &Value, path: &[&str]| amount(claim.text(path)).unwrap_or_default();
    let requested = ["spec", "resources", "requests", "storage"];
    if size(new, &requested) < size(old, &requested)
        && size(new, &requested) <= size(old, &["status", "capacity", "storage"])
    {
        errors.forbidden(&SPEC.child("resources.requests.storage"), "field can not be less than status.capacity");
    }
    let path = Path::new("volumeMode");
    errors.immutable(&path, new.at(&["spec", "volumeMode"]), old.at(&["spec", "volumeMode"]));
    let class = |claim: &'_ Value| claim.at(&["spec", "volumeAttributesClassName"]).cloned();
    if class(new) != class(old) && old.at(&["status", "currentVolumeAttributesClassName"]).is_some() {
        let path = SPEC.child("volumeAttributesClassName");
        match new.at(&["spec", "volumeAttributesClassName"]).and_then(Value::as_str) {
            None => errors
                .forbidden(&path, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"),
            Some("") => errors.forbidden(
                &path,
                "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil",
            ),
            Some(_) => {}
        }
    }
}

fn validate_claim_status(new: &Value, _old: &Value, errors: &mut Errors) {
    let path = Path::new("status.capacity");
    for (name, quantity) in new.entries(&["status", "capacity"]) {
        validate_amount(quantity, &path.key(name), errors);
    }
}

fn claim_warnings(claim: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if claim.at(&["metadata", "annotations", STORAGE_CLASS]).is_some() {
        warnings.push(format!(
            "metadata.annotations[{STORAGE_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    for list in ["requests", "limits"] {
        let text = claim.text(&["spec", "resources", list, "storage"]);
        if amount(text).is_some_and(|amount| amount.fract() != 0.0) {
            warnings.push(format!(
                "spec.resources.{list}[storage]: fractional byte value {text:?} is invalid, must be an integer"
            ));
        }
    }
    warnings
}
