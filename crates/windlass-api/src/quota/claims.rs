//! The usage of claims of volumes and of devices.

use serde_json::Value;

use super::{Amounts, Usage, at, count, items, quantity, scopes::Scopes, text};
use crate::Quantity;

const VOLUME_COUNTS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const BY_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const BY_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The number of devices that a claim for all of them counts as.
const MAX_DEVICES: i64 = 32;
const NANO: i128 = 1_000_000_000;

/// Reports whether claims of volumes can use a resource with this name.
pub(super) fn counts_volume(name: &str) -> bool {
    let is_of_class = |counted: &&str| name.strip_suffix(*counted).is_some_and(|rest| rest.ends_with(BY_STORAGE_CLASS));
    VOLUME_COUNTS.contains(&name) || VOLUME_COUNTS.iter().any(is_of_class)
}

/// Reports whether claims of devices can use a resource with this name.
pub(super) fn counts_devices(name: &str) -> bool {
    name.ends_with(BY_DEVICE_CLASS)
}

pub(super) fn measure_volume(claim: &Value) -> Usage {
    let mut counted = vec![("persistentvolumeclaims", count(1))];
    counted.extend(storage(claim).map(|storage| ("requests.storage", storage)));
    let class = storage_class(claim);
    let mut amounts = Amounts::new();
    for (name, amount) in counted {
        if !class.is_empty() {
            amounts.insert(format!("{class}{BY_STORAGE_CLASS}{name}"), amount.clone());
        }
        amounts.insert(name.to_owned(), amount);
    }
    let classes = [
        &["spec", "volumeAttributesClassName"][..],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    let classes = classes.map(|path| text(claim, path)).into_iter().filter(|class| !class.is_empty());
    let scopes = Scopes::PersistentVolumeClaim { attributes_classes: classes.map(str::to_owned).collect() };
    Usage { amounts, scopes, ..Usage::default() }
}

/// Returns the storage class of a claim. The older annotation overrides the field.
fn storage_class(claim: &Value) -> &str {
    let annotation = at(claim, &["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]);
    annotation.map_or_else(|| text(claim, &["spec", "storageClassName"]), |class| class.as_str().unwrap_or_default())
}

/// Returns the storage that a claim requests, or the larger amount that it already got.
fn storage(claim: &Value) -> Option<Quantity> {
    let requested = whole(quantity(at(claim, &["spec", "resources", "requests", "storage"])?)?);
    let allocated = at(claim, &["status", "allocatedResources", "storage"]).and_then(quantity);
    match allocated {
        Some(allocated) if allocated > requested => Some(whole(allocated)),
        _ => Some(requested),
    }
}

/// Rounds a fraction of a byte up.
fn whole(amount: Quantity) -> Quantity {
    if amount.nano_value() % NANO == 0 { amount } else { Quantity::new(amount.value(), amount.format()) }
}

pub(super) fn device_amounts(claim: &Value) -> Amounts {
    let devices = |request: &Value| match text(request, &["allocationMode"]) {
        "ExactCount" => at(request, &["count"]).and_then(Value::as_i64).unwrap_or_default(),
        "All" => MAX_DEVICES,
        _ => 0,
    };
    let name = |request: &Value| format!("{}{BY_DEVICE_CLASS}", text(request, &["deviceClassName"]));
    let mut amounts = Amounts::new();
    for request in items(claim, &["spec", "devices", "requests"]) {
        let alternatives = items(request, &["firstAvailable"]);
        let mut most = Amounts::new();
        if let (true, Some(request)) = (alternatives.is_empty(), at(request, &["exactly"])) {
            most.insert(name(request), count(devices(request)));
        }
        // One of the alternatives is used, so each class counts with its maximum.
        for alternative in alternatives {
            let number = count(devices(alternative));
            let entry = most.entry(name(alternative)).or_default();
            if number > *entry {
                *entry = number;
            }
        }
        super::add_amounts(&mut amounts, &most);
    }
    amounts
}
