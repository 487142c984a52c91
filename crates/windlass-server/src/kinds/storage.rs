//! The group `storage.k8s.io`: storage classes, and objects of volume drivers.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::kinds::{core::volumes::{default_source, validate_inline_volume}, pod_spec::volume_sources::validate_driver_name};
use super::{BASE, Kind, quantity::amount, selector::validate_selector};
use crate::{
    object::{
        DuplicateCheck, Errors, Path, Tree, default_pointer, dns_subdomain, first_by, metadata_mut, object_mut,
        qualified_name, same,
    },
    resource::{MetadataRule, Resets, Rules},
};

const SPEC: Path<'static> = Path::new("spec");
const GROUP: &str = "storage.k8s.io";
/// The maximum total size of a class's parameters, in bytes.
const PARAMETERS_LIMIT: usize = 256 << 10;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: GROUP,
        name: "StorageClass",
        prefix: "/registry/storageclasses/",
        rules: Rules { returns_deleted: true, ..Rules::COMMON },
        default: default_storage_class,
        validate: validate_storage_class,
        validate_update: |new, old, errors| {
            for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
                errors.immutable(&Path::new(field), new.at(&[field]), old.at(&[field]));
            }
        },
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "VolumeAttributesClass",
        prefix: "/registry/volumeattributesclasses/",
        rules: Rules { returns_deleted: true, changes_first: true, ..Rules::COMMON },
        validate: |class, errors| {
            validate_provisioner(class, "driverName", errors);
            validate_parameters(class, errors);
            if class.entries(&["parameters"]).next().is_none() {
                errors.required(&Path::new("parameters"), "must contain at least one key/value pair");
            }
        },
        validate_update: |new, old, errors| {
            for field in ["driverName", "parameters"] {
                if !same(new.at(&[field]), old.at(&[field])) {
                    errors.forbidden(&Path::new(field), &format!("updates to {field} are forbidden."));
                }
            }
        },
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "VolumeAttachment",
        prefix: "/registry/volumeattachments/",
        subresources: &["status"],
        rules: Rules {
            metadata: MetadataRule::OBJECT,
            resets: Resets::BARE_STATUS,
            unconditional_update: false,
            returns_deleted: true,
            ..Rules::WITH_STATUS
        },
        default: |attachment| {
            let source = attachment.get_mut("spec").and_then(|spec| spec.get_mut("source"));
            let volume = source.and_then(|source| source.get_mut("inlineVolumeSpec"));
            if let Some(Value::Object(volume)) = volume {
                default_source(volume);
            }
        },
        validate: validate_attachment,
        validate_update: validate_attachment_update,
        validate_status: |new, _, errors| validate_attachment(new, errors),
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "CSIDriver",
        prefix: "/registry/csidrivers/",
        rules: Rules {
            metadata: MetadataRule::CHANGES,
            unconditional_update: false,
            returns_deleted: true,
            ..Rules::COMMON
        },
        off: &["spec.preventPodSchedulingIfMissing"],
        default: default_driver,
        prepare_update: count_driver_changes,
        validate: validate_driver,
        validate_update: |new, old, errors| {
            for (field, shown) in
                [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
            {
                errors.immutable(&SPEC.child(shown), new.at(&["spec", field]), old.at(&["spec", field]));
            }
        },
        warnings: driver_warnings,
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "CSINode",
        prefix: "/registry/csinodes/",
        rules: Rules {
            metadata: MetadataRule::OBJECT,
            unconditional_update: false,
            returns_deleted: true,
            ..Rules::COMMON
        },
        validate: validate_node,
        validate_update: validate_node_update,
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "CSIStorageCapacity",
        prefix: "/registry/csistoragecapacities/",
        rules: Rules { unconditional_update: false, ..Rules::COMMON },
        validate: validate_capacity,
        validate_update: |new, old, errors| {
            for field in ["nodeTopology", "storageClassName"] {
                errors.immutable(&Path::new(field), new.at(&[field]), old.at(&[field]));
            }
        },
        ..BASE
    },
];

// === classes ===

/// The maximum number of errors about repeated topologies. The real server reports up to the square of their number.
const MOST_TOLD: usize = 1_000;

fn default_storage_class(class: &mut Value) {
    let class = crate::object::as_object(class);
    default_pointer(class, "reclaimPolicy", "Delete");
    default_pointer(class, "volumeBindingMode", "Immediate");
}

