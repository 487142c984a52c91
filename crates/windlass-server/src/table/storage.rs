//! The cells of the group `storage.k8s.io`.

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
