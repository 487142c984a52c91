//! `CSINode`.

use crate::kinds::{pod_spec::volume_sources::validate_driver_name, prelude::*};

pub(super) const KIND: Kind = Kind {
    name: "CSINode",
    rules: Rules {
        metadata: MetadataRule::OBJECT,
        resets: Resets::BARE_STATUS,
        unconditional_update: false,
        returns_deleted: true,
        // Served since 1.37.
        ..Rules::WITH_STATUS
    },
    validate,
    validate_update,
    ..BASE
};

/// The maximum length of a node's identifier, in bytes.
const MAX_NODE_ID: usize = 256;

fn validate(node: &Field<'_>, errors: &mut Errors) {
    let drivers = node.child("spec.drivers");
    let mut names = DuplicateCheck::default();
    for driver in drivers.items() {
        validate_driver_name(&driver.child("name"), errors);
        let id = driver.child("nodeID");
        id.check_not_empty("", errors);
        if id.text().len() > MAX_NODE_ID {
            id.invalid("must be 256 characters or less", errors);
        }
        driver.child("allocatable.count").not_negative(errors);
        driver.check_unique_by("name", &mut names, errors);
        validate_topology_keys(&driver, errors);
    }
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    // The feature MutableCSINodeAllocatableCount.
    let is_fixed = errors.before(V1_35);
    let immutable: &[&str] =
        if is_fixed { &["nodeID", "topologyKeys", "allocatable"] } else { &["nodeID", "topologyKeys"] };
    let drivers = first_by(new.json().items(&["spec", "drivers"]), |driver| driver.text(&["name"]));
    for old in old.json().items(&["spec", "drivers"]) {
        let Some(new) = drivers.get(old.text(&["name"])) else { continue };
        if immutable.iter().all(|field| same(new.at(&[field]), old.at(&[field]))) {
            continue;
        }
        let allocatable = new.at(&["allocatable"]).filter(|_| is_fixed);
        // The value is shown with Go's field names, and without the fields that may change.
        let shown = json!({
            "Name": new.text(&["name"]),
            "NodeID": new.text(&["nodeID"]),
            "TopologyKeys": new.at(&["topologyKeys"]).unwrap_or(&Value::Null),
            "Allocatable": allocatable.map(|allocatable| json!({"Count": allocatable.at(&["count"])})),
        });
        errors.invalid(&Path::new("spec.drivers"), &shown, "field is immutable");
    }
}

/// Validates the topology keys of a driver. The errors name the driver.
fn validate_topology_keys(driver: &Field<'_>, errors: &mut Errors) {
    let keys = driver.child("topologyKeys");
    let mut seen = DuplicateCheck::default();
    for key in keys.items() {
        let text = key.text();
        if text.is_empty() {
            driver.required("", errors);
        }
        if seen.repeats(text) {
            errors.duplicate(driver.path(), text);
        }
        errors.invalid_each(driver.path(), text, qualified_name(text));
    }
}