fn validate_storage_class(class: &Value, errors: &mut Errors) {
    validate_provisioner(class, "provisioner", errors);
    validate_parameters(class, errors);
    crate::kinds::pod_spec::one_of(class, "reclaimPolicy", &["Delete", "Retain"], &Path::new(""), errors);
    let mode = class.text(&["volumeBindingMode"]);
    if !matches!(mode, "Immediate" | "WaitForFirstConsumer") {
        errors.unsupported(&Path::new("volumeBindingMode"), mode, &["Immediate", "WaitForFirstConsumer"]);
    }
    let list = Path::new("allowedTopologies");
    let terms = class.items(&["allowedTopologies"]);
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut told = 0;
    for (index, term) in terms.iter().enumerate() {
        let place = list.index(index);
        let expressions = place.child("matchLabelExpressions");
        let all = term.items(&["matchLabelExpressions"]);
        let mut keys = DuplicateCheck::default();
        for (index, expression) in all.iter().enumerate() {
            let place = expressions.index(index);
            let values = expression.items(&["values"]);
            if values.is_empty() {
                errors.required(&place.child("values"), "");
            }
            let mut seen = DuplicateCheck::default();
            for (index, value) in values.iter().enumerate() {
                if seen.repeats(value) {
                    errors.duplicate(&place.child("values").index(index), value);
                }
            }
            let key = expression.text(&["key"]);
            errors.invalid_each(&place.child("key"), key, qualified_name(key));
            if keys.repeats(key) {
                errors.duplicate(&place.child("key"), key);
            }
        }
        // The real server compares each term with all empty terms, and then with the previous terms.
        let empty = if all.is_empty() { terms.len() } else { 0 };
        let earlier = seen.entry(term.to_string()).or_default();
        for _ in 0..(empty + *earlier).min(MOST_TOLD - told) {
            errors.duplicate(&expressions, "");
            told += 1;
        }
        *earlier += 1;
    }
}

fn validate_provisioner(class: &Value, field: &str, errors: &mut Errors) {
    let name = class.text(&[field]);
    let path = Path::new(field);
    if name.is_empty() {
        errors.required(&path, "");
    } else {
        let lower = name.to_lowercase();
        errors.invalid_each(&path, &lower, qualified_name(&lower));
    }
}

