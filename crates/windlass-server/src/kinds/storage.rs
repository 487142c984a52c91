//! The group `storage.k8s.io`: storage classes, and objects of volume drivers.

use self::storage_class::{forbid_changes, validate_parameters, validate_provisioner};
use crate::kinds::{prelude::*, quantity::check_not_negative, selector::validate_selector};

mod csi_driver;
mod csi_node;
mod storage_class;
mod volume_attachment;

pub(super) const KINDS: &[Kind] = &[
    csi_driver::KIND,
    csi_node::KIND,
    STORAGE_CAPACITY,
    storage_class::KIND,
    volume_attachment::KIND,
    ATTRIBUTES_CLASS,
];

const STORAGE_CAPACITY: Kind = Kind {
    name: "CSIStorageCapacity",
    rules: Rules { unconditional_update: false, ..Rules::COMMON },
    validate: validate_storage_capacity,
    immutable: &["nodeTopology", "storageClassName"],
    ..BASE
};

const ATTRIBUTES_CLASS: Kind = Kind {
    name: "VolumeAttributesClass",
    rules: Rules { returns_deleted: true, changes_first: true, ..Rules::COMMON },
    validate: validate_attributes_class,
    validate_update: |new, old, errors| forbid_changes(new, old, &["driverName", "parameters"], errors),
    ..BASE
};

/// The maximum total size of a class's parameters or an attachment's metadata, keys and values together, in bytes.
const MAX_PARAMETERS_SIZE: usize = 256 << 10;

fn validate_storage_capacity(object: &Field<'_>, errors: &mut Errors) {
    validate_selector(&object.child("nodeTopology"), errors);
    object.child("storageClassName").check_text(dns_subdomain, errors);
    check_not_negative(&object.child("capacity"), errors);
}

fn validate_attributes_class(class: &Field<'_>, errors: &mut Errors) {
    let parameters = class.child("parameters");
    validate_provisioner(&class.child("driverName"), errors);
    validate_parameters(&parameters, errors);
    parameters.check_not_empty("must contain at least one key/value pair", errors);
}
