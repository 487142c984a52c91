//! The cells of volumes and of the group `storage.k8s.io`.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{age, items, list, name, none_if_empty, text};

pub(super) fn storage_class(class: &Value, now: Timestamp) -> Vec<Value> {
    const DEFAULT: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let annotations = &class["metadata"]["annotations"];
    let default = if DEFAULT.iter().any(|key| annotations[*key] == "true") { " (default)" } else { "" };
    vec![
        format!("{}{default}", text(&class["metadata"]["name"])).into(),
        text(&class["provisioner"]).into(),
        class["reclaimPolicy"].as_str().unwrap_or("Delete").into(),
        class["volumeBindingMode"].as_str().unwrap_or("Immediate").into(),
        (class["allowVolumeExpansion"] == true).into(),
        age(class, now),
    ]
}

pub(super) fn driver(driver: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &driver["spec"];
    let audiences = match &spec["tokenRequests"] {
        Value::Array(requests) => list(requests, "audience").join(",").into(),
        _ => "<unset>".into(),
    };
    let modes = items(&spec["volumeLifecycleModes"]).iter().map(text).collect::<Vec<_>>().join(",");
    vec![
        name(driver),
        (spec["attachRequired"] != false).into(),
        (spec["podInfoOnMount"] == true).into(),
        (spec["storageCapacity"] == true).into(),
        audiences,
        (spec["requiresRepublish"] == true).into(),
        none_if_empty(&modes),
        age(driver, now),
    ]
}

pub(super) fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(node), items(&node["spec"]["drivers"]).len().into(), age(node, now)]
}

pub(super) fn attachment(attachment: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &attachment["spec"];
    vec![
        name(attachment),
        text(&spec["attacher"]).into(),
        text(&spec["source"]["persistentVolumeName"]).into(),
        text(&spec["nodeName"]).into(),
        (attachment["status"]["attached"] == true).into(),
        age(attachment, now),
    ]
}

pub(super) fn attributes_class(class: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(class), text(&class["driverName"]).into(), age(class, now)]
}

fn access_modes(modes: &Value) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let there = SHORT.iter().filter(|(mode, _)| items(modes).iter().any(|given| text(given) == *mode));
    there.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// Returns the class of a volume or claim. The legacy annotation takes precedence.
fn volume_class(object: &Value) -> Value {
    let annotation = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    annotation.as_str().unwrap_or_else(|| text(&object["spec"]["storageClassName"])).into()
}

pub(super) fn persistent_volume_claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let phase =
        if claim["metadata"].get("deletionTimestamp").is_some() { "Terminating" } else { text(&status["phase"]) };
    let bound = !text(&spec["volumeName"]).is_empty();
    vec![
        name(claim),
        phase.into(),
        text(&spec["volumeName"]).into(),
        if bound { text(&status["capacity"]["storage"]).into() } else { "".into() },
        if bound { access_modes(&status["accessModes"]).into() } else { "".into() },
        volume_class(claim),
        spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>").into(),
        age(claim, now),
        spec["volumeMode"].as_str().unwrap_or("<unset>").into(),
    ]
}

pub(super) fn persistent_volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&volume["spec"], &volume["status"]);
    let phase =
        if volume["metadata"].get("deletionTimestamp").is_some() { "Terminating" } else { text(&status["phase"]) };
    let claim = match &spec["claimRef"] {
        Value::Object(claim) => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
        _ => String::new(),
    };
    vec![
        name(volume),
        spec["capacity"]["storage"].as_str().unwrap_or("0").into(),
        access_modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase.into(),
        claim.into(),
        volume_class(volume),
        spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>").into(),
        text(&status["reason"]).into(),
        age(volume, now),
        spec["volumeMode"].as_str().unwrap_or("<unset>").into(),
    ]
}