fn validate_parameters(class: &Value, errors: &mut Errors) {
    let path = Path::new("parameters");
    if class.entries(&["parameters"]).count() > 512 {
        return errors.too_long(&path, 512);
    }
    let mut size = 0;
    for (key, value) in class.entries(&["parameters"]) {
        if key.is_empty() {
            errors.invalid(&path, key, "field can not be empty.");
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > PARAMETERS_LIMIT {
        errors.too_long(&path, PARAMETERS_LIMIT);
    }
}

// === attachments ===

fn validate_attachment(attachment: &Value, errors: &mut Errors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let nothing = json!({});
    let spec = attachment.at(&["spec"]).unwrap_or(&nothing);
    validate_driver_name(spec.text(&["attacher"]), &SPEC.child("attacher"), errors);
    let path = SPEC.child("source");
    let (inline, name) = (spec.at(&["source", "inlineVolumeSpec"]), spec.at(&["source", "persistentVolumeName"]));
    match (inline, name) {
        (None, None) => errors.required(&path, ONE),
        (Some(_), Some(_)) => errors.forbidden(&path, ONE),
        (None, Some(name)) if *name == "" => {
            errors.required(&path.child("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        (Some(inline), None) => validate_inline_volume(inline, &path.child("inlineVolumeSpec"), errors),
        _ => {}
    }
    let node = spec.text(&["nodeName"]);
    errors.invalid_each(&SPEC.child("nodeName"), node, dns_subdomain(node));
    let status = Path::new("status");
    let metadata = attachment.entries(&["status", "attachmentMetadata"]);
    if metadata.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum::<usize>() > PARAMETERS_LIMIT {
        errors.too_long(&status.child("attachmentMetadata"), PARAMETERS_LIMIT);
    }
    for field in ["attachError", "detachError"] {
        let place = status.child(field);
        if attachment.text(&["status", field, "message"]).len() > 1024 {
            errors.too_long(&place.child("message"), PARAMETERS_LIMIT);
        }
        if let Some(code) = attachment.int(&["status", field, "errorCode"]).filter(|code| *code < 0) {
            errors.invalid(&place.child("errorCode"), &code, "must be between 0 and 2147483647, inclusive");
        }
    }
    if let Some(name) = name.and_then(Value::as_str) {
        errors.invalid_each(&Path::new("spec.source.persistentVolumeName"), name, dns_subdomain(name));
    }
}

fn validate_attachment_update(new: &Value, old: &Value, errors: &mut Errors) {
    if same(new.at(&["spec"]), old.at(&["spec"])) {
        return;
    }
    // The value is shown with Go's field names.
    let at = |path: &[&str]| new.at(path).cloned().unwrap_or_default();
    let shown = json!({
        "Attacher": new.text(&["spec", "attacher"]),
        "Source": {
            "PersistentVolumeName": at(&["spec", "source", "persistentVolumeName"]),
            "InlineVolumeSpec": at(&["spec", "source", "inlineVolumeSpec"]),
        },
        "NodeName": new.text(&["spec", "nodeName"]),
    });
    errors.invalid(&SPEC, &shown, "field is immutable");
}

// === drivers ===

fn default_driver(driver: &mut Value) {
    let spec = object_mut(driver, "spec");
    default_pointer(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        default_pointer(spec, field, false);
    }
    default_pointer(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec.items(&["volumeLifecycleModes"]).is_empty() {
        spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
    }
}

/// Increments the generation of a changed driver. New drivers have no generation.
fn count_driver_changes(new: &mut Value, old: &Value) {
    if !same(new.at(&["spec"]), old.at(&["spec"])) {
        let generation = old.int(&["metadata", "generation"]).unwrap_or_default() + 1;
        metadata_mut(new).insert("generation".to_owned(), generation.into());
    }
}

fn validate_driver(driver: &Value, errors: &mut Errors) {
    const PERIOD: &str = "nodeAllocatableUpdatePeriodSeconds";
    let nothing = json!({});
    let spec = driver.at(&["spec"]).unwrap_or(&nothing);
    crate::kinds::pod_spec::one_of(spec, "fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"], &SPEC, errors);
    let list = SPEC.child("tokenRequests");
    let requests = spec.items(&["tokenRequests"]);
    let mut audiences = DuplicateCheck::default();
    for (index, request) in requests.iter().enumerate() {
        let place = list.index(index);
        let audience = request.text(&["audience"]);
        if audiences.repeats(audience) {
            errors.duplicate(&place.child("audience"), audience);
            continue;
        }
        let path = place.child("expirationSeconds");
        match request.int(&["expirationSeconds"]) {
            Some(seconds) if seconds < 600 => {
                errors.invalid(&path, &seconds, "may not specify a duration less than 10 minutes");
            }
            Some(seconds) if seconds > 1 << 32 => {
                errors.invalid(&path, &seconds, "may not specify a duration larger than 2^32 seconds");
            }
            _ => {}
        }
    }
    for mode in spec.items(&["volumeLifecycleModes"]) {
        if *mode != "Persistent" && *mode != "Ephemeral" {
            errors.unsupported(&SPEC.child("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"]);
        }
    }
    if let Some(period) = spec.int(&[PERIOD]).filter(|period| *period < 10) {
        errors.invalid(&SPEC.child(PERIOD), &period, "must be greater than or equal to 10 seconds");
    }
    if let Some(flag) = spec.at(&["serviceAccountTokenInSecrets"]).filter(|_| requests.is_empty()) {
        let text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&SPEC.child("serviceAccountTokenInSecrets"), flag, text);
    }
}

fn driver_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let requests = |driver: &'_ Value| driver.items(&["spec", "tokenRequests"]).to_vec();
    let changed = old.is_none_or(|old| requests(old) != requests(new));
    let unset = new.at(&["spec", "serviceAccountTokenInSecrets"]).is_none();
    if changed && unset && !requests(new).is_empty() {
        return vec![
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible \
             logging of tokens in volume attributes"
                .to_owned(),
        ];
    }
    Vec::new()
}

// === nodes ===

fn validate_node(node: &Value, errors: &mut Errors) {
    let list = SPEC.child("drivers");
    let drivers = node.items(&["spec", "drivers"]);
    let mut names = DuplicateCheck::default();
    for (index, driver) in drivers.iter().enumerate() {
        let place = list.index(index);
        let name = driver.text(&["name"]);
        validate_driver_name(name, &place.child("name"), errors);
        let id = driver.text(&["nodeID"]);
        if id.is_empty() {
            errors.required(&place.child("nodeID"), "");
        } else if id.len() > 256 {
            errors.invalid(&place.child("nodeID"), id, "must be 256 characters or less");
        }
        errors.not_negative(&place.child("allocatable.count"), driver.int(&["allocatable", "count"]));
        if names.repeats(name) {
            errors.duplicate(&place.child("name"), name);
        }
        let keys = driver.items(&["topologyKeys"]);
        let mut seen = DuplicateCheck::default();
        for key in keys {
            let text = key.as_str().unwrap_or_default();
            if text.is_empty() {
                errors.required(&place, "");
            }
            if seen.repeats(key) {
                errors.duplicate(&place, text);
            }
            errors.invalid_each(&place, text, qualified_name(text));
        }
    }
}

fn validate_node_update(new: &Value, old: &Value, errors: &mut Errors) {
    let drivers = first_by(new.items(&["spec", "drivers"]), |driver| driver.text(&["name"]));
    for before in old.items(&["spec", "drivers"]) {
        let Some(now) = drivers.get(before.text(&["name"])) else { continue };
        if ["nodeID", "topologyKeys"].iter().all(|field| same(now.at(&[field]), before.at(&[field]))) {
            continue;
        }
        // The value is shown with Go's field names, and without the fields that may change.
        let shown = json!({
            "Name": now.text(&["name"]),
            "NodeID": now.text(&["nodeID"]),
            "TopologyKeys": now.at(&["topologyKeys"]).unwrap_or(&Value::Null),
            "Allocatable": null,
        });
        errors.invalid(&SPEC.child("drivers"), &shown, "field is immutable");
    }
}

// === capacities ===

fn validate_capacity(capacity: &Value, errors: &mut Errors) {
    validate_selector(capacity.at(&["nodeTopology"]), &Path::new("nodeTopology"), errors);
    let class = capacity.text(&["storageClassName"]);
    errors.invalid_each(&Path::new("storageClassName"), class, dns_subdomain(class));
    let size = capacity.text(&["capacity"]);
    if amount(size).is_some_and(|amount| amount < 0.0) {
        errors.invalid(&Path::new("capacity"), size, "must be greater than or equal to 0");
    }
}
